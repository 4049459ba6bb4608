//! Field reports, by number (`cases.md`). Those that a crate decides alone are tested there: 7 and 9 in the
//! recorder, 10 in the cache, 21, 22 and 25 in the work queue, 26, 46, 48 and 55 in the engine.

use crate::both;
use fault_proxy::{Match, Verb};
use rstest_reuse::apply;
use serde_json::{Value, json};
use tests::objects::{at, condition, foo, generation, ready, scripted};
use tests::{Backend, Crd, World, api, guests};

#[apply(both)]
#[tokio::test]
async fn case_01_a_crd_without_status_subresource_deployments_are_served_and_no_status_is_written(
    #[case] backend: Backend,
) {
    let world = World::builder(backend).crd(Crd::Upstream).flags(&["--resync", "1s"]).start().await;
    world.create(&foo("a", "web")).await;
    world.until_deployment("web", "available", |d| at(d, "/status/availableReplicas") == 1).await;
    let calls = world.guest_calls();
    api::until("two resyncs", async || world.guest_calls() >= calls + 2).await;
    world.until_quiet().await;
    let foo_writes = world.writes_of("foos");
    assert!(foo_writes.iter().all(|write| write.subresource == "status"), "no whole-object write");
    assert!(foo_writes.len() <= 1, "no loop: {foo_writes:#?}");
    assert!(at(&world.api.get(&world.foo_path("a")).await.unwrap_or_default(), "/status").is_null());
    world.change("a", json!({"spec": {"replicas": 2}})).await;
    world.until_deployment("web", "scaled", |d| at(d, "/spec/replicas") == 2).await;
    // Ours over theirs: the status appears without a restart.
    world.install(Crd::Ours).await;
    world.until_ready("a").await;
}

#[apply(both)]
#[tokio::test]
async fn case_01_upstreams_crd_with_status_gets_what_its_schema_takes_and_nothing_loops(
    #[case] backend: Backend,
) {
    let world = World::builder(backend).crd(Crd::UpstreamWithStatus).flags(&["--resync", "1s"]).start().await;
    world.create(&foo("a", "web")).await;
    world.api.until(&world.foo_path("a"), "counted", |foo| at(foo, "/status/availableReplicas") == 1).await;
    world.until_quiet().await;
    world.proxy.clear();
    let calls = world.guest_calls();
    api::until("two resyncs", async || world.guest_calls() >= calls + 2).await;
    assert_eq!(world.writes(), []);
    let foo = world.api.get(&world.foo_path("a")).await.unwrap_or_default();
    assert_eq!(at(&foo, "/status"), &json!({"availableReplicas": 1}));
}

#[apply(both)]
#[tokio::test]
async fn case_03_a_converged_foo_writes_nothing_and_calls_the_guest_at_resyncs_only(
    #[case] backend: Backend,
) {
    let world = World::start(backend).await;
    world.create(&foo("a", "web")).await;
    world.until_ready("a").await;
    world.until_quiet().await;
    world.proxy.clear();
    let calls = world.guest_calls();
    // The resync is an hour away: whatever comes now has no cause.
    world.until_quiet().await;
    assert_eq!((world.guest_calls(), world.writes()), (calls, vec![]));
}

