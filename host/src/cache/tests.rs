use super::{Cache, ChildView, Origin, Seen, Wake};
use crate::key::Key;
use plan::{Kind, Object};
use serde_json::{Value, json};
use std::sync::Arc;

struct Made {
    kind: Kind,
    value: Value,
}

fn foo(name: &str, wants: &str, version: u64) -> Made {
    let value = json!({
        "apiVersion": foo_api::API_VERSION, "kind": "Foo",
        "metadata": {
            "namespace": "ns", "name": name, "uid": format!("uid-{name}"), "generation": 1,
            "resourceVersion": version.to_string(),
        },
        "spec": {"deploymentName": wants},
    });
    Made { kind: Kind::Foo, value }
}

fn deployment(name: &str, owner: &str, version: u64) -> Made {
    let value = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "namespace": "ns", "name": name, "uid": format!("uid-{name}"), "generation": 1,
            "resourceVersion": version.to_string(),
            "ownerReferences": [{
                "apiVersion": foo_api::API_VERSION, "kind": "Foo", "name": owner, "uid": format!("uid-{owner}"),
                "controller": true,
            }],
        },
    });
    Made { kind: Kind::Deployment, value }
}

impl Made {
    fn with(mut self, pointer: &str, value: impl Into<Value>) -> Self {
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        self.value.pointer_mut(parent).unwrap()[field] = value.into();
        self
    }

    fn apply(self, cache: &Cache, origin: Origin) -> Vec<Wake> {
        let wants = self.value.pointer("/spec/deploymentName").and_then(Value::as_str).map(str::to_owned);
        let object = Arc::new(Object::from_value(self.value, self.kind).unwrap());
        match self.kind {
            Kind::Foo => cache.apply_foo(object, wants.as_deref(), origin),
            Kind::Deployment => cache.apply_deployment(Seen::OfFoo(object), origin),
        }
    }
}

fn foreign(cache: &Cache, name: &str, origin: Origin) -> Vec<Wake> {
    cache.apply_deployment(Seen::Foreign { key: key(name), uid: format!("uid-{name}") }, origin)
}

fn key(name: &str) -> Key {
    Key::new("ns", name)
}

fn now(name: &str) -> Vec<Wake> {
    vec![Wake::Now(key(name))]
}

fn child(cache: &Cache, foo: &str) -> ChildView {
    cache.view(&key(foo)).unwrap().child
}

#[test]
fn wake_a_change_of_the_foo_wakes_and_a_change_of_its_status_is_drift() {
    let cache = Cache::default();
    assert_eq!(foo("a", "web", 1).apply(&cache, Origin::List), [Wake::Start(key("a"))]);
    assert_eq!(foo("b", "web-b", 2).apply(&cache, Origin::Watch), now("b"));
    assert_eq!(foo("a", "web", 3).with("/metadata/generation", 2).apply(&cache, Origin::Watch), now("a"));
    let annotated = || {
        foo("a", "web", 4).with("/metadata/generation", 2).with("/metadata/annotations", json!({"x": "y"}))
    };
    assert_eq!(annotated().apply(&cache, Origin::Watch), now("a"));
    let status =
        annotated().with("/metadata/resourceVersion", "5").with("/status", json!({"availableReplicas": 1}));
    assert_eq!(status.apply(&cache, Origin::Watch), [Wake::Drift(key("a"))]);
}

#[test]
fn wake_an_event_about_a_version_that_is_known_or_older_wakes_nobody() {
    let cache = Cache::default();
    foo("a", "web", 5).apply(&cache, Origin::List);
    assert!(foo("a", "web", 5).apply(&cache, Origin::Watch).is_empty());
    assert!(foo("a", "old", 4).apply(&cache, Origin::Watch).is_empty());
    deployment("web", "a", 7).apply(&cache, Origin::Watch);
    assert!(
        deployment("web", "a", 6).with("/metadata/generation", 9).apply(&cache, Origin::Watch).is_empty()
    );
    assert!(matches!(child(&cache, "a"), ChildView::Owned(object) if object.meta.generation == 1));
}

