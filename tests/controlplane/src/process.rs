//! The processes of a plane that talk to etcd or to the API server: how each is started, and what shows that
//! it is ready.

use crate::child::{Child, Spec};
use crate::flags::{self, Paths};
use crate::port::Port;
use crate::{Client, Error, Process, program};
use serde_json::{Value, json};
use std::path::Path;

/// The API server, or how to start it again.
pub(crate) struct Server {
    pub(crate) spec: Spec,
    pub(crate) child: Option<Child>,
}

/// A process beside the API server, and where it says that it is healthy: kwok does not, but the Node shows
/// it.
pub(crate) struct Other {
    spec: Spec,
    pub(crate) child: Child,
    health: Option<Client>,
    _port: Port,
}

impl Server {
    pub(crate) fn start(&mut self, client: &Client, logs: &Path, group: i32) -> Result<(), Error> {
        // Two could share the port.
        self.child = None;
        let child = self.child.insert(Child::start(&self.spec, logs, group)?);
        child.wait(|| {
            client.get("/readyz")?;
            // A controller inside the server makes it; readiness does not wait for that.
            client.get("/api/v1/namespaces/default").map(drop)
        })
    }
}

impl Other {
    pub(crate) fn start(process: Process, paths: &Paths<'_>, logs: &Path, group: i32) -> Result<Self, Error> {
        let port = Port::reserve()?;
        let arguments = match process {
            Process::ControllerManager => {
                let controllers = ["deployment-controller", "replicaset-controller", "namespace-controller"];
                flags::controller_manager(paths, port.number(), &controllers)
            }
            Process::GarbageCollector => {
                flags::controller_manager(paths, port.number(), &["garbage-collector-controller"])
            }
            Process::Scheduler => flags::scheduler(paths, port.number()),
            Process::Kwok => flags::kwok(paths, &crate::places::kwok_stages()?),
        };
        let url = format!("https://127.0.0.1:{}", port.number());
        let health = Client::new(&url, Some(&paths.identity.ca_pem), None)?;
        let health = (process != Process::Kwok).then_some(health);
        let spec = Spec { name: process.name(), path: program(process.program())?, arguments };
        let child = Child::start(&spec, logs, group)?;
        Ok(Self { spec, child, health, _port: port })
    }

    pub(crate) fn restart(&mut self, logs: &Path, group: i32) -> Result<(), Error> {
        self.child.kill();
        self.child = Child::start(&self.spec, logs, group)?;
        Ok(())
    }

    /// Waits until it does its work. `client` is one of the API server.
    pub(crate) fn ready(&mut self, client: &Client) -> Result<(), Error> {
        match &self.health {
            Some(health) => self.child.wait(|| health.get("/healthz").map(drop)),
            None => self.child.wait(|| node_is_ready(client)),
        }
    }
}

/// Makes the Node, once, and asks whether kwok has taken it on.
fn node_is_ready(client: &Client) -> Result<(), Error> {
    let path = "/api/v1/nodes/kwok";
    let node = match client.get(path) {
        Err(error) if error.status() == Some(404) => {
            let room = json!({ "cpu": "100k", "memory": "100Ti", "pods": "100000" });
            let node = json!({
                "metadata": { "name": "kwok", "labels": { "kubernetes.io/hostname": "kwok" } },
                "status": { "allocatable": room, "capacity": room },
            });
            client.create("/api/v1/nodes", &node)?
        }
        answer => answer?,
    };
    let conditions = node["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let ready = |condition: &Value| condition["type"] == "Ready" && condition["status"] == "True";
    if conditions.iter().any(ready) {
        return Ok(());
    }
    let reason = format!("the Node is not Ready: {}", node["status"]["conditions"]);
    Err(Error::Request { method: "GET", path: path.into(), status: Some(200), reason })
}
