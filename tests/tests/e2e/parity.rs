//! Rows of the parity table that can be seen from outside. The name says which row.

use crate::both;
use rstest_reuse::apply;
use serde_json::json;
use tests::objects::{at, condition, foo, generation, ready};
use tests::{Backend, Crd, World, api};

#[apply(both)]
#[tokio::test]
async fn parity_api_the_upstream_example_is_served_as_it_is(#[case] backend: Backend) {
    let world = World::start(backend).await;
    let text =
        std::fs::read_to_string(tests::guests::root().join("artifacts/examples/example-foo.yaml")).unwrap();
    let example: serde_json::Value = serde_yaml_ng::from_str(&text).unwrap();
    world.create(&example).await;
    let foo = world.until_ready("example-foo").await;
    assert_eq!(at(&foo, "/status/availableReplicas"), 1);
    assert_eq!(at(&foo, "/status/replicas"), 1);
    assert_eq!(at(&foo, "/status/selector"), "app=nginx,controller=example-foo");
    assert!(at(&foo, "/status/guest/digest").as_str().is_some_and(|digest| digest.starts_with("sha256:")));
}

#[apply(both)]
#[tokio::test]
async fn parity_api_the_crd_validates_names_and_numbers(#[case] backend: Backend) {
    let world = World::builder(backend).no_controller().start().await;
    for (spec, field) in [
        (json!({"replicas": 1}), "deploymentName"),
        (json!({"deploymentName": "A_b"}), "deploymentName"),
        (json!({"deploymentName": "x".repeat(254)}), "deploymentName"),
        (json!({"deploymentName": "web", "replicas": 0}), "replicas"),
        (json!({"deploymentName": "web", "replicas": 11}), "replicas"),
    ] {
        let mut foo = foo("x", "web");
        foo["spec"] = spec;
        let refused = world.api.try_create(&world.foo_path(""), &foo).await.expect_err("should be refused");
        assert!(refused.code == 422 && refused.message.contains(field), "{}", refused.message);
    }
    let mut null = foo("x", "web");
    null["spec"]["replicas"] = serde_json::Value::Null;
    let created = world.create(&null).await;
    assert!(at(&created, "/spec/replicas").is_null(), "what upstream's Go client sends is served");
}

#[apply(both)]
#[tokio::test]
async fn parity_names_manager_source_reason_and_message_are_the_originals(#[case] backend: Backend) {
    let world = World::start(backend).await;
    world.create(&foo("a", "web")).await;
    let foo = world.until_ready("a").await;
    let made = world.until_deployment("web", "there", |_| true).await;
    for (object, subresource) in [(&made, json!(null)), (&foo, json!("status"))] {
        let entries = at(object, "/metadata/managedFields").as_array().cloned().unwrap_or_default();
        let ours = entries
            .iter()
            .find(|entry| entry["subresource"] == subresource && entry["manager"] == "sample-controller");
        assert!(ours.is_some(), "{entries:?}");
    }
    let event = world.until_event("a", "Synced").await;
    assert_eq!(at(&event, "/source/component"), "sample-controller");
    assert_eq!((&event["type"], &event["message"]), (&json!("Normal"), &json!("Foo synced successfully")));
    assert_eq!(at(&event, "/involvedObject/uid"), at(&foo, "/metadata/uid"));
}

#[apply(both)]
#[tokio::test]
async fn parity_resync_costs_no_write(#[case] backend: Backend) {
    let world = World::builder(backend).flags(&["--resync", "1s"]).start().await;
    world.create(&foo("a", "web")).await;
    world.until_ready("a").await;
    world.until_quiet().await;
    world.proxy.clear();
    let calls = world.guest_calls();
    api::until("three resyncs", async || world.guest_calls() >= calls + 3).await;
    assert_eq!(world.writes(), []);
}

#[apply(both)]
#[tokio::test]
async fn parity_sync_1_a_foo_that_is_gone_is_no_error(#[case] backend: Backend) {
    let world = World::start(backend).await;
    world.create(&foo("a", "web")).await;
    world.until_ready("a").await;
    world.api.delete(&world.foo_path("a")).await;
    world.api.until_gone(&world.deployment_path("web")).await;
    world.until_quiet().await;
    let errors = world.metric("controller_runtime_reconcile_total{controller=\"foo\",result=\"error\"}");
    assert!(errors.abs() < 0.5, "{errors} runs failed");
}

#[apply(both)]
#[tokio::test]
async fn parity_sync_2_an_empty_name_is_a_permanent_error_told_once(#[case] backend: Backend) {
    let world = World::builder(backend).crd(Crd::UpstreamWithStatus).start().await;
    world.create(&foo("a", "")).await;
    let event = world.until_event("a", "InvalidSpec").await;
    assert_eq!(event["type"], "Warning");
    world.until_quiet().await;
    let runs = world.guest_calls();
    assert_eq!((runs, world.writes_of("deployments")), (0, vec![]));
    assert_eq!(world.events("a").await.len(), 1);
    world.change("a", json!({"spec": {"deploymentName": "web"}})).await;
    world.until_deployment("web", "there", |_| true).await;
}

