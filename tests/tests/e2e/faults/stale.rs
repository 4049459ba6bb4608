//! Field reports about a cache that is behind, and about writes that meet other writes.

use super::{count, creates, no_warning, until_synced};
use crate::both;
use fault_proxy::{Answer, EventType, Events, Fault, Match, Verb};
use rstest_reuse::apply;
use serde_json::json;
use std::time::{Duration, Instant};
use tests::objects::{at, condition, foo, generation};
use tests::{Backend, World, api, guests};

#[apply(both)]
#[tokio::test]
async fn case_20_what_is_created_for_a_foo_that_is_gone_unseen_carries_its_uid_and_ends_with_it(
    #[case] backend: Backend,
) {
    let world = World::start(backend).await;
    let uid = at(&world.create(&foo("a", "web")).await, "/metadata/uid").clone();
    world.until_ready("a").await;
    world.until_quiet().await;
    world.proxy.clear();
    let dam = world.proxy.hold_events(Events::of("foos").types([EventType::Deleted]));
    world.api.delete(&world.foo_path("a")).await;
    dam.held_at_least(1).await;
    // The garbage collector takes the Deployment, and the host, which knows no better, makes another.
    world.proxy.seen(creates(), 1).await;
    dam.release();
    api::until("the delete is seen", async || world.metric("foo_host_cached_foos") < 0.5).await;
    world.until_quiet().await;
    let made = world.proxy.seen(creates(), 1).await;
    // A second one, where the first was collected before the host had heard of the delete.
    assert!(made.len() <= 2, "{made:#?}");
    for create in made {
        assert_eq!(at(&create.json(), "/metadata/ownerReferences/0/uid"), &uid);
    }
    world.proxy.clear();
    world.api.until_gone(&world.deployment_path("web")).await;
    world.until_quiet().await;
    assert_eq!(world.writes_of("deployments"), []);
}

#[apply(both)]
#[tokio::test]
async fn case_22_a_childs_status_does_not_bypass_the_backoff_of_a_failing_foo_and_its_own_change_does(
    #[case] backend: Backend,
) {
    let world = World::builder(backend).guest(&guests::scripted()).no_kubelet().start().await;
    world.create(&foo("a", "web")).await;
    world.until_deployment("web", "there", |_| true).await;
    world.until_quiet().await;
    let calls = world.guest_calls();
    world.change("a", json!({"metadata": {"annotations": {"script/error": "retry: no luck"}}})).await;
    // 5 ms, then twice as long each time: now 10 s.
    api::until("twelve failures", async || world.guest_calls() >= calls + 12).await;
    let child_changes = async |offset: u64| {
        let calls = world.guest_calls();
        for round in 0..20 {
            let status = json!({"status": {"observedGeneration": offset + round}});
            world.api.merge(&format!("{}/status", world.deployment_path("web")), &status).await;
        }
        // The cache has them when it has what came after them.
        let seen = json!({"metadata": {"annotations": {"probe": offset.to_string()}}});
        world.api.merge(&world.deployment_path("web"), &seen).await;
        api::until("the last change passed", async || {
            let probe = at(&seen, "/metadata/annotations/probe");
            world.proxy.events().iter().any(|event| at(&event.object, "/metadata/annotations/probe") == probe)
        })
        .await;
        // One, if the machine took the 10 s for it.
        assert!(world.guest_calls() - calls <= 1, "{} calls", world.guest_calls() - calls);
    };
    child_changes(100).await;
    // Each at once: in turn of the backoff they would take minutes.
    for round in 0..5 {
        let calls = world.guest_calls();
        world.change("a", json!({"metadata": {"annotations": {"round": round.to_string()}}})).await;
        api::until("it ran", async || world.guest_calls() > calls).await;
    }
    child_changes(200).await;
    world.change("a", json!({"metadata": {"annotations": {"script/error": null}}})).await;
    world
        .api
        .until(&world.foo_path("a"), "served", |foo| {
            condition(foo, "Ready")["reason"] != "GuestRetry"
                && at(foo, "/status/observedGeneration") == at(foo, "/metadata/generation")
        })
        .await;
}

#[apply(both)]
#[tokio::test]
async fn case_30_a_deployment_watch_that_is_late_ten_runs_make_one_deployment(#[case] backend: Backend) {
    let world = World::start(backend).await;
    until_synced(&world).await;
    let dam = world.proxy.hold_events(Events::of("deployments"));
    world.create(&foo("a", "web")).await;
    dam.held_at_least(1).await;
    for round in 0..10 {
        let calls = world.guest_calls();
        world.change("a", json!({"metadata": {"annotations": {"round": round.to_string()}}})).await;
        api::until("it ran", async || world.guest_calls() > calls).await;
    }
    world.until_quiet().await;
    assert_eq!(world.writes_of("deployments").len(), 1, "{:#?}", world.writes_of("deployments"));
    dam.release();
    world.until_ready("a").await;
    world.until_quiet().await;
    assert_eq!(world.writes_of("deployments").len(), 1);
    no_warning(&world, "a").await;
}

