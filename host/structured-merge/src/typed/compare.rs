//! What is different between two values.

use crate::schema::Kind;
use crate::{FieldSet, Node, Path, PathElement};
use serde_json::Value;
use std::collections::BTreeMap;

/// The fields that are different; no field is in two of the sets.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    pub(crate) added: FieldSet,
    pub(crate) modified: FieldSet,
    pub(crate) removed: FieldSet,
}

impl Comparison {
    /// Without `fields` and all below them.
    pub(crate) fn exclude(self, fields: &FieldSet) -> Self {
        Self {
            added: self.added.recursive_difference(fields),
            modified: self.modified.recursive_difference(fields),
            removed: self.removed.recursive_difference(fields),
        }
    }

    /// All that has a new value.
    pub(crate) fn changed(&self) -> FieldSet {
        self.modified.union(&self.added)
    }
}

/// Compares two objects.
pub(crate) fn compare(before: &Value, after: &Value, node: &Node) -> Comparison {
    let mut walk = Walk::default();
    walk.compare(Some(before), Some(after), node);
    walk.out
}

#[derive(Default)]
struct Walk {
    at: Path,
    out: Comparison,
}

impl Walk {
    fn compare(&mut self, before: Option<&Value>, after: Option<&Value>, node: &Node) {
        let Some(either) = after.or(before) else { return };
        let kind = node.kind(either);
        // Where nothing is declared the two may be of different kinds: what was is gone, what is is new.
        if let (Node::Deduced, Some(old), Some(new)) = (node, before, after)
            && std::mem::discriminant(&node.kind(old)) != std::mem::discriminant(&kind)
        {
            self.visit(Some(old), Some(new), node, node.kind(old));
        }
        let leaf = self.visit(before, after, node, kind);
        if !leaf {
            match (before, after) {
                (None, _) => self.out.added.insert(&self.at),
                (_, None) => self.out.removed.insert(&self.at),
                _ => {}
            }
        }
    }

    /// Returns whether the value was compared as a whole.
    fn visit(&mut self, before: Option<&Value>, after: Option<&Value>, node: &Node, kind: Kind<'_>) -> bool {
        match kind {
            Kind::Map { atomic: false, .. } => {
                let (old, new) = (before.and_then(Value::as_object), after.and_then(Value::as_object));
                let empty = |map: Option<&serde_json::Map<_, _>>| map.is_none_or(serde_json::Map::is_empty);
                if empty(old) && empty(new) {
                    return self.leaf(before, after);
                }
                for (name, old) in old.into_iter().flatten() {
                    let new = new.and_then(|new| new.get(name));
                    self.step(PathElement::Field(name.clone()), Some(old), new, node.child(name));
                }
                for (name, new) in new.into_iter().flatten() {
                    if old.is_none_or(|old| !old.contains_key(name)) {
                        self.step(PathElement::Field(name.clone()), None, Some(new), node.child(name));
                    }
                }
                false
            }
            Kind::Associative => {
                let (old, new) = (before.and_then(Value::as_array), after.and_then(Value::as_array));
                let empty = |list: Option<&Vec<Value>>| list.is_none_or(Vec::is_empty);
                if empty(old) && empty(new) {
                    return self.leaf(before, after);
                }
                self.items(old.map_or(&[], Vec::as_slice), new.map_or(&[], Vec::as_slice), node);
                false
            }
            Kind::Scalar | Kind::ListAtomic | Kind::Map { atomic: true, .. } => self.leaf(before, after),
        }
    }

    fn step(&mut self, element: PathElement, before: Option<&Value>, after: Option<&Value>, node: &Node) {
        self.at.0.push(element);
        self.compare(before, after, node);
        self.at.0.pop();
    }

    fn leaf(&mut self, before: Option<&Value>, after: Option<&Value>) -> bool {
        match (before, after) {
            (None, _) => self.out.added.insert(&self.at),
            (_, None) => self.out.removed.insert(&self.at),
            (Some(before), Some(after)) if !same(before, after) => self.out.modified.insert(&self.at),
            _ => {}
        }
        true
    }

    fn items(&mut self, before: &[Value], after: &[Value], node: &Node) {
        let mut pairs: BTreeMap<PathElement, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
        for item in before {
            if let Ok(identity) = node.identity(item) {
                pairs.entry(identity).or_default().0.push(item);
            }
        }
        for item in after {
            if let Ok(identity) = node.identity(item) {
                pairs.entry(identity).or_default().1.push(item);
            }
        }
        for (identity, (old, new)) in pairs {
            let path = self.at.join(identity.clone());
            let element = node.element();
            match (old.as_slice(), new.as_slice()) {
                // Duplicates are one value under their identity.
                ([_, _, ..], [_, _, ..]) => {
                    if old.len() != new.len() || old.iter().zip(&new).any(|(old, new)| !same(old, new)) {
                        self.out.modified.insert(&path);
                    }
                }
                ([_, _, ..], rest) => {
                    if let Some(new) = rest.first() {
                        self.step(identity, None, Some(new), element);
                    }
                    self.out.removed.insert(&path);
                }
                (rest, [_, _, ..]) => {
                    if let Some(old) = rest.first() {
                        self.step(identity, Some(old), None, element);
                    }
                    self.out.added.insert(&path);
                }
                (old, new) => self.step(identity, old.first().copied(), new.first().copied(), element),
            }
        }
    }
}

/// Whether two values are the same; numbers by value (`1` is `1.0`).
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(_), Value::Number(_)) => crate::Literal(a.clone()) == crate::Literal(b.clone()),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}
