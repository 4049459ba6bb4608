//! The schema of a custom resource at work: pruning, defaulting and validation.
//!
//! Source: `apiextensions-apiserver/pkg/apiserver/schema/{pruning,defaulting}` and
//! `pkg/apiserver/validation/validation.go`. Validation is the crate `jsonschema`'s; here its findings
//! get the API's words. Rules in CEL (`x-kubernetes-validations`) are not evaluated.
//! Must not know storage or HTTP.

use crate::status::{FieldError, FieldErrorKind};
use jsonschema::error::{TypeKind, ValidationErrorKind};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

/// One version's `openAPIV3Schema`, ready to use.
#[derive(Debug)]
pub(crate) struct Structural {
    pub(crate) schema: Value,
    validator: jsonschema::Validator,
}

impl Structural {
    /// Errors with the schema's fault.
    pub(crate) fn new(schema: &Value) -> Result<Self, String> {
        let mut plain = schema.clone();
        to_draft4(&mut plain);
        let validator = jsonschema::options()
            .with_draft(jsonschema::Draft::Draft4)
            .should_validate_formats(false)
            .build(&plain)
            .map_err(|error| error.to_string())?;
        Ok(Self { schema: schema.clone(), validator })
    }

    /// Removes what the schema does not declare and says what that was (`spec.x`).
    /// `apiVersion`, `kind` and `metadata` stay as they are.
    pub(crate) fn prune(&self, object: &mut Value) -> Vec<String> {
        let mut gone = Vec::new();
        let Value::Object(fields) = object else { return gone };
        let kept: Vec<_> =
            ["apiVersion", "kind", "metadata"].iter().filter_map(|k| fields.remove_entry(*k)).collect();
        prune(object, &self.schema, "", &mut gone);
        if let Value::Object(fields) = object {
            fields.extend(kept);
        }
        gone
    }

    /// Fills in the schema's defaults, and drops nulls of what is not nullable (apiextensions-apiserver's
    /// `PruneNonNullableNullsWithoutDefaults`).
    pub(crate) fn default(&self, object: &mut Value) {
        default(object, &self.schema);
    }

    /// What is wrong with an object. With `old`, faults of values that did not change are let pass
    /// (KEP-4008, validation ratcheting).
    pub(crate) fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let errors = self.validator.iter_errors(object);
        let fresh = errors.filter(|error| {
            let at = error.instance_path().as_str();
            old.is_none_or(|old| old.pointer(at) != object.pointer(at))
        });
        fresh.map(|error| field_error(&error)).collect()
    }
}

fn prune(value: &mut Value, schema: &Value, path: &str, gone: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            let properties = schema.get("properties").and_then(Value::as_object);
            let additional = schema.get("additionalProperties").filter(|a| a.is_object());
            if schema.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true))
                && properties.is_none()
            {
                return;
            }
            let preserve = schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true))
                || schema.get("additionalProperties") == Some(&Value::Bool(true));
            fields.retain(|name, value| {
                let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                if let Some(schema) = properties.and_then(|p| p.get(name)).or(additional) {
                    prune(value, schema, &below, gone);
                    true
                } else if preserve {
                    true
                } else {
                    gone.push(below);
                    false
                }
            });
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                for (index, item) in items.iter_mut().enumerate() {
                    prune(item, schema, &format!("{path}[{index}]"), gone);
                }
            }
        }
        _ => {}
    }
}

fn default(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(fields) => {
            let properties = schema.get("properties").and_then(Value::as_object);
            for (name, schema) in properties.into_iter().flatten() {
                if !is_nullable(schema) && fields.get(name).is_some_and(Value::is_null) {
                    fields.remove(name);
                }
                if let Some(filling) = schema.get("default")
                    && !fields.contains_key(name)
                {
                    fields.insert(name.clone(), filling.clone());
                }
                if let Some(value) = fields.get_mut(name) {
                    default(value, schema);
                }
            }
            let additional = schema.get("additionalProperties").filter(|a| a.is_object());
            if let Some(additional) = additional {
                let declared = |name: &str| properties.is_some_and(|p| p.contains_key(name));
                fields.retain(|name, value| declared(name) || is_nullable(additional) || !value.is_null());
                for (_, value) in fields.iter_mut().filter(|(name, _)| !declared(name)) {
                    default(value, additional);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                for item in items {
                    default(item, schema);
                }
            }
        }
        _ => {}
    }
}