#[apply(both)]
#[tokio::test]
async fn case_04_server_defaults_are_no_drift_and_a_field_left_out_is_gone_with_one_change_of_generation(
    #[case] backend: Backend,
) {
    let world = World::builder(backend).guest(&guests::scripted()).start().await;
    let manifest = |extra: Value| {
        let mut spec = json!({
            "selector": {"matchLabels": {"x": "y"}},
            "template": {
                "metadata": {"labels": {"x": "y"}},
                "spec": {"containers": [{
                    "name": "c", "image": "i:1", "resources": {"limits": {"cpu": "1000m", "memory": "1024Mi"}},
                    "ports": [{"containerPort": 80}],
                }]},
            },
        });
        if let (Some(spec), Some(extra)) = (spec.as_object_mut(), extra.as_object()) {
            spec.extend(extra.clone());
        }
        json!([{"ApplyDeployment": json!({"spec": spec}).to_string()}]).to_string()
    };
    let with = manifest(json!({"revisionHistoryLimit": 3}));
    world.create(&scripted("a", "web", &[("answer", &with)])).await;
    world.until_ready("a").await;
    for round in 0..10 {
        let calls = world.guest_calls();
        world.change("a", json!({"metadata": {"annotations": {"round": round.to_string()}}})).await;
        api::until("it ran", async || world.guest_calls() > calls).await;
    }
    world.until_quiet().await;
    let before = world.until_deployment("web", "there", |_| true).await;
    assert_eq!((generation(&before), at(&before, "/spec/revisionHistoryLimit")), (1, &json!(3)));
    world.proxy.clear();
    // Left out: gone. Two requests the first time (adopt, apply), one later.
    for (limit, requests) in [(None, 2), (Some(5), 1), (None, 1)] {
        let answer = manifest(limit.map_or(json!({}), |limit| json!({"revisionHistoryLimit": limit})));
        let before = generation(&world.until_deployment("web", "there", |_| true).await);
        world.change("a", json!({"metadata": {"annotations": {"script/answer": answer}}})).await;
        let wanted = json!(limit.unwrap_or(10));
        let after = world
            .until_deployment("web", "changed", |d| at(d, "/spec/revisionHistoryLimit") == &wanted)
            .await;
        world.until_quiet().await;
        assert_eq!(generation(&after), before + 1);
        assert_eq!(world.writes_of("deployments").len(), requests, "{:#?}", world.writes_of("deployments"));
        world.proxy.clear();
    }
}

#[apply(both)]
#[tokio::test]
async fn case_06_a_foo_that_always_fails_is_told_in_few_events(#[case] backend: Backend) {
    let world = World::builder(backend).guest(&guests::scripted()).start().await;
    world.create(&scripted("a", "web", &[("error", "retry: no luck")])).await;
    world.until_event("a", "GuestRetry").await;
    api::until("twelve attempts", async || world.guest_calls() >= 12).await;
    assert!(world.events("a").await.len() <= 5);
    let foo = world
        .api
        .until(&world.foo_path("a"), "told", |foo| condition(foo, "Ready")["reason"] == "GuestRetry")
        .await;
    assert_eq!(condition(&foo, "Reconciling")["status"], "True");
    assert!(condition(&foo, "Ready")["message"].as_str().is_some_and(|message| message.contains("no luck")));
    // A change of the Foo runs at once, past the backoff.
    world.change("a", json!({"metadata": {"annotations": {"script/error": null}}})).await;
    world.until_ready("a").await;
}

#[apply(both)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_10_a_watch_that_expires_is_listed_again_and_unchanged_foos_run_at_most_once_more(
    #[case] backend: Backend,
) {
    let world = World::builder(backend).alone().start().await;
    for number in 0..5 {
        world.create(&foo(&format!("a{number}"), &format!("web{number}"))).await;
    }
    for number in 0..5 {
        world.until_ready(&format!("a{number}")).await;
    }
    world.until_quiet().await;
    let calls = world.guest_calls();
    world.forget_the_past().await;
    // The server itself says so, in the stream or in place of it.
    api::until("both watches expire", async || {
        ["foos", "deployments"].into_iter().all(|resource| {
            let watch = Match::verb(Verb::Watch).resource(resource);
            let events = world.proxy.events();
            let mut expired = events.iter().filter(|event| at(&event.object, "/code") == 410);
            expired.any(|event| event.resource == resource)
                || world.proxy.count(&watch.when(|watch| watch.status == Some(410))) > 0
        })
    })
    .await;
    world.create(&foo("late", "web-late")).await;
    world.until_ready("late").await;
    world.until_quiet().await;
    assert!(world.guest_calls() - calls <= 5 + 4, "{} calls", world.guest_calls() - calls);
}

