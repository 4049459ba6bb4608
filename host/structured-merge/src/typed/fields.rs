//! Which fields a value has.

use crate::fieldset::SetNode;
use crate::schema::Kind;
use crate::{FieldSet, Node, PathElement};
use serde_json::Value;
use std::collections::BTreeSet;

/// The leaves and list items of `value`. Structs and maps are no members unless they are empty, null or
/// not declared; items of associative lists are, with their fields below.
pub(crate) fn fields_of(value: &Value, node: &Node) -> FieldSet {
    walk(value, node).children
}

fn walk(value: &Value, node: &Node) -> SetNode {
    match (node.kind(value), value) {
        (Kind::Map { atomic: false, .. } | Kind::Associative, Value::Null) => SetNode::default(),
        (Kind::Map { fields, atomic: false }, Value::Object(map)) => {
            let mut out = SetNode::default();
            for (name, value) in map {
                let mut below = walk(value, node.child(name));
                let declared = fields.is_some_and(|fields| fields.declared.contains_key(name));
                below.member |=
                    !declared || value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
                out.children.set(PathElement::Field(name.clone()), below);
            }
            out
        }
        (Kind::Associative, Value::Array(items)) => {
            let mut out = SetNode::default();
            let (mut seen, mut twice) = (BTreeSet::new(), BTreeSet::new());
            let identities: Vec<_> = items.iter().map(|item| node.identity(item)).collect();
            for identity in identities.iter().flatten() {
                if !seen.insert(identity) {
                    twice.insert(identity);
                }
            }
            for (identity, item) in identities.iter().zip(items) {
                let Ok(identity) = identity else { continue };
                // Items that cannot be told apart are owned together, as a whole.
                let mut below =
                    if twice.contains(identity) { SetNode::default() } else { walk(item, node.element()) };
                below.member = true;
                out.children.set(identity.clone(), below);
            }
            out
        }
        _ => SetNode { member: true, children: FieldSet::default() },
    }
}

/// `set` and the declared fields on the way to its members: what `a.b` says of `a` when `a` is a struct.
pub(crate) fn with_named_fields(set: &FieldSet, node: &Node) -> FieldSet {
    let mut out = FieldSet::default();
    for (element, below) in set.nodes() {
        let (child, named) = match element {
            PathElement::Field(name) => {
                (node.child(name), !below.children.is_empty() && node.field(name).is_some())
            }
            PathElement::Key(_) => (node.element(), false),
            PathElement::Value(_) | PathElement::Index(_) => (&Node::Deduced, false),
        };
        let children = with_named_fields(&below.children, child);
        out.set(element.clone(), SetNode { member: below.member || named, children });
    }
    out
}
