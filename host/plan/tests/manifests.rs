//! What a guest may put into a manifest, and that nothing else gets past the planning function.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use common::{World, apply, foo, manifest};
use contract::Action;
use plan::{Class, Operation, Reason};
use serde_json::{Value, json};

fn message(world: &World, manifest: &str) -> Option<String> {
    let plan = world.plan(vec![Action::ApplyDeployment(manifest.to_owned())]);
    let failure = plan.failure?;
    assert_eq!((failure.reason, failure.class), (Reason::InvalidAnswer, Class::Permanent));
    assert!(plan.operations.is_empty() && plan.status.is_none() && plan.events.is_empty());
    let text = failure.message.strip_prefix("action 1 of 1 (apply-deployment): ");
    Some(text.unwrap_or_else(|| panic!("{}", failure.message)).to_owned())
}

/// The default manifest with `value` at `path`, whose parents are made.
fn with(path: &[&str], value: &Value) -> String {
    let mut manifest = manifest(None);
    let mut at = &mut manifest;
    for name in path {
        at = &mut at[*name];
    }
    *at = value.clone();
    manifest.to_string()
}

fn refused(path: &[&str], value: &Value) -> String {
    message(&World::new(foo()), &with(path, value)).unwrap_or_else(|| panic!("{path:?} was taken"))
}

fn taken(path: &[&str], value: &Value) -> Value {
    let world = World::new(foo());
    let plan = world.plan(vec![Action::ApplyDeployment(with(path, value))]);
    match plan.operations.as_slice() {
        [Operation::Create { manifest }] => manifest.clone(),
        other => panic!("{path:?}: {other:?}, {:?}", plan.failure),
    }
}

#[test]
fn parity_sync_3_the_deployment_is_created_in_the_foos_namespace_with_the_foo_as_controller() {
    let world = World::new(foo());
    let plan = world.plan(apply(&manifest(Some(1))));
    let labels = json!({"app": "nginx", "controller": "example-foo"});
    let expected = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "web",
            "namespace": "default",
            "ownerReferences": [{
                "apiVersion": "samplecontroller.k8s.io/v1alpha1", "kind": "Foo", "name": "example-foo",
                "uid": "foo-uid", "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "nginx", "image": "nginx:latest"}]},
            },
        },
    });
    assert_eq!(plan.operations, [Operation::Create { manifest: expected }]);
}