#[apply(both)]
#[tokio::test]
async fn parity_sync_3_a_missing_deployment_is_created_by_post_with_the_field_manager(
    #[case] backend: Backend,
) {
    let world = World::builder(backend).no_kubelet().start().await;
    world.create(&foo("a", "web")).await;
    world.until_event("a", "Synced").await;
    world.until_quiet().await;
    let writes = world.writes_of("deployments");
    assert_eq!(writes.len(), 1);
    assert_eq!(
        (writes[0].method.as_str(), writes[0].query.as_str()),
        ("POST", "fieldManager=sample-controller&fieldValidation=Strict")
    );
    world.api.delete(&world.deployment_path("web")).await;
    api::until("it is back", async || world.api.get(&world.deployment_path("web")).await.is_some()).await;
}

#[apply(both)]
#[tokio::test]
async fn parity_sync_4_a_foreign_deployment_blocks_with_backoff_and_serves_when_it_goes(
    #[case] backend: Backend,
) {
    let world = World::start(backend).await;
    world.api.create(&world.deployment_path(""), &tests::deployment("web")).await;
    world.create(&foo("a", "web")).await;
    let foo = world
        .api
        .until(&world.foo_path("a"), "told", |foo| condition(foo, "Ready")["reason"] == "ErrResourceExists")
        .await;
    assert_eq!(condition(&foo, "Reconciling")["status"], "True");
    assert!(at(&foo, "/status/availableReplicas").is_null() || at(&foo, "/status/availableReplicas") == 0);
    assert_eq!(world.events("a").await.len(), 1);
    assert_eq!(world.guest_calls(), 0, "a guest never sees a foreign Deployment");
    world.api.delete(&world.deployment_path("web")).await;
    world.until_ready("a").await;
}

#[apply(both)]
#[tokio::test]
async fn parity_sync_5_owned_fields_come_back_and_the_others_stay(#[case] backend: Backend) {
    let world = World::start(backend).await;
    world.create(&foo("a", "web")).await;
    world.until_ready("a").await;
    let theirs = json!({
        "metadata": {"labels": {"team": "x"}},
        "spec": {"minReadySeconds": 3, "replicas": 4, "template": {"spec": {
            "containers": [{"name": "nginx", "image": "evil:latest"}],
        }}},
    });
    world.api.merge(&world.deployment_path("web"), &theirs).await;
    let mended = world
        .until_deployment("web", "mended", |d| {
            at(d, "/spec/template/spec/containers/0/image") == "nginx:latest" && at(d, "/spec/replicas") == 1
        })
        .await;
    assert_eq!(at(&mended, "/spec/minReadySeconds"), 3);
    assert_eq!(at(&mended, "/metadata/labels/team"), "x");
    let entries = at(&mended, "/metadata/managedFields").as_array().cloned().unwrap_or_default();
    let ours: Vec<_> = entries
        .iter()
        .filter(|entry| entry["manager"] == "sample-controller" && entry["subresource"].is_null())
        .map(|entry| entry["operation"].clone())
        .collect();
    assert_eq!(ours, [json!("Apply")]);
}

#[apply(both)]
#[tokio::test]
async fn parity_sync_5_a_foo_that_names_no_replicas_never_changes_the_live_number(#[case] backend: Backend) {
    let world = World::start(backend).await;
    let mut free = foo("a", "web");
    free["spec"]["replicas"] = serde_json::Value::Null;
    world.create(&free).await;
    world.until_ready("a").await;
    world
        .api
        .merge(&format!("{}/scale", world.deployment_path("web")), &json!({"spec": {"replicas": 5}}))
        .await;
    world.api.until(&world.foo_path("a"), "available", |foo| at(foo, "/status/availableReplicas") == 5).await;
    // Named, then no longer named: the number stays where it is.
    world.change("a", json!({"spec": {"replicas": 3}})).await;
    world.until_deployment("web", "scaled", |d| at(d, "/spec/replicas") == 3).await;
    world.until_ready("a").await;
    world.change("a", json!({"spec": {"replicas": null}})).await;
    world.api.until(&world.foo_path("a"), "seen", |foo| ready(foo) && generation(foo) == 3).await;
    world.until_quiet().await;
    let live = world.until_deployment("web", "there", |_| true).await;
    assert_eq!(at(&live, "/spec/replicas"), 3);
    world
        .api
        .merge(&format!("{}/scale", world.deployment_path("web")), &json!({"spec": {"replicas": 6}}))
        .await;
    world.api.until(&world.foo_path("a"), "available", |foo| at(foo, "/status/availableReplicas") == 6).await;
}

#[apply(both)]
#[tokio::test]
async fn parity_sync_6_and_7_status_and_event_only_when_something_changed(#[case] backend: Backend) {
    let world = World::builder(backend).no_kubelet().start().await;
    world.create(&foo("a", "web")).await;
    world.until_event("a", "Synced").await;
    world.until_quiet().await;
    let writes = world.writes();
    assert_eq!(writes.len(), 3, "one create, one status, one event: {writes:#?}");
    world.proxy.clear();
    // A change that changes nothing for the Deployment: a run, and a status for the new generation at most.
    world.change("a", json!({"metadata": {"annotations": {"note": "x"}}})).await;
    api::until("it ran", async || world.guest_calls() >= 2).await;
    world.until_quiet().await;
    assert_eq!(world.writes(), []);
}