#[apply(both)]
#[tokio::test]
async fn case_12_one_foo_that_cannot_be_read_does_not_stop_the_others(#[case] backend: Backend) {
    let world = World::builder(backend).crd(Crd::Lenient).start().await;
    let mut odd = foo("odd", "x");
    odd["spec"]["deploymentName"] = json!(["a", "list"]);
    world.create(&odd).await;
    for number in 0..20 {
        world.create(&foo(&format!("good{number}"), &format!("web{number}"))).await;
    }
    for number in 0..20 {
        world.until_ready(&format!("good{number}")).await;
    }
    world.until_event("odd", "InvalidSpec").await;
    assert_eq!(world.events("odd").await.len(), 1);
    world.change("odd", json!({"spec": {"deploymentName": "mended"}})).await;
    world.until_ready("odd").await;
}

#[apply(both)]
#[tokio::test]
async fn case_18_a_crd_that_comes_later_is_served_without_a_restart(#[case] backend: Backend) {
    let world = World::builder(backend).crd(Crd::None).start().await;
    let address = world.controller.as_ref().expect("runs").address;
    let health = api::Api::new(&format!("http://{address}"));
    api::until("not ready, and it says why", async || {
        health.text("/readyz?verbose").await.is_some_and(|(code, text)| code == 500 && text.contains("CRD"))
    })
    .await;
    assert_eq!(health.text("/livez").await.map(|(code, _)| code), Some(200));
    world.install(Crd::Ours).await;
    world.create(&foo("a", "web")).await;
    world.until_ready("a").await;
    assert_eq!(health.text("/readyz").await, Some((200, "ok".into())));
}

/// More Foos than the workers serve at once. On the plane fewer: each of their Deployments is work for its
/// controllers too, and the host does the same with either number.
fn many(backend: Backend) -> impl ExactSizeIterator<Item = Value> {
    let foos = if backend == Backend::Memory { 1_000 } else { 200 };
    (0..foos).map(|number: u16| foo(&format!("a{number:04}"), &format!("web{number:04}")))
}

#[apply(both)]
#[tokio::test]
async fn case_21_a_new_foo_overtakes_the_many_of_the_start(#[case] backend: Backend) {
    let mut world = World::builder(backend).no_controller().no_kubelet().start().await;
    world.seed(many(backend)).await;
    let creates = || Match::verb(Verb::Create).resource("deployments");
    // Both workers are busy with the first two, until the new one is queued behind the others.
    let busy = world.proxy.hold(creates().times(2));
    world.start_controller().await;
    let in_flight = [busy.arrived().await, busy.arrived().await];
    world.create(&foo("new", "web-new")).await;
    let queued = "workqueue_depth{name=\"foo\",priority=\"change\"}";
    api::until("it is queued", async || world.metric(queued) > 0.5).await;
    for create in in_flight {
        create.forward();
    }
    let new = world.proxy.seen(creates().name("web-new"), 1).await.remove(0);
    let earlier = world.proxy.count(&creates().when(move |create| create.number < new.number));
    assert!(earlier <= 3, "{earlier} of the start came before it");
}

#[apply(both)]
#[tokio::test]
async fn case_27_many_converged_foos_resync_without_a_write_and_a_new_one_is_served(
    #[case] backend: Backend,
) {
    // Alone: what so many Deployments cost the controllers is not the next test's.
    let builder = World::builder(backend).alone().no_controller().flags(&["--resync", "10s"]);
    let mut world = builder.start().await;
    let many = many(backend);
    let foos = many.len() as u64;
    world.seed(many).await;
    world.start_controller().await;
    api::until("all are ready", async || world.api.list(&world.foo_path("")).await.iter().all(ready)).await;
    world.until_quiet().await;
    world.proxy.clear();
    let calls = world.guest_calls();
    // Acceptance 4: zero writes in three resync periods.
    api::until("three resyncs", async || world.guest_calls() >= calls + 3 * foos).await;
    world.until_quiet().await;
    assert_eq!(world.writes(), []);
    assert_eq!((world.guest_calls() - calls) % foos, 0, "calls between resyncs");
    world.create(&foo("new", "web-new")).await;
    world.until_deployment("web-new", "there", |_| true).await;
}

