//! The design's invariants and definitions, as far as they are seen from outside.

use crate::both;
use rstest_reuse::apply;
use serde_json::json;
use tests::objects::{at, condition, foo, foo_path};
use tests::{Backend, World, api};

#[apply(both)]
#[tokio::test]
async fn definition_wake_a_deleted_or_edited_deployment_is_mended_at_once(#[case] backend: Backend) {
    let world = World::start(backend).await;
    world.create(&foo("a", "web")).await;
    let first = world.until_ready("a").await;
    world.api.delete(&world.deployment_path("web")).await;
    let again = world.until_deployment("web", "back", |_| true).await;
    assert_eq!(at(&again, "/metadata/ownerReferences/0/uid"), at(&first, "/metadata/uid"));
    world.api.merge(&world.deployment_path("web"), &json!({"spec": {"replicas": 9}})).await;
    world.until_deployment("web", "mended", |d| at(d, "/spec/replicas") == 1).await;
}

#[apply(both)]
#[tokio::test]
async fn definition_terminating_a_deployment_on_its_way_out_is_waited_for(#[case] backend: Backend) {
    let world = World::start(backend).await;
    world.create(&foo("a", "web")).await;
    world.until_ready("a").await;
    world
        .api
        .merge(&world.deployment_path("web"), &json!({"metadata": {"finalizers": ["example.com/hold"]}}))
        .await;
    world.api.delete(&world.deployment_path("web")).await;
    let waiting = world
        .api
        .until(&world.foo_path("a"), "waiting", |foo| {
            condition(foo, "Reconciling")["reason"] == "Terminating"
        })
        .await;
    assert_eq!(condition(&waiting, "Ready")["status"], "False");
    world.until_quiet().await;
    let held =
        world.until_deployment("web", "held", |d| !at(d, "/metadata/deletionTimestamp").is_null()).await;
    world.api.merge(&world.deployment_path("web"), &json!({"metadata": {"finalizers": null}})).await;
    world.until_deployment("web", "new", |d| at(d, "/metadata/uid") != at(&held, "/metadata/uid")).await;
    world.until_ready("a").await;
}

#[apply(both)]
#[tokio::test]
async fn definition_terminating_a_namespace_ends_the_work_quietly(#[case] backend: Backend) {
    let world = World::builder(backend).alone().start().await;
    let gone = format!("{}-gone", world.namespace);
    world.create_namespace(&gone).await;
    let foos = foo_path(&gone, "");
    world.api.create(&foos, &foo("a", "web")).await;
    world.api.until(&format!("{foos}/a"), "ready", tests::objects::ready).await;
    world.api.delete(&format!("/api/v1/namespaces/{gone}")).await;
    world.api.until_gone(&format!("/api/v1/namespaces/{gone}")).await;
    world.until_quiet().await;
    let errors = world.metric("controller_runtime_reconcile_total{controller=\"foo\",result=\"error\"}");
    assert!(errors.abs() < 0.5, "{errors} runs failed");
}

#[apply(both)]
#[tokio::test]
async fn invariant_3_definition_own_writes_are_seen_at_once_one_create_however_many_wake_ups(
    #[case] backend: Backend,
) {
    let world = World::builder(backend).no_kubelet().flags(&["--workers", "8"]).start().await;
    world.create(&foo("a", "web")).await;
    for round in 0..20 {
        world.change("a", json!({"metadata": {"annotations": {"round": round.to_string()}}})).await;
    }
    world.until_deployment("web", "there", |_| true).await;
    world.until_quiet().await;
    assert_eq!(world.writes_of("deployments").len(), 1);
}

