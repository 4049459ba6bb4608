//! What the Foo says after a run.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use common::{NOW, NOW_TEXT, World, default_guest, foo, manifest, wants};
use contract::{Action, ConditionStatus, ConditionUpdate, Event, EventType, ReconcileError, StatusUpdate};
use plan::{Failure, Next, Plan, Reason, StatusSchema};
use serde_json::{Value, json};
use std::time::Duration;

fn condition(r#type: &str, status: ConditionStatus, message: &str) -> ConditionUpdate {
    ConditionUpdate {
        r#type: r#type.to_owned(),
        status,
        reason: "Because".to_owned(),
        message: message.to_owned(),
    }
}

/// Says only this much about the status.
fn sets(available_replicas: i32, conditions: &[ConditionUpdate]) -> Vec<Action> {
    vec![Action::SetStatus(StatusUpdate { available_replicas, conditions: conditions.to_vec() })]
}

fn failing(world: &mut World, reason: Reason, text: &str) -> Next {
    let plan = Plan { failure: Some(Failure::new(reason, text)), ..Plan::default() };
    world.finish(&plan, None, false).next
}

/// Only what upstream's CRD has, with or without its status subresource.
fn upstream(subresource: bool) -> StatusSchema {
    let schema = json!({"properties": {"status": {"properties": {"availableReplicas": {}}}}});
    StatusSchema::from_schema(&schema, subresource)
}

#[test]
fn definition_ready_is_true_when_the_plan_was_carried_out_and_the_deployment_is_current() {
    let mut world = World::new(foo());
    world.settle(default_guest);
    assert_eq!(world.conditions(), ["Ready=False Progressing", "Reconciling=True Progressing"]);
    world.make_available("web");
    world.settle(default_guest);
    assert_eq!(world.conditions(), ["Ready=True DeploymentAvailable"]);
    let ready = world.condition("Ready").unwrap();
    assert_eq!(
        *ready,
        json!({
            "type": "Ready", "status": "True", "reason": "DeploymentAvailable",
            "message": "Deployment web is available", "lastTransitionTime": NOW_TEXT,
            "observedGeneration": 1,
        })
    );
}

#[test]
fn definition_ready_is_about_the_generation_that_was_planned() {
    let mut world = World::converged();
    world.foo["spec"]["replicas"] = json!(2);
    world.foo["metadata"]["generation"] = json!(2);
    world.run(default_guest);
    assert_eq!(world.foo["status"]["observedGeneration"], 2);
    assert_eq!(world.condition("Ready").unwrap()["status"], "False");
    world.make_available("web");
    world.run(default_guest);
    assert_eq!(world.condition("Ready").unwrap()["observedGeneration"], 2);
    assert_eq!(world.condition("Ready").unwrap()["status"], "True");
}

#[test]
fn definition_stalled_after_a_permanent_error_and_a_passed_progress_deadline() {
    let mut world = World::converged();
    assert_eq!(failing(&mut world, Reason::GuestPermanent, "no such image"), Next::Hold);
    assert_eq!(world.conditions(), ["Ready=False GuestPermanent", "Stalled=True GuestPermanent"]);
    world.settle(default_guest);
    assert_eq!(world.conditions(), ["Ready=True DeploymentAvailable"]);
    world.deployments[0]["status"]["conditions"][1]["reason"] = json!("ProgressDeadlineExceeded");
    world.settle(default_guest);
    assert_eq!(
        world.conditions(),
        ["Ready=False ProgressDeadlineExceeded", "Stalled=True ProgressDeadlineExceeded"]
    );
}

