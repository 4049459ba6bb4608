//! Server-side apply: the one patch that may create.
//!
//! Source: `apiserver/pkg/endpoints/handlers/patch.go` and `apimachinery/pkg/util/managedfields`; the merge
//! is the crate `structured-merge`'s. Must not know HTTP.

use crate::admit::{self, Endpoint};
use crate::cluster::Cluster;
use crate::identity::{check_name, invalid_patch, to_stored};
use crate::resource::{Resource, text};
use crate::status::ApiError;
use crate::store::{Key, Object};
use crate::write::{Ownership, Write, Written, managers_of, merge_request};
use serde_json::{Value, json};
use std::sync::Arc;
use structured_merge::{Error as MergeError, apply};

impl Cluster {
    /// Applies a configuration to an object, or makes the object of it.
    pub(crate) fn apply(
        &mut self,
        resource: &Resource,
        key: &Key,
        old: Option<Arc<Object>>,
        config: &Value,
        write: &mut Write,
    ) -> Result<Written, ApiError> {
        let mut config = config.clone();
        if !config.is_object() {
            return Err(ApiError::bad_request("error decoding YAML: the patch is not an object"));
        }
        let version = text(&config, "/apiVersion");
        if version != resource.api_version() {
            return Err(other_type(&config));
        }
        if text(&config, "/kind") != resource.kind {
            return Err(other_type(&config));
        }
        if config.get("metadata").is_none_or(Value::is_null) {
            config["metadata"] = json!({});
        }
        to_stored(resource, &mut config);
        let uid = text(&config, "/metadata/uid").to_owned();
        let (live, managers) = match &old {
            Some(old) => (old.value.clone(), managers_of(&old.value)?),
            None => (Value::Null, Vec::new()),
        };
        let time = self.now();
        let request = merge_request(resource, write, &time);
        let applied =
            apply(&live, &managers, &config, write.force, &resource.merge, &request).map_err(apply_error)?;
        let mut object = applied.object;
        // The answer to unknown fields was given by the merge.
        admit::decode(resource, &mut object, true).map_err(|fault| invalid_patch(&config, &fault))?;
        check_name(&object, key)?;
        let Some(old) = old else {
            if write.endpoint != Endpoint::Main {
                return Err(ApiError::not_found(resource.qualified(), &key.name));
            }
            if !uid.is_empty() {
                let why = format!(
                    "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                );
                return Err(ApiError::conflict(resource.qualified(), &key.name, &why));
            }
            // An apply creates whatever version it names.
            if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.remove("resourceVersion");
            }
            return self.insert(
                resource,
                &key.namespace,
                object,
                write,
                Ownership::Applied(applied.managers),
            );
        };
        self.succeed(resource, key, &old, object, write, Ownership::Applied(applied.managers))
    }
}

/// A configuration of another type than the resource's.
fn other_type(config: &Value) -> ApiError {
    let version = text(config, "/apiVersion");
    let version = if version.contains('/') { version.to_owned() } else { format!("/{version}") };
    ApiError::bad_request(format!("invalid object type: {version}, Kind={}", text(config, "/kind")))
}

fn apply_error(error: MergeError) -> ApiError {
    match error {
        MergeError::Conflicts(conflicts) => {
            let causes: Vec<_> = conflicts
                .iter()
                .map(|c| (format!("conflict with {}", c.owner()), c.path.to_string()))
                .collect();
            ApiError::apply_conflict(MergeError::Conflicts(conflicts).to_string(), causes.into_iter())
        }
        MergeError::BadRequest(text) => ApiError::bad_request(text),
        // Among them fields outside the schema: the real server answers 500 for these too.
        other => ApiError::internal(other.to_string()),
    }
}
