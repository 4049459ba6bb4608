//! What guests do wrong, seen from the cluster: each failure has its reason, its words, and hurts nobody else.

use crate::both;
use rstest_reuse::apply;
use serde_json::json;
use tests::objects::{at, condition, foo, scripted};
use tests::{Backend, World, api, guests};

async fn failing(backend: Backend) -> World {
    // Small limits, so that a test of a limit is quick.
    let limits = ["--guest-fuel", "20000000", "--guest-memory", "4Mi", "--guest-result", "64Ki"];
    World::builder(backend).guest(&guests::scripted()).flags(&limits).start().await
}

async fn told(world: &World, deed: &str, reason: &str) -> String {
    world.create(&scripted(deed, &format!("web-{deed}"), &[("do", deed)])).await;
    let event = world.until_event(deed, reason).await;
    let foo = world
        .api
        .until(&world.foo_path(deed), "told", |foo| condition(foo, "Ready")["reason"] == reason)
        .await;
    assert_eq!(condition(&foo, "Ready")["message"], event["message"], "condition and Event say the same");
    assert!(world.metric(&format!("foo_host_reconcile_failures_total{{reason=\"{reason}\"}}")) >= 1.0);
    event["message"].as_str().unwrap_or_default().to_owned()
}

#[apply(both)]
#[tokio::test]
async fn case_44_a_guest_that_panics_for_one_foo_serves_the_others(#[case] backend: Backend) {
    let world = failing(backend).await;
    let message = told(&world, "panic", "GuestTrapped").await;
    assert!(message.contains("scripted panic"), "{message}");
    for number in 0..9 {
        world.create(&foo(&format!("good{number}"), &format!("web{number}"))).await;
    }
    for number in 0..9 {
        world.until_ready(&format!("good{number}")).await;
    }
    world.change("panic", json!({"metadata": {"annotations": {"script/do": null}}})).await;
    world.until_ready("panic").await;
}

#[apply(both)]
#[tokio::test]
async fn an_endless_loop_runs_out_of_fuel(#[case] backend: Backend) {
    let message = told(&failing(backend).await, "loop", "FuelExhausted").await;
    assert!(message.contains("20000000"), "{message}");
}

#[apply(both)]
#[tokio::test]
async fn an_endless_loop_with_much_fuel_passes_its_deadline_and_others_go_on(#[case] backend: Backend) {
    let flags = ["--guest-fuel", "1000000000000", "--guest-timeout", "200ms"];
    let world = World::builder(backend).guest(&guests::scripted()).flags(&flags).start().await;
    world.create(&scripted("loop", "web-loop", &[("do", "loop")])).await;
    world.create(&foo("good", "web")).await;
    world.until_ready("good").await;
    let event = world.until_event("loop", "DeadlineExceeded").await;
    assert!(event["message"].as_str().is_some_and(|message| message.contains("0.2 s")), "{event}");
}

#[apply(both)]
#[tokio::test]
async fn case_48_recursion_without_end_overflows_the_stack_only(#[case] backend: Backend) {
    let world = failing(backend).await;
    // The guest's own stack (64 KiB of linear memory) or the native one: which ends first is the compiler's choice.
    for deed in ["recurse", "recurse-and-log"] {
        world.create(&scripted(deed, &format!("web-{deed}"), &[("do", deed)])).await;
        let foo = world
            .api
            .until(&world.foo_path(deed), "told", |foo| {
                let reason = condition(foo, "Ready")["reason"].as_str().unwrap_or_default().to_owned();
                ["StackOverflow", "GuestTrapped", "FuelExhausted"].contains(&reason.as_str())
            })
            .await;
        assert_eq!(condition(&foo, "Ready")["status"], "False");
    }
    world.create(&foo("good", "web")).await;
    world.until_ready("good").await;
}

#[apply(both)]
#[tokio::test]
async fn case_49_growing_memory_is_refused_and_the_error_says_so(#[case] backend: Backend) {
    let message = told(&failing(backend).await, "grow", "MemoryLimitExceeded").await;
    assert!(message.contains("memory limit of 4194304 bytes"), "{message}");
}

#[apply(both)]
#[tokio::test]
async fn case_50_an_answer_too_large_or_of_too_many_actions_is_refused_and_nothing_applied(
    #[case] backend: Backend,
) {
    let world = World::builder(backend).guest(&guests::scripted()).start().await;
    for deed in ["big", "many"] {
        told(&world, deed, "AnswerTooLarge").await;
    }
    assert_eq!(world.writes_of("deployments"), []);
}

#[apply(both)]
#[tokio::test]
async fn a_guest_that_floods_the_log_still_answers(#[case] backend: Backend) {
    let world = World::builder(backend).guest(&guests::scripted()).start().await;
    world.create(&scripted("a", "web", &[("do", "log")])).await;
    world.until_ready("a").await;
    assert!(world.metric("foo_host_guest_log_dropped_total") > 1_000.0);
}

