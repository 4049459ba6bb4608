//! Field reports about lists and watches that end, are refused, or fall silent.

use super::{count, until_synced, watch};
use crate::both;
use fault_proxy::{Answer, Ending, Fault, Match, Verb};
use host::client::Timeouts;
use rstest_reuse::apply;
use serde_json::json;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tests::objects::{at, foo};
use tests::{Backend, Crd, Logs, World, api};

/// Ends a watch; the controller may be about to open it.
async fn end_watch(world: &World, resource: &str, ending: &Ending) {
    let watch = watch(resource);
    api::until(&format!("{watch} is open"), async || world.proxy.end_watches(&watch, ending) == 1).await;
}

#[apply(both)]
#[tokio::test]
async fn case_10_an_error_410_in_the_stream_and_another_on_reconnect_lead_to_lists_and_nothing_else(
    #[case] backend: Backend,
) {
    let world = World::start(backend).await;
    for number in 0..5 {
        world.create(&foo(&format!("a{number}"), &format!("web{number}"))).await;
    }
    for number in 0..5 {
        world.until_ready(&format!("a{number}")).await;
    }
    world.until_quiet().await;
    world.proxy.clear();
    let calls = world.guest_calls();
    for resource in ["foos", "deployments"] {
        let refused = world.proxy.rule(watch(resource).times(1), Fault::Answer(Answer::gone()));
        end_watch(&world, resource, &Ending::ErrorEvent(Answer::gone())).await;
        refused.hit(1).await;
        world.proxy.seen(Match::verb(Verb::List).resource(resource), 2).await;
        world.proxy.seen(watch(resource), 2).await;
    }
    world.until_quiet().await;
    assert!(world.guest_calls() - calls <= 5, "{} calls for 5 unchanged Foos", world.guest_calls() - calls);
    assert_eq!(world.writes(), []);
    world.create(&foo("late", "web-late")).await;
    world.until_ready("late").await;
}

#[apply(both)]
#[tokio::test]
async fn case_14_a_black_hole_calls_fail_the_watch_heals_itself_and_an_edit_meanwhile_is_served(
    #[case] backend: Backend,
) {
    let logs = Logs::start();
    // The report's minutes, in seconds; the defaults have a test of their own.
    let (request, answer) = (Duration::from_secs(2), Duration::from_secs(3));
    let timeouts = Timeouts { request, answer, watch_seconds: 2 };
    let world = World::builder(backend).timeouts(timeouts).start().await;
    world.create(&foo("a", "web")).await;
    world.until_ready("a").await;
    world.until_quiet().await;
    let calls = world.proxy.hold(Match::verb(Verb::Patch).resource("deployments").times(1));
    world.change("a", json!({"spec": {"replicas": 2}})).await;
    let call = calls.arrived().await;
    world.proxy.black_hole(true);
    world.change("a", json!({"spec": {"replicas": 3}})).await;
    let failed = ["Deployment web", "no answer from the API server within 2 s"];
    api::until("the call fails", async || !logs.lines(&failed).is_empty()).await;
    assert_eq!(world.health().text("/livez").await.map(|(code, _)| code), Some(200));
    // What fell into the hole stays there: watches that were open are not closed now.
    world.proxy.black_hole(false);
    call.close();
    world.until_deployment("web", "as edited meanwhile", |d| at(d, "/spec/replicas") == 3).await;
    world.until_ready("a").await;
}

#[test]
fn case_14_the_defaults_end_a_call_within_30_s_and_find_a_dead_watch_within_a_minute() {
    let Timeouts { request, answer, watch_seconds } = Timeouts::default();
    assert!(request <= Duration::from_secs(30) && answer <= Duration::from_secs(30));
    assert!(watch_seconds + 5 <= 60);
}

