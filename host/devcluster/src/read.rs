//! Get and list, and the forms of objects: whole, `PartialObjectMetadata`, Table.
//!
//! Source: `apiserver/pkg/registry/generic/registry/store.go`, `apiserver/pkg/storage/etcd3`,
//! `apiserver/pkg/endpoints/handlers/response.go`. Must not know HTTP.

use crate::cluster::Cluster;
use crate::events;
use crate::resource::{Behaviour, Resource, text};
use crate::route::{Form, Include, Query};
use crate::selector::{FieldSelector, LabelSelector};
use crate::status::{ApiError, FieldError, Qualified};
use crate::store::{Key, Object};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::sync::Arc;

/// Which objects of a collection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    /// Empty for all namespaces.
    pub(crate) namespace: String,
    labels: LabelSelector,
    fields: FieldSelector,
}

impl Selection {
    /// From a request's query; `name` is that of the path, for a watch of one object.
    pub(crate) fn parse(
        resource: &Resource,
        namespace: &str,
        name: &str,
        query: &Query,
    ) -> Result<Self, ApiError> {
        let mut text = query.get("fieldSelector").to_owned();
        if !name.is_empty() {
            text = format!("{text},metadata.name={name}");
        }
        let fields = FieldSelector::parse(&text)?;
        if let Some(field) = fields.fields().find(|f| !selectable(resource, f)) {
            return Err(ApiError::bad_request(match resource.behaviour {
                Behaviour::Custom | Behaviour::CoreEvent | Behaviour::NewEvent => {
                    format!("field label not supported: {field}")
                }
                _ => format!(
                    "{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
                ),
            }));
        }
        let fields = if resource.behaviour == Behaviour::NewEvent {
            fields.renamed(events::core_field)
        } else {
            fields
        };
        Ok(Self {
            namespace: namespace.to_owned(),
            labels: LabelSelector::parse(query.get("labelSelector"))?,
            fields,
        })
    }

    /// Whether an object is one of them.
    pub(crate) fn matches(&self, key: &Key, object: &Value) -> bool {
        (self.namespace.is_empty() || self.namespace == key.namespace)
            && (self.labels.is_empty()
                || self.labels.matches(object.pointer("/metadata/labels").unwrap_or(&Value::Null)))
            && (self.fields.is_empty() || self.fields.matches(object))
    }

    fn selects(&self) -> bool {
        !self.labels.is_empty() || !self.fields.is_empty()
    }
}

fn selectable(resource: &Resource, field: &str) -> bool {
    if matches!(field, "metadata.name" | "metadata.namespace") {
        return true;
    }
    match resource.behaviour {
        Behaviour::Namespace => matches!(field, "name" | "status.phase"),
        Behaviour::CoreEvent => {
            field.starts_with("involvedObject.")
                || matches!(field, "reason" | "reportingComponent" | "source" | "type")
        }
        Behaviour::NewEvent => {
            field.starts_with("regarding.") || matches!(field, "reason" | "reportingController" | "type")
        }
        _ => false,
    }
}

/// A page of a list.
#[derive(Debug)]
pub(crate) struct Listing {
    pub(crate) objects: Vec<Arc<Object>>,
    pub(crate) version: u64,
    /// Where the next page begins; empty on the last.
    next: String,
    remaining: Option<usize>,
}

