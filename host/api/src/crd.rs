//! The `CustomResourceDefinition`, generated from the types.
//!
//! Owns: names, subresources, printer columns and the structural schema. `artifacts/crd.yaml` is its
//! output, held equal by a test.

use crate::{CRD_NAME, FooSpec, FooStatus, GROUP, KIND, PLURAL, SINGULAR, VERSION};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

/// The `CustomResourceDefinition` as the API takes it.
pub fn crd() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": CRD_NAME,
            // Groups under k8s.io need the annotation; the value is upstream's.
            "annotations": { "api-approved.kubernetes.io": "unapproved, experimental-only" },
        },
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": KIND,
                "listKind": format!("{KIND}List"),
                "plural": PLURAL,
                "singular": SINGULAR,
                "shortNames": [SINGULAR_SHORT],
            },
            "versions": [{
                "name": VERSION,
                "served": true,
                "storage": true,
                "subresources": {
                    "status": {},
                    "scale": {
                        "specReplicasPath": ".spec.replicas",
                        "statusReplicasPath": ".status.replicas",
                        "labelSelectorPath": ".status.selector",
                    },
                },
                "additionalPrinterColumns": columns(),
                "schema": { "openAPIV3Schema": {
                    "description": "A Foo is a Deployment that is made and kept by reconcile logic.",
                    "type": "object",
                    "required": ["spec"],
                    "properties": {
                        "spec": schema::<FooSpec>(),
                        "status": schema::<FooStatus>(),
                    },
                } },
            }],
        },
    })
}

/// [`crd`] as YAML, its keys sorted: what `foo-host crd` prints and `artifacts/crd.yaml` holds.
pub fn crd_yaml() -> String {
    // Sorted by hand: whether serde_json keeps the order of keys depends on features that other
    // crates of the workspace turn on.
    let sorted: serde_yaml_ng::Value =
        serde_json::from_str(&contract::canonical_json(&crd())).unwrap_or_default();
    let yaml = serde_yaml_ng::to_string(&sorted).unwrap_or_default();
    format!("# Generated from the types in host/api by `foo-host crd`. Do not edit.\n{yaml}")
}

/// Short name, for `kubectl get fo`: the singular already works.
const SINGULAR_SHORT: &str = "fo";

fn columns() -> Value {
    let condition = |field: &str| format!(".status.conditions[?(@.type==\"Ready\")].{field}");
    json!([
        { "name": "Deployment", "type": "string", "jsonPath": ".spec.deploymentName" },
        { "name": "Desired", "type": "integer", "jsonPath": ".spec.replicas" },
        { "name": "Available", "type": "integer", "jsonPath": ".status.availableReplicas" },
        { "name": "Ready", "type": "string", "jsonPath": condition("status") },
        { "name": "Reason", "type": "string", "jsonPath": condition("reason") },
        { "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp" },
        { "name": "Message", "type": "string", "jsonPath": condition("message"), "priority": 1 },
        { "name": "Guest", "type": "string", "jsonPath": ".status.guest.digest", "priority": 1 },
    ])
}

/// The structural schema of `T`: OpenAPI 3.0, no references, no titles.
fn schema<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::openapi3().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    structural(&mut schema);
    schema
}

/// Takes out what a structural schema may not have, or what says nothing there.
fn structural(schema: &mut Value) {
    if let Some(map) = schema.as_object_mut() {
        for keyword in ["title", "$schema", "components"] {
            map.remove(keyword);
        }
        // A doc comment's line breaks mean nothing to `kubectl explain`.
        if let Some(Value::String(description)) = map.get_mut("description") {
            *description = description.replace('\n', " ");
        }
        // The server would write the default into each object that it reads.
        map.remove("default");
        // A null of what is not nullable is dropped, so that upstream's Go client, which writes `replicas: null`,
        // is served. A null that stays is refused with 422: the scale subresource reads replicas as a number.
        map.remove("nullable");
        if let Some(properties) = map.get_mut("properties").and_then(Value::as_object_mut) {
            properties.values_mut().for_each(structural);
        }
        if let Some(items) = map.get_mut("items") {
            structural(items);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../artifacts/crd.yaml");

    /// `BLESS=1 cargo test -p foo-api` rewrites the file.
    #[test]
    fn the_artifact_is_what_the_types_generate() {
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(PATH, crd_yaml()).unwrap();
        }
        let file = std::fs::read_to_string(PATH).unwrap_or_default();
        assert!(file == crd_yaml(), "artifacts/crd.yaml is stale: BLESS=1 cargo test -p foo-api");
    }

    #[test]
    fn the_yaml_is_the_crd() {
        let parsed: Value = serde_yaml_ng::from_str(&crd_yaml()).unwrap();
        assert_eq!(parsed, crd());
    }

    fn at<'a>(crd: &'a Value, field: &str) -> &'a Value {
        let path = format!("/spec/versions/0/schema/openAPIV3Schema/properties/{field}");
        crd.pointer(&path).unwrap()
    }

    #[test]
    fn parity_api_the_spec_is_upstreams_with_validation() {
        let crd = crd();
        let spec = at(&crd, "spec");
        assert_eq!(spec["required"], json!(["deploymentName"]));
        let name = &spec["properties"]["deploymentName"];
        assert_eq!(
            (&name["type"], &name["minLength"], &name["maxLength"]),
            (&json!("string"), &json!(1), &json!(253))
        );
        assert!(name["pattern"].is_string());
        let replicas = &spec["properties"]["replicas"];
        assert_eq!(replicas["type"], "integer");
        assert_eq!(replicas["format"], "int32");
        assert_eq!((&replicas["minimum"], &replicas["maximum"]), (&json!(1), &json!(10)));
        assert_eq!(
            crd["metadata"]["annotations"]["api-approved.kubernetes.io"],
            "unapproved, experimental-only"
        );
    }

    #[test]
    fn conditions_are_a_map_by_type_with_the_limits_of_metav1() {
        let crd = crd();
        let conditions = &at(&crd, "status")["properties"]["conditions"];
        assert_eq!(conditions["x-kubernetes-list-type"], "map");
        assert_eq!(conditions["x-kubernetes-list-map-keys"], json!(["type"]));
        let required = conditions["items"]["required"].as_array().unwrap();
        for field in ["type", "status", "reason", "message", "lastTransitionTime"] {
            assert!(required.contains(&json!(field)), "{field}");
        }
    }

    /// `apiextensions.k8s.io/v1` (structural schemas): no `$ref`, no list of types, no unknown format,
    /// no `nullable`, and a description for `kubectl explain`.
    #[test]
    fn the_schema_is_structural() {
        fn walk(schema: &Value, path: &str) {
            let map = schema.as_object().unwrap();
            for keyword in
                ["$ref", "definitions", "anyOf", "allOf", "oneOf", "not", "default", "title", "nullable"]
            {
                assert!(!map.contains_key(keyword), "{path} has {keyword}");
            }
            assert!(map["type"].is_string(), "{path} has no single type");
            assert!(path.ends_with("[]") || map.contains_key("description"), "{path} has no description");
            if let Some(format) = map.get("format").and_then(Value::as_str) {
                assert!(["int32", "int64", "date-time"].contains(&format), "{path}: {format}");
            }
            for (name, property) in map.get("properties").and_then(Value::as_object).into_iter().flatten() {
                walk(property, &format!("{path}.{name}"));
            }
            if let Some(items) = map.get("items") {
                walk(items, &format!("{path}[]"));
            }
        }
        walk(&crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"], "");
    }
}
