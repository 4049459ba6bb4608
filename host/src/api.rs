//! Single requests to the API server: a path, a body, an answer as JSON, a deadline each.

use crate::client::Connection;
use crate::gate::Gate;
use foo_api::FIELD_MANAGER;
use http::{Method, Request};
use kube::core::Status;
use serde_json::Value;
use std::error::Error as StdError;
use std::time::Duration;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The server refused it.
    #[error("{}", .0.message)]
    Refused(Box<Status>),
    /// No answer in time; whether it took effect is not known.
    #[error("no answer from the API server within {} s", .0.as_secs())]
    Timeout(Duration),
    /// The connection failed, or the answer made no sense.
    #[error("{0}")]
    Transport(String),
}

impl ApiError {
    /// Whether a write that failed so may have been done all the same.
    pub fn leaves_open(&self) -> bool {
        match self {
            Self::Refused(status) => status.code >= 500,
            Self::Timeout(_) | Self::Transport(_) => true,
        }
    }
}

/// How a body changes an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patch {
    /// Server-side apply, forced.
    Apply,
    /// JSON merge patch (RFC 7386).
    Merge,
    /// JSON patch (RFC 6902).
    Json,
}

/// Sends single requests.
#[derive(Clone)]
pub struct ApiClient {
    client: kube::Client,
    gate: Gate,
    timeout: Duration,
}

/// An error and its causes in one line.
pub fn chain(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    contract::one_line(&text, 1_024)
}

impl ApiClient {
    /// Sends through `connection`, while its gate is open.
    pub fn new(connection: &Connection) -> Self {
        let timeout = connection.timeouts.request;
        Self { client: connection.client.clone(), gate: connection.gate.clone(), timeout }
    }

    /// GET.
    pub async fn get(&self, path: &str) -> Result<Value, ApiError> {
        self.send(Method::GET, path, None, Vec::new()).await
    }

    /// POST to a collection, with our field manager.
    pub async fn create(&self, collection: &str, object: &Value) -> Result<Value, ApiError> {
        // Strict, so that a field which the API does not know is an error, as it is for an apply.
        let path = format!("{collection}?fieldManager={FIELD_MANAGER}&fieldValidation=Strict");
        self.send(Method::POST, &path, Some("application/json"), object.to_string().into()).await
    }

    /// PATCH, with our field manager.
    pub async fn patch(&self, path: &str, kind: Patch, body: &Value) -> Result<Value, ApiError> {
        let (content_type, force) = match kind {
            Patch::Apply => ("application/apply-patch+yaml", "&force=true"),
            Patch::Merge => ("application/merge-patch+json", ""),
            Patch::Json => ("application/json-patch+json", ""),
        };
        let path = format!("{path}?fieldManager={FIELD_MANAGER}{force}");
        self.send(Method::PATCH, &path, Some(content_type), body.to_string().into()).await
    }

    /// DELETE, with `DeleteOptions` as the body.
    pub async fn delete(&self, path: &str, options: &Value) -> Result<Value, ApiError> {
        self.send(Method::DELETE, path, Some("application/json"), options.to_string().into()).await
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: Option<&str>,
        body: Vec<u8>,
    ) -> Result<Value, ApiError> {
        let mut request = Request::builder().method(method).uri(path);
        if let Some(content_type) = content_type {
            request = request.header(http::header::CONTENT_TYPE, content_type);
        }
        let request = request.body(body).map_err(|error| ApiError::Transport(error.to_string()))?;
        self.gate.open().await;
        match tokio::time::timeout(self.timeout, self.client.request(request)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(kube::Error::Api(status))) => Err(ApiError::Refused(status)),
            Ok(Err(error)) => Err(ApiError::Transport(chain(&error))),
            Err(_) => Err(ApiError::Timeout(self.timeout)),
        }
    }
}

/// `/apis/apps/v1/namespaces/NAMESPACE/deployments[/NAME]`.
pub fn deployment_path(namespace: &str, name: Option<&str>) -> String {
    path("apis/apps/v1", namespace, "deployments", name)
}

/// `/apis/samplecontroller.k8s.io/v1alpha1/namespaces/NAMESPACE/foos[/NAME]`.
pub fn foo_path(namespace: &str, name: Option<&str>) -> String {
    path(&format!("apis/{}/{}", foo_api::GROUP, foo_api::VERSION), namespace, foo_api::PLURAL, name)
}

/// `/api/v1/namespaces/NAMESPACE/events[/NAME]`.
pub fn event_path(namespace: &str, name: Option<&str>) -> String {
    path("api/v1", namespace, "events", name)
}

fn path(api: &str, namespace: &str, plural: &str, name: Option<&str>) -> String {
    // Names of objects are DNS-1123 subdomains: nothing in them needs escaping.
    match name {
        Some(name) => format!("/{api}/namespaces/{namespace}/{plural}/{name}"),
        None => format!("/{api}/namespaces/{namespace}/{plural}"),
    }
}