#[apply(both)]
#[tokio::test]
async fn case_28_a_rename_waits_until_the_new_one_is_available_and_keeps_the_old_if_the_name_is_foreign(
    #[case] backend: Backend,
) {
    let world = World::builder(backend).no_kubelet().start().await;
    world.create(&foo("a", "web-a")).await;
    world.until_deployment("web-a", "there", |_| true).await;
    world.change("a", json!({"spec": {"deploymentName": "web-b"}})).await;
    world.until_deployment("web-b", "there", |_| true).await;
    let told = world
        .api
        .until(&world.foo_path("a"), "told", |foo| {
            condition(foo, "Reconciling")["message"].as_str().is_some_and(|text| text.contains("web-a"))
        })
        .await;
    assert_eq!(condition(&told, "Ready")["status"], "False");
    world.until_quiet().await;
    assert!(
        world.api.get(&world.deployment_path("web-a")).await.is_some(),
        "both stay until the new one is available"
    );
    // And a name that is somebody else's.
    world.api.create(&world.deployment_path(""), &tests::deployment("theirs")).await;
    world.change("a", json!({"spec": {"deploymentName": "theirs"}})).await;
    world.until_event("a", "ErrResourceExists").await;
    world.until_quiet().await;
    for name in ["web-a", "web-b", "theirs"] {
        assert!(world.api.get(&world.deployment_path(name)).await.is_some(), "{name} is gone");
    }
}

#[apply(both)]
#[tokio::test]
async fn case_29_unowned_owned_by_another_and_by_a_stale_uid_are_left_alone(#[case] backend: Backend) {
    let world = World::builder(backend).no_garbage_collector().start().await;
    let mut of_stale = tests::deployment("stale");
    of_stale["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "samplecontroller.k8s.io/v1alpha1", "kind": "Foo", "name": "c",
        "uid": "00000000-0000-0000-0000-000000000000", "controller": true, "blockOwnerDeletion": true,
    }]);
    world.api.create(&world.deployment_path(""), &tests::deployment("unowned")).await;
    world.api.create(&world.deployment_path(""), &of_stale).await;
    world.create(&foo("first", "shared")).await;
    world.until_ready("first").await;
    world.until_quiet().await;
    world.proxy.clear();
    for (name, wants) in [("a", "unowned"), ("b", "shared"), ("c", "stale")] {
        world.create(&foo(name, wants)).await;
        world.until_event(name, "ErrResourceExists").await;
    }
    world.until_quiet().await;
    assert_eq!(world.writes_of("deployments"), []);
    for name in ["a", "b", "c"] {
        let events = world.events(name).await;
        assert_eq!((events.len(), &events[0]["count"]), (1, &json!(1)), "{events:#?}");
    }
    assert!(ready(&world.api.get(&world.foo_path("first")).await.unwrap_or_default()), "the first keeps it");
}

#[apply(both)]
#[tokio::test]
async fn case_31_a_foreign_deployment_that_the_cache_has_not_seen_is_found_before_anything_is_written(
    #[case] backend: Backend,
) {
    let world = World::start(backend).await;
    // Seen, but of no interest then: the cache has no more than its name.
    world.api.create(&world.deployment_path(""), &tests::deployment("web")).await;
    world.create(&foo("probe", "web-probe")).await;
    world.until_ready("probe").await;
    world.until_quiet().await;
    world.proxy.clear();
    world.create(&foo("a", "web")).await;
    world.until_event("a", "ErrResourceExists").await;
    assert_eq!(world.writes_of("deployments"), []);
}

#[apply(both)]
#[tokio::test]
async fn case_32_a_foo_that_is_annotated_all_the_time_converges_and_keeps_its_annotations(
    #[case] backend: Backend,
) {
    let world = World::start(backend).await;
    world.create(&foo("a", "web")).await;
    for round in 0..40 {
        world.change("a", json!({"metadata": {"annotations": {format!("round-{round}"): "x"}}})).await;
        tokio::time::sleep(api::PAUSE).await;
    }
    let foo = world.until_ready("a").await;
    assert_eq!(at(&foo, "/metadata/annotations").as_object().map(serde_json::Map::len), Some(40));
    assert!(world.events("a").await.iter().all(|event| event["type"] == "Normal"));
}

