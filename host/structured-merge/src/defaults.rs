//! The defaults that the API server fills in.
//!
//! Source: `pkg/apis/apps/v1/defaults.go` and `pkg/apis/core/v1/defaults.go` of Kubernetes 1.36. What
//! depends on nothing but the absence of a field is data (`data/deployment.json`); the rest is here.
//! Requests from limits, `enableServiceLinks` and host ports are defaults of pods, not of templates.

use crate::{Node, Schema, quantity};
use serde_json::{Map, Value};

/// Makes of a Deployment what the server stores: unknown fields, nulls and zero values that have no
/// meaning are dropped, quantities get their canonical form, defaults are filled in. Values of the wrong
/// type are left alone. Twice is the same as once.
pub fn deployment(object: &mut Value) {
    let schema = Schema::deployment();
    normalize(object, schema.root(), Static::Filled);
    let Some(spec) = object.get_mut("spec") else { return };
    if let Some(Value::Object(strategy)) = spec.get_mut("strategy")
        && strategy.get("type").and_then(Value::as_str) == Some("RollingUpdate")
    {
        let rolling = strategy.entry("rollingUpdate").or_insert_with(|| Value::Object(Map::new()));
        for name in ["maxUnavailable", "maxSurge"] {
            set_default(rolling, name, "25%");
        }
    }
    if let Some(pod) = spec.pointer_mut("/template/spec") {
        pod_spec(pod);
    }
}

/// What decoding a value into the server's type and encoding it again makes of it, under that type's shape: unknown
/// fields, nulls and zero values that are left out are dropped. Fills in nothing.
pub fn round_trip(value: &mut Value, node: &Node) {
    normalize(value, node, Static::Left);
}

/// The first half of [`deployment`]: drops what the server does not store, fills in nothing.
pub(crate) fn without_zero_values(object: &mut Value, schema: &Schema) {
    normalize(object, schema.root(), Static::Left);
}

fn pod_spec(pod: &mut Value) {
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in items(pod, list) {
            let policy = pull_policy(container.get("image"));
            set_default(container, "imagePullPolicy", policy);
            round_resources(container.get_mut("resources"));
        }
    }
    for volume in items(pod, "volumes") {
        let Value::Object(fields) = volume else { continue };
        if fields.keys().all(|name| name == "name") {
            fields.insert("emptyDir".to_owned(), Value::Object(Map::new()));
        }
        if let Some(image) = fields.get_mut("image") {
            let policy = pull_policy(image.get("reference"));
            set_default(image, "pullPolicy", policy);
        }
        round_resources(volume.pointer_mut("/ephemeral/volumeClaimTemplate/spec/resources"));
    }
    round_resources(pod.get_mut("resources"));
    round_quantities(pod.get_mut("overhead"));
}

fn items<'a>(parent: &'a mut Value, list: &str) -> impl Iterator<Item = &'a mut Value> {
    parent.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten()
}

fn set_default(parent: &mut Value, name: &str, value: &str) {
    if let Value::Object(fields) = parent {
        fields.entry(name).or_insert_with(|| value.into());
    }
}

/// `Always` for the tag `latest`, named or because neither tag nor digest is.
fn pull_policy(image: Option<&Value>) -> &'static str {
    let image = image.and_then(Value::as_str).unwrap_or_default();
    let (name, digest) = image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
    // A colon before the last slash is a registry's port.
    let last = name.rsplit('/').next().unwrap_or_default();
    match (last.split_once(':'), digest) {
        (Some((_, "latest")), _) => "Always",
        // An image that cannot be parsed has no tag at all.
        (None, None) if !image.is_empty() => "Always",
        _ => "IfNotPresent",
    }
}

fn round_resources(resources: Option<&mut Value>) {
    if let Some(resources) = resources {
        round_quantities(resources.get_mut("limits"));
        round_quantities(resources.get_mut("requests"));
    }
}

fn round_quantities(list: Option<&mut Value>) {
    for value in list.and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut) {
        if let Ok(quantity) = quantity::of_value(value) {
            *value = Value::String(quantity.round_up_to_milli().to_string());
        }
    }
}

/// Whether static defaults are filled in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Static {
    Filled,
    Left,
}

