//! Server-side apply, and the bookkeeping of managed fields for all other writes.
//!
//! Must not know storage, HTTP or the clock.

use crate::managed::{Managers, Owner};
use crate::typed::{self, Comparison, Duplicates, Emptied};
use crate::{Conflict, Error, FieldSet, ManagedFields, Node, Operation, Request, Schema};
use serde_json::{Map, Value};

/// What kubectl keeps for its client-side apply.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The result of an apply.
#[derive(Clone, Debug, PartialEq)]
pub struct Applied {
    /// The merged object without `metadata.managedFields`, before defaulting.
    pub object: Value,
    /// The entries for `metadata.managedFields`, in the server's order.
    pub managers: Vec<ManagedFields>,
    /// Whether the merge changed the object. If not, times of entries are left as they were.
    pub changed: bool,
}

/// Applies `config` to `live` (`Null` when there is none yet), both of one API version.
/// Fields of `config` become owned by the manager; fields it owned and no longer names are removed
/// unless somebody else owns them; with `force` fields are taken from others. As on the real server
/// the manager `kubectl` takes without force what the last-applied annotation says is its own.
///
/// # Errors
/// [`Error::Conflicts`] without `force`, [`Error::Typed`] for a configuration outside the schema,
/// [`Error::BadRequest`] for one with managed fields, [`Error::FieldsV1`] for managed fields that cannot
/// be read.
pub fn apply(
    live: &Value,
    managers: &[ManagedFields],
    config: &Value,
    force: bool,
    schema: &Schema,
    request: &Request<'_>,
) -> Result<Applied, Error> {
    if !matches!(config.pointer("/metadata/managedFields"), None | Some(Value::Null)) {
        return Err(Error::BadRequest("metadata.managedFields must be nil".to_owned()));
    }
    let node = schema.root();
    typed::validate(config, node, Duplicates::Refused).map_err(|error| {
        Error::Typed(format!("failed to create typed patch object ({}): {error}", title(config)))
    })?;

    let live = if live.is_null() { empty_object(schema, config) } else { without_managed_fields(live) };
    let mut owners = Managers::decode(managers)?;
    if owners.is_empty() {
        let before = Request { manager: "before-first-apply", ..request.clone() };
        record_update(&empty_object(schema, &live), &live, &mut owners, node, &before);
    }

    let (mut object, owners, changed) = match merge_config(&live, &owners, config, force, node, request) {
        Err(Error::Conflicts(conflicts)) if request.manager == "kubectl" => {
            let allowed = last_applied_fields(&live, node, request);
            let conflicts: Vec<_> =
                conflicts.into_iter().filter(|conflict| !allowed.contains(&conflict.path)).collect();
            if !conflicts.is_empty() {
                return Err(Error::Conflicts(conflicts));
            }
            merge_config(&live, &owners, config, true, node, request)?
        }
        other => other?,
    };
    if request.manager == "kubectl" {
        refresh_last_applied(&mut object, config);
    }
    Ok(Applied { object, managers: owners.encode(), changed })
}

/// The entries after a create (`before` is `Null`), a replace or a patch other than apply: what
/// changed goes to the request's manager and leaves all others, what is gone leaves everybody.
/// `after` is the object as it will be stored, defaults included; `managers` are the entries of the
/// request's object, or of the live one if it has none or a subresource is written. A stored object
/// (one with a uid) that has no entries gets none.
///
/// # Errors
/// [`Error::FieldsV1`] for managed fields that cannot be read.
pub fn update(
    before: &Value,
    after: &Value,
    managers: &[ManagedFields],
    schema: &Schema,
    request: &Request<'_>,
) -> Result<Vec<ManagedFields>, Error> {
    let mut owners = Managers::decode(managers)?;
    let stored = before.pointer("/metadata/uid").and_then(Value::as_str).is_some_and(|uid| !uid.is_empty());
    if owners.is_empty() && stored {
        return Ok(Vec::new());
    }
    let after = without_managed_fields(after);
    let before = if before.is_null() { empty_object(schema, &after) } else { without_managed_fields(before) };
    record_update(&before, &after, &mut owners, schema.root(), request);
    owners.cap_updates();
    Ok(owners.encode())
}

fn record_update(before: &Value, after: &Value, owners: &mut Managers, node: &Node, request: &Request<'_>) {
    let comparison = typed::compare(before, after, node).exclude(request.reset);
    release(owners, &comparison, None);
    let fields = comparison.changed().difference(FieldSet::stripped());
    if !fields.is_empty() {
        owners.add(&Owner::of(request, Operation::Update), &fields, request);
    }
}

/// Takes what changed or is gone from everybody but `except`.
fn release(owners: &mut Managers, comparison: &Comparison, except: Option<&Owner>) {
    let changed = comparison.changed();
    owners.retain_fields(|owner, fields| {
        if Some(owner) == except {
            fields.difference(&comparison.removed)
        } else {
            fields.difference(&changed).difference(&comparison.removed)
        }
    });
}