#[test]
fn invariant_9_a_failure_is_told_at_the_third_attempt_and_says_the_same_thing_ever_after() {
    let mut world = World::converged();
    for _ in 0..2 {
        assert_eq!(failing(&mut world, Reason::GuestTrapped, "unreachable"), Next::Backoff);
        assert!(world.writes.is_empty() && world.events.is_empty());
    }
    assert_eq!(failing(&mut world, Reason::GuestTrapped, "unreachable"), Next::Backoff);
    assert_eq!(world.events, ["Warning GuestTrapped unreachable"]);
    assert_eq!(world.conditions(), ["Ready=False GuestTrapped", "Reconciling=True GuestTrapped"]);
    world.forget();
    world.now += 1_000;
    failing(&mut world, Reason::GuestTrapped, "unreachable");
    assert_eq!(world.writes, [""; 0]);
}

#[test]
fn invariant_9_quiet_failures_are_never_told() {
    let mut world = World::converged();
    for reason in [Reason::Conflict, Reason::AlreadyExists, Reason::PoolExhausted] {
        for _ in 0..5 {
            assert_eq!(failing(&mut world, reason, "x"), Next::QuietBackoff);
        }
    }
    assert_eq!(failing(&mut world, Reason::NamespaceTerminating, "x"), Next::Done);
    assert!(world.writes.is_empty() && world.events.is_empty());
}

