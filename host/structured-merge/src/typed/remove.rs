//! A value without some of its fields.

use crate::schema::Kind;
use crate::{FieldSet, Node, PathElement};
use serde_json::{Map, Value};

/// What becomes of a field whose value is left without content.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Emptied {
    /// It is null: still there for those who own it. What structured-merge-diff reckons with.
    Null,
    /// It is gone: what the server stores.
    Gone,
}

/// `value` without the fields of `set`, a member with all below it.
pub(crate) fn remove_items(value: &Value, set: &FieldSet, node: &Node, emptied: Emptied) -> Value {
    without(value, set, node, emptied).unwrap_or_else(|| Value::Object(Map::new()))
}

fn without(value: &Value, set: &FieldSet, node: &Node, emptied: Emptied) -> Option<Value> {
    match (node.kind(value), value) {
        (Kind::Map { atomic: false, .. }, Value::Object(map)) => {
            let (mut kept, mut emptied_field) = (Map::new(), false);
            for (name, value) in map {
                let left = match set.node(&PathElement::Field(name.clone())) {
                    None => Some(value.clone()),
                    Some(below) if below.member => continue,
                    Some(below) => without(value, &below.children, node.child(name), emptied),
                };
                emptied_field |= left.is_none();
                if left.is_some() || emptied == Emptied::Null {
                    kept.insert(name.clone(), left.unwrap_or_default());
                }
            }
            (!kept.is_empty() || emptied_field).then_some(Value::Object(kept))
        }
        (Kind::Associative, Value::Array(items)) => {
            let kept: Vec<_> = items
                .iter()
                .filter_map(|item| {
                    let below = node.identity(item).ok().and_then(|identity| set.node(&identity));
                    match below {
                        None => Some(item.clone()),
                        Some(below) if below.member => None,
                        Some(below) => without(item, &below.children, node.element(), emptied),
                    }
                })
                .collect();
            (!kept.is_empty()).then_some(Value::Array(kept))
        }
        (Kind::Scalar, scalar) => Some(scalar.clone()),
        // A set that reaches into an atomic value removes it: its fields have no owners of their own.
        _ => None,
    }
}
