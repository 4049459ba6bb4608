//! Which Foos reach a guest, and with what.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use common::{NOW, NOW_TEXT, World, apply, default_guest, foo, manifest};
use plan::{Admission, Class, Failure, Next, Reason};
use serde_json::{Value, json};

fn refused(world: &World) -> Failure {
    match world.admit() {
        Admission::Refuse(failure) => failure,
        other => panic!("not refused: {other:?}"),
    }
}

fn called(world: &World) -> contract::Input {
    match world.admit() {
        Admission::Call(input) => *input,
        other => panic!("not called: {other:?}"),
    }
}

fn named(name: &Value) -> World {
    let mut world = World::new(foo());
    world.foo["spec"]["deploymentName"] = name.clone();
    world
}

#[test]
fn parity_sync_2_an_empty_deployment_name_is_a_permanent_error_told_at_once() {
    let mut world = named(&json!(""));
    let failure = refused(&world);
    assert_eq!((failure.reason, failure.class), (Reason::InvalidSpec, Class::Permanent));
    let conclusion = world.run(default_guest);
    assert_eq!(conclusion.next, Next::Hold);
    assert_eq!(world.conditions(), ["Ready=False InvalidSpec", "Stalled=True InvalidSpec"]);
    assert_eq!(world.events, ["Warning InvalidSpec spec.deploymentName is empty"]);
    assert_eq!(world.writes, ["status"]);
}

#[test]
fn case_34_names_that_kubernetes_takes_reach_the_guest_and_others_do_not() {
    for length in [63, 64, 253] {
        let name = json!("x".repeat(length));
        assert_eq!(called(&named(&name)).foo.spec.deployment_name, name);
    }
    for name in [json!("x".repeat(254)), json!(""), json!("A_b"), json!("a/b")] {
        let mut world = named(&name);
        assert_eq!(world.run(default_guest).next, Next::Hold, "{name}");
        assert_eq!(world.events.len(), 1, "{name}");
        // Nothing changes, nothing is written.
        world.forget();
        assert_eq!(world.run(default_guest).status, None, "{name}");
    }
}

#[test]
fn case_12_a_deployment_name_that_is_a_list_is_refused_and_recovers_when_fixed() {
    for odd in [json!(["web"]), json!({}), json!(1), json!(true), Value::Null] {
        let mut world = named(&odd);
        assert_eq!(refused(&world).class, Class::Permanent, "{odd}");
        world.run(default_guest);
        assert_eq!(world.conditions(), ["Ready=False InvalidSpec", "Stalled=True InvalidSpec"]);
        world.foo["spec"]["deploymentName"] = json!("web");
        world.run(default_guest);
        assert_eq!(world.conditions(), ["Ready=False Progressing", "Reconciling=True Progressing"]);
    }
}

#[test]
fn replicas_that_are_no_number_are_refused_and_null_means_none() {
    for odd in [json!("1"), json!(1.5), json!(-1), json!(1_u64 << 40), json!([])] {
        let mut world = World::new(foo());
        world.foo["spec"]["replicas"] = odd.clone();
        assert_eq!(refused(&world).reason, Reason::InvalidSpec, "{odd}");
    }
    let mut world = World::new(foo());
    world.foo["spec"]["replicas"] = Value::Null;
    assert_eq!(called(&world).foo.spec.replicas, None);
}

