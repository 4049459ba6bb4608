//! The four tests of the Go sample-controller (`controller_test.go`), by name.

use crate::both;
use rstest_reuse::apply;
use tests::objects::{at, condition, deployment, foo, generation};
use tests::{Backend, World, api};

/// Go's `TestCreatesDeployment`: a Foo without a Deployment gets one, and a status.
#[apply(both)]
#[tokio::test]
async fn test_creates_deployment(#[case] backend: Backend) {
    let world = World::builder(backend).no_kubelet().start().await;
    let foo = world.create(&foo("test", "test-deployment")).await;
    let made = world.until_deployment("test-deployment", "there", |_| true).await;
    assert_eq!(at(&made, "/spec/replicas"), 1);
    assert_eq!(at(&made, "/metadata/ownerReferences/0/uid"), at(&foo, "/metadata/uid"));
    world
        .api
        .until(&world.foo_path("test"), "written", |foo| at(foo, "/status/availableReplicas") == 0)
        .await;
    world.until_quiet().await;
    assert_eq!(world.writes_of("deployments").len(), 1);
    assert_eq!(world.writes_of("foos").len(), 1);
}

/// Go's `TestDoNothing`: a Foo whose Deployment is as it should be causes no write to it.
#[apply(both)]
#[tokio::test]
async fn test_do_nothing(#[case] backend: Backend) {
    let mut world = World::start(backend).await;
    world.create(&foo("test", "test-deployment")).await;
    world.until_ready("test").await;
    world.until_quiet().await;
    world.stop_controller().await;
    world.proxy.clear();
    world.start_controller().await;
    api::until("the Foo was looked at", async || world.guest_calls() >= 1).await;
    world.until_quiet().await;
    assert_eq!(world.writes(), []);
}

/// Go's `TestUpdateDeployment`: the Foo's replicas become the Deployment's, and only they change.
#[apply(both)]
#[tokio::test]
async fn test_update_deployment(#[case] backend: Backend) {
    let world = World::start(backend).await;
    world.create(&foo("test", "test-deployment")).await;
    let before = world.until_ready("test").await;
    let made = world.until_deployment("test-deployment", "there", |_| true).await;
    world.change("test", serde_json::json!({"spec": {"replicas": 2}})).await;
    let changed = world.until_deployment("test-deployment", "scaled", |d| at(d, "/spec/replicas") == 2).await;
    assert_eq!(generation(&changed), generation(&made) + 1);
    assert_eq!(at(&changed, "/spec/template"), at(&made, "/spec/template"));
    let after = world.until_ready("test").await;
    assert_eq!(generation(&after), generation(&before) + 1);
    world
        .api
        .until(&world.foo_path("test"), "available", |foo| at(foo, "/status/availableReplicas") == 2)
        .await;
}

/// Go's `TestNotControlledByUs`: a Deployment of that name which the Foo does not control is left alone.
#[apply(both)]
#[tokio::test]
async fn test_not_controlled_by_us(#[case] backend: Backend) {
    let world = World::builder(backend).no_kubelet().start().await;
    let theirs = world.api.create(&world.deployment_path(""), &deployment("taken")).await;
    world.create(&foo("test", "taken")).await;
    let event = world.until_event("test", "ErrResourceExists").await;
    assert_eq!(event["type"], "Warning");
    assert_eq!(event["message"], r#"Resource "taken" already exists and is not managed by Foo"#);
    let foo = world
        .api
        .until(&world.foo_path("test"), "told", |foo| condition(foo, "Ready")["status"] == "False")
        .await;
    assert_eq!(condition(&foo, "Ready")["reason"], "ErrResourceExists");
    assert_eq!(world.writes_of("deployments"), []);
    assert_eq!(world.api.get(&world.deployment_path("taken")).await, Some(theirs));
}
