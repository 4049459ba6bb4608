//! One side of a comparison: a client that keeps what it asked and what it was answered.
//!
//! A scenario is an ordinary function over a [`Session`]; it runs once against each server and may use what one
//! answer says in the next request. Must not know what the other side was answered.

use crate::placeholders::Placeholders;
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::{Value, json};
use std::time::Instant;
use tests::api::{PATIENCE, PAUSE};

/// Media type of JSON.
pub(crate) const JSON: &str = "application/json";
/// Media type of a JSON patch.
pub(crate) const JSON_PATCH: &str = "application/json-patch+json";
/// Media type of a merge patch.
pub(crate) const MERGE: &str = "application/merge-patch+json";
/// Media type of a strategic merge patch.
pub(crate) const STRATEGIC: &str = "application/strategic-merge-patch+json";
/// Media type of a server-side apply.
pub(crate) const APPLY: &str = "application/apply-patch+yaml";

/// A request and its answer, ready to be compared.
#[derive(Debug)]
pub(crate) struct Exchange {
    /// What the scenario calls it; unique in a scenario.
    pub(crate) step: String,
    /// Status, headers that matter, and body, with placeholders.
    pub(crate) answer: Value,
}

/// A client of one server.
pub(crate) struct Session {
    client: kube::Client,
    placeholders: Placeholders,
    pub(crate) exchanges: Vec<Exchange>,
    /// The scenario's namespace, of the same name on both sides.
    pub(crate) namespace: String,
}

/// A request before it is sent.
pub(crate) struct Call<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) content_type: &'a str,
    pub(crate) accept: &'a str,
    pub(crate) body: Vec<u8>,
}

impl<'a> Call<'a> {
    /// A GET for JSON.
    pub(crate) fn get(path: &'a str) -> Self {
        Self { method: "GET", path, content_type: "", accept: JSON, body: Vec::new() }
    }

    /// Any method with a JSON body.
    pub(crate) fn with(method: &'a str, path: &'a str, body: &Value) -> Self {
        Self { method, path, content_type: JSON, accept: JSON, body: body.to_string().into() }
    }

    pub(crate) fn accept(self, accept: &'a str) -> Self {
        Self { accept, ..self }
    }

    pub(crate) fn content_type(self, content_type: &'a str) -> Self {
        Self { content_type, ..self }
    }
}