fn merge_config(
    live: &Value,
    owners: &Managers,
    config: &Value,
    force: bool,
    node: &Node,
    request: &Request<'_>,
) -> Result<(Value, Managers, bool), Error> {
    let applier = Owner::of(request, Operation::Apply);
    let mut owners = owners.clone();
    let last = owners.fields(&applier).cloned().unwrap_or_default();
    let named = typed::fields_of(config, node).recursive_difference(request.reset);
    owners.replace(applier.clone(), named, request);

    let merged = typed::merge(live, config, node);
    let removed = dropped_by_all(&merged, &last, &owners, node);
    let object = typed::remove_items(&merged, &removed, node, Emptied::Null);

    let comparison = typed::compare(live, &object, node).exclude(request.reset);
    if !force {
        let conflicts = conflicts(&owners, &comparison, &applier);
        if !conflicts.is_empty() {
            return Err(Error::Conflicts(conflicts));
        }
    }
    release(&mut owners, &comparison, Some(&applier));
    owners.retain_fields(|owner, fields| {
        if *owner == applier { fields.difference(FieldSet::stripped()) } else { fields.clone() }
    });
    let changed = !typed::same(live, &object);
    if changed {
        owners.touch(&applier, request.time);
    }
    Ok((typed::remove_items(&merged, &removed, node, Emptied::Gone), owners, changed))
}

/// What the applier owned (`last`), names no longer, and nobody else owns.
fn dropped_by_all(merged: &Value, last: &FieldSet, owners: &Managers, node: &Node) -> FieldSet {
    if last.is_empty() {
        return FieldSet::default();
    }
    let fields = |value: &Value| typed::with_named_fields(&typed::fields_of(value, node), node);
    let last = typed::with_named_fields(last, node);
    let owned = typed::with_named_fields(&owners.all_fields(), node);
    let all = fields(merged);

    // Removing an item or struct takes all below it. What others own of it comes back ...
    let without = |set: &FieldSet| fields(&typed::remove_items(merged, set, node, Emptied::Null));
    let left = without(&all.difference(&without(&last).union(&owned)));
    // ... and so does what nobody owns, or was never the applier's.
    all.difference(&left).intersection(&last)
}

/// Fields of others that change, by owner and then by path.
fn conflicts(owners: &Managers, comparison: &Comparison, applier: &Owner) -> Vec<Conflict> {
    let changed = comparison.changed();
    let mut others: Vec<_> = owners.iter().filter(|(owner, _)| *owner != applier).collect();
    others.sort_by_cached_key(|(owner, _)| owner.identity());
    others
        .into_iter()
        .flat_map(|(owner, fields)| {
            fields.intersection(&changed).paths().map(|path| owner.conflict(path)).collect::<Vec<_>>()
        })
        .collect()
}

/// The fields that a client-side apply by kubectl set and that still have its values.
fn last_applied_fields(live: &Value, node: &Node, request: &Request<'_>) -> FieldSet {
    let annotation =
        live.pointer("/metadata/annotations").and_then(|annotations| annotations.get(LAST_APPLIED));
    let parsed = annotation.and_then(Value::as_str).and_then(|text| serde_json::from_str::<Value>(text).ok());
    match parsed {
        Some(config) if config.get("apiVersion").and_then(Value::as_str) == Some(request.api_version) => {
            let comparison = typed::compare(&config, live, node);
            typed::fields_of(&config, node).difference(&comparison.changed()).difference(&comparison.removed)
        }
        _ => FieldSet::default(),
    }
}

/// Keeps the last-applied annotation in step, so that the object can go back to client-side apply.
fn refresh_last_applied(object: &mut Value, config: &Value) {
    let Some(annotation) =
        object.pointer_mut("/metadata/annotations").and_then(|all| all.get_mut(LAST_APPLIED))
    else {
        return;
    };
    let mut config = config.clone();
    if let Some(Value::Object(annotations)) = config.pointer_mut("/metadata/annotations") {
        annotations.remove(LAST_APPLIED);
    }
    *annotation = Value::String(format!("{config}\n"));
}

fn without_managed_fields(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.remove("managedFields");
    }
    object
}

/// What the server compares a new object of the type of `like` with.
fn empty_object(schema: &Schema, like: &Value) -> Value {
    let mut object = schema.root().empty();
    if let Value::Object(map) = &mut object {
        for name in ["apiVersion", "kind"] {
            map.extend(like.get(name).map(|value| (name.to_owned(), value.clone())));
        }
    }
    object
}

/// `default/web; apps/v1, Kind=Deployment`, as the server names an object in its errors.
fn title(object: &Value) -> String {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let metadata = object.get("metadata").and_then(Value::as_object).cloned().unwrap_or_else(Map::new);
    let version = text(object.get("apiVersion"));
    let version = if version.contains('/') { version } else { format!("/{version}") };
    format!(
        "{}/{}; {version}, Kind={}",
        text(metadata.get("namespace")),
        text(metadata.get("name")),
        text(object.get("kind")),
    )
}
