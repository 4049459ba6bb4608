//! What the server checks of a custom resource beyond its JSON schema: distinct items, embedded resources, integers
//! of 32 bits, and the number that the scale subresource reads.
//!
//! Source: `apiextensions-apiserver/pkg/apiserver/schema/{listtype,objectmeta}` and
//! `pkg/registry/customresource/strategy.go`. Must not know storage or HTTP.

use crate::resource::{pointer as pointer_of, text};
use crate::status::{FieldError, FieldErrorKind};
use serde_json::{Map, Value};

/// What the scale subresource could not read, which the server refuses whatever the schema says: a null too.
pub(crate) fn unreadable_replicas(object: &Value, path: &str) -> Option<FieldError> {
    let value = object.pointer(&pointer_of(path))?;
    let zero = Value::from(0);
    let (value, detail) = match value {
        Value::Null => (&zero, format!("{path} accessor error: <nil> is of the type <nil>, expected int64")),
        Value::String(text) => {
            (&zero, format!("{path} accessor error: {text} is of the type string, expected int64"))
        }
        Value::Number(number) if number.as_i64().is_some_and(|n| n < 0) => {
            (value, "should be a non-negative integer".to_owned())
        }
        _ => return None,
    };
    Some(FieldError::invalid(path, value, detail))
}

/// What JSON schema does not say: distinct items, embedded resources, integers of 32 bits.
pub(crate) fn faults(
    value: &Value,
    schema: &Value,
    path: &str,
    pointer: &str,
    unchanged: &dyn Fn(&str) -> bool,
    errors: &mut Vec<FieldError>,
) {
    if pointer.is_empty() || !unchanged(pointer) {
        own_faults(value, schema, path, errors);
    }
    match value {
        Value::Object(fields) => {
            let properties = schema.get("properties").and_then(Value::as_object);
            let additional = schema.get("additionalProperties").filter(|a| a.is_object());
            for (name, value) in fields {
                if let Some(schema) = properties.and_then(|p| p.get(name)).or(additional) {
                    let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                    let pointer = format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"));
                    faults(value, schema, &below, &pointer, unchanged, errors);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                for (index, item) in items.iter().enumerate() {
                    faults(
                        item,
                        schema,
                        &format!("{path}[{index}]"),
                        &format!("{pointer}/{index}"),
                        unchanged,
                        errors,
                    );
                }
            }
        }
        _ => {}
    }
}

fn own_faults(value: &Value, schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    if schema.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true)) && value.is_object() {
        for field in ["apiVersion", "kind"] {
            if text(value, &format!("/{field}")).is_empty() {
                errors.push(FieldError::required(format!("{path}.{field}"), ""));
            }
        }
    }
    if schema.get("format").and_then(Value::as_str) == Some("int32")
        && value.as_i64().is_some_and(|n| i32::try_from(n).is_err())
    {
        let detail = format!("Checked value must be of type integer with format int32 in {path}");
        errors.push(FieldError::invalid("<nil>", &"".into(), detail));
    }
    let Some(items) = value.as_array() else { return };
    let keys: Option<Vec<&str>> = match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
        Some("set") => None,
        Some("map") => {
            let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
            Some(keys.into_iter().flatten().filter_map(Value::as_str).collect())
        }
        _ => return,
    };
    let mut seen: Vec<Value> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let identity = match (&keys, item) {
            (None, item) => item.clone(),
            (Some(keys), Value::Object(fields)) => keys
                .iter()
                .filter_map(|k| Some(((*k).to_owned(), fields.get(*k)?.clone())))
                .collect::<Map<_, _>>()
                .into(),
            _ => continue,
        };
        if seen.contains(&identity) {
            errors.push(FieldError::with(
                FieldErrorKind::Duplicate,
                format!("{path}[{index}]"),
                &identity,
                "",
            ));
        } else {
            seen.push(identity);
        }
    }
}