/// Version of the whole list and the last key seen, as a client hands it back.
fn encode_continue(version: u64, key: &Key) -> String {
    use std::fmt::Write as _;
    let text = json!([version, key.namespace, key.name]).to_string();
    text.bytes().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

fn decode_continue(token: &str) -> Result<(u64, Key), ApiError> {
    let parse = || {
        let bytes: Option<Vec<u8>> = (0..token.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(token.get(at..at + 2)?, 16).ok())
            .collect();
        let (version, namespace, name) = serde_json::from_slice(&bytes?).ok()?;
        Some((version, Key { namespace, name }))
    };
    parse().ok_or_else(|| {
        ApiError::bad_request("invalid continue token: continue key is not valid: incorrect encoding")
    })
}

fn check_options(query: &Query) -> Result<(), ApiError> {
    let field = "resourceVersionMatch";
    let matching = query.get(field);
    let version = query.get("resourceVersion");
    let mut errors = Vec::new();
    if query.has("sendInitialEvents") {
        errors.push(FieldError::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
    }
    if !matching.is_empty() {
        if version.is_empty() {
            let detail = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            errors.push(FieldError::forbidden(field, detail));
        }
        if !query.get("continue").is_empty() {
            let detail = "resourceVersionMatch is forbidden when continue is provided";
            errors.push(FieldError::forbidden(field, detail));
        }
        if !["Exact", "NotOlderThan"].contains(&matching) {
            let values = "\"Exact\", \"NotOlderThan\", \"\"";
            errors.push(FieldError::not_supported(field, &matching.into(), values));
        }
        if matching == "Exact" && version == "0" {
            let detail = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            errors.push(FieldError::forbidden(field, detail));
        }
    }
    if errors.is_empty() {
        query.number("timeoutSeconds")?;
        return Ok(());
    }
    Err(ApiError::invalid(Qualified { group: "meta.k8s.io", name: "ListOptions" }, "", &errors))
}

impl Cluster {
    /// A page of the objects that `selection` selects.
    pub(crate) fn list(
        &self,
        resource: &Resource,
        selection: &Selection,
        query: &Query,
    ) -> Result<Listing, ApiError> {
        check_options(query)?;
        let table = resource.table;
        let limit = query.number("limit")?.filter(|n| *n > 0).map_or(usize::MAX, |n| n as usize);
        let wanted = query.version("resourceVersion")?.unwrap_or(0);
        // From the cache, where any version will do, all comes at once.
        let from_cache = query.get("resourceVersion") == "0" && query.get("continue").is_empty();
        let limit = if from_cache { usize::MAX } else { limit };
        let current = self.store.version();
        let (version, after) = match query.get("continue") {
            "" if wanted > current => return Err(ApiError::too_large_version(wanted, current)),
            "" if query.get("resourceVersionMatch") == "Exact" => (wanted, None),
            "" => (current, None),
            _ if !matches!(query.get("resourceVersion"), "" | "0") => {
                return Err(ApiError::bad_request(
                    "specifying resource version is not allowed when using continue",
                ));
            }
            token => {
                let (version, key) = decode_continue(token)?;
                // Without a version: whatever there is now after that key.
                (if version == 0 { current } else { version }, Some(key))
            }
        };
        let namespace = Some(selection.namespace.as_str()).filter(|n| !n.is_empty());
        if self.store.unchanged_since(table, version) {
            // A selection by name is a look-up.
            if let (Some(namespace), Some(name)) = (namespace, selection.fields.name()) {
                let key = Key::new(namespace, name);
                let found = self.store.get(table, &key).filter(|o| selection.matches(&key, &o.value));
                return Ok(Listing {
                    objects: found.into_iter().collect(),
                    version,
                    next: String::new(),
                    remaining: None,
                });
            }
            let objects = self.store.range(table, namespace, after.as_ref());
            return Ok(page(objects, selection, limit, version));
        }
        let then = self.store.as_of(table, version).ok_or_else(|| match &after {
            Some(key) => ApiError::page_expired(encode_continue(0, key)),
            None => ApiError::expired("The resourceVersion for the provided list is too old."),
        })?;
        let objects = then.iter().filter(|(key, _)| after.as_ref().is_none_or(|after| *key > after));
        Ok(page(objects, selection, limit, version))
    }
}

fn page<'a>(
    objects: impl Iterator<Item = (&'a Key, &'a Arc<Object>)>,
    selection: &Selection,
    limit: usize,
    version: u64,
) -> Listing {
    let mut objects = objects.filter(|(key, object)| selection.matches(key, &object.value));
    let mut found = Vec::new();
    let mut last = None;
    for (key, object) in objects.by_ref().take(limit) {
        found.push(object.clone());
        last = Some(key);
    }
    let remaining = if found.len() < limit { 0 } else { objects.count() };
    let next = match last {
        Some(key) if remaining > 0 => encode_continue(version, key),
        _ => String::new(),
    };
    // The server does not count what a selector would leave.
    let remaining = Some(remaining).filter(|n| *n > 0 && !selection.selects());
    Listing { objects: found, version, next, remaining }
}

/// Whether objects have to be rewritten for this resource's version.
fn needs_view(resource: &Resource) -> bool {
    match resource.behaviour {
        Behaviour::NewEvent => true,
        Behaviour::Custom => resource.stored_as != resource.api_version(),
        _ => false,
    }
}

/// Rewrites a stored object into the form of the resource's version.
pub(crate) fn present(resource: &Resource, object: &mut Value) {
    match resource.behaviour {
        Behaviour::NewEvent => events::to_new(object),
        Behaviour::Custom => object["apiVersion"] = resource.api_version().into(),
        _ => {}
    }
}

fn view<'a>(resource: &Resource, object: &'a Value) -> Cow<'a, Value> {
    if needs_view(resource) {
        let mut object = object.clone();
        present(resource, &mut object);
        Cow::Owned(object)
    } else {
        Cow::Borrowed(object)
    }
}

/// Renders objects of one resource in one form.
#[derive(Clone)]
pub(crate) struct Renderer {
    pub(crate) resource: Arc<Resource>,
    pub(crate) form: Form,
    pub(crate) now: Timestamp,
}

impl Renderer {
    /// Whether objects go out as they are stored.
    pub(crate) fn is_plain(&self) -> bool {
        self.form == Form::Whole && !needs_view(&self.resource)
    }

    /// One object as JSON; `headers` says whether a Table has its column definitions.
    pub(crate) fn object(&self, object: &Object, headers: bool) -> bytes::Bytes {
        if self.is_plain() {
            return object.bytes();
        }
        let value = match self.form {
            Form::Whole => view(&self.resource, &object.value).into_owned(),
            Form::Metadata => partial(&object.value),
            Form::Table(include) => {
                let metadata = json!({ "resourceVersion": object.version.to_string() });
                self.table(std::iter::once(object), include, &metadata, headers)
            }
        };
        value.to_string().into()
    }