/// `TestNotControlledByUs` of the Go original, and its three kinds.
#[test]
fn parity_sync_4_case_29_a_deployment_of_somebody_else_is_never_written() {
    let owner = |name: &str, uid: &str| {
        json!([{"apiVersion": "samplecontroller.k8s.io/v1alpha1", "kind": "Foo", "name": name, "uid": uid,
                "controller": true, "blockOwnerDeletion": true}])
    };
    for references in [json!([]), owner("other", "other-uid"), owner("example-foo", "stale-uid")] {
        let mut world = World::new(foo());
        world.deployments.push(json!({
            "metadata": {"name": "web", "namespace": "default", "uid": "theirs", "resourceVersion": "1",
                         "ownerReferences": references},
            "spec": {},
        }));
        let failure = refused(&world);
        assert_eq!((failure.reason, failure.class), (Reason::ErrResourceExists, Class::Retry));
        let conclusion = world.run(default_guest);
        assert_eq!(conclusion.next, Next::Backoff);
        let message = r#"Resource "web" already exists and is not managed by Foo"#;
        assert_eq!(world.events, [format!("Warning ErrResourceExists {message}")]);
        assert_eq!(
            world.conditions(),
            ["Ready=False ErrResourceExists", "Reconciling=True ErrResourceExists"]
        );
        assert_eq!(world.condition("Ready").unwrap()["message"], message);
        // Even an answer that came from somewhere plans nothing.
        let plan = world.plan(apply(&manifest(Some(1))));
        assert!(plan.operations.is_empty());
        assert_eq!(plan.failure.map(|failure| failure.reason), Some(Reason::ErrResourceExists));
        assert_eq!(world.writes, ["status"]);
        // The condition is constant: the next attempt writes nothing.
        assert_eq!(world.run(default_guest).status, None);
    }
}

#[test]
fn definition_terminating_a_foo_with_a_deletion_time_reaches_no_guest_and_gets_nothing() {
    let mut world = World::new(foo());
    world.foo["metadata"]["deletionTimestamp"] = json!(NOW_TEXT);
    assert_eq!(world.admit(), Admission::Ignore);
    assert!(world.plan(apply(&manifest(Some(1)))).operations.is_empty());
    let conclusion = world.run(default_guest);
    assert_eq!((conclusion.next, conclusion.status), (Next::Done, None));
    assert!(world.writes.is_empty());
}

#[test]
fn definition_terminating_a_deployment_being_deleted_counts_as_absent() {
    let mut world = World::converged();
    world.deployments[0]["metadata"]["deletionTimestamp"] = json!(NOW_TEXT);
    assert_eq!(called(&world).deployment, None);
}

#[test]
fn everything_a_guest_may_know_comes_in() {
    let mut world = World::converged();
    world.parameters = vec![("image".to_owned(), "nginx:1".to_owned())];
    world.foo["metadata"]["labels"] = json!({"b": "2", "a": "1"});
    world.foo["metadata"]["annotations"] =
        json!({"kubectl.kubernetes.io/last-applied-configuration": "{}", "note": "x"});
    world.foo["metadata"]["finalizers"] = json!(["z", "a"]);
    let input = called(&world);

    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let foo = &input.foo;
    assert_eq!(foo.metadata.labels, [pair("a", "1"), pair("b", "2")]);
    assert_eq!(foo.metadata.annotations, [pair("note", "x")]);
    assert_eq!(foo.metadata.finalizers, ["z", "a"]);
    assert_eq!(foo.metadata.created, 1_767_225_600);
    assert_eq!((foo.spec.deployment_name.as_str(), foo.spec.replicas), ("web", Some(1)));
    assert_eq!((foo.status.available_replicas, foo.status.observed_generation), (1, Some(1)));
    assert_eq!(foo.status.conditions[0].r#type, "Ready");
    assert_eq!(foo.status.conditions[0].last_transition, NOW);
    assert_eq!((foo.context.observed_at, &foo.context.parameters), (NOW, &world.parameters));

    let deployment = input.deployment.unwrap();
    assert_eq!((deployment.replicas, deployment.paused), (1, false));
    assert_eq!((deployment.status.ready_replicas, deployment.status.unavailable_replicas), (1, 0));
    let types: Vec<_> = deployment.status.conditions.iter().map(|it| it.r#type.as_str()).collect();
    assert_eq!(types, ["Available", "Progressing"]);

    for json in [&foo.json, &deployment.json] {
        for hidden in ["managedFields", "last-applied-configuration", "resourceVersion"] {
            assert!(!json.contains(hidden), "{hidden} in {json}");
        }
        let value: Value = serde_json::from_str(json).unwrap();
        assert_eq!(*json, contract::canonical_json(&value));
    }
}