#[test]
fn wake_a_childs_spec_owner_and_deletion_wake_and_its_status_is_drift() {
    let cache = Cache::default();
    foo("a", "web", 1).apply(&cache, Origin::List);
    assert_eq!(deployment("web", "a", 2).apply(&cache, Origin::Watch), now("a"));
    let status = deployment("web", "a", 3).with("/status", json!({"readyReplicas": 1}));
    assert_eq!(status.apply(&cache, Origin::Watch), [Wake::Drift(key("a"))]);
    assert_eq!(
        deployment("web", "a", 4).with("/metadata/generation", 2).apply(&cache, Origin::Watch),
        now("a")
    );
    foo("b", "other", 5).apply(&cache, Origin::List);
    let wakes = deployment("web", "b", 6).with("/metadata/generation", 2).apply(&cache, Origin::Watch);
    assert!(wakes.contains(&Wake::Now(key("a"))) && wakes.contains(&Wake::Now(key("b"))), "{wakes:?}");
    assert!(cache.delete_deployment(&key("web"), "uid-web").contains(&Wake::Now(key("b"))));
}

#[test]
fn wake_a_foo_blocked_by_a_foreign_deployment_wakes_when_the_name_is_freed() {
    let cache = Cache::default();
    foo("a", "web", 1).apply(&cache, Origin::List);
    assert_eq!(foreign(&cache, "web", Origin::Watch), now("a"));
    assert!(foreign(&cache, "web", Origin::Watch).is_empty(), "nothing new about it");
    assert!(matches!(child(&cache, "a"), ChildView::Foreign { uid } if uid == "uid-web"));
    assert_eq!(cache.delete_deployment(&key("web"), "uid-web"), now("a"));
    assert!(matches!(child(&cache, "a"), ChildView::Absent));
}

#[test]
fn case_29_a_deployment_of_a_foo_of_the_same_name_with_another_uid_is_foreign() {
    let cache = Cache::default();
    foo("a", "web", 1).with("/metadata/uid", "uid-new").apply(&cache, Origin::List);
    assert_eq!(deployment("web", "a", 2).apply(&cache, Origin::Watch), now("a"), "found by name");
    assert!(matches!(child(&cache, "a"), ChildView::Foreign { .. }), "told apart by UID");
}

#[test]
fn foreign_deployments_are_no_more_than_a_name_until_a_foo_wants_it() {
    let cache = Cache::default();
    assert!(foreign(&cache, "web", Origin::List).is_empty());
    assert_eq!(cache.len(), (0, 0));
    foo("a", "web", 1).apply(&cache, Origin::Watch);
    assert!(matches!(child(&cache, "a"), ChildView::Unread), "taken: read before anything is written");
    foreign(&cache, "web", Origin::Write);
    assert!(matches!(child(&cache, "a"), ChildView::Foreign { .. }));
}

#[test]
fn when_ownership_ends_the_cache_reports_a_delete() {
    let cache = Cache::default();
    foo("a", "web", 1).apply(&cache, Origin::List);
    deployment("web", "a", 2).apply(&cache, Origin::Watch);
    assert_eq!(foreign(&cache, "web", Origin::Watch), now("a"));
    assert!(matches!(child(&cache, "a"), ChildView::Foreign { .. }));
    assert_eq!(cache.len(), (1, 0));
}

#[test]
fn own_writes_are_seen_at_once_and_their_echo_wakes_nobody() {
    let cache = Cache::default();
    foo("a", "web", 1).apply(&cache, Origin::List);
    assert!(deployment("web", "a", 5).apply(&cache, Origin::Write).is_empty());
    assert!(matches!(child(&cache, "a"), ChildView::Owned(_)));
    assert!(deployment("web", "a", 5).apply(&cache, Origin::Watch).is_empty());
    let written = || foo("a", "web", 6).with("/status", json!({"availableReplicas": 0}));
    assert!(written().apply(&cache, Origin::Write).is_empty());
    assert!(written().apply(&cache, Origin::Watch).is_empty());
}