    /// A list as JSON.
    pub(crate) fn list(&self, listing: &Listing) -> Vec<u8> {
        let mut metadata = json!({ "resourceVersion": listing.version.to_string() });
        // The lists of custom resources always say it.
        let unstructured = self.resource.behaviour == Behaviour::Custom && self.form == Form::Whole;
        if unstructured || !listing.next.is_empty() {
            metadata["continue"] = listing.next.as_str().into();
        }
        if let Some(remaining) = listing.remaining {
            metadata["remainingItemCount"] = remaining.into();
        }
        let (kind, version) = match self.form {
            Form::Table(include) => {
                let objects = listing.objects.iter().map(AsRef::as_ref);
                return self.table(objects, include, &metadata, true).to_string().into_bytes();
            }
            Form::Metadata => ("PartialObjectMetadataList".to_owned(), "meta.k8s.io/v1".to_owned()),
            Form::Whole => (self.resource.list_kind.clone(), self.resource.api_version()),
        };
        let head = json!({ "apiVersion": version, "kind": kind, "metadata": metadata }).to_string();
        // Without the last brace: the items, already serialised, go in there.
        let mut out = head.as_bytes().split_last().map(|(_, head)| head.to_vec()).unwrap_or_default();
        out.extend_from_slice(b",\"items\":[");
        for (at, object) in listing.objects.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            out.extend_from_slice(&self.item(object));
        }
        out.extend_from_slice(b"]}\n");
        out
    }

    /// Lists of built-in kinds do not repeat the kind in each item; lists of custom resources do.
    fn item(&self, object: &Object) -> bytes::Bytes {
        if self.form == Form::Whole && self.resource.behaviour != Behaviour::Custom {
            if self.is_plain() {
                return object.item_bytes();
            }
            let mut value = view(&self.resource, &object.value).into_owned();
            if let Some(fields) = value.as_object_mut() {
                fields.remove("apiVersion");
                fields.remove("kind");
            }
            return value.to_string().into();
        }
        self.object(object, false)
    }

    fn table<'a>(
        &self,
        objects: impl Iterator<Item = &'a Object>,
        include: Include,
        metadata: &Value,
        headers: bool,
    ) -> Value {
        let columns = &self.resource.columns;
        let rows: Vec<_> = objects
            .map(|object| {
                let cells: Vec<_> = columns.iter().map(|c| c.value(&object.value, self.now)).collect();
                let object = match include {
                    Include::Nothing => Value::Null,
                    Include::Metadata => partial(&object.value),
                    Include::Object => view(&self.resource, &object.value).into_owned(),
                };
                json!({ "cells": cells, "object": object })
            })
            .collect();
        let definitions: Value = if headers {
            columns.iter().map(crate::columns::Column::definition).collect()
        } else {
            Value::Null
        };
        json!({
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": metadata,
            "columnDefinitions": definitions,
            "rows": rows,
        })
    }

    /// A watch's bookmark; `initial_end` marks the end of the initial events, `headers` says whether a Table has
    /// its column definitions.
    pub(crate) fn bookmark(&self, version: u64, initial_end: bool, headers: bool) -> Value {
        let mut metadata = json!({ "resourceVersion": version.to_string() });
        if initial_end {
            metadata["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
        }
        let mut object = json!({ "apiVersion": self.resource.api_version(), "kind": self.resource.kind, "metadata": metadata });
        match self.form {
            Form::Whole => {
                if self.resource.behaviour == Behaviour::Deployment {
                    // What the server's type encodes when nothing is set.
                    object["spec"] = json!({ "replicas": 0, "selector": null, "strategy": {},
                        "template": { "metadata": {}, "spec": { "containers": null } } });
                    object["status"] = json!({});
                }
                object
            }
            Form::Metadata => partial(&object),
            Form::Table(include) => {
                let metadata = json!({ "resourceVersion": version.to_string() });
                self.table(std::iter::once(&Object::new(object, version)), include, &metadata, headers)
            }
        }
    }
}

fn partial(object: &Value) -> Value {
    json!({ "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object.get("metadata") })
}

/// A scale (`autoscaling/v1`) of an object that has one.
pub(crate) fn scale(resource: &Resource, object: &Value) -> Option<Value> {
    let paths = resource.scale.as_ref()?;
    let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0);
    let selector = if resource.behaviour == Behaviour::Deployment {
        LabelSelector::from_object(object.pointer("/spec/selector").unwrap_or(&Value::Null)).to_string()
    } else if paths.selector.is_empty() {
        String::new()
    } else {
        text(object, &paths.selector).to_owned()
    };
    let mut metadata = json!({});
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object.pointer(&format!("/metadata/{field}")) {
            metadata[field] = value.clone();
        }
    }
    let mut status = json!({ "replicas": number(&paths.status) });
    if !selector.is_empty() {
        status["selector"] = selector.into();
    }
    Some(json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": { "replicas": number(&paths.spec) },
        "status": status,
    }))
}
