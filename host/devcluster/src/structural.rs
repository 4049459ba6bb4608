//! The schema of a custom resource at work: pruning, defaulting and validation.
//!
//! Source: `apiextensions-apiserver/pkg/apiserver/schema/{pruning,defaulting}` and
//! `pkg/apiserver/validation/validation.go`. Validation is the crate `jsonschema`'s; here its findings
//! get the API's words. Rules in CEL (`x-kubernetes-validations`) are not evaluated.
//! Must not know storage or HTTP.

use crate::beyond_schema;
use crate::status::{FieldError, FieldErrorKind};
use jsonschema::error::{TypeKind, ValidationErrorKind};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use structured_merge::Schema;

/// One version's `openAPIV3Schema`, ready to use.
#[derive(Debug)]
pub(crate) struct Structural {
    pub(crate) schema: Value,
    validator: jsonschema::Validator,
    /// `specReplicasPath` of the scale subresource.
    replicas: Option<String>,
}

/// Formats that the server checks; of others it takes any text.
const FORMATS: [&str; 8] = ["date", "date-time", "email", "hostname", "ipv4", "ipv6", "uri", "uuid"];

impl Structural {
    /// Errors with the schema's fault.
    pub(crate) fn new(schema: &Value, scale: Option<&Value>) -> Result<Self, String> {
        let mut plain = schema.clone();
        to_draft7(&mut plain);
        let validator = jsonschema::options()
            .with_draft(jsonschema::Draft::Draft7)
            .should_validate_formats(true)
            .build(&plain)
            .map_err(|error| error.to_string())?;
        let replicas = scale.map(|scale| crate::resource::text(scale, "/specReplicasPath").to_owned());
        Ok(Self { schema: schema.clone(), validator, replicas })
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
        without_nulls(object, &self.schema);
        self.fill(object);
    }

    /// Only the defaults: what an apply sets to null stays null.
    pub(crate) fn fill(&self, object: &mut Value) {
        default(object, &self.schema);
    }

    /// What is wrong with an object. With `old`, faults of values that did not change are let pass
    /// (KEP-4008, validation ratcheting).
    pub(crate) fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let unchanged = |at: &str| old.is_some_and(|old| old.pointer(at) == object.pointer(at));
        let mut texts: Vec<String> = Vec::new();
        let mut found: Vec<FieldError> = self
            .validator
            .iter_errors(object)
            .filter(|error| !unchanged(error.instance_path().as_str()))
            .filter(|error| {
                // Of a text only the first fault is told: its length, then its pattern.
                let text = matches!(
                    error.kind(),
                    ValidationErrorKind::MaxLength { .. }
                        | ValidationErrorKind::MinLength { .. }
                        | ValidationErrorKind::Pattern { .. }
                );
                let at = error.instance_path().as_str().to_owned();
                let told = text && texts.contains(&at);
                if text {
                    texts.push(at);
                }
                !told
            })
            .map(|error| field_error(&error))
            .collect();
        beyond_schema::faults(object, &self.schema, "", "", &unchanged, &mut found);
        found.extend(
            self.replicas.as_deref().and_then(|path| beyond_schema::unreadable_replicas(object, path)),
        );
        found
    }
}

fn prune(value: &mut Value, schema: &Value, path: &str, gone: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            let properties = schema.get("properties").and_then(Value::as_object);
            let additional = schema.get("additionalProperties").filter(|a| a.is_object());
            let embedded = schema.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true));
            let preserve = schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true))
                || schema.get("additionalProperties") == Some(&Value::Bool(true));
            fields.retain(|name, value| {
                let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                if embedded && name == "metadata" {
                    crate::admit::prune(value, Schema::metadata(), &below, gone);
                    return true;
                }
                if let Some(schema) = properties.and_then(|p| p.get(name)).or(additional) {
                    prune(value, schema, &below, gone);
                    true
                } else if preserve || (embedded && matches!(name.as_str(), "apiVersion" | "kind")) {
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
                for (name, value) in fields.iter_mut() {
                    if properties.is_none_or(|p| !p.contains_key(name)) {
                        default(value, additional);
                    }
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
        // A whole number is an integer however it is written.
        Value::Number(number) if schema.get("type") == Some(&"integer".into()) => {
            if let Some(whole) =
                number.as_f64().filter(|n| !number.is_i64() && n.fract() == 0.0 && n.abs() < 1e15)
            {
                *value = (whole as i64).into();
            }
        }
        _ => {}
    }
}

fn without_nulls(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(fields) => {
            let properties = schema.get("properties").and_then(Value::as_object);
            let additional = schema.get("additionalProperties").filter(|a| a.is_object());
            fields.retain(|name, value| {
                let Some(schema) = properties.and_then(|p| p.get(name)).or(additional) else { return true };
                without_nulls(value, schema);
                !value.is_null() || takes_null(schema)
            });
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                for item in items {
                    without_nulls(item, schema);
                }
            }
        }
        _ => {}
    }
}

/// Whether a null is a value here: where it is declared, and where nothing is.
fn takes_null(schema: &Value) -> bool {
    schema.get("nullable") == Some(&Value::Bool(true))
        || (schema.get("type").is_none() && schema.get("x-kubernetes-int-or-string").is_none())
}

/// Kubernetes' dialect (OpenAPI 3.0 with extensions) as plain JSON schema of draft 7.
fn to_draft7(schema: &mut Value) {
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
    for (flag, limit) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        if is_true(fields, flag)
            && let Some(limit) = fields.remove(limit)
        {
            fields.insert(flag.to_owned(), limit);
        } else {
            fields.remove(flag);
        }
    }
    if fields.get("format").and_then(Value::as_str).is_some_and(|f| !FORMATS.contains(&f)) {
        fields.remove("format");
    }
    fields.retain(|name, _| {
        !name.starts_with("x-kubernetes-")
            && !matches!(name.as_str(), "nullable" | "example" | "externalDocs" | "default")
    });
    for holder in ["properties", "patternProperties", "definitions"] {
        for (_, schema) in fields.get_mut(holder).and_then(Value::as_object_mut).into_iter().flatten() {
            to_draft7(schema);
        }
    }
    for holder in ["items", "additionalProperties", "not"] {
        if let Some(schema) = fields.get_mut(holder) {
            to_draft7(schema);
        }
    }
    for holder in ["allOf", "anyOf", "oneOf"] {
        for schema in fields.get_mut(holder).and_then(Value::as_array_mut).into_iter().flatten() {
            to_draft7(schema);
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
                TypeKind::Multiple(many) => {
                    let names = many.iter().map(|t| t.to_string()).filter(|t| t != "null");
                    names.collect::<Vec<_>>().join(",")
                }
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
        ValidationErrorKind::MinItems { limit } => {
            let count = value.as_array().map_or(0, Vec::len);
            let detail = body(format!("should have at least {limit} items"));
            return FieldError::invalid(path.clone(), &count.into(), detail);
        }
        ValidationErrorKind::Format { format } => {
            let detail = body(format!("must be of type {format}: {value}"));
            return FieldError::with(FieldErrorKind::TypeInvalid, path.clone(), value, detail);
        }
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
        ValidationErrorKind::MultipleOf { multiple_of } => {
            body(format!("should be a multiple of {multiple_of}"))
        }
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
        }), None)
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