#[apply(both)]
#[tokio::test]
async fn a_permanent_error_is_told_at_once_and_not_tried_again(#[case] backend: Backend) {
    let world = World::builder(backend).guest(&guests::scripted()).start().await;
    world.create(&scripted("a", "web", &[("error", "permanent: never")])).await;
    world.until_event("a", "GuestPermanent").await;
    let foo = world
        .api
        .until(&world.foo_path("a"), "stalled", |foo| condition(foo, "Stalled")["status"] == "True")
        .await;
    assert!(condition(&foo, "Reconciling").is_null());
    world.until_quiet().await;
    assert_eq!(world.guest_calls(), 1);
    world.change("a", json!({"metadata": {"annotations": {"script/error": null}}})).await;
    let foo = world.until_ready("a").await;
    assert!(condition(&foo, "Stalled").is_null());
}

#[apply(both)]
#[tokio::test]
async fn a_guest_sets_conditions_of_its_own_and_none_of_the_hosts(#[case] backend: Backend) {
    let world = World::builder(backend).guest(&guests::scripted()).start().await;
    let set = |kind: &str| {
        let condition = json!({"type": kind, "status": "True", "reason": "Because", "message": "m"});
        // The bindings call the field `type_` and the enum's case `True`.
        let condition =
            json!({"type_": condition["type"], "status": "True", "reason": "Because", "message": "m"});
        json!([{"SetStatus": {"available_replicas": 7, "conditions": [condition]}}]).to_string()
    };
    world.create(&scripted("a", "web", &[("answer", &set("Painted"))])).await;
    let foo = world
        .api
        .until(&world.foo_path("a"), "painted", |foo| condition(foo, "Painted")["status"] == "True")
        .await;
    assert_eq!(at(&foo, "/status/availableReplicas"), 7);
    assert_eq!(condition(&foo, "Ready")["reason"], "NoDeployment");
    // No set-status at all: what was set before stays.
    world.change("a", json!({"metadata": {"annotations": {"script/answer": "[]"}}})).await;
    api::until("it ran", async || world.guest_calls() >= 2).await;
    world.until_quiet().await;
    assert!(!condition(&world.api.get(&world.foo_path("a")).await.unwrap_or_default(), "Painted").is_null());
    world.change("a", json!({"metadata": {"annotations": {"script/answer": set("Ready")}}})).await;
    world.until_event("a", "InvalidAnswer").await;
}

#[apply(both)]
#[tokio::test]
async fn requeue_after_calls_the_guest_again_though_nothing_changed(#[case] backend: Backend) {
    let world = World::builder(backend).guest(&guests::scripted()).start().await;
    world.create(&scripted("a", "web", &[("answer", r#"[{"RequeueAfter": 1}]"#)])).await;
    api::until("three calls", async || world.guest_calls() >= 3).await;
    let requeued =
        world.metric("controller_runtime_reconcile_total{controller=\"foo\",result=\"requeue_after\"}");
    assert!(requeued >= 2.0);
}

#[apply(both)]
#[tokio::test]
async fn delete_deployment_deletes_what_the_foo_controls(#[case] backend: Backend) {
    let world = World::builder(backend).guest(&guests::scripted()).start().await;
    world.create(&scripted("a", "web", &[])).await;
    world.until_ready("a").await;
    world
        .change("a", json!({"metadata": {"annotations": {"script/answer": r#"["DeleteDeployment"]"#}}}))
        .await;
    world.api.until_gone(&world.deployment_path("web")).await;
    let foo = world.until_ready("a").await;
    assert_eq!(condition(&foo, "Ready")["reason"], "NoDeployment");
}

#[apply(both)]
#[tokio::test]
async fn contradicting_actions_are_refused_whole(#[case] backend: Backend) {
    let world = World::builder(backend).guest(&guests::scripted()).start().await;
    let both = r#"[{"ApplyDeployment": "{}"}, "DeleteDeployment"]"#;
    world.create(&scripted("a", "web", &[("answer", both)])).await;
    world.until_event("a", "InvalidAnswer").await;
    assert_eq!(world.writes_of("deployments"), []);
}

#[apply(both)]
#[tokio::test]
async fn parameters_reach_the_guest_and_their_digest_the_status(#[case] backend: Backend) {
    let world = World::builder(backend).flags(&["--guest-param", "k=v"]).start().await;
    world.create(&foo("a", "web")).await;
    let foo = world.until_ready("a").await;
    assert!(
        at(&foo, "/status/guest/parametersDigest")
            .as_str()
            .is_some_and(|digest| digest.starts_with("sha256:"))
    );
}

/// Acceptance 1: each of the three builds of the default guest brings the example to `Synced`.
#[apply(both)]
#[tokio::test]
async fn each_of_the_three_builds_syncs_the_example(#[case] backend: Backend) {
    for way in guests::Way::ALL {
        let Some(built) = way.build() else { return };
        let world = World::builder(backend).guest(&built).start().await;
        world.create(&foo("example-foo", "example-foo")).await;
        let synced = world.until_ready("example-foo").await;
        assert_eq!(at(&synced, "/status/availableReplicas"), 1, "{way:?}");
        assert_eq!(world.until_event("example-foo", "Synced").await["count"], 1, "{way:?}");
    }
}
