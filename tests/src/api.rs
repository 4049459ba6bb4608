//! The tests' own client: JSON in, JSON out, with polling.

use kube::core::Status;
use serde_json::Value;
use std::time::{Duration, Instant};

/// How long a state may take to come: generous, because the machine may be busy. Never what is measured.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// Between two looks.
pub const PAUSE: Duration = Duration::from_millis(20);

/// Between two looks that take long.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Talks to an API server as `tests`.
#[derive(Clone)]
pub struct Api {
    client: kube::Client,
}

impl Api {
    /// A client for a server without authentication.
    pub fn new(url: &str) -> Self {
        Self::from_config(kube::Config::new(url.parse().expect("a URL")))
    }

    /// A client for a control plane, as one of its users.
    pub fn of_plane(plane: &controlplane::Plane, user: &str) -> Self {
        let mut config = kube::Config::new(plane.url().parse().expect("a URL"));
        let ca = pem::parse(plane.ca_pem()).expect("a certificate");
        config.root_cert = Some(vec![ca.into_contents()]);
        config.auth_info.token = Some(plane.token(user).to_owned().into());
        Self::from_config(config)
    }

    fn from_config(mut config: kube::Config) -> Self {
        config.headers.push((http::header::USER_AGENT, http::HeaderValue::from_static("tests/1")));
        config.default_retry = false;
        Self { client: kube::Client::try_from(config).expect("a client") }
    }

    async fn send(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        body: Vec<u8>,
    ) -> Result<Value, Box<Status>> {
        let start = Instant::now();
        loop {
            let request =
                http::Request::builder().method(method).uri(path).header("content-type", content_type);
            match self.client.request(request.body(body.clone()).expect("a request")).await {
                Ok(answer) => return Ok(answer),
                // So a server answers for a while after a CRD was replaced.
                Err(kube::Error::Api(status)) if status.code == 429 && start.elapsed() < PATIENCE => {
                    tokio::time::sleep(PAUSE).await;
                }
                Err(kube::Error::Api(status)) => return Err(status),
                Err(error) => panic!("{method} {path}: {error}"),
            }
        }
    }

    /// GET; none for 404.
    pub async fn get(&self, path: &str) -> Option<Value> {
        match self.send("GET", path, "application/json", Vec::new()).await {
            Ok(value) => Some(value),
            Err(status) if status.code == 404 => None,
            Err(status) => panic!("GET {path}: {} ({})", status.message, status.code),
        }
    }

    /// Status code and text of a GET; none if nobody listens.
    pub async fn text(&self, path: &str) -> Option<(u16, String)> {
        let request =
            http::Request::builder().uri(path).body(kube::client::Body::empty()).expect("a request");
        let answer = self.client.send(request).await.ok()?;
        let code = answer.status().as_u16();
        let bytes = answer.into_body().collect_bytes().await.ok()?;
        Some((code, String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// POST, or the server's refusal.
    pub async fn try_create(&self, collection: &str, object: &Value) -> Result<Value, Box<Status>> {
        self.send("POST", collection, "application/json", object.to_string().into()).await
    }

    /// POST.
    pub async fn create(&self, collection: &str, object: &Value) -> Value {
        let created = self.try_create(collection, object).await;
        created.unwrap_or_else(|status| panic!("POST {collection}: {} ({})", status.message, status.code))
    }

    /// JSON merge patch, or the server's refusal.
    pub async fn try_merge(&self, path: &str, patch: &Value) -> Result<Value, Box<Status>> {
        self.send("PATCH", path, "application/merge-patch+json", patch.to_string().into()).await
    }

    /// JSON merge patch.
    pub async fn merge(&self, path: &str, patch: &Value) -> Value {
        let patched = self.try_merge(path, patch).await;
        patched.unwrap_or_else(|status| panic!("PATCH {path}: {} ({})", status.message, status.code))
    }

    /// Server-side apply, forced.
    pub async fn apply(&self, path: &str, manager: &str, object: &Value) -> Value {
        let path = format!("{path}?fieldManager={manager}&force=true");
        let applied =
            self.send("PATCH", &path, "application/apply-patch+yaml", object.to_string().into()).await;
        applied.unwrap_or_else(|status| panic!("PATCH {path}: {} ({})", status.message, status.code))
    }

    /// DELETE with background propagation.
    pub async fn delete(&self, path: &str) {
        let path_with_policy = format!("{path}?propagationPolicy=Background");
        let deleted = self.send("DELETE", &path_with_policy, "application/json", Vec::new()).await;
        deleted.unwrap_or_else(|status| panic!("DELETE {path}: {} ({})", status.message, status.code));
    }

    /// PUT.
    pub async fn replace(&self, path: &str, object: &Value) -> Value {
        let replaced = self.send("PUT", path, "application/json", object.to_string().into()).await;
        replaced.unwrap_or_else(|status| panic!("PUT {path}: {} ({})", status.message, status.code))
    }

    /// The items of a list.
    pub async fn list(&self, collection: &str) -> Vec<Value> {
        let list = self.get(collection).await.unwrap_or_default();
        list.get("items").and_then(Value::as_array).cloned().unwrap_or_default()
    }

    /// Polls `path` until `good` holds, and returns the object.
    pub async fn until(&self, path: &str, what: &str, good: impl Fn(&Value) -> bool) -> Value {
        let mut last = None;
        let mut looks = Looks::new();
        while looks.another().await {
            last = self.get(path).await;
            if let Some(value) = &last
                && good(value)
            {
                return last.unwrap_or_default();
            }
        }
        panic!(
            "{path} did not become {what}; it is {}",
            last.map_or("absent".into(), |value| format!("{value:#}"))
        );
    }

    /// Polls `path` until there is nothing.
    pub async fn until_gone(&self, path: &str) {
        let mut looks = Looks::new();
        while looks.another().await {
            if self.get(path).await.is_none() {
                return;
            }
        }
        panic!("{path} is still there");
    }
}

/// Polls until `good` holds.
pub async fn until(what: &str, good: impl AsyncFn() -> bool) {
    let mut looks = Looks::new();
    while looks.another().await {
        if good().await {
            return;
        }
    }
    panic!("it did not come to this: {what}");
}

/// The pace of polling. A look that takes long is followed by a long pause, so that looking does not keep the
/// server from what is waited for. The last look begins after [`PATIENCE`]: what came in time is seen, however
/// long the looks and the pauses are.
struct Looks {
    deadline: Instant,
    last: Option<Instant>,
}

impl Looks {
    fn new() -> Self {
        Self { deadline: Instant::now() + PATIENCE, last: None }
    }

    /// Pauses, unless it is the first; false when it is over.
    async fn another(&mut self) -> bool {
        if let Some(last) = self.last {
            if last >= self.deadline {
                return false;
            }
            tokio::time::sleep((last.elapsed() * 10).clamp(PAUSE, LONGEST_PAUSE)).await;
        }
        self.last = Some(Instant::now());
        true
    }
}
