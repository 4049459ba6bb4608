//! `status.conditions`: the host's, the guest's, and those of others.
//!
//! Owns: whose a condition is, and when its time moves. Must not know what the host's say.

use crate::object::Object;
use crate::time;
use contract::{ConditionStatus, ConditionUpdate};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// What the host says about a Foo: one of three, by kstatus' conventions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// `Ready` is True.
    Ready,
    /// `Ready` is False, `Reconciling` True.
    Reconciling,
    /// `Ready` is False, `Stalled` True.
    Stalled,
}

/// The host's conditions; `Reconciling` and `Stalled` are present only while True.
pub(crate) fn hosts(standing: &Standing, reason: &str, message: &str) -> Vec<ConditionUpdate> {
    let condition = |r#type: &str, status| ConditionUpdate {
        r#type: r#type.to_owned(),
        status,
        reason: reason.to_owned(),
        message: contract::one_line(message, contract::MAX_CONDITION_MESSAGE_BYTES),
    };
    match standing {
        Standing::Ready => vec![condition(foo_api::CONDITION_READY, ConditionStatus::True)],
        Standing::Reconciling => vec![
            condition(foo_api::CONDITION_READY, ConditionStatus::False),
            condition(foo_api::CONDITION_RECONCILING, ConditionStatus::True),
        ],
        Standing::Stalled => vec![
            condition(foo_api::CONDITION_READY, ConditionStatus::False),
            condition(foo_api::CONDITION_STALLED, ConditionStatus::True),
        ],
    }
}

/// The whole list after this run, sorted by type; none if it says what `live` says.
///
/// `guests` replaces what guests set before, none keeps it. What others set stays as it is: a merge
/// patch replaces the list, so it must be whole. A condition that is not the host's is a guest's if our
/// own entry of `managedFields` has it.
pub(crate) fn merged(
    foo: &Object,
    live: &[Value],
    hosts: Vec<ConditionUpdate>,
    guests: Option<&[ConditionUpdate]>,
    now: i64,
) -> Option<Vec<Value>> {
    let own = Own::of(foo);
    let mut set = hosts;
    set.extend(guests.unwrap_or_default().iter().cloned());
    let stays = |condition: &Value| {
        let Some(r#type) = type_of(condition) else { return false };
        !set.iter().any(|update| update.r#type == r#type)
            && !foo_api::HOST_CONDITIONS.contains(&r#type)
            && (guests.is_none() || !own.has(r#type))
    };
    let mut merged: Vec<_> = live.iter().filter(|condition| stays(condition)).cloned().collect();
    merged.extend(set.iter().map(|update| {
        let before = live.iter().find(|condition| type_of(condition) == Some(&update.r#type));
        written(update, before, foo.meta.generation, now)
    }));
    let mut before = live.to_vec();
    for list in [&mut before, &mut merged] {
        list.sort_by(|a, b| type_of(a).cmp(&type_of(b)));
    }
    (merged != before).then_some(merged)
}

/// One condition as the API stores it; its time stays while its status does.
fn written(update: &ConditionUpdate, before: Option<&Value>, generation: i64, now: i64) -> Value {
    let text = |field: &str| before.and_then(|before| before.get(field)).and_then(Value::as_str);
    let status = update.status.as_str();
    let since = match text("lastTransitionTime").filter(|time| time::parse(time).is_some()) {
        Some(time) if text("status") == Some(status) => time.to_owned(),
        _ => time::format(now),
    };
    let mut condition = Map::new();
    let mut put = |field: &str, value: Value| condition.insert(field.to_owned(), value);
    put("type", update.r#type.as_str().into());
    put("status", status.into());
    put("reason", update.reason.as_str().into());
    put("message", update.message.as_str().into());
    put("lastTransitionTime", since.into());
    put("observedGeneration", generation.into());
    Value::Object(condition)
}

fn type_of(condition: &Value) -> Option<&str> {
    condition.get("type").and_then(Value::as_str)
}

/// The conditions that our entry of `managedFields` for the status has.
enum Own {
    /// A map by type: these.
    Types(BTreeSet<String>),
    /// A list that is owned as a whole (a CRD without list keys), and it is ours.
    All,
}

impl Own {
    fn of(foo: &Object) -> Self {
        let mut types = BTreeSet::new();
        for entry in foo.own.iter().filter(|entry| &*entry.subresource == "status") {
            let fields: Value = serde_json::from_str(&entry.fields).unwrap_or_default();
            let conditions = fields.pointer("/f:status/f:conditions").and_then(Value::as_object);
            let Some(conditions) = conditions else { continue };
            if conditions.is_empty() {
                return Self::All;
            }
            for key in conditions.keys().filter_map(|key| key.strip_prefix("k:")) {
                let key: Value = serde_json::from_str(key).unwrap_or_default();
                types.extend(type_of(&key).map(str::to_owned));
            }
        }
        Self::Types(types)
    }

    fn has(&self, r#type: &str) -> bool {
        match self {
            Self::Types(types) => types.contains(r#type),
            Self::All => true,
        }
    }
}