fn is_nullable(schema: &Value) -> bool {
    schema.get("nullable") == Some(&Value::Bool(true))
}

/// Kubernetes' dialect (OpenAPI 3.0 with extensions) as plain JSON schema of draft 4.
fn to_draft4(schema: &mut Value) {
    let Value::Object(fields) = schema else { return };
    let is_true = |fields: &Map<String, Value>, name: &str| fields.get(name) == Some(&Value::Bool(true));
    if is_true(fields, "x-kubernetes-int-or-string") {
        fields.insert("type".to_owned(), json!(["integer", "string"]));
        fields.remove("anyOf");
    }
    if is_true(fields, "nullable") {
        match fields.get_mut("type") {
            Some(Value::Array(types)) => types.push("null".into()),
            Some(one) => *one = json!([one.clone(), "null"]),
            None => {}
        }
        if let Some(Value::Array(values)) = fields.get_mut("enum") {
            values.push(Value::Null);
        }
    }
    fields.retain(|name, _| {
        !name.starts_with("x-kubernetes-")
            && !matches!(name.as_str(), "nullable" | "example" | "externalDocs" | "default")
    });
    for holder in ["properties", "patternProperties", "definitions"] {
        for (_, schema) in fields.get_mut(holder).and_then(Value::as_object_mut).into_iter().flatten() {
            to_draft4(schema);
        }
    }
    for holder in ["items", "additionalProperties", "not"] {
        if let Some(schema) = fields.get_mut(holder) {
            to_draft4(schema);
        }
    }
    for holder in ["allOf", "anyOf", "oneOf"] {
        for schema in fields.get_mut(holder).and_then(Value::as_array_mut).into_iter().flatten() {
            to_draft4(schema);
        }
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// `/spec/list/0/name` as `spec.list[0].name`.
fn field_path(pointer: &str) -> String {
    let mut path = String::new();
    for step in pointer.split('/').filter(|s| !s.is_empty()) {
        let step = step.replace("~1", "/").replace("~0", "~");
        if step.bytes().all(|b| b.is_ascii_digit()) {
            let _ = write!(path, "[{step}]");
        } else {
            let dot = if path.is_empty() { "" } else { "." };
            let _ = write!(path, "{dot}{step}");
        }
    }
    path
}

/// The texts are those of `k8s.io/kube-openapi/pkg/validation/errors`.
fn field_error(error: &jsonschema::ValidationError<'_>) -> FieldError {
    let path = field_path(error.instance_path().as_str());
    let value: &Value = error.instance();
    let body = |text: String| format!("{path} in body {text}");
    let text = match error.kind() {
        ValidationErrorKind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            let field = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
            return FieldError::required(field, "");
        }
        ValidationErrorKind::Type { kind } => {
            let wanted = match kind {
                TypeKind::Single(one) => one.to_string(),
                TypeKind::Multiple(many) => many.iter().next().map(|t| t.to_string()).unwrap_or_default(),
            };
            let found = type_name(value);
            let detail = body(format!("must be of type {wanted}: {found:?}"));
            return FieldError::with(FieldErrorKind::TypeInvalid, path, &found.into(), detail);
        }
        ValidationErrorKind::Enum { options } => {
            let options: Vec<_> = options.as_array().into_iter().flatten().map(ToString::to_string).collect();
            let detail = format!("supported values: {}", options.join(", "));
            return FieldError::with(FieldErrorKind::NotSupported, path, value, detail);
        }
        ValidationErrorKind::MaxLength { limit } => return FieldError::too_long(path, *limit as usize),
        ValidationErrorKind::MaxItems { limit } => {
            let count = value.as_array().map_or(0, Vec::len);
            let detail = format!("must have at most {limit} items");
            return FieldError::with(FieldErrorKind::TooMany, path, &count.into(), detail);
        }
        ValidationErrorKind::MinLength { limit } => body(format!("should be at least {limit} chars long")),
        ValidationErrorKind::MinItems { limit } => body(format!("should have at least {limit} items")),
        ValidationErrorKind::MinProperties { limit } => {
            body(format!("should have at least {limit} properties"))
        }
        ValidationErrorKind::MaxProperties { limit } => {
            let count = value.as_object().map_or(0, Map::len);
            let detail = format!("must have at most {limit} items");
            return FieldError::with(FieldErrorKind::TooMany, path, &count.into(), detail);
        }
        ValidationErrorKind::Maximum { limit } => body(format!("should be less than or equal to {limit}")),
        ValidationErrorKind::ExclusiveMaximum { limit } => body(format!("should be less than {limit}")),
        ValidationErrorKind::Minimum { limit } => body(format!("should be greater than or equal to {limit}")),
        ValidationErrorKind::ExclusiveMinimum { limit } => body(format!("should be greater than {limit}")),
        ValidationErrorKind::MultipleOf { .. } => body(format!("should be a multiple of {error}")),
        ValidationErrorKind::Pattern { pattern } => body(format!("should match '{pattern}'")),
        ValidationErrorKind::UniqueItems => body("shouldn't contain duplicates".to_owned()),
        other => body(format!("must validate the schema ({})", other.keyword())),
    };
    // The server prints an absent value as an empty string.
    let empty = Value::from("");
    FieldError::invalid(path, if value.is_null() { &empty } else { value }, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn structural() -> Structural {
        Structural::new(&json!({
            "type": "object",
            "properties": { "spec": {
                "type": "object",
                "required": ["deploymentName"],
                "properties": {
                    "deploymentName": { "type": "string", "maxLength": 5, "pattern": "^[a-z]+$" },
                    "replicas": { "type": "integer", "minimum": 1, "maximum": 10, "nullable": true, "default": 2 },
                    "mode": { "type": "string", "enum": ["a", "b"] },
                    "port": { "x-kubernetes-int-or-string": true },
                },
            } },
        }))
        .unwrap()
    }

    fn texts(spec: &Value) -> Vec<String> {
        let kind = crate::status::Qualified { group: "", name: "K" };
        let found = structural().validate(&json!({ "spec": spec }), None);
        found
            .iter()
            .map(|e| crate::status::ApiError::invalid(kind, "n", std::slice::from_ref(e)).message)
            .map(|m| m.trim_start_matches("K \"n\" is invalid: ").to_owned())
            .collect()
    }

    #[test]
    fn each_fault_is_worded_as_the_server_words_it() {
        for (spec, expected) in [
            (
                json!({ "deploymentName": "a", "replicas": 11 }),
                "spec.replicas: Invalid value: 11: spec.replicas in body should be less than or equal to 10",
            ),
            (json!({}), "spec.deploymentName: Required value"),
            (
                json!({ "deploymentName": ["a"] }),
                "spec.deploymentName: Invalid value: \"array\": spec.deploymentName in body must be of type string: \"array\"",
            ),
            (
                json!({ "deploymentName": "abcdef" }),
                "spec.deploymentName: Too long: may not be more than 5 bytes",
            ),
            (
                json!({ "deploymentName": "A" }),
                "spec.deploymentName: Invalid value: \"A\": spec.deploymentName in body should match '^[a-z]+$'",
            ),
            (
                json!({ "deploymentName": "a", "mode": "c" }),
                "spec.mode: Unsupported value: \"c\": supported values: \"a\", \"b\"",
            ),
        ] {
            assert_eq!(texts(&spec), [expected]);
        }
        assert!(
            texts(&json!({ "deploymentName": "a", "replicas": null, "port": "x", "mode": "a" })).is_empty()
        );
    }

    #[test]
    fn unknown_fields_go_and_defaults_come() {
        let mut object = json!({ "kind": "K", "metadata": { "x": 1 }, "spec": { "deploymentName": "a", "y": { "z": 1 } }, "w": 1 });
        let mut gone = structural().prune(&mut object);
        gone.sort();
        assert_eq!(
            gone,
            ["spec.y", "w"]
                .map(str::to_owned)
                .into_iter()
                .collect::<std::collections::BTreeSet<_>>()
                .into_iter()
                .collect::<Vec<_>>()
        );
        structural().default(&mut object);
        assert_eq!(
            object,
            json!({ "kind": "K", "metadata": { "x": 1 }, "spec": { "deploymentName": "a", "replicas": 2 } })
        );
    }
}