#[apply(both)]
#[tokio::test]
async fn parity_deployment_is_the_originals(#[case] backend: Backend) {
    let world = World::start(backend).await;
    let foo = world.create(&foo("a", "web")).await;
    let made = world.until_deployment("web", "there", |_| true).await;
    let labels = json!({"app": "nginx", "controller": "a"});
    assert_eq!(at(&made, "/spec/selector"), &json!({"matchLabels": labels}));
    assert_eq!(at(&made, "/spec/template/metadata/labels"), &labels);
    let containers = at(&made, "/spec/template/spec/containers").as_array().cloned().unwrap_or_default();
    assert_eq!(containers.len(), 1);
    assert_eq!((&containers[0]["name"], &containers[0]["image"]), (&json!("nginx"), &json!("nginx:latest")));
    assert_eq!(
        at(&made, "/metadata/ownerReferences"),
        &json!([{
            "apiVersion": "samplecontroller.k8s.io/v1alpha1", "kind": "Foo", "name": "a",
            "uid": at(&foo, "/metadata/uid"), "controller": true, "blockOwnerDeletion": true,
        }])
    );
}

#[apply(both)]
#[tokio::test]
async fn parity_known_fault_a_rename_leaves_nothing_behind(#[case] backend: Backend) {
    let world = World::start(backend).await;
    world.create(&foo("a", "web-a")).await;
    world.until_ready("a").await;
    world.change("a", json!({"spec": {"deploymentName": "web-b"}})).await;
    world.api.until_gone(&world.deployment_path("web-a")).await;
    let foo = world.until_ready("a").await;
    assert_eq!(at(&foo, "/status/availableReplicas"), 1);
    let creates = world.writes_of("deployments").iter().filter(|write| write.method == "POST").count();
    assert_eq!(creates, 2);
}

#[apply(both)]
#[tokio::test]
async fn parity_a_foo_being_deleted_no_guest_call_and_no_create(#[case] backend: Backend) {
    let world = World::start(backend).await;
    let mut held = foo("a", "web");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    world.create(&held).await;
    world.until_ready("a").await;
    world.until_quiet().await;
    let calls = world.guest_calls();
    world.api.delete(&world.foo_path("a")).await;
    world
        .api
        .until(&world.foo_path("a"), "terminating", |foo| !at(foo, "/metadata/deletionTimestamp").is_null())
        .await;
    world.api.delete(&world.deployment_path("web")).await;
    world.api.until_gone(&world.deployment_path("web")).await;
    world.until_quiet().await;
    assert_eq!(world.guest_calls(), calls);
    assert!(world.api.get(&world.deployment_path("web")).await.is_none());
    world.change("a", json!({"metadata": {"finalizers": null}})).await;
    world.api.until_gone(&world.foo_path("a")).await;
}

#[apply(both)]
#[tokio::test]
async fn parity_foo_and_deployment_handlers_a_new_foo_of_the_same_name_gets_its_own_deployment(
    #[case] backend: Backend,
) {
    let world = World::start(backend).await;
    world.create(&foo("a", "web")).await;
    world.until_ready("a").await;
    let first = world.until_deployment("web", "there", |_| true).await;
    world.api.delete(&world.foo_path("a")).await;
    let second_foo = world.create(&foo("a", "web")).await;
    world
        .until_deployment("web", "the new Foo's", |d| {
            at(d, "/metadata/ownerReferences/0/uid") == at(&second_foo, "/metadata/uid")
        })
        .await;
    let second = world.until_deployment("web", "there", |_| true).await;
    assert_ne!(at(&first, "/metadata/uid"), at(&second, "/metadata/uid"));
    world.until_ready("a").await;
    assert!(world.events("a").await.len() <= 8);
}

#[apply(both)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parity_signals_runs_in_flight_finish_and_queued_keys_are_left_to_the_next_start(
    #[case] backend: Backend,
) {
    // Each call takes its whole second.
    let flags = ["--workers", "1", "--guest-fuel", "1000000000000", "--guest-timeout", "1s"];
    let mut world = World::builder(backend).guest(&tests::guests::scripted()).flags(&flags).start().await;
    for number in 0..5 {
        let name = format!("a{number}");
        world.create(&tests::objects::scripted(&name, &format!("web{number}"), &[("do", "loop")])).await;
    }
    api::until("one is in flight", async || {
        world.metric("controller_runtime_active_workers{controller=\"foo\"}") > 0.5
    })
    .await;
    let metrics = world.controller.as_ref().expect("runs").metrics.clone();
    let before = metrics.guest_calls();
    world.stop_controller().await;
    assert_eq!(metrics.guest_calls(), before + 1, "the one in flight ended, no other began");
}
