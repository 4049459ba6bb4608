//! What the installed Foo CRD's status takes: this project's, or one of upstream's, which know
//! `availableReplicas` only and may lack the status subresource.
//!
//! Found in the OpenAPI document that every authenticated client may read (no right to read CRDs is needed), or
//! from what comes back of a write.

use crate::api::{ApiClient, ApiError};
use plan::StatusSchema;
use serde_json::Value;
use std::sync::{Mutex, PoisonError};

/// The schema in force.
pub struct FooSchema {
    api: ApiClient,
    current: Mutex<StatusSchema>,
}

impl FooSchema {
    /// Takes everything until it learns better.
    pub fn new(api: ApiClient) -> Self {
        Self { api, current: Mutex::new(StatusSchema::full()) }
    }

    /// The schema in force.
    pub fn get(&self) -> StatusSchema {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, schema: StatusSchema) {
        let old =
            std::mem::replace(&mut *self.current.lock().unwrap_or_else(PoisonError::into_inner), schema);
        if old == schema {
            return;
        }
        let missing = schema.missing();
        if !schema.subresource {
            tracing::warn!(
                "the installed CRD {} has no subresources.status: Deployments are served, no status is written; \
                 `foo-host crd | kubectl apply -f -` brings it",
                foo_api::CRD_NAME
            );
        } else if missing.is_empty() {
            tracing::info!("the installed CRD {} takes the whole status", foo_api::CRD_NAME);
        } else {
            tracing::warn!(
                "the installed CRD {} lacks {}: these are not written; `foo-host crd | kubectl apply -f -` brings them",
                foo_api::CRD_NAME,
                missing.join(", ")
            );
        }
    }

    /// Reads the OpenAPI document. Where it cannot be had the schema stays as it is.
    pub async fn refresh(&self) {
        let path = format!("/openapi/v3/apis/{}/{}", foo_api::GROUP, foo_api::VERSION);
        match self.api.get(&path).await {
            Ok(document) => {
                if let Some(schema) = StatusSchema::from_openapi(&document) {
                    self.set(schema);
                }
            }
            Err(ApiError::Refused(status)) => tracing::debug!("{path}: {} ({})", status.message, status.code),
            Err(error) => tracing::debug!("{path}: {error}"),
        }
    }

    /// Reads it again if something was missing when last looked at: the CRD may have been replaced since.
    /// Whether it takes more than before.
    pub async fn grown(&self) -> bool {
        let missing = self.get().missing().len();
        if missing > 0 {
            self.refresh().await;
        }
        self.get().missing().len() < missing
    }

    /// The server does not serve `/status` of a Foo.
    pub fn no_subresource(&self) {
        self.set(StatusSchema { subresource: false, ..self.get() });
    }

    /// What was sent and did not come back was pruned: the schema does not have it.
    pub fn learn(&self, sent: &Value, answer: &Value) {
        let pruned = |field: &str| {
            let sent = sent.pointer("/status").and_then(|status| status.get(field));
            sent.is_some_and(|value| !value.is_null())
                && answer.pointer("/status").and_then(|s| s.get(field)).is_none()
        };
        let mut schema = self.get();
        for (field, takes) in [
            ("availableReplicas", &mut schema.available_replicas),
            ("replicas", &mut schema.replicas),
            ("selector", &mut schema.selector),
            ("observedGeneration", &mut schema.observed_generation),
            ("conditions", &mut schema.conditions),
            ("guest", &mut schema.guest),
        ] {
            if pruned(field) {
                *takes = false;
            }
        }
        self.set(schema);
    }
}
