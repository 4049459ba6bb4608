//! Whether a change of a live Deployment is due.
//!
//! Owns: the rule. A change is due if a field that the guest names has another value, if such a field
//! is not ours, or if we own one that the guest no longer names. Must not know how a change is sent.

use crate::object::{EntryOperation, OwnEntry};
use crate::operation::{Adopt, Difference};
use serde_json::{Value, json};
use structured_merge::{FieldSet, Path, Schema};

/// A change that is due.
#[derive(Debug, PartialEq)]
pub(crate) struct Due {
    /// What differs; a field that is only to be owned or released has no other value than the live one.
    pub(crate) differences: Vec<Difference>,
    /// The edit of `managedFields` that must come first.
    pub(crate) adopt: Option<Adopt>,
}

/// The change that makes a live object what `desired`, a complete apply configuration, says; none if
/// none is due. `entries` are ours of its `managedFields`.
pub(crate) fn due(desired: &Value, live: &Value, entries: &[OwnEntry]) -> Option<Due> {
    let schema = Schema::deployment();
    let desired = &comparable(desired);
    let own = Own::of(entries);
    let owned = own.applied.union(&own.updated);

    let mut differences: Vec<_> = structured_merge::differences(desired, live, schema)
        .into_iter()
        .map(|found| Difference {
            path: found.path.to_string(),
            desired: Some(found.desired),
            live: found.live,
        })
        .collect();

    let dropped = |own: &FieldSet, operation| {
        // Most objects have only one of the two entries.
        if own.is_empty() {
            return FieldSet::default();
        }
        structured_merge::dropped_fields(own, operation, desired, live, schema)
    };
    let dropped = dropped(&own.applied, structured_merge::Operation::Apply)
        .union(&dropped(&own.updated, structured_merge::Operation::Update));
    let missed = |path: &Path| match at(desired, path) {
        // It names nothing where something is. Where nothing is, somebody may have taken it away:
        // `emptyDir: {}` is no absent `emptyDir`.
        Some(Value::Object(map)) if map.is_empty() => at(live, path).is_none(),
        // Nothing is there and it is no difference: a zero that the API does not store, and after a
        // POST nobody owns.
        _ => at(live, path).is_some(),
    };
    let named = FieldSet::of_object(desired, schema);
    let unowned: FieldSet = named.difference(&owned).paths().filter(missed).collect();

    if differences.is_empty() && dropped.is_empty() && unowned.is_empty() {
        return None;
    }
    for path in unowned.paths().chain(dropped.paths()) {
        let text = path.to_string();
        if !differences.iter().any(|difference| difference.path == text) {
            let live = at(live, &path).cloned();
            differences.push(Difference { path: text, desired: at(desired, &path).cloned(), live });
        }
    }
    // Applying without a field that we own alone removes it, and the API would default the number to 1.
    let replicas = Path::fields(["spec", "replicas"]);
    let release_replicas = desired.pointer("/spec/replicas").is_none() && owned.contains(&replicas);
    let adopt = (own.has_update || release_replicas).then_some(Adopt { release_replicas });
    Some(Due { differences, adopt })
}

/// What a guest's answer says about the object: without what tells objects apart.
fn comparable(desired: &Value) -> Value {
    let mut comparable = json!({ "spec": desired.get("spec") });
    for field in ["labels", "annotations", "ownerReferences"] {
        if let Some(value) = desired.get("metadata").and_then(|metadata| metadata.get(field)) {
            comparable["metadata"][field] = value.clone();
        }
    }
    comparable
}

/// What we own of the object itself.
#[derive(Default)]
struct Own {
    applied: FieldSet,
    updated: FieldSet,
    has_update: bool,
}

impl Own {
    /// An entry that cannot be read owns nothing: the change that follows writes it anew.
    fn of(entries: &[OwnEntry]) -> Self {
        let mut own = Self::default();
        for entry in entries.iter().filter(|entry| entry.subresource.is_empty()) {
            let fields: Value = serde_json::from_str(&entry.fields).unwrap_or_default();
            let fields = FieldSet::from_fields_v1(&fields).unwrap_or_default();
            match entry.operation {
                EntryOperation::Apply => own.applied = own.applied.union(&fields),
                EntryOperation::Update => {
                    own.has_update = true;
                    own.updated = own.updated.union(&fields);
                }
            }
        }
        own
    }
}

/// The value at `path`; none where absent. A key that an item leaves out has its default.
fn at<'a>(value: &'a Value, path: &Path) -> Option<&'a Value> {
    use structured_merge::PathElement;
    path.0.iter().try_fold(value, |value, element| match element {
        PathElement::Field(name) => value.get(name),
        PathElement::Index(index) => value.get(usize::try_from(*index).ok()?),
        PathElement::Value(wanted) => value.as_array()?.iter().find(|item| **item == wanted.0),
        PathElement::Key(fields) => value.as_array()?.iter().find(|item| {
            fields.iter().all(|(name, wanted)| item.get(name).is_none_or(|found| *found == wanted.0))
        }),
    })
}