#[test]
fn a_failed_write_keeps_what_the_guest_set_and_its_events_back() {
    let mut world = World::converged();
    let event = Event { r#type: EventType::Normal, reason: "Hello".to_owned(), message: String::new() };
    let mut actions = sets(7, &[condition("Custom", ConditionStatus::True, "")]);
    actions.push(Action::RecordEvent(event));
    let plan = world.plan(actions.clone());
    let conflict = Failure::new(Reason::Conflict, "x");
    let conclusion = world.finish(&plan, Some(conflict), true);
    assert_eq!((conclusion.status, conclusion.events), (None, Vec::new()));
    let rejected = Failure::new(Reason::ApiRejected, "spec.replicas: too many");
    world.finish(&plan, Some(rejected), false);
    assert_eq!(world.foo["status"]["availableReplicas"], 1);
    assert_eq!(world.events, ["Warning ApiRejected spec.replicas: too many"]);
    world.forget();
    world.run(|_| Ok(actions.clone()));
    assert_eq!(world.foo["status"]["availableReplicas"], 7);
    assert_eq!(world.events, ["Normal Hello "]);
}

#[test]
fn parity_sync_6_the_status_is_written_only_when_it_changes() {
    let mut world = World::converged();
    world.now += 60;
    assert_eq!(world.run(default_guest).status, None);
    world.deployments[0]["status"]["availableReplicas"] = json!(0);
    let patch = world.run(default_guest).status.unwrap();
    let changed: Vec<_> = patch["status"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(changed, ["availableReplicas", "conditions"]);
}

#[test]
fn parity_sync_7_synced_is_recorded_when_a_deployment_changed_and_not_for_a_status_write() {
    let mut world = World::new(foo());
    world.run(default_guest);
    assert_eq!(world.events, ["Normal Synced Foo synced successfully"]);
    world.make_available("web");
    world.forget();
    world.run(default_guest);
    assert_eq!((world.writes.as_slice(), world.events.len()), (["status".to_owned()].as_slice(), 0));
}

#[test]
fn the_time_of_a_condition_moves_with_its_status_only() {
    let mut world = World::new(foo());
    world.settle(default_guest);
    world.now = NOW + 100;
    // Another reason, the same status.
    failing(&mut world, Reason::InvalidAnswer, "x");
    let ready = world.condition("Ready").unwrap();
    assert_eq!((&ready["reason"], &ready["lastTransitionTime"]), (&json!("InvalidAnswer"), &json!(NOW_TEXT)));
    assert_eq!(world.condition("Stalled").unwrap()["lastTransitionTime"], "2026-01-02T03:05:45Z");
    world.make_available("web");
    world.settle(default_guest);
    assert_eq!(world.condition("Ready").unwrap()["lastTransitionTime"], "2026-01-02T03:05:45Z");
}

#[test]
fn a_guests_conditions_replace_its_earlier_ones_and_leave_those_of_others() {
    let mut world = World::converged();
    let theirs = json!({"type": "Theirs", "status": "True", "reason": "R", "message": "m",
                        "lastTransitionTime": "2020-01-01T00:00:00Z"});
    world.foo["status"]["conditions"].as_array_mut().unwrap().push(theirs.clone());
    let both =
        [condition("Custom", ConditionStatus::True, "a"), condition("Other", ConditionStatus::False, "b")];
    world.settle(|_| Ok(sets(1, &both)));
    let types = |world: &World| {
        let conditions = world.foo["status"]["conditions"].as_array().unwrap();
        conditions.iter().map(|it| it["type"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(types(&world), ["Custom", "Other", "Ready", "Theirs"]);
    // Without set-status what the guest set stays.
    world.settle(|_| Ok(Vec::new()));
    assert_eq!(types(&world), ["Custom", "Other", "Ready", "Theirs"]);
    world.settle(|_| Ok(sets(1, &both[..1])));
    assert_eq!(types(&world), ["Custom", "Ready", "Theirs"]);
    world.settle(|_| Ok(sets(1, &[])));
    assert_eq!(types(&world), ["Ready", "Theirs"]);
    assert_eq!(*world.condition("Theirs").unwrap(), theirs);
}

#[test]
fn a_status_that_only_stands_in_another_order_is_the_same() {
    let mut world = World::converged();
    world.settle(|_| Ok(sets(1, &[condition("Custom", ConditionStatus::True, "a")])));
    world.foo["status"]["conditions"].as_array_mut().unwrap().reverse();
    let guest = |_: &contract::Input| Ok(sets(1, &[condition("Custom", ConditionStatus::True, "a")]));
    assert_eq!(world.run(guest).status, None);
}

#[test]
fn the_scale_subresource_finds_replicas_and_selector() {
    let mut world = World::converged();
    assert_eq!(world.foo["status"]["replicas"], 1);
    assert_eq!(world.foo["status"]["selector"], "app=nginx,controller=example-foo");
    world.settle(|_| Ok(vec![Action::DeleteDeployment]));
    assert_eq!(world.foo["status"].get("replicas"), None);
    assert_eq!(world.foo["status"].get("selector"), None);
}

#[test]
fn a_swap_of_the_guest_writes_the_status_once() {
    let mut world = World::converged();
    let digest = world.guest.digest.clone();
    assert_eq!(world.foo["status"]["guest"], json!({"digest": digest, "version": "0.1.0"}));
    world.guest.digest = "sha256:1".to_owned();
    world.guest.version = None;
    world.guest.parameters_digest = Some("sha256:2".to_owned());
    let conclusion = world.run(default_guest);
    assert_eq!(
        conclusion.status.unwrap()["status"],
        json!({"guest": {"digest": "sha256:1", "version": null, "parametersDigest": "sha256:2"}})
    );
    assert_eq!(world.foo["status"]["guest"], json!({"digest": "sha256:1", "parametersDigest": "sha256:2"}));
    assert_eq!(world.run(default_guest).status, None);
}

#[test]
fn requeue_after_is_the_next_run_of_a_run_that_went_well() {
    let mut world = World::converged();
    let next = world.run(|_| Ok(vec![Action::RequeueAfter(90)])).next;
    assert_eq!(next, Next::After(Duration::from_secs(90)));
    assert_eq!(world.run(default_guest).next, Next::Done);
    let retry = world.run(|_| Err(ReconcileError::Retry("later".to_owned())));
    assert_eq!(retry.next, Next::Backoff);
    let invalid = world.run(|_| Ok(vec![Action::RequeueAfter(0), Action::RequeueAfter(1)]));
    assert_eq!(
        (invalid.next, invalid.failure.map(|it| it.reason)),
        (Next::Hold, Some(Reason::InvalidAnswer))
    );
}

#[test]
fn case_1_definition_upstreams_crd_without_the_subresource_gets_deployments_and_no_status() {
    let mut world = World::new(foo());
    world.schema = upstream(false);
    assert!(world.schema.missing().contains(&"subresources.status"));
    world.settle(default_guest);
    world.make_available("web");
    for _ in 0..5 {
        world.run(default_guest);
    }
    assert_eq!(world.writes, ["create web"]);
    world.foo["spec"]["replicas"] = json!(2);
    world.settle(default_guest);
    assert_eq!(world.writes, ["create web", "adopt web", "apply web"]);
    failing(&mut world, Reason::InvalidSpec, "x");
    assert_eq!(world.foo.get("status"), None);
}

#[test]
fn definition_upstreams_crd_with_the_subresource_gets_available_replicas_only() {
    let mut world = World::new(foo());
    world.schema = upstream(true);
    world.settle(default_guest);
    world.make_available("web");
    world.settle(default_guest);
    assert_eq!(world.foo["status"], json!({"availableReplicas": 1}));
    assert_eq!(world.writes, ["create web", "status", "status"]);
    world.forget();
    failing(&mut world, Reason::InvalidSpec, "x");
    assert!(world.writes.is_empty());
    assert_eq!(world.events, ["Warning InvalidSpec x"]);
}

#[test]
fn what_a_crds_status_takes_is_read_from_openapi() {
    let published = |crd: &Value, status: bool| {
        let mut schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone();
        schema["x-kubernetes-group-version-kind"] =
            json!([{"group": "samplecontroller.k8s.io", "version": "v1alpha1", "kind": "Foo"}]);
        let foos = "/apis/samplecontroller.k8s.io/v1alpha1/namespaces/{namespace}/foos/{name}";
        let mut paths = json!({foos: {}});
        if status {
            paths[format!("{foos}/status")] = json!({});
        }
        json!({"paths": paths, "components": {"schemas": {"io.k8s.samplecontroller.v1alpha1.Foo": schema}}})
    };
    let full = StatusSchema::from_openapi(&published(&foo_api::crd(), true)).unwrap();
    assert_eq!((full, full.missing()), (StatusSchema::full(), Vec::new()));
    let without = StatusSchema::from_openapi(&published(&foo_api::crd(), false)).unwrap();
    assert_eq!(without.missing(), ["subresources.status"]);
    for other in [json!({}), json!([]), json!({"components": {"schemas": {"x": {}}}})] {
        assert_eq!(StatusSchema::from_openapi(&other), None);
    }
    // A schema that keeps unknown fields takes all of them.
    let open = json!({"x-kubernetes-preserve-unknown-fields": true});
    assert_eq!(StatusSchema::from_schema(&open, true), StatusSchema::full());
    let open = json!({"properties": {"status": open}});
    assert_eq!(StatusSchema::from_schema(&open, true), StatusSchema::full());
    let closed = json!({"properties": {"spec": {}}});
    assert_eq!(StatusSchema::from_schema(&closed, true).missing().len(), 6);
}

#[test]
fn case_32_annotations_of_the_foo_neither_lose_nor_cause_a_write() {
    let mut world = World::new(foo());
    for round in 0..20 {
        world.foo["metadata"]["annotations"] = json!({"touched": round.to_string()});
        world.foo["metadata"]["resourceVersion"] = json!(format!("annotated-{round}"));
        world.run(default_guest);
    }
    assert_eq!(world.writes, ["create web", "status"]);
    assert_eq!(world.foo["metadata"]["annotations"]["touched"], "19");
}

#[test]
fn an_odd_live_status_is_replaced_by_a_good_one() {
    for odd in
        [json!([]), json!("x"), json!({"conditions": {"a": 1}}), json!({"conditions": [1, {"type": 2}]})]
    {
        let mut world = World::new(foo());
        world.foo["status"] = odd;
        world.settle(wants(&manifest(Some(1))));
        assert_eq!(world.conditions(), ["Ready=False Progressing", "Reconciling=True Progressing"]);
    }
}