#[apply(both)]
#[tokio::test]
async fn case_16_a_list_that_expires_at_its_third_page_begins_again_and_all_foos_are_served(
    #[case] backend: Backend,
) {
    let mut world = World::builder(backend).no_controller().no_kubelet().start().await;
    let names = || (0..250).map(|number| format!("a{number:03}"));
    world.seed(names().map(|name| foo(&name, &format!("web-{name}")))).await;
    let next_page = |resource: &str| {
        Match::verb(Verb::List).resource(resource).when(|list| list.param("continue").is_some())
    };
    let third = world.proxy.hold(next_page("foos").nth(2));
    world.start_controller().await;
    let held = third.arrived().await;
    let token = held.request().param("continue");
    // Newer than the list, so that the list is older than what is kept.
    world.change("a000", json!({"metadata": {"annotations": {"newer": "x"}}})).await;
    let readyz = world.health().text("/readyz").await;
    assert_eq!(readyz.map(|(code, _)| code), Some(500), "two pages are not all");
    if let Some(plane) = world.plane() {
        plane.compact().expect("it compacts");
        held.forward();
    } else {
        // The same token never works again.
        let expired = Match::any().when(move |list| token.is_some() && list.param("continue") == token);
        let _expired = world.proxy.rule(expired, Fault::Answer(Answer::gone()));
        held.answer(Answer::gone());
    }
    api::until("all have their Deployments", async || {
        let made = world.api.list(&world.deployment_path("")).await;
        let made: BTreeSet<_> = made.iter().filter_map(|d| at(d, "/metadata/name").as_str()).collect();
        names().all(|name| made.contains(format!("web-{name}").as_str()))
    })
    .await;
    let requests = world.proxy.requests();
    let expired = requests.iter().find(|request| request.status == Some(410)).expect("a page expired");
    assert_eq!((expired.verb, expired.resource.as_str()), (Verb::List, "foos"));
    let last_page = requests.iter().rfind(|request| next_page("foos").fits(request)).expect("pages");
    let first_write = requests.iter().find(|request| request.is_write()).expect("writes");
    assert!(
        expired.number < last_page.number && last_page.number < first_write.number,
        "work before the end"
    );
    assert_eq!(world.health().text("/readyz").await, Some((200, "ok".into())));
}

#[apply(both)]
#[tokio::test]
async fn case_17_watch_foos_is_lost_and_granted_again_on_an_idle_cluster(#[case] backend: Backend) {
    let timeouts = Timeouts { answer: Duration::from_secs(2), ..Timeouts::default() };
    let world = World::builder(backend).timeouts(timeouts).start().await;
    world.create(&foo("a", "web")).await;
    world.until_ready("a").await;
    let text = "foos.samplecontroller.k8s.io is forbidden: User \"foo-host\" cannot watch resource \"foos\" in API \
                group \"samplecontroller.k8s.io\" at the cluster scope";
    let forbidden = world.proxy.rule(watch("foos"), Fault::Answer(Answer::forbidden(text)));
    end_watch(&world, "foos", &Ending::Close).await;
    api::until("not ready, and it says why", async || {
        let answer = world.health().text("/readyz").await;
        answer.is_some_and(|(code, text)| code == 500 && text.contains("cannot watch resource \"foos\""))
    })
    .await;
    forbidden.hit(2).await;
    assert_eq!(world.health().text("/livez").await.map(|(code, _)| code), Some(200));
    forbidden.lift();
    // Nothing happens in the cluster, so the watch says nothing.
    until_synced(&world).await;
    world.change("a", json!({"spec": {"replicas": 2}})).await;
    world.until_deployment("web", "scaled", |d| at(d, "/spec/replicas") == 2).await;
}

#[apply(both)]
#[tokio::test]
async fn case_18_a_crd_that_is_late_is_asked_for_with_growing_pauses(#[case] backend: Backend) {
    let mut world = World::builder(backend).crd(Crd::None).no_controller().start().await;
    let start = Instant::now();
    world.start_controller().await;
    let lists = Match::verb(Verb::List).resource("foos");
    world.proxy.seen(lists.clone(), 6).await;
    // 0.25 s, then twice as long each time.
    assert!(start.elapsed() >= Duration::from_millis(250 * 31), "{:?} for six attempts", start.elapsed());
    assert_eq!(count(&world, &Match::writes()), 0);
    let answer = world.health().text("/readyz").await;
    assert!(answer.is_some_and(|(code, text)| code == 500 && text.contains("the CRD is not installed")));
    assert_eq!(world.health().text("/livez").await.map(|(code, _)| code), Some(200));
    world.install(Crd::Ours).await;
    world.create(&foo("a", "web")).await;
    world.until_ready("a").await;
}

#[apply(both)]
#[tokio::test]
async fn case_43_retry_after_on_a_watch_it_is_not_opened_before_and_goes_on(#[case] backend: Backend) {
    let mut world = World::start(backend).await;
    world.create(&foo("a", "web")).await;
    world.until_ready("a").await;
    world.proxy.clear();
    let busy = world.proxy.rule(watch("foos").times(1), Fault::Answer(Answer::too_many(3)));
    let start = Instant::now();
    end_watch(&world, "foos", &Ending::Close).await;
    busy.hit(1).await;
    world.proxy.seen(watch("foos"), 2).await;
    assert!(start.elapsed() >= Duration::from_secs(3), "{:?}", start.elapsed());
    world.change("a", json!({"spec": {"replicas": 2}})).await;
    world.until_deployment("web", "scaled", |d| at(d, "/spec/replicas") == 2).await;
    world.stop_controller().await;
}