#[apply(both)]
#[tokio::test]
async fn case_34_names_that_kubernetes_takes_work_and_the_others_are_told_once(#[case] backend: Backend) {
    let world = World::builder(backend).crd(Crd::Lenient).start().await;
    let long = |length: usize| "x".repeat(length);
    // 253 characters are a Deployment's name; its pods' names are the deployment controller's care.
    for (name, wants) in [("a63", long(63)), ("a64", long(64)), ("a253", long(253))] {
        world.create(&foo(name, &wants)).await;
        world.until_ready(name).await;
    }
    for name in [long(63), "y".repeat(64)] {
        world.create(&foo(&name, &format!("web-{}", name.len()))).await;
        world.until_ready(&name).await;
        let made = world.until_deployment(&format!("web-{}", name.len()), "there", |_| true).await;
        let label =
            at(&made, "/spec/template/metadata/labels/controller").as_str().unwrap_or_default().to_owned();
        assert!(label.len() <= 63 && (name.len() > 63 || label == name), "{label}");
    }
    for (name, wants) in
        [("b1", long(254)), ("b2", String::new()), ("b3", "A_b".into()), ("b4", "a/b".into())]
    {
        world.create(&foo(name, &wants)).await;
        world.until_event(name, "InvalidSpec").await;
        let told = world
            .api
            .until(&world.foo_path(name), "stalled", |foo| condition(foo, "Stalled")["status"] == "True")
            .await;
        assert_eq!(condition(&told, "Ready")["status"], "False");
    }
    world.until_quiet().await;
    let events = world.api.list(&world.events_path()).await;
    let told =
        events.iter().filter(|event| event["reason"] == "InvalidSpec").map(|event| event["count"].clone());
    assert_eq!(told.collect::<Vec<_>>(), [1, 1, 1, 1]);
}

#[apply(both)]
#[tokio::test]
async fn case_36_and_30_a_manifest_that_reaches_beyond_the_foo_is_refused_before_any_write(
    #[case] backend: Backend,
) {
    let world = World::builder(backend).guest(&guests::scripted()).start().await;
    for (name, metadata, said) in [
        ("a", json!({"namespace": "kube-system"}), "namespace"),
        ("b", json!({"name": "other"}), "name"),
        ("c", json!({"generateName": "web-"}), "generateName"),
        ("d", json!({"ownerReferences": []}), "ownerReferences"),
        ("e", json!({"finalizers": ["x/y"]}), "finalizers"),
    ] {
        let answer =
            json!([{"ApplyDeployment": json!({"metadata": metadata, "spec": {}}).to_string()}]).to_string();
        world.create(&scripted(name, &format!("web-{name}"), &[("answer", &answer)])).await;
        let event = world.until_event(name, "InvalidAnswer").await;
        assert!(event["message"].as_str().is_some_and(|message| message.contains(said)), "{event}");
    }
    world.until_quiet().await;
    assert_eq!(world.writes_of("deployments"), []);
}

#[apply(both)]
#[tokio::test]
async fn case_58_a_broken_guest_alive_not_ready_and_mended_without_a_restart(#[case] backend: Backend) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("guest.wasm");
    std::fs::write(&path, b"no wasm").expect("written");
    let world = World::builder(backend).guest(&path).start().await;
    let address = world.controller.as_ref().expect("runs").address;
    let health = api::Api::new(&format!("http://{address}"));
    api::until("it says what is wrong", async || {
        health
            .text("/readyz")
            .await
            .is_some_and(|(code, text)| code == 500 && text.contains("not a WebAssembly file"))
    })
    .await;
    assert_eq!(health.text("/healthz").await.map(|(code, _)| code), Some(200));
    let new = directory.path().join("new");
    std::fs::copy(guests::built_in(), &new).expect("copied");
    std::fs::rename(&new, &path).expect("renamed");
    world.create(&foo("a", "web")).await;
    world.until_ready("a").await;
}