#[test]
fn own_writes_that_arrive_after_the_delete_event_bring_nothing_back() {
    let cache = Cache::default();
    foo("a", "web", 1).apply(&cache, Origin::List);
    cache.delete_deployment(&key("web"), "uid-web");
    deployment("web", "a", 5).apply(&cache, Origin::Write);
    assert!(matches!(child(&cache, "a"), ChildView::Absent));
    cache.delete_foo(&key("a"));
    foo("a", "web", 6).apply(&cache, Origin::Write);
    assert!(cache.view(&key("a")).is_none());
}

#[test]
fn own_writes_about_a_foo_that_was_made_anew_do_not_bring_the_old_one_back() {
    let cache = Cache::default();
    foo("a", "web", 1).with("/metadata/uid", "uid-old").apply(&cache, Origin::List);
    cache.delete_foo(&key("a"));
    foo("a", "web", 3).apply(&cache, Origin::Watch);
    foo("a", "web", 2).with("/metadata/uid", "uid-old").apply(&cache, Origin::Write);
    assert_eq!(cache.view(&key("a")).unwrap().foo.meta.uid, "uid-a");
}

#[test]
fn late_news_of_a_foreign_deployment_that_is_gone_changes_nothing() {
    let cache = Cache::default();
    foo("a", "web", 1).apply(&cache, Origin::List);
    // A read whose answer comes after the delete event.
    cache.delete_deployment(&key("web"), "uid-web");
    foreign(&cache, "web", Origin::Write);
    assert!(matches!(child(&cache, "a"), ChildView::Absent));
    // An event about a foreign one that came and went before ours was created.
    deployment("web", "a", 9).with("/metadata/uid", "uid-ours").apply(&cache, Origin::Write);
    assert!(foreign(&cache, "web", Origin::Watch).is_empty());
    assert!(matches!(child(&cache, "a"), ChildView::Owned(_)));
}

#[test]
fn terminating_a_deleted_deployment_counts_as_gone_only_after_its_delete_event() {
    let cache = Cache::default();
    foo("a", "web", 1).apply(&cache, Origin::List);
    deployment("web", "a", 2).apply(&cache, Origin::Watch);
    cache.mark_deleting(&key("web"), "uid-web");
    assert!(matches!(child(&cache, "a"), ChildView::Terminating(_)));
    assert!(
        deployment("web", "a", 2).apply(&cache, Origin::Watch).is_empty(),
        "a stale event changes nothing"
    );
    assert!(matches!(child(&cache, "a"), ChildView::Terminating(_)));
    assert_eq!(cache.delete_deployment(&key("web"), "uid-web"), now("a"));
    assert!(matches!(child(&cache, "a"), ChildView::Absent));
}

#[test]
fn rename_the_old_deployment_is_among_the_others() {
    let cache = Cache::default();
    foo("a", "web-a", 1).apply(&cache, Origin::List);
    deployment("web-a", "a", 2).apply(&cache, Origin::Watch);
    foo("a", "web-b", 3).with("/metadata/generation", 2).apply(&cache, Origin::Watch);
    let view = cache.view(&key("a")).unwrap();
    assert!(matches!(view.child, ChildView::Absent));
    assert_eq!(view.others.iter().map(|other| other.meta.name.as_str()).collect::<Vec<_>>(), ["web-a"]);
}

