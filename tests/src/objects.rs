//! Builders and readers of the objects that tests are about, and their paths.

use serde_json::{Value, json};

/// `/apis/samplecontroller.k8s.io/v1alpha1/namespaces/NAMESPACE/foos[/NAME]`.
pub fn foo_path(namespace: &str, name: &str) -> String {
    path("apis/samplecontroller.k8s.io/v1alpha1", namespace, "foos", name)
}

/// `/apis/apps/v1/namespaces/NAMESPACE/deployments[/NAME]`.
pub fn deployment_path(namespace: &str, name: &str) -> String {
    path("apis/apps/v1", namespace, "deployments", name)
}

/// `/api/v1/namespaces/NAMESPACE/events`.
pub fn events_path(namespace: &str) -> String {
    path("api/v1", namespace, "events", "")
}

fn path(api: &str, namespace: &str, plural: &str, name: &str) -> String {
    format!("/{api}/namespaces/{namespace}/{plural}/{name}").trim_end_matches('/').to_owned()
}

/// A Foo with one replica; its namespace is that of the path it is sent to.
pub fn foo(name: &str, deployment: &str) -> Value {
    json!({
        "apiVersion": "samplecontroller.k8s.io/v1alpha1",
        "kind": "Foo",
        "metadata": {"name": name},
        "spec": {"deploymentName": deployment, "replicas": 1},
    })
}

/// A Foo whose guest (`guests::scripted`) does what the annotations `script/NAME` say.
pub fn scripted(name: &str, deployment: &str, script: &[(&str, &str)]) -> Value {
    let mut foo = foo(name, deployment);
    for (key, value) in script {
        foo["metadata"]["annotations"][format!("script/{key}")] = (*value).into();
    }
    foo
}

/// Somebody's Deployment, controlled by nobody.
pub fn deployment(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": "other"}},
            "template": {
                "metadata": {"labels": {"app": "other"}},
                "spec": {"containers": [{"name": "c", "image": "busybox"}]},
            },
        },
    })
}

/// The object, with its namespace in it.
pub fn within(namespace: &str, mut object: Value) -> Value {
    object["metadata"]["namespace"] = namespace.into();
    object
}

/// The value at `pointer`, null where absent.
pub fn at<'a>(value: &'a Value, pointer: &str) -> &'a Value {
    value.pointer(pointer).unwrap_or(&Value::Null)
}

/// `metadata.generation`.
pub fn generation(value: &Value) -> i64 {
    at(value, "/metadata/generation").as_i64().unwrap_or_default()
}

/// A condition of an object, null where absent.
pub fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let conditions = at(object, "/status/conditions").as_array().map(Vec::as_slice).unwrap_or_default();
    conditions.iter().find(|condition| condition["type"] == kind).unwrap_or(&Value::Null)
}

/// Whether the Foo's `Ready` is True for its present generation.
pub fn ready(foo: &Value) -> bool {
    condition(foo, "Ready")["status"] == "True"
        && at(foo, "/status/observedGeneration") == at(foo, "/metadata/generation")
}
