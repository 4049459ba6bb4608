//! A value without some of its fields.

use crate::schema::Kind;
use crate::{FieldSet, Node, PathElement};
use serde_json::{Map, Value};

/// `value` without the fields of `set`, a member with all below it. What becomes empty is gone as well.
pub(crate) fn remove_items(value: &Value, set: &FieldSet, node: &Node) -> Value {
    without(value, set, node).unwrap_or_else(|| Value::Object(Map::new()))
}

fn without(value: &Value, set: &FieldSet, node: &Node) -> Option<Value> {
    match (node.kind(value), value) {
        (Kind::Map { atomic: false, .. }, Value::Object(map)) => {
            let kept: Map<_, _> = map
                .iter()
                .filter_map(|(name, value)| {
                    let left = match set.node(&PathElement::Field(name.clone())) {
                        None => value.clone(),
                        Some(below) if below.member => return None,
                        Some(below) => without(value, &below.children, node.child(name))?,
                    };
                    Some((name.clone(), left))
                })
                .collect();
            (!kept.is_empty()).then_some(Value::Object(kept))
        }
        (Kind::Associative, Value::Array(items)) => {
            let kept: Vec<_> = items
                .iter()
                .filter_map(|item| {
                    let below = node.identity(item).ok().and_then(|identity| set.node(&identity));
                    match below {
                        None => Some(item.clone()),
                        Some(below) if below.member => None,
                        Some(below) => without(item, &below.children, node.element()),
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