impl Session {
    /// A client; makes the scenario's namespace.
    pub(crate) async fn new(client: kube::Client, namespace: &str) -> Self {
        let session = Self {
            client,
            placeholders: Placeholders::default(),
            exchanges: Vec::new(),
            namespace: namespace.to_owned(),
        };
        if !namespace.is_empty() {
            let object =
                json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } });
            let (status, ..) = session.send(Call::with("POST", "/api/v1/namespaces", &object)).await;
            assert!(status == 201 || status == 409, "namespace {namespace}: {status}");
        }
        session
    }

    /// `/api/v1/namespaces/NS/PLURAL` or `/apis/GROUP/VERSION/namespaces/NS/PLURAL`, from `GROUP/VERSION/PLURAL`
    /// or `v1/PLURAL`; what comes after the plural stays.
    pub(crate) fn path(&self, resource: &str) -> String {
        let mut steps = resource.splitn(3, '/');
        let (first, second, third) = (steps.next(), steps.next().unwrap_or_default(), steps.next());
        let namespace = &self.namespace;
        match (first, third) {
            (Some("v1"), None) => format!("/api/v1/namespaces/{namespace}/{second}"),
            (Some("v1"), Some(rest)) => format!("/api/v1/namespaces/{namespace}/{second}/{rest}"),
            (Some(group), Some(rest)) => format!("/apis/{group}/{second}/namespaces/{namespace}/{rest}"),
            _ => panic!("{resource} is no resource"),
        }
    }

    /// Lets a text that differs between the sides (a generated name) count as `placeholder`.
    pub(crate) fn mask(&mut self, text: &str, placeholder: &str) {
        self.placeholders.mask(text, placeholder);
    }

    async fn raw(&self, call: Call<'_>) -> http::Response<Body> {
        let mut request =
            http::Request::builder().method(call.method).uri(call.path).header("accept", call.accept);
        if !call.content_type.is_empty() {
            request = request.header("content-type", call.content_type);
        }
        let request = request.body(call.body.into()).expect("a request");
        let (method, uri) = (request.method().clone(), request.uri().clone());
        self.client.send(request).await.unwrap_or_else(|error| panic!("{method} {uri}: {error}"))
    }

    /// Status, the headers that matter, and the body.
    async fn send(&self, call: Call<'_>) -> (u16, Value, Value) {
        let answer = self.raw(call).await;
        let (status, head) = (answer.status().as_u16(), head(&answer));
        let bytes = answer.into_body().collect_bytes().await.expect("a body");
        let text = || json!({ "text": String::from_utf8_lossy(&bytes) });
        (status, head, serde_json::from_slice(&bytes).unwrap_or_else(|_| text()))
    }

    /// Keeps an exchange for the comparison.
    fn record(&mut self, step: &str, answer: Value) {
        assert!(self.exchanges.iter().all(|e| e.step != step), "two steps are called {step:?}");
        let answer = self.placeholders.of_step(step, answer);
        self.exchanges.push(Exchange { step: step.to_owned(), answer });
    }

    /// Sends a request and keeps the exchange; gives the body.
    pub(crate) async fn call(&mut self, step: &str, call: Call<'_>) -> Value {
        let (status, mut head, body) = self.send(call).await;
        head["status"] = status.into();
        head["body"] = body.clone();
        self.record(step, head);
        body
    }

    /// Like [`Session::call`], but compares only what `of` leaves of the body.
    pub(crate) async fn compare(&mut self, step: &str, call: Call<'_>, of: impl Fn(&mut Value)) {
        let (status, mut head, mut body) = self.send(call).await;
        of(&mut body);
        head["status"] = status.into();
        head["body"] = body;
        self.record(step, head);
    }

    /// Sends a request that is not compared.
    pub(crate) async fn quietly(&self, call: Call<'_>) -> Value {
        self.send(call).await.2
    }

    pub(crate) async fn get(&mut self, step: &str, path: &str) -> Value {
        self.call(step, Call::get(path)).await
    }

    pub(crate) async fn post(&mut self, step: &str, path: &str, body: &Value) -> Value {
        self.call(step, Call::with("POST", path, body)).await
    }

    pub(crate) async fn put(&mut self, step: &str, path: &str, body: &Value) -> Value {
        self.call(step, Call::with("PUT", path, body)).await
    }

    pub(crate) async fn patch(&mut self, step: &str, kind: &str, path: &str, body: &Value) -> Value {
        self.call(step, Call::with("PATCH", path, body).content_type(kind)).await
    }

    /// An apply as `manager`; more options may follow the name after `&`.
    pub(crate) async fn apply(&mut self, step: &str, path: &str, manager: &str, body: &Value) -> Value {
        let path = format!("{path}?fieldManager={manager}");
        self.patch(step, APPLY, &path, body).await
    }

    /// A deletion without a body, or with these options.
    pub(crate) async fn delete(&mut self, step: &str, path: &str, options: Option<&Value>) -> Value {
        let call = match options {
            Some(options) => Call::with("DELETE", path, options),
            None => Call { method: "DELETE", ..Call::get(path) },
        };
        self.call(step, call).await
    }

    /// Asks again and again until the answer (status and body) is good; gives the whole of the last one.
    pub(crate) async fn wait(&self, path: &str, good: impl Fn(u16, &Value) -> bool) -> Value {
        let start = Instant::now();
        loop {
            let (status, mut head, body) = self.send(Call::get(path)).await;
            let done = good(status, &body);
            if done || start.elapsed() > PATIENCE {
                head["status"] = status.into();
                head["body"] = body;
                head["in time"] = done.into();
                return head;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Asks until the answer is good, and keeps the last exchange.
    pub(crate) async fn until(
        &mut self,
        step: &str,
        path: &str,
        good: impl Fn(u16, &Value) -> bool,
    ) -> Value {
        let answer = self.wait(path, good).await;
        let body = answer["body"].clone();
        self.record(step, answer);
        body
    }

    /// Asks until there is nothing.
    pub(crate) async fn until_gone(&mut self, step: &str, path: &str) {
        self.until(step, path, |status, _| status == 404).await;
    }

    /// Opens a watch; [`Session::events`] reads it.
    pub(crate) async fn watch(&self, path: &str, accept: &str) -> Watch {
        let answer = self.raw(Call::get(path).accept(accept)).await;
        let mut head = head(&answer);
        head["status"] = answer.status().as_u16().into();
        Watch { head, body: answer.into_body(), rest: Vec::new(), events: Vec::new(), ended: false }
    }

    /// Reads events of a watch until one is `last` or the stream ends, and keeps them.
    pub(crate) async fn events(
        &mut self,
        step: &str,
        mut watch: Watch,
        last: impl Fn(&Value) -> bool,
    ) -> Vec<Value> {
        let in_time = watch.read_to(last).await;
        let mut answer = watch.head;
        answer["events"] = watch.events.clone().into();
        answer["stream ended"] = watch.ended.into();
        answer["in time"] = in_time.into();
        self.record(step, answer);
        watch.events
    }
}

/// An open watch.
pub(crate) struct Watch {
    head: Value,
    body: Body,
    /// Bytes that are no whole line yet.
    rest: Vec<u8>,
    events: Vec<Value>,
    ended: bool,
}

impl Watch {
    /// Whether the server took it.
    pub(crate) fn is_open(&self) -> bool {
        self.head["status"] == 200
    }

    /// Reads events until one is `last` or the stream ends; false if that takes too long.
    pub(crate) async fn read_to(&mut self, last: impl Fn(&Value) -> bool) -> bool {
        let read = async {
            while let Some(event) = self.next().await {
                let done = last(&event);
                self.events.push(event);
                if done {
                    return;
                }
            }
            self.ended = true;
        };
        tokio::time::timeout(PATIENCE, read).await.is_ok()
    }

    /// The next event; none at the end of the stream.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.rest.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                let text = || json!({ "text": String::from_utf8_lossy(&line) });
                return Some(serde_json::from_slice(&line).unwrap_or_else(|_| text()));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => self.rest.extend(frame.into_data().unwrap_or_default()),
                // What is left was no line: an answer that is no stream.
                _ if self.rest.is_empty() => return None,
                _ => self.rest.push(b'\n'),
            }
        }
    }
}

/// The headers that clients act on.
fn head(answer: &http::Response<Body>) -> Value {
    let mut head = json!({});
    for name in ["content-type", "cache-control", "retry-after", "allow", "location"] {
        if let Some(value) = answer.headers().get(name) {
            head[name] = String::from_utf8_lossy(value.as_bytes()).into();
        }
    }
    let warnings: Vec<_> =
        answer.headers().get_all("warning").iter().map(|v| String::from_utf8_lossy(v.as_bytes())).collect();
    if !warnings.is_empty() {
        head["warning"] = json!(warnings);
    }
    head
}
