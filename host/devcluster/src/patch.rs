//! The kinds of patches but apply: what a patch makes of a live object.
//!
//! Must not know storage.

use crate::status::ApiError;
use json_patch::{AddOperation, PatchOperation};
use serde_json::Value;
use structured_merge::{Error as MergeError, Schema, strategic};

/// How many operations a JSON patch may have (`maxJSONPatchOperations`).
const OPERATIONS_LIMIT: usize = 10_000;

/// By content type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchKind {
    Json,
    Merge,
    Strategic,
    Apply,
}

impl PatchKind {
    /// Custom resources know no strategic merge.
    pub(crate) fn of(content_type: &str, custom: bool) -> Result<Self, ApiError> {
        match content_type.split(';').next().unwrap_or_default().trim() {
            "application/json-patch+json" => Ok(Self::Json),
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/strategic-merge-patch+json" if !custom => Ok(Self::Strategic),
            "application/apply-patch+yaml" => Ok(Self::Apply),
            _ if custom => Err(ApiError::unsupported_media(
                "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
            )),
            _ => Err(ApiError::unrouted_media()),
        }
    }

    /// What `patch` makes of `live`.
    pub(crate) fn apply(self, live: &Value, patch: &Value, schema: &Schema) -> Result<Value, ApiError> {
        let mut patched = live.clone();
        match self {
            Self::Json => {
                let operations: json_patch::Patch =
                    serde_json::from_value(patch.clone()).map_err(|_| ApiError::unprocessable())?;
                if operations.len() > OPERATIONS_LIMIT {
                    return Err(ApiError::too_large());
                }
                for operation in operations.0 {
                    let operation = lenient(operation, &patched);
                    json_patch::patch(&mut patched, &[operation]).map_err(|_| ApiError::unprocessable())?;
                }
            }
            Self::Merge | Self::Apply => {
                if !patch.is_object() {
                    return Err(ApiError::bad_request(
                        "error decoding patch: json: cannot unmarshal into an object",
                    ));
                }
                json_patch::merge(&mut patched, patch);
            }
            Self::Strategic => {
                patched = strategic::merge(live, patch, schema).map_err(|error| match error {
                    MergeError::BadRequest(text) => ApiError::bad_request(text),
                    MergeError::Unprocessable(_) => ApiError::unprocessable(),
                    other => ApiError::internal(other.to_string()),
                })?;
            }
        }
        Ok(patched)
    }
}

/// The server's library replaces a field that is not there by adding it, where there is a map to add it to.
fn lenient(operation: PatchOperation, to: &Value) -> PatchOperation {
    match operation {
        PatchOperation::Replace(replace)
            if to.pointer(replace.path.as_str()).is_none()
                && replace
                    .path
                    .parent()
                    .is_some_and(|p| to.pointer(p.as_str()).is_some_and(Value::is_object)) =>
        {
            PatchOperation::Add(AddOperation { path: replace.path, value: replace.value })
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_strategic_patch_of_a_custom_resource_is_no_media_type() {
        let media = "application/strategic-merge-patch+json";
        assert_eq!(PatchKind::of(media, false).unwrap(), PatchKind::Strategic);
        assert_eq!(PatchKind::of(media, true).unwrap_err().code, 415);
    }

    #[test]
    fn a_json_patch_whose_test_fails_changes_nothing() {
        let live = json!({ "a": 1 });
        let patch = json!([{ "op": "test", "path": "/a", "value": 2 }, { "op": "remove", "path": "/a" }]);
        assert_eq!(PatchKind::Json.apply(&live, &patch, &Schema::deduced()).unwrap_err().code, 422);
    }
}
