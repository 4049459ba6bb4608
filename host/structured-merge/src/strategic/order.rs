//! The order of merged lists: `$setElementOrder` before the patch's own before the live one.
//!
//! Must not know how items are merged.

use super::{DIRECTIVE, SET_ORDER, key_of};
use crate::Error;
use crate::typed::go_value;
use serde_json::Value;

/// What tells items apart: the value of the merge key, or a scalar itself.
fn identity<'a>(item: &'a Value, key: Option<&str>) -> Result<&'a Value, Error> {
    key.map_or(Ok(item), |key| key_of(item, key))
}

fn position(list: &[Value], item: &Value, key: Option<&str>) -> Option<usize> {
    let identity = |item: &'_ Value| key.map_or_else(|| Some(item.clone()), |key| item.get(key).cloned());
    let wanted = identity(item);
    list.iter().position(|other| identity(other) == wanted)
}

/// The patch's items must come in the order that `$setElementOrder` gives them.
///
/// # Errors
/// If they do not, or an item has no merge key.
pub(super) fn check_order(patch: &[Value], order: &[Value], key: Option<&str>) -> Result<(), Error> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut items = patch.iter().filter(|item| item.get(DIRECTIVE).is_none()).peekable();
    for ordered in order {
        let Some(item) = items.peek() else { return Ok(()) };
        if identity(item, key)? == identity(ordered, key)? {
            items.next();
        }
    }
    if items.peek().is_none() {
        return Ok(());
    }
    let [patch, order] = [patch, order].map(|list| go_value(&Value::Array(list.to_vec())));
    Err(Error::Strategic(format!(
        "The order in patch list:\n{patch}\n doesn't match {SET_ORDER} list:\n{order}\n"
    )))
}

/// Splits items into those that `list` names and all others.
///
/// # Errors
/// If an item has no merge key.
pub(super) fn partition(
    items: Vec<Value>,
    list: &[Value],
    key: Option<&str>,
) -> Result<(Vec<Value>, Vec<Value>), Error> {
    for item in &items {
        identity(item, key)?;
    }
    Ok(items.into_iter().partition(|item| position(list, item, key).is_some()))
}

/// `listed` in the order of `order`, and among them `others` in the live order: each before the first of
/// `listed` that it stood before.
///
/// # Errors
/// If an item has no merge key.
pub(super) fn restore_order(
    mut listed: Vec<Value>,
    mut others: Vec<Value>,
    order: &[Value],
    live: &[Value],
    key: Option<&str>,
) -> Result<Vec<Value>, Error> {
    for item in listed.iter().chain(&others).chain(order).chain(live) {
        identity(item, key)?;
    }
    listed.sort_by_key(|item| position(order, item, key));
    others.sort_by_key(|item| position(live, item, key));

    let mut out = Vec::with_capacity(listed.len() + others.len());
    let (mut listed, mut others) = (listed.into_iter().peekable(), others.into_iter().peekable());
    loop {
        let other_first = match (others.peek(), listed.peek()) {
            (None, None) => return Ok(out),
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some(other), Some(next)) => match (position(live, other, key), position(live, next, key)) {
                (Some(other), Some(next)) => other < next,
                _ => false,
            },
        };
        out.extend(if other_first { others.next() } else { listed.next() });
    }
}
