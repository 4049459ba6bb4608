//! What the cache keeps of an object, and which changes wake.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use common::foo;
use plan::{EntryOperation, Kind, Malformed, Object, Owner};
use serde_json::{Value, json};

fn deployment() -> Value {
    json!({
        "metadata": {
            "name": "web", "namespace": "default", "uid": "uid-1", "generation": 1, "resourceVersion": "5",
            "labels": {"a": "1"}, "annotations": {"b": "2"},
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "other"},
                {"apiVersion": "samplecontroller.k8s.io/v1alpha1", "kind": "Foo", "name": "example-foo",
                 "uid": "foo-uid", "controller": true},
            ],
        },
        "spec": {"replicas": 1},
        "status": {"replicas": 1},
    })
}

fn wake(value: &Value, kind: Kind) -> u64 {
    Object::from_value(value.clone(), kind).unwrap().meta.wake
}

fn with(value: &Value, path: &[&str], new: Value) -> Value {
    let mut value = value.clone();
    let mut at = &mut value;
    for name in path {
        at = &mut at[*name];
    }
    *at = new;
    value
}

#[test]
fn definition_wake_a_foo_wakes_by_uid_generation_labels_annotations_and_deletion() {
    let foo = foo();
    let before = wake(&foo, Kind::Foo);
    for (field, value) in [
        ("uid", json!("another")),
        ("generation", json!(2)),
        ("labels", json!({"a": "1"})),
        ("annotations", json!({"a": "1"})),
        ("deletionTimestamp", json!(common::NOW_TEXT)),
    ] {
        assert_ne!(wake(&with(&foo, &["metadata", field], value), Kind::Foo), before, "{field}");
    }
    for (path, value) in [
        (["metadata", "resourceVersion"], json!("99")),
        (["metadata", "managedFields"], json!([{"manager": "x"}])),
        (["metadata", "finalizers"], json!(["x"])),
        (["status", "availableReplicas"], json!(1)),
    ] {
        assert_eq!(wake(&with(&foo, &path, value), Kind::Foo), before, "{path:?}");
    }
}

#[test]
fn definition_wake_a_child_wakes_by_spec_labels_owner_and_deletion_not_by_status() {
    let child = deployment();
    let before = wake(&child, Kind::Deployment);
    for (field, value) in [
        ("uid", json!("another")),
        ("generation", json!(2)),
        ("labels", json!({})),
        ("ownerReferences", json!([])),
        ("deletionTimestamp", json!(common::NOW_TEXT)),
    ] {
        assert_ne!(wake(&with(&child, &["metadata", field], value), Kind::Deployment), before, "{field}");
    }
    let annotated =
        with(&child, &["metadata", "annotations"], json!({"deployment.kubernetes.io/revision": "2"}));
    assert_eq!(wake(&annotated, Kind::Deployment), before);
    let available = with(&child, &["status", "availableReplicas"], json!(1));
    assert_eq!(wake(&available, Kind::Deployment), before);
    let hash = |value: &Value| Object::from_value(value.clone(), Kind::Deployment).unwrap().meta.status_hash;
    assert_ne!(hash(&available), hash(&child));
    assert_eq!(hash(&annotated), hash(&child));
}

#[test]
fn the_cache_keeps_of_managed_fields_our_own_entries_only() {
    let fields = json!({"f:spec": {"f:replicas": {}}});
    let entry = |manager: &str, operation: &str, subresource: &str| json!({"manager": manager, "operation": operation, "subresource": subresource, "fieldsV1": fields});
    let mut value = deployment();
    value["metadata"]["managedFields"] = json!([
        entry("kubectl", "Update", ""),
        entry("sample-controller", "Update", "status"),
        entry("sample-controller", "Apply", ""),
        entry("sample-controller", "Sideways", ""),
        7,
    ]);
    value["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/last-applied-configuration": "{}"});
    let object = Object::from_value(value, Kind::Deployment).unwrap();
    let own: Vec<_> = object.own.iter().map(|it| (it.operation, &*it.subresource, &*it.fields)).collect();
    let text = fields.to_string();
    assert_eq!(own, [(EntryOperation::Update, "status", &*text), (EntryOperation::Apply, "", &*text)]);
    assert!(!object.json.contains("managedFields") && !object.json.contains("annotations"));
    assert_eq!(*object.json, contract::canonical_json(&object.value()));
}

#[test]
fn the_owner_is_the_reference_that_controls() {
    let object = Object::from_value(deployment(), Kind::Deployment).unwrap();
    let owner = Owner {
        api_group: "samplecontroller.k8s.io".to_owned(),
        kind: "Foo".to_owned(),
        name: "example-foo".to_owned(),
        uid: "foo-uid".to_owned(),
    };
    assert_eq!(object.meta.owner, Some(owner));
    let core = json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": true}]);
    let object =
        Object::from_value(with(&deployment(), &["metadata", "ownerReferences"], core), Kind::Deployment);
    assert_eq!(object.unwrap().meta.owner.unwrap().api_group, "");
}

#[test]
fn an_object_that_cannot_be_told_from_others_is_malformed() {
    for (value, field) in [
        (json!([]), "name"),
        (json!({"metadata": 1}), "name"),
        (json!({"metadata": {"namespace": "a", "uid": "b"}}), "name"),
        (json!({"metadata": {"name": "a", "uid": "b"}}), "namespace"),
        (json!({"metadata": {"name": "a", "namespace": "b", "uid": 1}}), "uid"),
    ] {
        assert_eq!(Object::from_value(value, Kind::Foo), Err(Malformed { field }));
    }
}
