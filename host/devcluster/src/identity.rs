//! What a body says that it is: kind, version, name and namespace, held against the resource and the path.
//!
//! Source: `apiserver/pkg/endpoints/handlers/{create,update,patch,namer}.go`. Must not know storage or HTTP.

use crate::resource::{Behaviour, Resource, text};
use crate::status::{ApiError, FieldError, Qualified};
use crate::store::Key;
use serde_json::{Value, json};

/// Checks `apiVersion` and `kind` of a body, and brings it into the form in which it is stored.
pub(crate) fn recognise(resource: &Resource, object: &mut Value) -> Result<(), ApiError> {
    let custom = resource.behaviour == Behaviour::Custom;
    let (version, kind) = (text(object, "/apiVersion"), text(object, "/kind"));
    let expected = resource.api_version();
    if !custom && version.is_empty() && kind.is_empty() {
        // A typed server knows what must have been meant.
        object["apiVersion"] = expected.into();
        object["kind"] = resource.kind.as_str().into();
    } else if kind.is_empty() {
        let kind = &resource.kind;
        return Err(ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): Object 'Kind' is missing in '{object}' ({object})"
        )));
    } else if version != expected {
        return Err(ApiError::bad_request(format!(
            "the API version in the data ({version}) does not match the expected API version ({expected})"
        )));
    } else if kind != resource.kind {
        if custom {
            return Err(other_kind(resource, object).unwrap_or_else(ApiError::unprocessable));
        }
        return Err(ApiError::bad_request(format!(
            "{kind} in version {:?} cannot be handled as a {}: no kind {kind:?} is registered for version {version:?}",
            resource.version, resource.kind
        )));
    }
    if object.get("metadata").is_none_or(Value::is_null) {
        object["metadata"] = json!({});
    }
    to_stored(resource, object);
    Ok(())
}

/// What is said of a custom resource whose `apiVersion` or `kind` are not those of its resource.
fn other_kind(resource: &Resource, object: &Value) -> Option<ApiError> {
    let (version, kind) = (text(object, "/apiVersion"), text(object, "/kind"));
    let expected = resource.api_version();
    let mut errors = Vec::new();
    if version != expected {
        let detail = format!("must be {expected}");
        errors.push(FieldError::invalid("apiVersion", &version.into(), detail));
    }
    if kind != resource.kind {
        let detail = format!("must be {}", resource.kind);
        errors.push(FieldError::invalid("kind", &kind.into(), detail));
    }
    let group = version.split_once('/').map_or("", |(group, _)| group);
    let kind = Qualified { group: if version == expected { &resource.group } else { group }, name: kind };
    (!errors.is_empty()).then(|| ApiError::invalid(kind, text(object, "/metadata/name"), &errors))
}

pub(crate) fn to_stored(resource: &Resource, object: &mut Value) {
    match resource.behaviour {
        Behaviour::NewEvent => crate::events::to_core(object),
        Behaviour::Custom => object["apiVersion"] = resource.stored_as.as_str().into(),
        _ => {}
    }
}

/// A patch may not make another kind of an object.
pub(crate) fn check_patched_kind(resource: &Resource, patched: &Value) -> Result<(), ApiError> {
    if resource.behaviour == Behaviour::Custom {
        if text(patched, "/kind").is_empty() {
            return Err(invalid_patch(patched, &format!("Object 'Kind' is missing in '{patched}'")));
        }
        return other_kind(resource, patched).map_or(Ok(()), Err);
    }
    let (version, kind) = (text(patched, "/apiVersion"), text(patched, "/kind"));
    let absent = version.is_empty() && kind.is_empty();
    if absent || (version == resource.api_version() && kind == resource.kind) {
        return Ok(());
    }
    Err(invalid_patch(
        patched,
        &format!(
            "no kind {kind:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:111\""
        ),
    ))
}

pub(crate) fn invalid_patch(patched: &Value, fault: &str) -> ApiError {
    let error = FieldError::invalid("patch", &patched.to_string().into(), fault);
    ApiError::invalid(Qualified { group: "", name: "" }, "", &[error])
}

pub(crate) fn check_name(object: &Value, key: &Key) -> Result<(), ApiError> {
    let name = text(object, "/metadata/name");
    if name.is_empty() {
        return Err(ApiError::unnamed(&key.name));
    }
    if name != key.name {
        let url = &key.name;
        return Err(ApiError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({url})"
        )));
    }
    let namespace = text(object, "/metadata/namespace");
    if !namespace.is_empty() && namespace != key.namespace {
        return Err(ApiError::other_namespace());
    }
    Ok(())
}