#[test]
fn case_36_a_manifest_cannot_name_another_namespace_name_or_kind() {
    assert_eq!(
        refused(&["metadata", "namespace"], &json!("kube-system")),
        r#"metadata.namespace is "kube-system", must be left out or "default""#
    );
    assert_eq!(
        refused(&["metadata", "name"], &json!("other")),
        r#"metadata.name is "other", must be left out or "web""#
    );
    assert!(refused(&["kind"], &json!("DaemonSet")).contains(r#"must be left out or "Deployment""#));
    assert!(refused(&["apiVersion"], &json!("v1")).contains(r#"must be left out or "apps/v1""#));
    assert!(refused(&["metadata", "name"], &json!(["web"])).contains("metadata.name is a list"));
    // What matches may be there.
    let same = taken(&["metadata"], &json!({"name": "web", "namespace": "default"}));
    assert_eq!(same["metadata"]["name"], "web");
}

#[test]
fn case_30_generate_name_is_refused_as_is_all_metadata_but_labels_and_annotations() {
    for field in [
        "generateName",
        "ownerReferences",
        "finalizers",
        "managedFields",
        "uid",
        "resourceVersion",
        "deletionTimestamp",
        "selfLink",
    ] {
        let message = refused(&["metadata", field], &json!("x"));
        let expected = format!("metadata.{field} is not the guest's to set");
        assert!(message.starts_with(&expected), "{message}");
    }
    for field in ["status", "data", ""] {
        assert!(refused(&[field], &json!({})).contains("is not the guest's to set"));
    }
    for field in ["finalizers", "ownerReferences", "managedFields", "generateName"] {
        let message = refused(&["spec", "template", "metadata", field], &json!([]));
        assert!(message.contains("is not the guest's to set"), "{message}");
    }
}

#[test]
fn labels_and_annotations_are_taken_but_those_that_somebody_else_writes() {
    let labelled = taken(&["metadata", "labels"], &json!({"team": "a"}));
    assert_eq!(labelled["metadata"]["labels"], json!({"team": "a"}));
    for annotation in
        ["kubectl.kubernetes.io/last-applied-configuration", "deployment.kubernetes.io/revision"]
    {
        assert!(refused(&["metadata", "annotations"], &json!({annotation: "1"})).contains(annotation));
    }
    assert_eq!(
        refused(&["metadata", "labels"], &json!({"a": 1})),
        r#"metadata.labels["a"] is a number, not a string"#
    );
    assert_eq!(
        refused(&["metadata", "annotations"], &json!([])),
        "metadata.annotations is a list, not an object"
    );
}

#[test]
fn null_names_nothing() {
    let created = taken(&["metadata", "creationTimestamp"], &Value::Null);
    assert!(created["metadata"].get("creationTimestamp").is_none());
    assert!(taken(&["status"], &Value::Null).get("status").is_none());
    assert!(taken(&["spec", "replicas"], &Value::Null)["spec"].get("replicas").is_none());
}

#[test]
fn what_the_api_would_refuse_in_every_attempt_is_said_at_once() {
    assert_eq!(refused(&["spec"], &json!(1)), "spec is a number, not an object");
    assert_eq!(refused(&["spec"], &Value::Null), "spec is missing");
    assert_eq!(refused(&["spec", "selector"], &Value::Null), "spec.selector is missing or not an object");
    assert_eq!(refused(&["spec", "template"], &json!([])), "spec.template is missing or not an object");
    assert_eq!(
        refused(&["spec", "template", "metadata", "labels"], &json!({"app": "x"})),
        r#"spec.selector.matchLabels["app"] does not match spec.template.metadata.labels"#
    );
}

#[test]
fn a_manifest_is_json_without_duplicate_keys_of_at_most_256_kib_and_64_levels() {
    let world = World::new(foo());
    let say = |text: &str| message(&world, text).unwrap_or_default();
    assert!(say("{").contains("not JSON"));
    assert!(say("{} x").contains("not JSON"));
    assert_eq!(say("[]"), "the manifest is a list, not an object");
    assert!(say(r#"{"spec": {"a": 1, "a": 2}}"#).contains(r#"duplicate key "a""#));

    let sized = |size: usize| {
        let shorter = with(&["metadata", "annotations"], &json!({"a": ""})).len();
        with(&["metadata", "annotations"], &json!({"a": "x".repeat(size - shorter)}))
    };
    assert_eq!(message(&world, &sized(256 * 1024)), None);
    assert!(say(&sized(256 * 1024 + 1)).contains("262145 bytes, at most 262144"));

    // The manifest, spec and what it holds are two levels.
    let nested = |levels: usize| {
        let deep = (0..levels - 2).fold(json!(1), |inner, _| json!([inner]));
        with(&["spec", "x"], &deep)
    };
    assert_eq!(message(&world, &nested(64)), None);
    assert!(say(&nested(65)).contains("more than 64 levels deep"));
    assert!(say(&"[".repeat(100_000)).contains("more than 64 levels deep"));
}

#[test]
fn a_changed_selector_on_a_live_deployment_is_refused_before_it_is_sent() {
    let world = World::converged();
    let labels = json!({"app": "other"});
    let mut changed = manifest(None);
    changed["spec"]["selector"]["matchLabels"] = labels.clone();
    changed["spec"]["template"]["metadata"]["labels"] = labels;
    let text = message(&world, &changed.to_string()).unwrap();
    assert!(text.starts_with("spec.selector of a live Deployment cannot change: it is {"), "{text}");
    // For a new one it is a selector as any other, and empty parts make no difference.
    assert_eq!(message(&World::new(foo()), &changed.to_string()), None);
    let mut same = manifest(Some(1));
    same["spec"]["selector"]["matchExpressions"] = json!([]);
    assert_eq!(message(&world, &same.to_string()), None);
}

#[test]
fn the_manifest_is_checked_even_while_nothing_can_be_done_with_it() {
    let mut world = World::converged();
    world.deployments[0]["metadata"]["deletionTimestamp"] = json!(common::NOW_TEXT);
    assert!(message(&world, "{}").is_some());
}

#[test]
fn invariant_7_hostile_text_in_a_manifest_is_cut_in_the_message() {
    let mut hostile = json!({"metadata": {}});
    hostile["metadata"]["a\u{1b}[31m\n".repeat(5_000)] = json!(1);
    let text = message(&World::new(foo()), &hostile.to_string()).unwrap();
    assert!(text.len() <= 1_024 && !text.contains(['\n', '\u{1b}']), "{text}");
}
