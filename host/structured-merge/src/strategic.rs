//! Strategic merge patches (`k8s.io/apimachinery/pkg/util/strategicpatch`).
//!
//! Owns: the directives `$patch`, `$retainKeys`, `$setElementOrder/<list>` and
//! `$deleteFromPrimitiveList/<list>`. Must not know HTTP.

mod order;

use crate::schema::Field;
use crate::typed::{go_type, go_value};
use crate::{Error, Node, Schema};
use order::{check_order, partition, restore_order};
use serde_json::{Map, Value};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const SET_ORDER: &str = "$setElementOrder";
const DELETE_PRIMITIVES: &str = "$deleteFromPrimitiveList";

/// `live` after `patch`. Merge keys and strategies come from the schema. The result may have fields that
/// the schema does not know: the server drops them when it decodes the result.
///
/// # Errors
/// With the server's text: [`Error::BadRequest`] (HTTP 400), [`Error::Unprocessable`] (422),
/// [`Error::Strategic`] (500).
pub fn merge(live: &Value, patch: &Value, schema: &Schema) -> Result<Value, Error> {
    let (Value::Object(live), Value::Object(patch)) = (live, patch) else {
        return Err(Error::BadRequest("invalid JSON document".to_owned()));
    };
    merge_map(live.clone(), patch.clone(), schema.root()).map(Value::Object)
}

fn merge_map(
    mut live: Map<String, Value>,
    mut patch: Map<String, Value>,
    node: &Node,
) -> Result<Map<String, Value>, Error> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => {
                patch.remove(DIRECTIVE);
                Ok(patch)
            }
            Some("delete") => Ok(Map::new()),
            _ => Err(unknown_directive(directive, &patch)),
        };
    }
    retain_keys(&mut live, &mut patch)?;
    ordered_lists(&mut live, &mut patch, node)?;

    for (key, value) in patch {
        let (name, delete_items) = match key.strip_prefix(DELETE_PRIMITIVES) {
            None => (key.as_str(), false),
            Some(rest) => {
                let fault = || Error::BadRequest("invalid patch format of primitive list".to_owned());
                (rest.strip_prefix('/').ok_or_else(fault)?, true)
            }
        };
        if value.is_null() {
            live.remove(name);
            continue;
        }
        let merged = match (live.remove(name), value) {
            (Some(Value::Object(old)), Value::Object(new)) => {
                field(node, name)?;
                Some(Value::Object(merge_map(old, new, node.child(name))?))
            }
            (Some(Value::Array(old)), Value::Array(new)) => {
                let field = field(node, name)?;
                let by_item = field.is_some_and(|field| field.patch_merge) || delete_items;
                let merged = if by_item {
                    merge_list(old, new, node.child(name), field, delete_items)?.items
                } else {
                    new
                };
                Some(Value::Array(merged))
            }
            (old, _) if delete_items => old,
            // Nothing to merge with, or something of another type.
            (_, value) => without_directives(without_nulls(value)),
        };
        if let Some(merged) = merged {
            live.insert(name.to_owned(), merged);
        }
    }
    Ok(live)
}

/// The declared field `name`, `None` where all names are free.
fn field<'a>(node: &'a Node, name: &str) -> Result<Option<&'a Field>, Error> {
    let Some(fields) = node.fields() else { return Ok(None) };
    match fields.declared.get(name) {
        None if fields.additional.is_none() => Err(Error::Strategic(format!(
            "unable to find api field in struct {} for the json field {name:?}",
            fields.type_name
        ))),
        field => Ok(field),
    }
}

/// `$retainKeys` names all fields that may stay; the patch may set no others.
fn retain_keys(live: &mut Map<String, Value>, patch: &mut Map<String, Value>) -> Result<(), Error> {
    let Some(keys) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let fault = || Error::BadRequest("invalid patch format of retainKeys".to_owned());
    let keys = keys.as_array().ok_or_else(fault)?;
    let retained = |name: &String| keys.iter().any(|key| key.as_str() == Some(name));
    let directive = |name: &String| name.starts_with(DELETE_PRIMITIVES) || name.starts_with(SET_ORDER);
    if patch.iter().any(|(name, value)| !value.is_null() && !directive(name) && !retained(name)) {
        return Err(fault());
    }
    live.retain(|name, _| retained(name));
    Ok(())
}

/// Lists with a `$setElementOrder`: merged and ordered here, and taken out of the patch.
fn ordered_lists(
    live: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
    node: &Node,
) -> Result<(), Error> {
    let directives: Vec<String> = patch.keys().filter(|key| key.starts_with(SET_ORDER)).cloned().collect();
    for directive in directives {
        let order = patch.remove(&directive).unwrap_or_default();
        let order = list_of(&order)?;
        let name = directive
            .strip_prefix(SET_ORDER)
            .and_then(|rest| rest.strip_prefix('/'))
            .ok_or_else(|| Error::BadRequest("invalid patch format of setElementOrder list".to_owned()))?;
        let old = live.get(name).map(list_of).transpose()?.cloned();
        let new = patch.get(name).map(list_of).transpose()?.cloned();
        let field = field(node, name)?;
        let key = field.and_then(|field| field.patch_merge_key.as_deref());
        check_order(new.as_deref().unwrap_or_default(), order, key)?;
        if old.is_none() && new.is_none() {
            continue;
        }
        same_types(old.as_deref().unwrap_or_default(), new.as_deref().unwrap_or_default())?;
        let merged = match (old, new) {
            (Some(old), None) => MergedList { items: old.clone(), live_order: old },
            (None, new) => {
                let items = new.into_iter().flatten().filter_map(without_directives).collect();
                MergedList { items, live_order: Vec::new() }
            }
            (Some(old), Some(new)) if field.is_some_and(|field| field.patch_merge) => {
                merge_list(old, new, node.child(name), field, false)?
            }
            (Some(old), Some(new)) => MergedList { items: new, live_order: old },
        };
        let (listed, others) = partition(merged.items, order, key)?;
        let ordered = restore_order(listed, others, order, &merged.live_order, key)?;
        live.insert(name.to_owned(), Value::Array(ordered));
        patch.remove(name);
    }
    Ok(())
}

