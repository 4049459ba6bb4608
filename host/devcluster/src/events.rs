//! Events in their two forms: `v1` (in which they are stored) and `events.k8s.io/v1`.
//!
//! Source: `pkg/apis/events/v1/conversion.go`, `pkg/apis/core/validation/events.go`. Must not know storage.

use crate::resource::text;
use crate::status::FieldError;
use serde_json::{Map, Value};
use structured_merge::Schema;

/// Names in `v1` and in `events.k8s.io/v1`; what is not listed has one name.
const NAMES: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

fn rename(object: &mut Map<String, Value>, from: &str, to: &str) {
    if let Some(value) = object.remove(from) {
        object.insert(to.to_owned(), value);
    }
}

/// From `v1` to `events.k8s.io/v1`.
pub(crate) fn to_new(object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    for (core, new) in NAMES {
        rename(object, core, new);
    }
    object.insert("apiVersion".to_owned(), "events.k8s.io/v1".into());
    for optional in ["reportingController", "reportingInstance"] {
        if object.get(optional).is_some_and(|v| v == "") {
            object.remove(optional);
        }
    }
}

/// From `events.k8s.io/v1` to `v1`.
pub(crate) fn to_core(object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    for (core, new) in NAMES {
        rename(object, new, core);
    }
    object.insert("apiVersion".to_owned(), "v1".into());
}

/// What the API's type writes even when it is not set.
const ZEROS: [(&str, &str); 6] = [
    ("eventTime", "null"),
    ("firstTimestamp", "null"),
    ("lastTimestamp", "null"),
    ("source", "{}"),
    ("reportingComponent", "\"\""),
    ("reportingInstance", "\"\""),
];

/// Times with microseconds are read as nothing else, and not without them either. The text is that of Go's parser.
pub(crate) fn wrong_time(event: &Value) -> Option<String> {
    let times = ["/eventTime", "/series/lastObservedTime"].map(|pointer| text(event, pointer));
    let micro = |time: &str| time.len() > 26 && time.as_bytes().get(19) == Some(&b'.');
    let wrong = times.into_iter().find(|time| !time.is_empty() && !micro(time))?;
    let rest = wrong.get(19..).unwrap_or_default();
    Some(format!(
        "parsing time {wrong:?} as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse {rest:?} as \".000000\""
    ))
}

/// Fills in the fields of a `v1` event that are never left out.
pub(crate) fn default(object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    for (name, zero) in ZEROS {
        object.entry(name).or_insert_with(|| serde_json::from_str(zero).unwrap_or_default());
    }
}

/// The event as managed fields see it: empty names of the reporter are those of an event that has none.
pub(crate) fn owned(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.retain(|name, value| !(name.starts_with("reporting") && *value == ""));
    }
    object
}

/// How events merge, in the form of `v1` or in the new one.
pub(crate) fn schema(new: bool) -> Schema {
    Schema::small(if new { "NewEvent" } else { "Event" }).cloned().unwrap_or_else(Schema::deduced)
}

/// The name in `v1` of a field that a selector of `events.k8s.io/v1` names.
pub(crate) fn core_field(field: &str) -> String {
    let (head, tail) = field.split_once('.').map_or((field, None), |(h, t)| (h, Some(t)));
    let head = NAMES.iter().find(|(_, new)| *new == head).map_or(head, |(core, _)| core);
    tail.map_or_else(|| head.to_owned(), |tail| format!("{head}.{tail}"))
}

/// What is wrong with an event in the form of `v1`; `new` says that it came as `events.k8s.io/v1`.
pub(crate) fn validate(event: &Value, new: bool, errors: &mut Vec<FieldError>) {
    let empty = Value::from("");
    let (namespace, about) = (text(event, "/metadata/namespace"), text(event, "/involvedObject/namespace"));
    let timed = !text(event, "/eventTime").is_empty();
    let fits = match (timed, about.is_empty()) {
        (false, true) => namespace == "default",
        (false, false) => namespace == about,
        (true, true) => ["default", "kube-system"].contains(&namespace),
        (true, false) => true,
    };
    if !fits {
        let detail = "does not match event.namespace";
        errors.push(FieldError::invalid("involvedObject.namespace", &about.into(), detail));
    }
    if timed {
        let controller = if new { "reportingController" } else { "reportingComponent" };
        let component = text(event, "/reportingComponent");
        if component.is_empty() {
            errors.push(FieldError::required(controller, ""));
        }
        let faults = crate::meta::qualified_name(component).into_iter();
        errors.extend(faults.map(|f| FieldError::invalid(controller, &component.into(), f)));
        for (pointer, field, limit) in [
            ("/reportingInstance", "reportingInstance", 128),
            ("/action", "action", 128),
            ("/reason", "reason", 128),
            ("/message", "message", 1024),
        ] {
            let value = text(event, pointer);
            if value.is_empty() && field != "message" {
                errors.push(FieldError::required(field, ""));
            }
            if value.len() > limit {
                errors.push(FieldError::invalid(
                    field,
                    &empty,
                    format!("can have at most {limit} characters"),
                ));
            }
        }
    }
    if new {
        if !timed {
            errors.push(FieldError::required("eventTime", ""));
        }
        let kind = text(event, "/type");
        if !["Normal", "Warning"].contains(&kind) {
            errors.push(FieldError::invalid("type", &empty, format!("has invalid value: {kind}")));
        }
        if let Some(series) = event.get("series").filter(|s| s.is_object()) {
            if series.get("count").and_then(Value::as_i64).unwrap_or(0) < 2 {
                errors.push(FieldError::invalid("series.count", &empty, "should be at least 2"));
            }
            if text(series, "/lastObservedTime").is_empty() {
                errors.push(FieldError::required("series.lastObservedTime", ""));
            }
        }
        for field in ["firstTimestamp", "lastTimestamp", "count", "source"] {
            let set = event
                .get(field)
                .is_some_and(|v| !v.is_null() && *v != 0 && v.as_object().is_none_or(|o| !o.is_empty()));
            if set {
                errors.push(FieldError::invalid(field, &empty, "needs to be unset"));
            }
        }
    }
}

/// What a change through `events.k8s.io` may not touch.
pub(crate) fn validate_update(old: &Value, new: &Value, errors: &mut Vec<FieldError>) {
    for field in [
        "involvedObject",
        "reason",
        "message",
        "source",
        "firstTimestamp",
        "lastTimestamp",
        "count",
        "reportingComponent",
        "reportingInstance",
        "action",
        "type",
        "related",
        "eventTime",
    ] {
        let value = new.get(field).unwrap_or(&Value::Null);
        if value != old.get(field).unwrap_or(&Value::Null) {
            errors.push(FieldError::invalid(field, value, "field is immutable"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_two_forms_are_one_object() {
        let core = json!({ "apiVersion": "v1", "kind": "Event", "involvedObject": { "name": "x" }, "message": "m",
            "reason": "r", "source": { "component": "c" }, "count": 3 });
        let mut new = core.clone();
        to_new(&mut new);
        assert_eq!(new["regarding"]["name"], "x");
        assert_eq!(new["note"], "m");
        assert_eq!(new["deprecatedCount"], 3);
        to_core(&mut new);
        assert_eq!(new, core);
        assert_eq!(core_field("regarding.name"), "involvedObject.name");
        assert_eq!(core_field("reason"), "reason");
    }
}