#[apply(both)]
#[tokio::test]
async fn definition_ready_follows_the_deployment_and_is_what_kubectl_wait_asks_for(#[case] backend: Backend) {
    let world = World::builder(backend).no_kubelet().start().await;
    world.create(&foo("a", "web")).await;
    let waiting = world
        .api
        .until(&world.foo_path("a"), "told", |foo| condition(foo, "Ready")["status"] == "False")
        .await;
    assert_eq!(condition(&waiting, "Reconciling")["status"], "True");
    assert_eq!(at(&waiting, "/status/observedGeneration"), 1);
    let status = json!({"status": {
        "observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1,
        "conditions": [
            {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable", "message": "m"},
            {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable", "message": "m"},
        ],
    }});
    world.api.merge(&format!("{}/status", world.deployment_path("web")), &status).await;
    let ready = world.until_ready("a").await;
    assert!(condition(&ready, "Reconciling").is_null() && condition(&ready, "Stalled").is_null());
    let stuck = json!({"status": {"availableReplicas": 0, "conditions": [
        {"type": "Available", "status": "False", "reason": "r", "message": "m"},
        {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "m"},
    ]}});
    world.api.merge(&format!("{}/status", world.deployment_path("web")), &stuck).await;
    let stalled = world
        .api
        .until(&world.foo_path("a"), "stalled", |foo| condition(foo, "Stalled")["status"] == "True")
        .await;
    assert_eq!(condition(&stalled, "Ready")["status"], "False");
    assert!(condition(&stalled, "Reconciling").is_null());
}

#[apply(both)]
#[tokio::test]
async fn definition_synced_is_recorded_for_a_change_of_the_deployment_and_not_for_a_status(
    #[case] backend: Backend,
) {
    let world = World::start(backend).await;
    world.create(&foo("a", "web")).await;
    world.until_ready("a").await;
    world.until_quiet().await;
    let events = world.events("a").await;
    assert_eq!(
        (events.len(), &events[0]["count"]),
        (1, &json!(1)),
        "one create, though several status writes"
    );
    world.change("a", json!({"spec": {"replicas": 2}})).await;
    api::until("told again", async || {
        let events = world.events("a").await;
        events.iter().map(|event| event["count"].as_i64().unwrap_or(0)).sum::<i64>() == 2
    })
    .await;
}

#[apply(both)]
#[tokio::test]
async fn invariant_4_a_deployment_whose_owner_reference_was_taken_away_is_left_alone(
    #[case] backend: Backend,
) {
    let world = World::start(backend).await;
    world.create(&foo("a", "web")).await;
    world.until_ready("a").await;
    world.until_quiet().await;
    world.proxy.clear();
    world
        .api
        .merge(
            &world.deployment_path("web"),
            &json!({"metadata": {"ownerReferences": null}, "spec": {"replicas": 7}}),
        )
        .await;
    world.until_event("a", "ErrResourceExists").await;
    world.until_quiet().await;
    assert_eq!(world.writes_of("deployments"), []);
}

#[apply(both)]
#[tokio::test]
async fn invariant_8_one_namespace_is_all_that_is_served_when_asked_for(#[case] backend: Backend) {
    let builder = World::builder(backend).alone();
    let other = format!("{}-other", builder.namespace());
    let world = builder.flags(&["--namespace", &other]).start().await;
    world.create_namespace(&other).await;
    world.create(&foo("a", "web")).await;
    let foos = foo_path(&other, "");
    world.api.create(&foos, &foo("b", "web")).await;
    world.api.until(&format!("{foos}/b"), "ready", tests::objects::ready).await;
    world.until_quiet().await;
    assert!(world.api.get(&world.deployment_path("web")).await.is_none());
}

#[apply(both)]
#[tokio::test]
async fn restart_in_the_middle_loses_nothing(#[case] backend: Backend) {
    let mut world = World::start(backend).await;
    for number in 0..20 {
        world.create(&foo(&format!("a{number}"), &format!("web{number}"))).await;
    }
    world.stop_controller().await;
    world.change("a3", json!({"spec": {"replicas": 3}})).await;
    world.api.delete(&world.foo_path("a4")).await;
    world.start_controller().await;
    for number in (0..20).filter(|number| *number != 4) {
        world.until_ready(&format!("a{number}")).await;
    }
    world.until_deployment("web3", "scaled", |d| at(d, "/spec/replicas") == 3).await;
    world.api.until_gone(&world.deployment_path("web4")).await;
}
