//! Schemas of custom resources, from the structural schema of a CRD.
//!
//! Must not know defaults or pruning: those are the API server's.

use super::{Field, Fields, Node, Scalar, deployment};
use crate::Error;
use serde_json::Value;
use std::sync::Arc;

/// The node of one schema.
pub(super) fn node(schema: &Value) -> Result<Node, Error> {
    convert(schema, false)
}

/// `preserve` says whether a schema further up keeps unknown fields: then all below it do.
fn convert(schema: &Value, preserve: bool) -> Result<Node, Error> {
    let extension = |name: &str| schema.get(format!("x-kubernetes-{name}"));
    let flag = |name| extension(name) == Some(&Value::Bool(true));
    let preserve = preserve || flag("preserve-unknown-fields");
    if flag("int-or-string") {
        return Ok(Node::IntOrString);
    }
    match schema.get("type").and_then(Value::as_str) {
        None if schema.is_object() => Ok(Node::Deduced),
        None => Err(Error::Schema("a schema must be an object".to_owned())),
        Some("string") => {
            let format = schema.get("format").and_then(Value::as_str).unwrap_or_default();
            Ok(Node::Scalar(if matches!(format, "" | "byte") { Scalar::String } else { Scalar::Any }))
        }
        Some("integer" | "number") => Ok(Node::Scalar(Scalar::Number)),
        Some("boolean") => Ok(Node::Scalar(Scalar::Boolean)),
        Some("array") => list(schema, extension("list-type"), extension("list-map-keys"), preserve),
        Some("object") => {
            let mut fields = fields(schema, preserve)?;
            if flag("embedded-resource") {
                let text = || Field::of(Node::Scalar(Scalar::String));
                fields.declared.entry("apiVersion".to_owned()).or_insert_with(text);
                fields.declared.entry("kind".to_owned()).or_insert_with(text);
                let metadata = Field::of(Arc::clone(&deployment::TYPES.metadata));
                fields.declared.insert("metadata".to_owned(), metadata);
            }
            match extension("map-type").and_then(Value::as_str) {
                None | Some("granular") => Ok(Node::Map(fields)),
                Some("atomic") => Ok(Node::MapAtomic(fields)),
                Some(other) => Err(Error::Schema(format!("unknown map type {other}"))),
            }
        }
        Some(other) => Err(Error::Schema(format!("unrecognized type: '{other}'"))),
    }
}

fn fields(schema: &Value, preserve: bool) -> Result<Fields, Error> {
    let mut fields = Fields::default();
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        let node = convert(property, preserve)?;
        fields
            .declared
            .insert(name.clone(), Field { default: property.get("default").cloned(), ..Field::of(node) });
    }
    let any = || Some(Arc::new(Node::Deduced));
    fields.additional = match schema.get("additionalProperties") {
        // An object that says nothing of its fields is free in them.
        None if preserve || fields.declared.is_empty() => any(),
        Some(Value::Bool(true)) => any(),
        None | Some(Value::Bool(false)) => None,
        Some(element) => Some(Arc::new(convert(element, preserve)?)),
    };
    Ok(fields)
}

fn list(schema: &Value, kind: Option<&Value>, keys: Option<&Value>, preserve: bool) -> Result<Node, Error> {
    let items =
        schema.get("items").ok_or_else(|| Error::Schema("`items` must be specified on arrays".to_owned()))?;
    let element = Arc::new(convert(items, preserve)?);
    match kind.and_then(Value::as_str) {
        None | Some("atomic") => Ok(Node::ListAtomic { element }),
        Some("set") => Ok(Node::ListSet { element }),
        Some("map") => {
            let keys: Vec<String> = keys
                .and_then(Value::as_array)
                .map(|keys| keys.iter().filter_map(Value::as_str).map(str::to_owned).collect())
                .unwrap_or_default();
            if keys.is_empty() {
                return Err(Error::Schema("missing map keys".to_owned()));
            }
            Ok(Node::ListMap { keys, element })
        }
        Some(other) => Err(Error::Schema(format!("unknown list type {other}"))),
    }
}

#[cfg(test)]
mod tests {
    use crate::{Error, Node, Scalar, Schema};
    use serde_json::{Value, json};

    fn spec_of(schema: &Value) -> Result<Schema, Error> {
        Schema::from_openapi(&json!({"type": "object", "properties": {"spec": schema}}))
    }

    #[test]
    fn a_crd_schema_becomes_nodes_with_the_servers_metadata() {
        let schema = spec_of(&json!({"type": "object", "properties": {
            "name": {"type": "string"},
            "at": {"type": "string", "format": "date-time"},
            "port": {"x-kubernetes-int-or-string": true},
            "conditions": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
                "items": {"type": "object", "properties": {"type": {"type": "string"}}},
            },
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        }}))
        .unwrap();
        let spec = schema.root().child("spec");
        assert_eq!(spec.child("name"), &Node::Scalar(Scalar::String));
        assert_eq!(spec.child("at"), &Node::Scalar(Scalar::Any));
        assert_eq!(spec.child("port"), &Node::IntOrString);
        assert!(matches!(spec.child("conditions"), Node::ListMap { keys, .. } if keys == &["type"]));
        assert_eq!(spec.child("free").child("x"), &Node::Deduced);
        assert_eq!(spec.child("labels").child("x"), &Node::Scalar(Scalar::String));
        assert!(spec.fields().unwrap().additional.is_none());
        assert!(matches!(schema.root().child("metadata").child("ownerReferences"), Node::ListMap { .. }));
    }

    #[test]
    fn a_schema_that_cannot_be_used_is_refused_with_its_reason() {
        let refused = |schema: Value| spec_of(&schema).unwrap_err().to_string();
        assert_eq!(refused(json!({"type": "array"})), "`items` must be specified on arrays");
        assert_eq!(refused(json!({"type": "tuple"})), "unrecognized type: 'tuple'");
        let list = json!({"type": "array", "x-kubernetes-list-type": "map", "items": {"type": "object"}});
        assert_eq!(refused(list), "missing map keys");
        assert!(Schema::from_openapi(&json!({"type": "string"})).is_err());
        assert!(Schema::from_openapi(&json!("x")).is_err());
    }
}
