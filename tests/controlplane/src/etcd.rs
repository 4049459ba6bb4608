//! The store of a plane, and its compaction, by etcd's own JSON interface.

use crate::child::{Child, Spec};
use crate::port::Port;
use crate::{Client, Error, Program, flags, program};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

pub(crate) struct Etcd {
    url: String,
    client: Client,
    child: Mutex<Child>,
    _port: Port,
}

impl Etcd {
    pub(crate) fn start(directory: &Path, logs: &Path, group: i32) -> Result<Self, Error> {
        let port = Port::reserve()?;
        let url = format!("http://127.0.0.1:{}", port.number());
        let client = Client::new(&url, None, None)?;
        let spec = Spec {
            name: "etcd",
            path: program(Program::Etcd)?,
            arguments: flags::etcd(directory, port.number()),
        };
        let mut child = Child::start(&spec, logs, group)?;
        child.wait(|| client.get("/health").map(drop))?;
        Ok(Self { url, client, child: Mutex::new(child), _port: port })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// An error if it has ended.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner).check()
    }

    /// As the API server's own compactor does it: it also writes down what it compacted, for API servers to
    /// see.
    pub(crate) fn compact(&self) -> Result<u64, Error> {
        let key = STANDARD.encode("compact_rev_key");
        let now = self.client.create("/v3/kv/range", &json!({ "key": key }))?;
        let revision = revision(&now)?;
        let value = STANDARD.encode(revision.to_string());
        self.client.create("/v3/kv/put", &json!({ "key": key, "value": value }))?;
        self.client.create("/v3/kv/compaction", &json!({ "revision": revision, "physical": true }))?;
        Ok(revision)
    }
}

/// etcd writes numbers as strings.
fn revision(answer: &Value) -> Result<u64, Error> {
    answer["header"]["revision"].as_str().and_then(|text| text.parse().ok()).ok_or_else(|| Error::Request {
        method: "POST",
        path: "/v3/kv/range".into(),
        status: Some(200),
        reason: format!("no revision in etcd's answer {answer}"),
    })
}