#[test]
fn case_10_a_relist_reports_what_changed_and_what_is_gone_and_nothing_else() {
    let cache = Cache::default();
    for (name, version) in [("a", 1), ("b", 2), ("c", 3)] {
        foo(name, &format!("web-{name}"), version).apply(&cache, Origin::List);
        deployment(&format!("web-{name}"), name, version + 10).apply(&cache, Origin::List);
    }
    cache.begin_list(Kind::Foo, None);
    assert!(foo("a", "web-a", 1).apply(&cache, Origin::List).is_empty());
    assert_eq!(foo("b", "web-b", 20).with("/metadata/generation", 2).apply(&cache, Origin::List), now("b"));
    assert_eq!(cache.end_list(Kind::Foo, None), now("c"));
    assert!(cache.view(&key("c")).is_none());
    cache.begin_list(Kind::Deployment, None);
    deployment("web-a", "a", 11).apply(&cache, Origin::List);
    // Written while the list was on its way: newer than the list, so its absence there means nothing.
    deployment("web-new", "a", 40).apply(&cache, Origin::Write);
    let wakes = cache.end_list(Kind::Deployment, None);
    assert!(wakes.contains(&Wake::Now(key("b"))) && !wakes.contains(&Wake::Now(key("a"))), "{wakes:?}");
    assert_eq!(cache.len(), (2, 2));
}

#[test]
fn a_list_of_one_namespace_says_nothing_about_the_others() {
    let cache = Cache::default();
    foo("a", "web", 1).apply(&cache, Origin::List);
    cache.begin_list(Kind::Foo, Some("elsewhere"));
    assert!(cache.end_list(Kind::Foo, Some("elsewhere")).is_empty());
    assert_eq!(cache.len().0, 1);
}

#[test]
fn a_list_after_a_restore_from_backup_is_believed_though_versions_went_back() {
    let cache = Cache::default();
    foo("a", "web", 900).apply(&cache, Origin::List);
    cache.begin_list(Kind::Foo, None);
    let restored = foo("a", "web-2", 100).with("/metadata/generation", 7);
    assert_eq!(restored.apply(&cache, Origin::List), now("a"));
    assert!(matches!(child(&cache, "a"), ChildView::Absent));
}

#[test]
fn case_20_a_foo_whose_deployments_go_as_soon_as_they_are_made_is_doubtful_until_it_is_seen() {
    let cache = Cache::default();
    foo("a", "web", 1).apply(&cache, Origin::List);
    let doubtful = || cache.view(&key("a")).unwrap().doubtful;
    deployment("web", "a", 2).apply(&cache, Origin::Watch);
    cache.delete_deployment(&key("web"), "uid-web");
    assert!(!doubtful(), "somebody deleted it once: it is made again without a look");
    deployment("web", "a", 3).with("/metadata/uid", "uid-2").apply(&cache, Origin::Write);
    cache.delete_deployment(&key("web"), "uid-2");
    assert!(doubtful());
    foo("a", "web", 4).apply(&cache, Origin::Watch);
    assert!(!doubtful());
}

#[test]
fn case_20_a_foo_that_was_found_gone_is_served_no_more_until_something_shows_it() {
    let cache = Cache::default();
    let gone = || cache.view(&key("a")).is_none();
    foo("a", "web", 1).apply(&cache, Origin::List);
    cache.mark_gone(&key("a"), "uid-another");
    assert!(!gone());
    cache.mark_gone(&key("a"), "uid-a");
    assert!(gone());
    // An event from before its end, or a user's edit of a Foo that was taken for gone by mistake: after a look.
    assert_eq!(foo("a", "web", 2).apply(&cache, Origin::Watch), now("a"));
    assert!(cache.view(&key("a")).is_some_and(|view| view.doubtful));
    cache.mark_gone(&key("a"), "uid-a");
    assert_eq!(foo("a", "web", 2).apply(&cache, Origin::List), now("a"), "a list, though nothing changed");
    assert!(cache.view(&key("a")).is_some());
    cache.mark_gone(&key("a"), "uid-a");
    foo("a", "web", 3).with("/metadata/uid", "uid-2").apply(&cache, Origin::Watch);
    assert!(cache.view(&key("a")).is_some_and(|view| !view.doubtful), "another of that name");
}