fn merge_list(
    old: Vec<Value>,
    new: Vec<Value>,
    node: &Node,
    field: Option<&Field>,
    delete_items: bool,
) -> Result<MergedList, Error> {
    if old.is_empty() && new.is_empty() {
        return Ok(MergedList { items: old, live_order: new });
    }
    let key = field.and_then(|field| field.patch_merge_key.as_deref());
    let maps = same_types(&old, &new)?.is_object();
    if !maps {
        if delete_items {
            let items = old.iter().filter(|item| !new.contains(item)).cloned().collect();
            return Ok(MergedList { items, live_order: old });
        }
        let mut merged: Vec<Value> = Vec::new();
        for item in old.iter().chain(&new) {
            if !merged.contains(item) {
                merged.push(item.clone());
            }
        }
        let (listed, others) = partition(merged, &new, None)?;
        let items = restore_order(listed, others, &new, &old, None)?;
        return Ok(MergedList { items, live_order: old });
    }

    let Some(key) = key else {
        return Err(Error::Strategic("cannot merge lists without merge key for struct".to_owned()));
    };
    let length = old.len();
    let (old, new) = item_directives(old, new, key)?;
    let mut merged = old.clone();
    for item in &new {
        let wanted = key_of(item, key)?;
        match merged.iter_mut().find(|other| other.get(key) == Some(wanted)) {
            Some(found) => {
                if let (Value::Object(old), Value::Object(new)) = (&*found, item) {
                    *found = Value::Object(merge_map(old.clone(), new.clone(), node.element())?);
                }
            }
            None => merged.push(item.clone()),
        }
    }
    let live_order = merged.iter().take(length).cloned().collect();
    let (listed, others) = partition(merged, &new, Some(key))?;
    Ok(MergedList { items: restore_order(listed, others, &new, &old, Some(key))?, live_order })
}

struct MergedList {
    items: Vec<Value>,
    /// What `$setElementOrder` takes for the live order. The real code merges in the live list's array:
    /// new items in the places of deleted ones count as live.
    live_order: Vec<Value>,
}

/// Carries out the `$patch` directives among the items of a list.
fn item_directives(
    mut old: Vec<Value>,
    new: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), Error> {
    let mut replace = false;
    let mut rest = Vec::with_capacity(new.len());
    for item in new {
        let Some(directive) = item.get(DIRECTIVE) else {
            rest.push(item);
            continue;
        };
        match directive.as_str() {
            Some("delete") => {
                let gone = key_of(&item, key)?;
                old.retain(|other| other.get(key) != Some(gone));
            }
            Some("replace") => replace = true,
            Some("merge") => {
                return Err(Error::Strategic(
                    "merging lists cannot yet be specified in the patch".to_owned(),
                ));
            }
            _ => return Err(unknown_directive(directive, item.as_object().unwrap_or(&Map::new()))),
        }
    }
    Ok(if replace { (rest, Vec::new()) } else { (old, rest) })
}

/// The type of the items, by an example.
fn same_types<'a>(a: &'a [Value], b: &'a [Value]) -> Result<&'a Value, Error> {
    let mut items = a.iter().chain(b);
    let Some(first) = items.next() else {
        return Err(Error::Strategic("no elements in any of the given slices".to_owned()));
    };
    if first.is_array() {
        return Err(Error::Unprocessable("lists of lists are not supported".to_owned()));
    }
    if items.any(|item| go_type(item) != go_type(first)) {
        let lists = [a, b].map(|list| go_value(&Value::Array(list.to_vec())));
        return Err(Error::Strategic(format!("list element types are not identical: [{}]", lists.join(" "))));
    }
    Ok(first)
}

fn list_of(value: &Value) -> Result<&Vec<Value>, Error> {
    value.as_array().ok_or_else(|| wrong_type("[]interface {}", value))
}

fn key_of<'a>(item: &'a Value, key: &str) -> Result<&'a Value, Error> {
    if !item.is_object() {
        return Err(wrong_type("map[string]interface {}", item));
    }
    let missing =
        || Error::Strategic(format!("map: {} does not contain declared merge key: {key}", go_value(item)));
    item.get(key).ok_or_else(missing)
}

fn wrong_type(expected: &str, value: &Value) -> Error {
    Error::Strategic(format!("expected a {expected}, but received a {}", go_type(value)))
}

fn unknown_directive(directive: &Value, map: &Map<String, Value>) -> Error {
    let map = go_value(&Value::Object(map.clone()));
    Error::Strategic(format!("unknown patch type: {} in map: {map}", go_value(directive)))
}

/// `null` deletes; where there is nothing to delete it is dropped.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => map
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name, without_nulls(value)))
            .collect(),
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        scalar => scalar,
    }
}

/// A value that has nothing to be merged into: maps with a directive are not kept.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(map) if map.contains_key(DIRECTIVE) => None,
        Value::Object(map) => Some(
            map.into_iter().filter_map(|(name, value)| Some((name, without_directives(value)?))).collect(),
        ),
        Value::Array(items) => Some(items.into_iter().filter_map(without_directives).collect()),
        scalar => Some(scalar),
    }
}
