//! One value laid over another.

use crate::schema::Kind;
use crate::{Node, PathElement};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// `over` laid over `base`: maps field by field, associative lists item by item in the order of `over`,
/// everything else as a whole.
pub(crate) fn merge(base: &Value, over: &Value, node: &Node) -> Value {
    both(Some(base), Some(over), node).unwrap_or_else(|| Value::Object(Map::new()))
}

fn both(base: Option<&Value>, over: Option<&Value>, node: &Node) -> Option<Value> {
    let winner = over.or(base)?;
    match node.kind(winner) {
        Kind::Map { atomic: false, .. } => {
            let (old, new) = (base.and_then(Value::as_object), over.and_then(Value::as_object));
            if old.is_none_or(Map::is_empty) && new.is_none_or(Map::is_empty) {
                return Some(winner.clone());
            }
            let mut out = Map::new();
            for (name, value) in old.into_iter().flatten() {
                let over = new.and_then(|new| new.get(name));
                if let Some(merged) = both(Some(value), over, node.child(name)) {
                    out.insert(name.clone(), merged);
                }
            }
            for (name, value) in new.into_iter().flatten() {
                if old.is_none_or(|old| !old.contains_key(name))
                    && let Some(merged) = both(None, Some(value), node.child(name))
                {
                    out.insert(name.clone(), merged);
                }
            }
            (!out.is_empty()).then_some(Value::Object(out))
        }
        Kind::Associative => {
            let (old, new) = (base.and_then(Value::as_array), over.and_then(Value::as_array));
            if old.is_none_or(Vec::is_empty) && new.is_none_or(Vec::is_empty) {
                return Some(winner.clone());
            }
            let out = items(old.map_or(&[], Vec::as_slice), new.map_or(&[], Vec::as_slice), node);
            (!out.is_empty()).then_some(Value::Array(out))
        }
        Kind::Scalar | Kind::ListAtomic | Kind::Map { atomic: true, .. } => Some(winner.clone()),
    }
}

/// Items of `over` come in its order; items that only `base` has stay before the shared item that they
/// stood before.
fn items(base: &[Value], over: &[Value], node: &Node) -> Vec<Value> {
    let (base, over) = (identified(base, node), identified(over, node));
    let (base_items, over_items) = (by_identity(&base), by_identity(&over));

    let mut shared: VecDeque<&PathElement> = over
        .iter()
        .map(|(identity, _)| identity)
        .filter(|identity| base_items.contains_key(identity))
        .collect();
    let mut next_shared = shared.pop_front();
    let mut done = BTreeSet::new();
    let mut out = Vec::with_capacity(base.len().max(over.len()));
    let mut emit = |old: Option<&Value>, new: Option<&Value>| out.extend(both(old, new, node.element()));
    // Of duplicates none is merged into: which would it be?
    let find = |items: &BTreeMap<_, Option<_>>, identity| items.get(identity).copied().flatten();

    let (mut b, mut o) = (0, 0);
    loop {
        match (base.get(b), over.get(o)) {
            (None, None) => break,
            (Some((old, _)), Some((new, _))) if old == new => {
                done.insert(new);
                emit(find(&base_items, new), find(&over_items, new));
                (b, o) = (b + 1, o + 1);
                next_shared = shared.pop_front();
            }
            // It has a place in `over`, but not this one.
            (Some((old, _)), Some(_))
                if over_items.contains_key(old) && next_shared.is_some_and(|next| next != old) =>
            {
                b += 1;
            }
            (Some((old, item)), _) if !over_items.contains_key(old) => {
                emit(Some(item), None);
                b += 1;
            }
            // Emitted where `over` has it.
            (Some(_), None) => b += 1,
            (old, Some((new, _))) => {
                if old.is_some_and(|(old, _)| done.contains(old)) {
                    b += 1;
                }
                done.insert(new);
                emit(find(&base_items, new), find(&over_items, new));
                o += 1;
                if next_shared == Some(new) {
                    next_shared = shared.pop_front();
                }
            }
        }
    }
    out
}

fn identified<'a>(items: &'a [Value], node: &Node) -> Vec<(PathElement, &'a Value)> {
    items.iter().filter_map(|item| Some((node.identity(item).ok()?, item))).collect()
}

/// Each identity with its item; `None` for duplicates.
fn by_identity<'a>(items: &'a [(PathElement, &'a Value)]) -> BTreeMap<&'a PathElement, Option<&'a Value>> {
    let mut map = BTreeMap::new();
    for (identity, item) in items {
        map.entry(identity).and_modify(|first| *first = None).or_insert(Some(*item));
    }
    map
}