/// What decoding into the server's types and encoding again makes of a value.
fn normalize(value: &mut Value, node: &Node, defaults: Static) {
    match (value, node) {
        (Value::Object(map), Node::Map(fields) | Node::MapAtomic(fields)) => {
            map.retain(|name, value| {
                let field = fields.declared.get(name);
                let known = field.is_some() || fields.additional.is_some();
                let dropped = field.is_some_and(|field| field.zero.drops()) && is_zero(value);
                known && !value.is_null() && !dropped
            });
            for (name, field) in &fields.declared {
                if defaults == Static::Filled
                    && let Some(default) = &field.default
                    && !(field.zero.drops() && is_zero(default))
                    && !map.contains_key(name)
                {
                    map.insert(name.clone(), default.clone());
                }
            }
            for (name, value) in map {
                normalize(value, node.child(name), defaults);
            }
        }
        (Value::Array(items), _) => {
            for item in items {
                normalize(item, node.element(), defaults);
            }
        }
        (value, Node::Quantity) => {
            if let Ok(quantity) = quantity::of_value(value) {
                *value = Value::String(quantity.to_string());
            }
        }
        _ => {}
    }
}

/// Whether it is the zero value of its type.
pub(crate) fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn defaulted(mut object: Value) -> Value {
        deployment(&mut object);
        object
    }

    fn pod(pod: &Value) -> Value {
        let object = defaulted(json!({"spec": {"template": {"spec": pod}}}));
        object["spec"]["template"]["spec"].clone()
    }

    /// `kubectl get -o json` of the Go sample-controller's Deployment, without the server's metadata.
    #[test]
    fn the_upstream_deployment_gets_the_servers_defaults() {
        let labels = json!({"app": "nginx", "controller": "example-foo"});
        let object = defaulted(json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "example-foo"},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels, "creationTimestamp": null},
                    "spec": {"containers": [{"name": "nginx", "image": "nginx:latest"}]},
                },
            },
        }));
        let expected = json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "example-foo"},
            "spec": {
                "progressDeadlineSeconds": 600,
                "replicas": 1,
                "revisionHistoryLimit": 10,
                "selector": {"matchLabels": labels},
                "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}, "type": "RollingUpdate"},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {
                        "containers": [{
                            "image": "nginx:latest",
                            "imagePullPolicy": "Always",
                            "name": "nginx",
                            "resources": {},
                            "terminationMessagePath": "/dev/termination-log",
                            "terminationMessagePolicy": "File",
                        }],
                        "dnsPolicy": "ClusterFirst",
                        "restartPolicy": "Always",
                        "schedulerName": "default-scheduler",
                        "securityContext": {},
                        "terminationGracePeriodSeconds": 30,
                    },
                },
            },
            "status": {},
        });
        assert_eq!(object, expected);
    }

    #[test]
    fn the_pull_policy_follows_the_tag() {
        for (image, policy) in [
            ("nginx", "Always"),
            ("nginx:latest", "Always"),
            ("nginx:1.27", "IfNotPresent"),
            ("registry.example:5000/nginx", "Always"),
            ("registry.example:5000/nginx:2", "IfNotPresent"),
            ("nginx@sha256:0123456789012345678901234567890123456789012345678901234567890123", "IfNotPresent"),
            (
                "nginx:latest@sha256:0123456789012345678901234567890123456789012345678901234567890123",
                "Always",
            ),
        ] {
            let pod = pod(
                &json!({"containers": [{"name": "a", "image": image}], "initContainers": [{"name": "b", "image": image}]}),
            );
            assert_eq!(pod["containers"][0]["imagePullPolicy"], policy, "{image}");
            assert_eq!(pod["initContainers"][0]["imagePullPolicy"], policy, "{image}");
        }
    }

    #[test]
    fn what_is_set_stays() {
        let set = json!({"spec": {"replicas": 0, "strategy": {"type": "Recreate"}}});
        let object = defaulted(set);
        assert_eq!(object["spec"]["replicas"], 0);
        assert_eq!(object["spec"]["strategy"], json!({"type": "Recreate"}));
        let half = defaulted(json!({"spec": {"strategy": {"rollingUpdate": {"maxSurge": 1}}}}));
        let expected =
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": "25%"}});
        assert_eq!(half["spec"]["strategy"], expected);
    }

    #[test]
    fn probes_ports_and_references_get_their_defaults() {
        let pod = pod(&json!({"containers": [{
            "name": "a",
            "image": "a:1",
            "ports": [{"containerPort": 80, "protocol": ""}],
            "livenessProbe": {"httpGet": {"port": "web"}},
            "readinessProbe": {"grpc": {"port": 1}, "periodSeconds": 3},
            "lifecycle": {"preStop": {"httpGet": {"port": 80, "scheme": "HTTPS"}}},
            "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                    {"name": "B", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}],
        }]}));
        let container = &pod["containers"][0];
        assert_eq!(container["ports"], json!([{"containerPort": 80, "protocol": "TCP"}]));
        let liveness = json!({"httpGet": {"path": "/", "port": "web", "scheme": "HTTP"}, "timeoutSeconds": 1,
            "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3});
        assert_eq!(container["livenessProbe"], liveness);
        assert_eq!(container["readinessProbe"]["grpc"], json!({"port": 1, "service": ""}));
        assert_eq!(container["readinessProbe"]["periodSeconds"], 3);
        assert_eq!(
            container["lifecycle"]["preStop"]["httpGet"],
            json!({"path": "/", "port": 80, "scheme": "HTTPS"})
        );
        assert_eq!(container["env"][0]["valueFrom"]["fieldRef"]["apiVersion"], "v1");
        assert_eq!(container["env"][1]["valueFrom"]["resourceFieldRef"]["divisor"], "0");
    }

    #[test]
    fn volumes_get_their_modes_and_an_empty_one_is_an_empty_directory() {
        let pod = pod(&json!({"volumes": [
            {"name": "a"},
            {"name": "b", "configMap": {"name": "x"}},
            {"name": "c", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
            {"name": "d", "hostPath": {"path": "/d"}},
            {"name": "e", "image": {"reference": "e:1"}},
        ]}));
        let expected = json!([
            {"name": "a", "emptyDir": {}},
            {"name": "b", "configMap": {"name": "x", "defaultMode": 420}},
            {"name": "c", "projected": {"defaultMode": 420,
                "sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}]}},
            {"name": "d", "hostPath": {"path": "/d", "type": ""}},
            {"name": "e", "image": {"reference": "e:1", "pullPolicy": "IfNotPresent"}},
        ]);
        assert_eq!(pod["volumes"], expected);
    }

    #[test]
    fn quantities_are_stored_in_canonical_form() {
        let resources =
            json!({"limits": {"cpu": "1000m", "memory": "1024Mi"}, "requests": {"cpu": 0.1, "memory": "1u"}});
        let pod = pod(&json!({"containers": [{"name": "a", "image": "a:1", "resources": resources}]}));
        let expected =
            json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "100m", "memory": "1m"}});
        assert_eq!(pod["containers"][0]["resources"], expected);
    }

    #[test]
    fn zero_values_nulls_and_unknown_fields_are_dropped() {
        let object = defaulted(json!({
            "metadata": {"labels": {}, "annotations": {"a": ""}},
            "spec": {"paused": false, "minReadySeconds": 0, "unknown": 1, "replicas": null},
        }));
        assert_eq!(object["metadata"], json!({"annotations": {"a": ""}}));
        let spec = object["spec"].as_object().unwrap();
        assert!(["paused", "minReadySeconds", "unknown"].iter().all(|name| !spec.contains_key(*name)));
        assert_eq!(spec["replicas"], 1);
    }

    #[test]
    fn values_of_the_wrong_type_are_left_alone_and_twice_is_once() {
        for object in [
            json!(null),
            json!("x"),
            json!({"spec": 1}),
            json!({"spec": {"strategy": [], "template": {"spec": {"containers": {"a": 1}, "volumes": ["x"]}}}}),
            json!({"spec": {"template": {"spec": {"containers": [1, {"image": [], "resources": {"limits": []}}]}}}}),
        ] {
            let once = defaulted(object);
            assert_eq!(defaulted(once.clone()), once);
        }
    }
}
