//! From what a client wants to what is stored: fields it may not set, defaults, pruning, generation, checks.
//!
//! Source: `apiserver/pkg/registry/rest/{create,update}.go` and the strategies of the kinds
//! (`pkg/registry/apps/deployment/strategy.go`, `apiextensions-apiserver/pkg/registry/customresource`).
//! Must not know storage: old and new come as values.

use crate::meta::{self, NameRule};
use crate::resource::{Behaviour, Resource, text};
use crate::status::{ApiError, FieldError};
use crate::{definition, deployment, events};
use serde_json::{Map, Value, json};
use structured_merge::{Node, Schema, defaults};

/// The endpoint that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Main,
    Status,
    Scale,
}

impl Endpoint {
    /// As `managedFields` has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Main => "",
            Self::Status => "status",
            Self::Scale => "scale",
        }
    }
}

/// What a typed server could not decode (400), and what it would drop.
/// `applied` says that the object comes from an apply.
pub(crate) fn decode(resource: &Resource, object: &mut Value, applied: bool) -> Result<Vec<String>, String> {
    let Some(metadata) = object.get_mut("metadata") else { return Err("metadata is missing".to_owned()) };
    let within = if resource.behaviour == Behaviour::Custom { "" } else { "metadata." };
    meta::wrong_type(metadata, within).map_or(Ok(()), Err)?;
    let mut unknown = Vec::new();
    prune(metadata, Schema::metadata(), "metadata", &mut unknown);
    defaults::round_trip(metadata, Schema::metadata());
    match resource.behaviour {
        Behaviour::Deployment => {
            if let Some(fault) = deployment::wrong_type(object) {
                return Err(fault);
            }
            prune(object, resource.merge.root(), "", &mut unknown);
            drop_nulls(object);
            defaults::deployment(object);
        }
        Behaviour::Custom => {
            if let Some(structural) = &resource.structural {
                unknown.extend(structural.prune(object));
                if applied {
                    structural.fill(object);
                } else {
                    structural.default(object);
                }
            }
        }
        Behaviour::CoreEvent | Behaviour::NewEvent => {
            if let Some(fault) = events::wrong_time(object) {
                return Err(fault);
            }
            let schema = events::schema(false);
            prune(object, schema.root(), "", &mut unknown);
            defaults::round_trip(object, schema.root());
            events::default(object);
        }
        _ => {
            prune(object, resource.merge.root(), "", &mut unknown);
            defaults::round_trip(object, resource.merge.root());
        }
    }
    if resource.behaviour == Behaviour::Definition {
        definition::default(object);
    }
    Ok(unknown)
}

/// Removes fields that a built-in type does not have.
pub(crate) fn prune(value: &mut Value, node: &Node, path: &str, unknown: &mut Vec<String>) {
    match (node, value) {
        (Node::Map(fields) | Node::MapAtomic(fields), Value::Object(map)) => {
            map.retain(|name, value| {
                let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                // Metadata is looked at for all kinds alike.
                let at_root = path.is_empty() && matches!(name.as_str(), "apiVersion" | "kind" | "metadata");
                if let Some(node) = fields.declared.get(name).map(|f| &f.node).or(fields.additional.as_ref())
                {
                    if !at_root {
                        prune(value, node, &below, unknown);
                    }
                    true
                } else {
                    if !at_root {
                        unknown.push(below);
                    }
                    at_root
                }
            });
        }
        (
            Node::ListMap { element, .. } | Node::ListSet { element } | Node::ListAtomic { element },
            Value::Array(items),
        ) => {
            for (index, item) in items.iter_mut().enumerate() {
                prune(item, element, &format!("{path}[{index}]"), unknown);
            }
        }
        _ => {}
    }
}

/// A typed server does not tell null from absent.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, v| !v.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

fn object_mut<'a>(value: &'a mut Value, field: &str) -> Option<&'a mut Map<String, Value>> {
    value.get_mut(field).and_then(Value::as_object_mut)
}

fn take_over(object: &mut Value, field: &str, from: &Value) {
    if let Some(object) = object.as_object_mut() {
        match from.get(field) {
            Some(value) => object.insert(field.to_owned(), value.clone()),
            None => object.remove(field),
        };
    }
}

/// Prepares a new object: what clients may not set is taken from it.
pub(crate) fn prepare_create(resource: &Resource, object: &mut Value) {
    if resource.status
        && let Some(object) = object.as_object_mut()
    {
        object.remove("status");
    }
    let name = text(object, "/metadata/name").to_owned();
    if let Some(metadata) = object_mut(object, "metadata") {
        for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion"] {
            metadata.remove(field);
        }
        if matches!(resource.behaviour, Behaviour::Custom | Behaviour::Deployment | Behaviour::Definition) {
            metadata.insert("generation".to_owned(), 1.into());
        }
        if resource.behaviour == Behaviour::Namespace {
            let labels = metadata.entry("labels").or_insert_with(|| json!({}));
            labels["kubernetes.io/metadata.name"] = name.into();
        }
    }
    match resource.behaviour {
        Behaviour::Namespace => {
            object["spec"] = json!({ "finalizers": ["kubernetes"] });
            object["status"] = json!({ "phase": "Active" });
        }
        Behaviour::Deployment => object["status"] = json!({}),
        _ => {}
    }
}

