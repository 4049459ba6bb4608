//! A server and a client for one test, and the objects that tests are made of.

use bytes::Bytes;
use devcluster::{DevCluster, Options};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::time::Duration;

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Value,
    pub(crate) warnings: Vec<String>,
}

impl Answer {
    pub(crate) fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }

    /// The body of an answer that must be good.
    #[track_caller]
    pub(crate) fn ok(self) -> Value {
        assert!(self.status < 300, "{}: {}", self.status, self.body);
        self.body
    }

    /// Asserts the status and the message of an error.
    #[track_caller]
    pub(crate) fn fails(self, status: u16, message: &str) {
        assert_eq!((self.status, self.message()), (status, message), "{}", self.body);
    }
}

/// A server, and a client that opens a connection for each request.
pub(crate) struct Api {
    pub(crate) cluster: DevCluster,
}

/// A server without delays.
pub(crate) async fn api() -> Api {
    api_with(Options { available_after: Duration::ZERO, ..Options::default() }).await
}

pub(crate) async fn api_with(options: Options) -> Api {
    Api { cluster: DevCluster::start(options).await.unwrap() }
}

/// A request in parts: `method path`, content type, accept.
#[derive(Clone, Copy)]
pub(crate) struct Media<'a> {
    pub(crate) content: &'a str,
    pub(crate) accept: &'a str,
}

pub(crate) const JSON: Media<'static> = Media { content: "application/json", accept: "application/json" };

pub(crate) fn content(content: &str) -> Media<'_> {
    Media { content, ..JSON }
}

pub(crate) fn accept(accept: &str) -> Media<'_> {
    Media { accept, ..JSON }
}

impl Api {
    async fn send(
        &self,
        method: &str,
        path: &str,
        media: Media<'_>,
        body: String,
    ) -> http::Response<Incoming> {
        let address = self.cluster.url().replace("http://", "");
        let stream = tokio::net::TcpStream::connect(&address).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("host", address)
            .header("user-agent", "tester/v1 (linux)")
            .header("content-type", media.content)
            .header("accept", media.accept)
            .body(Full::new(Bytes::from(body)))
            .unwrap();
        sender.send_request(request).await.unwrap()
    }

    pub(crate) async fn call(&self, method: &str, path: &str, media: Media<'_>, body: &Value) -> Answer {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let response = self.send(method, path, media, body).await;
        let status = response.status().as_u16();
        let warnings = response.headers().get_all("warning").iter();
        let warnings = warnings.map(|w| w.to_str().unwrap().to_owned()).collect();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        Answer { status, body: parse(&bytes), warnings }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.call("GET", path, JSON, &Value::Null).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.call("POST", path, JSON, body).await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Answer {
        self.call("PUT", path, JSON, body).await
    }

    pub(crate) async fn merge(&self, path: &str, body: &Value) -> Answer {
        self.call("PATCH", path, content("application/merge-patch+json"), body).await
    }

    pub(crate) async fn apply(&self, path: &str, body: &Value) -> Answer {
        self.call("PATCH", path, content("application/apply-patch+yaml"), body).await
    }

    pub(crate) async fn delete(&self, path: &str, body: &Value) -> Answer {
        self.call("DELETE", path, JSON, body).await
    }

    pub(crate) async fn watch(&self, path: &str) -> Watch {
        self.watch_as(path, JSON).await
    }

    pub(crate) async fn watch_as(&self, path: &str, media: Media<'_>) -> Watch {
        let response = self.send("GET", path, media, String::new()).await;
        assert_eq!(response.status(), 200);
        Watch { body: response.into_body(), buffer: Vec::new() }
    }

    /// Watches until an object satisfies `test`, and returns it.
    pub(crate) async fn until(&self, path: &str, test: impl Fn(&Value) -> bool) -> Value {
        let mut watch = self.watch(path).await;
        loop {
            let event = watch.next().await.expect("the watch ended");
            if test(&event) {
                return event["object"].clone();
            }
        }
    }

    /// Waits until a path answers 404.
    pub(crate) async fn until_gone(&self, collection: &str, name: &str) {
        let path = format!(
            "{collection}?watch=true&fieldSelector=metadata.name={name}&sendInitialEvents=true\
            &resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
        );
        let mut watch = self.watch(&path).await;
        let mut there = false;
        loop {
            let event = watch.next().await.expect("the watch ended");
            match event["type"].as_str().unwrap() {
                "ADDED" => there = true,
                "BOOKMARK" if !there => return,
                "DELETED" => return,
                _ => {}
            }
        }
    }

    pub(crate) async fn install(&self, definition: &Value) {
        self.post(DEFINITIONS, definition).await.ok();
    }
}

/// An open watch.
pub(crate) struct Watch {
    body: Incoming,
    buffer: Vec<u8>,
}

impl Watch {
    /// The next event, `None` at the end; a generous limit turns a missing event into a failure.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        tokio::time::timeout(Duration::from_secs(20), self.read()).await.expect("no event came")
    }

    async fn read(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.buffer.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let frame = self.body.frame().await?.ok()?;
            self.buffer.extend_from_slice(frame.data_ref()?);
        }
    }

    /// The next event as `TYPE name`.
    pub(crate) async fn short(&mut self) -> String {
        let event = self.next().await.expect("the watch ended");
        let name = event["object"]["metadata"]["name"].as_str().unwrap_or_default();
        format!("{} {name}", event["type"].as_str().unwrap())
    }
}

/// JSON, or text as a string.
fn parse(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or_else(|_| String::from_utf8_lossy(bytes).trim().into())
}

pub(crate) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub(crate) const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
pub(crate) const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub(crate) const FOOS: &str = "/apis/samplecontroller.k8s.io/v1alpha1/namespaces/default/foos";

pub(crate) fn deployment(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": name },
        "spec": {
            "replicas": 1,
            "selector": { "matchLabels": { "app": "nginx" } },
            "template": {
                "metadata": { "labels": { "app": "nginx" } },
                "spec": { "containers": [{ "name": "nginx", "image": "nginx:latest" }] },
            },
        },
    })
}

pub(crate) fn config_map(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "a": "1" } })
}

pub(crate) fn foo(name: &str) -> Value {
    json!({
        "apiVersion": "samplecontroller.k8s.io/v1alpha1",
        "kind": "Foo",
        "metadata": { "name": name },
        "spec": { "deploymentName": name, "replicas": 1 },
    })
}

/// The CRD of the Go sample-controller, with or without the status subresource.
pub(crate) fn upstream_definition(status: bool) -> Value {
    let mut version = json!({
        "name": "v1alpha1",
        "served": true,
        "storage": true,
        "schema": { "openAPIV3Schema": { "type": "object", "properties": {
            "spec": { "type": "object", "properties": {
                "deploymentName": { "type": "string" },
                "replicas": { "type": "integer", "minimum": 1, "maximum": 10 },
            } },
            "status": { "type": "object", "properties": { "availableReplicas": { "type": "integer" } } },
        } } },
    });
    if status {
        version["subresources"] = json!({ "status": {} });
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "foos.samplecontroller.k8s.io",
            "annotations": { "api-approved.kubernetes.io": "unapproved, experimental-only" },
        },
        "spec": {
            "group": "samplecontroller.k8s.io",
            "versions": [version],
            "names": { "kind": "Foo", "plural": "foos" },
            "scope": "Namespaced",
        },
    })
}