#[apply(both)]
#[tokio::test]
async fn case_31_already_exists_is_answered_by_a_look_and_a_foreign_deployment_is_left_alone(
    #[case] backend: Backend,
) {
    let world = World::start(backend).await;
    until_synced(&world).await;
    let dam = world.proxy.hold_events(Events::of("deployments").name("web"));
    world.api.create(&world.deployment_path(""), &tests::deployment("web")).await;
    dam.held_at_least(1).await;
    world.create(&foo("a", "web")).await;
    world.until_event("a", "ErrResourceExists").await;
    world.until_quiet().await;
    let requests = world.proxy.requests();
    let of_web = requests.iter().filter(|request| request.resource == "deployments" && request.name == "web");
    let of_web: Vec<_> = of_web.map(|request| (request.verb, request.status)).collect();
    assert_eq!(of_web, [(Verb::Create, Some(409)), (Verb::Get, Some(200))]);
    let events = world.events("a").await;
    assert!(events.iter().all(|event| event["reason"] == "ErrResourceExists"), "{events:#?}");
    dam.release();
    world.api.delete(&world.deployment_path("web")).await;
    world.until_ready("a").await;
}

#[apply(both)]
#[tokio::test]
async fn case_31_already_exists_for_what_an_unheard_create_of_ours_made_is_no_failure(
    #[case] backend: Backend,
) {
    let world = World::start(backend).await;
    until_synced(&world).await;
    let dam = world.proxy.hold_events(Events::of("deployments").name("web"));
    let unheard = world.proxy.rule(creates().times(1), Fault::DropAfter);
    world.create(&foo("a", "web")).await;
    unheard.hit(1).await;
    let again = world.proxy.seen(creates(), 2).await;
    world.proxy.seen(Match::verb(Verb::Get).resource("deployments").name("web"), 1).await;
    world.until_quiet().await;
    assert_eq!(again.len(), 2, "{again:#?}");
    assert_eq!(count(&world, &creates()), 2, "it is known to be there");
    dam.release();
    world.until_ready("a").await;
    assert_eq!(generation(&world.until_deployment("web", "there", |_| true).await), 1);
    no_warning(&world, "a").await;
}

#[apply(both)]
#[tokio::test]
async fn case_32_somebody_annotates_the_foo_before_each_write_of_its_status(#[case] backend: Backend) {
    let world = World::start(backend).await;
    let (api, path) = (world.api.clone(), world.foo_path("a"));
    // Each of these finds a version that is no longer the last one.
    let meddling = world.proxy.before(Match::writes().resource("foos/status").times(8), move |status| {
        let (api, path) = (api.clone(), path.clone());
        async move {
            let key = format!("before-{}", status.number);
            api.merge(&path, &json!({"metadata": {"annotations": {key: "x"}}})).await;
        }
    });
    world.create(&foo("a", "web")).await;
    for round in 0..20 {
        let key = format!("round-{round}");
        let change = json!({"metadata": {"annotations": {key: "x"}}, "spec": {"replicas": 1 + round % 2}});
        world.change("a", change).await;
        tokio::time::sleep(api::PAUSE).await;
    }
    meddling.hit(8).await;
    world.until_ready("a").await;
    world.until_quiet().await;
    let conflicts = world.writes_of("foos").iter().filter(|write| write.status == Some(409)).count();
    assert!(conflicts >= 8, "{conflicts} conflicts");
    let foo = world.until_ready("a").await;
    let annotations = at(&foo, "/metadata/annotations").as_object().map(serde_json::Map::len);
    assert_eq!(annotations, Some(20 + 8), "{foo:#}");
    no_warning(&world, "a").await;
}

#[apply(both)]
#[tokio::test]
async fn case_43_retry_after_on_a_write_nothing_is_written_before(#[case] backend: Backend) {
    let world = World::start(backend).await;
    world.create(&foo("a", "web")).await;
    world.until_ready("a").await;
    world.until_quiet().await;
    world.proxy.clear();
    let busy = world.proxy.rule(Match::writes().times(1), Fault::Answer(Answer::too_many(3)));
    let start = Instant::now();
    world.change("a", json!({"spec": {"replicas": 2}})).await;
    busy.hit(1).await;
    world.proxy.seen(Match::writes(), 2).await;
    assert!(start.elapsed() >= Duration::from_secs(3), "{:?}", start.elapsed());
    world.until_deployment("web", "scaled", |d| at(d, "/spec/replicas") == 2).await;
    world.until_ready("a").await;
    no_warning(&world, "a").await;
}