/// Prepares the successor of `old`: what this endpoint may not change comes from `old`, and the generation
/// grows with a change of what it counts.
pub(crate) fn prepare_update(resource: &Resource, endpoint: Endpoint, old: &Value, new: &mut Value) {
    let before = old.get("metadata").unwrap_or(&Value::Null);
    if endpoint == Endpoint::Status {
        let status = new.get("status").cloned();
        let metadata = new.get("metadata").cloned();
        *new = old.clone();
        // Deployments let a status write change metadata but labels; custom resources let it change nothing.
        if resource.behaviour != Behaviour::Custom
            && let Some(mut metadata) = metadata
        {
            take_over(&mut metadata, "labels", before);
            new["metadata"] = metadata;
        }
        if let Some(object) = new.as_object_mut() {
            match status {
                Some(status) => object.insert("status".to_owned(), status),
                None => object.remove("status"),
            };
        }
    } else if resource.status {
        take_over(new, "status", old);
    }
    if resource.behaviour == Behaviour::Namespace {
        take_over(new, "spec", old);
    }
    if let Some(metadata) = object_mut(new, "metadata") {
        metadata.remove("selfLink");
        for field in ["generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
            match before.get(field) {
                Some(value) => metadata.insert(field.to_owned(), value.clone()),
                // Who sets a deletion time is told that it is immutable.
                None if field == "deletionTimestamp" => None,
                None => metadata.remove(field),
            };
        }
        for field in ["uid", "namespace"] {
            if metadata.get(field).and_then(Value::as_str).unwrap_or_default().is_empty()
                && let Some(value) = before.get(field)
            {
                metadata.insert(field.to_owned(), value.clone());
            }
        }
    }
    if endpoint != Endpoint::Status && grows(resource, old, new) {
        let generation = before.get("generation").and_then(Value::as_i64).unwrap_or(0) + 1;
        new["metadata"]["generation"] = generation.into();
    }
}

fn grows(resource: &Resource, old: &Value, new: &Value) -> bool {
    let differs = |field: &str| old.get(field) != new.get(field);
    match resource.behaviour {
        Behaviour::Deployment => {
            let annotations = |o: &Value| {
                let found = o.pointer("/metadata/annotations").and_then(Value::as_object);
                found.filter(|a| !a.is_empty()).cloned()
            };
            differs("spec") || annotations(old) != annotations(new)
        }
        Behaviour::Definition => differs("spec"),
        Behaviour::Custom => {
            let fields = |a: &Value, b: &Value| {
                a.as_object().into_iter().flatten().any(|(k, v)| k != "metadata" && b.get(k) != Some(v))
            };
            fields(old, new) || fields(new, old)
        }
        _ => false,
    }
}

/// Checks an object that is to be stored; `old` is its predecessor.
pub(crate) fn validate(
    resource: &Resource,
    endpoint: Endpoint,
    old: Option<&Value>,
    new: &Value,
) -> Result<(), ApiError> {
    let mut errors = Vec::new();
    let null = Value::Null;
    let metadata = new.get("metadata").unwrap_or(&null);
    let rule = if resource.behaviour == Behaviour::Namespace { NameRule::Label } else { NameRule::Subdomain };
    let built_in = resource.behaviour != Behaviour::Custom;
    meta::validate(metadata, rule, built_in, &mut errors);
    if let Some(old) = old {
        // The server looks twice: before the kind's own checks and among them.
        for _ in 0..2 {
            meta::validate_update(old.get("metadata").unwrap_or(&null), metadata, &mut errors);
        }
    }
    match resource.behaviour {
        Behaviour::Deployment if endpoint != Endpoint::Status => {
            deployment::validate(new, &mut errors);
            if let Some(old) = old {
                deployment::validate_update(old, new, &mut errors);
            }
        }
        Behaviour::Deployment => deployment::validate_status(new, &mut errors),
        Behaviour::Custom => {
            let found = resource.structural.iter().flat_map(|s| s.validate(new, old));
            let of_status = |e: &FieldError| e.field.starts_with("status");
            errors.extend(found.filter(|e| endpoint != Endpoint::Status || of_status(e)));
        }
        Behaviour::Definition => definition::validate(new, old, &mut errors),
        Behaviour::CoreEvent | Behaviour::NewEvent if old.is_none() => {
            events::validate(new, resource.behaviour == Behaviour::NewEvent, &mut errors);
        }
        Behaviour::NewEvent => {
            if let Some(old) = old {
                events::validate_update(old, new, &mut errors);
            }
        }
        _ => {}
    }
    if errors.is_empty() {
        return Ok(());
    }
    // Events are checked in the core group, whichever the request names.
    let mut kind = resource.qualified_kind();
    if resource.behaviour == Behaviour::NewEvent {
        kind.group = "";
    }
    Err(ApiError::invalid(kind, text(new, "/metadata/name"), &errors))
}
