//! One cached object: what of a Foo or a Deployment is kept, and the hashes that decide a wake-up.
//!
//! Owns: the filter (no `managedFields`, no last-applied annotation), the parsed metadata, the wake
//! hash. Must not know the cache or the watch.

use contract::canonical_json;
use serde_json::{Value, json};
use std::sync::Arc;

/// kubectl's record of what was last applied: large, and nothing here reads it.
pub(crate) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Which fields count for [`Meta::wake`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `samplecontroller.k8s.io` `Foo`.
    Foo,
    /// `apps` `Deployment`.
    Deployment,
}

/// The object has no `metadata` that could be told apart from another's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("object without metadata.{field}")]
pub struct Malformed {
    /// The field that is missing or not a string.
    pub field: &'static str,
}

/// One cached object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// What the cache and the queue look at.
    pub meta: Meta,
    /// The whole object without `managedFields` and the last-applied annotation: compact, keys
    /// sorted.
    pub json: Arc<str>,
    /// The entries of `managedFields` that are ours.
    pub own: Box<[OwnEntry]>,
}

/// What the cache and the queue look at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.resourceVersion`; empty where absent.
    pub resource_version: String,
    /// `metadata.generation`; 0 where absent.
    pub generation: i64,
    /// Whether there is a `metadata.deletionTimestamp`.
    pub deleted: bool,
    /// The owner reference with `controller: true`.
    pub owner: Option<Owner>,
    /// Changes exactly when a change wakes past any backoff. Foo: uid, generation, labels,
    /// annotations, deletion time. Deployment: uid, generation, labels, owner references, deletion
    /// time.
    pub wake: u64,
    /// Hash of `status`.
    pub status_hash: u64,
}

/// A controller owner reference.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Owner {
    /// The group of `apiVersion`; empty for the core group.
    pub api_group: String,
    /// `kind`.
    pub kind: String,
    /// `name`.
    pub name: String,
    /// `uid`.
    pub uid: String,
}

/// `operation` of an entry of `managedFields`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EntryOperation {
    /// By server-side apply.
    Apply,
    /// By anything else.
    Update,
}

/// One entry of `managedFields` whose manager is [`foo_api::FIELD_MANAGER`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnEntry {
    /// `operation`.
    pub operation: EntryOperation,
    /// `subresource`; empty for the object itself.
    pub subresource: Box<str>,
    /// `fieldsV1` as compact JSON.
    pub fields: Arc<str>,
}

impl Object {
    /// Takes an object as the API returns it.
    ///
    /// # Errors
    /// [`Malformed`] without a `metadata` that names it. Whatever else is odd is kept: a `spec` that
    /// is not of the schema's form is for [`crate::admit`] to refuse.
    pub fn from_value(mut value: Value, kind: Kind) -> Result<Self, Malformed> {
        let metadata =
            value.get_mut("metadata").and_then(Value::as_object_mut).ok_or(Malformed { field: "name" })?;
        let own = metadata.remove("managedFields").map(|fields| own_entries(&fields)).unwrap_or_default();
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove(LAST_APPLIED);
            if annotations.is_empty() {
                metadata.remove("annotations");
            }
        }
        let text = |field: &'static str| metadata.get(field).and_then(Value::as_str);
        let need = |field: &'static str| text(field).map(str::to_owned).ok_or(Malformed { field });
        let deletion = metadata.get("deletionTimestamp").filter(|time| !time.is_null());
        let generation = metadata.get("generation").and_then(Value::as_i64).unwrap_or(0);
        let third = match kind {
            Kind::Foo => metadata.get("annotations"),
            Kind::Deployment => metadata.get("ownerReferences"),
        };
        let wake = json!([text("uid"), generation, metadata.get("labels"), third, deletion]);
        let meta = Meta {
            namespace: need("namespace")?,
            name: need("name")?,
            uid: need("uid")?,
            resource_version: text("resourceVersion").unwrap_or_default().to_owned(),
            generation,
            deleted: deletion.is_some(),
            owner: metadata.get("ownerReferences").and_then(controller),
            wake: stable_hash(canonical_json(&wake).as_bytes()),
            status_hash: 0,
        };
        let status_hash =
            value.get("status").map_or(0, |status| stable_hash(canonical_json(status).as_bytes()));
        Ok(Self { meta: Meta { status_hash, ..meta }, json: canonical_json(&value).into(), own })
    }

    /// The whole object.
    pub fn value(&self) -> Value {
        // Written by `from_value`, so it parses; null is what every reader takes for "absent".
        serde_json::from_str(&self.json).unwrap_or_default()
    }
}

/// The reference with `controller: true`; the API admits only one.
fn controller(references: &Value) -> Option<Owner> {
    let reference = references
        .as_array()?
        .iter()
        .find(|reference| reference.get("controller").and_then(Value::as_bool) == Some(true))?;
    let text = |field| reference.get(field).and_then(Value::as_str).unwrap_or_default();
    let api_group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
    Some(Owner {
        api_group: api_group.to_owned(),
        kind: text("kind").to_owned(),
        name: text("name").to_owned(),
        uid: text("uid").to_owned(),
    })
}

fn own_entries(managed_fields: &Value) -> Box<[OwnEntry]> {
    let entries = managed_fields.as_array().map(Vec::as_slice).unwrap_or_default();
    entries
        .iter()
        .filter(|entry| entry.get("manager").and_then(Value::as_str) == Some(foo_api::FIELD_MANAGER))
        .filter_map(|entry| {
            let operation = match entry.get("operation")?.as_str()? {
                "Apply" => EntryOperation::Apply,
                "Update" => EntryOperation::Update,
                _ => return None,
            };
            Some(OwnEntry {
                operation,
                subresource: entry.get("subresource").and_then(Value::as_str).unwrap_or_default().into(),
                fields: canonical_json(entry.get("fieldsV1")?).into(),
            })
        })
        .collect()
}

/// FNV-1a, 64 bits: the same on every machine and in every version, so that a recording replays.
fn stable_hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
