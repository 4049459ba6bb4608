//! Sends what the recorder decides: core/v1 Events.

use crate::api::{ApiClient, ApiError, Patch, event_path};
use crate::recorder::{Sink, SinkError};
use serde_json::Value;

/// Writes Events to the API server.
pub struct EventSink {
    api: ApiClient,
}

impl EventSink {
    /// Sends through `api`.
    pub fn new(api: ApiClient) -> Self {
        Self { api }
    }
}

impl Sink for EventSink {
    async fn create(&self, namespace: &str, event: &Value) -> Result<(), SinkError> {
        let created = self.api.create(&event_path(namespace, None), event).await;
        created.map(drop).map_err(sink_error)
    }

    async fn patch(&self, namespace: &str, name: &str, patch: &Value) -> Result<(), SinkError> {
        let patched = self.api.patch(&event_path(namespace, Some(name)), Patch::Merge, patch).await;
        patched.map(drop).map_err(sink_error)
    }
}

fn sink_error(error: ApiError) -> SinkError {
    let text = error.to_string();
    match error {
        ApiError::Refused(status) => match status.code {
            404 => SinkError::NotFound,
            409 => SinkError::Moot(text),
            403 if status
                .details
                .iter()
                .flat_map(|d| &d.causes)
                .any(|c| c.reason == "NamespaceTerminating") =>
            {
                SinkError::Moot(text)
            }
            429 | 500.. => SinkError::Unavailable(text),
            _ => SinkError::Refused(text),
        },
        ApiError::Timeout(_) | ApiError::Transport(_) => SinkError::Unavailable(text),
    }
}
