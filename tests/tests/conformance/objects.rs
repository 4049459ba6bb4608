//! The objects that scenarios are about.

use crate::session::{Call, Session};
use serde_json::{Value, json};

/// `GROUP/VERSION/PLURAL` of our resource.
pub(crate) const FOOS: &str = "samplecontroller.k8s.io/v1alpha1/foos";
/// `GROUP/VERSION/PLURAL` of Deployments.
pub(crate) const DEPLOYMENTS: &str = "apps/v1/deployments";
/// Path of definitions.
pub(crate) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A config map with one entry.
pub(crate) fn config_map(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "a": "1" } })
}

/// A Foo with one replica.
pub(crate) fn foo(name: &str) -> Value {
    json!({ "apiVersion": "samplecontroller.k8s.io/v1alpha1", "kind": "Foo", "metadata": { "name": name },
        "spec": { "deploymentName": name, "replicas": 1 } })
}

/// A Deployment as the host makes it.
pub(crate) fn deployment(name: &str) -> Value {
    let labels = json!({ "app": "nginx", "controller": name });
    json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name },
        "spec": { "replicas": 1, "selector": { "matchLabels": labels }, "template": { "metadata": { "labels": labels },
            "spec": { "containers": [{ "name": "nginx", "image": "nginx:latest" }] } } } })
}

/// A reference to an owner that the server stored.
pub(crate) fn owner(of: &Value, controller: bool, blocks: bool) -> Value {
    json!({ "apiVersion": of["apiVersion"], "kind": of["kind"], "name": of["metadata"]["name"],
        "uid": of["metadata"]["uid"], "controller": controller, "blockOwnerDeletion": blocks })
}

/// A definition of one namespaced version `v1` with a schema.
pub(crate) fn definition(group: &str, kind: &str, schema: &Value) -> Value {
    let plural = format!("{}s", kind.to_lowercase());
    json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.{group}") },
        "spec": { "group": group, "scope": "Namespaced", "names": { "kind": kind, "plural": plural },
            "versions": [{ "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": schema }, "subresources": { "status": {} } }] } })
}

/// Makes a definition without comparing, and waits until its resource is served.
pub(crate) async fn define(session: &Session, definition: &Value) {
    session.quietly(Call::with("POST", DEFINITIONS, definition)).await;
    let spec = &definition["spec"];
    for version in spec["versions"].as_array().into_iter().flatten() {
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (group, plural) = (word(&spec["group"]), word(&spec["names"]["plural"]));
        let path = format!("/apis/{group}/{}/{plural}", word(&version["name"]));
        session.wait(&path, |status, _| status == 200).await;
    }
}
