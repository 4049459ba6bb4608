//! `artifacts/rbac.yaml`: enough, and nothing left over. On the real plane only; the API in memory authorizes
//! nobody. The planes have the admission plugin `OwnerReferencesPermissionEnforcement` on.

use fault_proxy::{Login, Match, Record, Verb};
use rstest::rstest;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tests::account::{Account, Right, rights};
use tests::objects::{at, condition, foo};
use tests::{Backend, Crd, Logs, World, api};

/// What each request was, as an authorizer sees it; paths that are no resource aside.
fn used(requests: &[Record]) -> BTreeSet<Right> {
    let of_resource = requests.iter().filter(|request| !request.resource.is_empty());
    of_resource
        .map(|request| Right::new(&request.group, &request.rbac_resource(), request.verb.as_str()))
        .collect()
}

fn refused(world: &World) -> Vec<Record> {
    world.proxy.requests().into_iter().filter(|request| request.status == Some(403)).collect()
}

/// Everything that the host does: create, adopt and apply, rename with delete, a foreign name, Events that are
/// counted up.
async fn everything(world: &World) {
    world.api.create(&world.deployment_path(""), &tests::deployment("theirs")).await;
    world.create(&foo("a", "web")).await;
    world.until_ready("a").await;
    world.change("a", json!({"spec": {"replicas": 2}})).await;
    world.until_deployment("web", "scaled", |d| at(d, "/spec/replicas") == 2).await;
    world.change("a", json!({"spec": {"deploymentName": "web-b"}})).await;
    world.api.until_gone(&world.deployment_path("web")).await;
    world.create(&foo("b", "theirs")).await;
    world.until_event("b", "ErrResourceExists").await;
    world.until_ready("a").await;
    world.until_quiet().await;
}

/// Upstream's CRD over ours, and a change of Foo `a`: its status is not found, and the host reads the Foo to know
/// why.
async fn lose_the_status_subresource(world: &World) {
    world.install(Crd::Upstream).await;
    world.api.until_gone(&format!("{}/status", world.foo_path("a"))).await;
    world.change("a", json!({"spec": {"replicas": 3}})).await;
    world.proxy.seen(Match::verb(Verb::Get).resource("foos"), 1).await;
}

#[rstest]
#[cfg_attr(not(control_plane), ignore = "there is no Go to build a control plane with")]
#[tokio::test]
async fn rbac_the_role_is_what_the_host_uses_and_no_more() {
    let world = World::builder(Backend::Plane).alone().start().await;
    everything(&world).await;
    lose_the_status_subresource(&world).await;
    world.until_quiet().await;
    assert_eq!(refused(&world), []);
    // The admission plugin asks for these; no request shows it.
    let finalizers = Right::new("samplecontroller.k8s.io", "foos/finalizers", "update");
    let mut rights = rights();
    assert!(rights.remove(&finalizers));
    assert_eq!(used(&world.proxy.requests()), rights);
}

/// A world whose controller is a service account with these rights in its namespace.
async fn world_with(rights: &BTreeSet<Right>, alone: bool) -> (World, Account) {
    let mut builder = World::builder(Backend::Plane).no_controller();
    if alone {
        builder = builder.alone();
    }
    let namespace = builder.namespace().to_owned();
    let mut world = builder.flags(&["--namespace", &namespace]).start().await;
    let account = Account::new(&world, rights).await;
    world.log_in(Login::Token(&account.token().await));
    world.start_controller().await;
    (world, account)
}

#[rstest]
#[cfg_attr(not(control_plane), ignore = "there is no Go to build a control plane with")]
#[tokio::test]
async fn rbac_the_same_rules_in_one_namespace_are_enough_for_it() {
    let (mut world, _) = world_with(&rights(), false).await;
    everything(&world).await;
    assert_eq!(refused(&world), []);
    world.stop_controller().await;
}

#[rstest]
#[case::get_foos("foos", "get")]
#[case::list_foos("foos", "list")]
#[case::watch_foos("foos", "watch")]
#[case::patch_foos_status("foos/status", "patch")]
#[case::update_foos_finalizers("foos/finalizers", "update")]
#[case::get_deployments("deployments", "get")]
#[case::list_deployments("deployments", "list")]
#[case::watch_deployments("deployments", "watch")]
#[case::create_deployments("deployments", "create")]
#[case::patch_deployments("deployments", "patch")]
#[case::delete_deployments("deployments", "delete")]
#[case::create_events("events", "create")]
#[case::patch_events("events", "patch")]
#[cfg_attr(not(control_plane), ignore = "there is no Go to build a control plane with")]
#[tokio::test]
async fn rbac_a_right_that_is_missing_is_named_and_used_once_it_is_granted(
    #[case] resource: &str,
    #[case] verb: &str,
) {
    let logs = Logs::start();
    let all = rights();
    let missing = all.iter().find(|right| right.resource == resource && right.verb == verb).expect("a rule");
    let mut rest = all.clone();
    rest.remove(missing);
    // A CRD is changed there, which no other test should see.
    let alone = (resource, verb) == ("foos", "get");
    let (mut world, account) = world_with(&rest, alone).await;
    let scene = Scene { world: &world, name: Name { resource, verb } };
    scene.begin().await;
    let phrase = scene.name.phrase();
    api::until(&format!("the log says {phrase}"), async || !logs.lines(&[&phrase]).is_empty()).await;
    account.grant(&all).await;
    scene.end().await;
    world.stop_controller().await;
}

#[test]
fn rbac_every_rule_has_its_case() {
    // The cases above, as this file has them.
    let source = include_str!("rbac.rs");
    for Right { resource, verb, .. } in rights() {
        assert!(
            source.contains(&format!("(\"{resource}\", \"{verb}\")]")),
            "{verb} {resource} is in no case"
        );
    }
}

/// What a message says about the right that is missing.
#[derive(Clone, Copy)]
struct Name<'a> {
    resource: &'a str,
    verb: &'a str,
}

impl Name<'_> {
    fn phrase(&self) -> String {
        let Self { resource, verb } = self;
        match *resource {
            // The admission plugin has words of its own; the host adds what to do.
            "foos/finalizers" => format!("grant {verb} on {resource}"),
            _ => format!("cannot {verb} resource \"{resource}\""),
        }
    }

    fn is_in(&self, text: &Value) -> bool {
        text.as_str().is_some_and(|text| text.contains(&self.phrase()))
    }
}

/// What needs the missing right, and what happens once it is there.
struct Scene<'a> {
    world: &'a World,
    name: Name<'a>,
}

impl Scene<'_> {
    /// Comes to where the right is missed, and sees that somebody is told.
    async fn begin(&self) {
        let Self { world, name } = self;
        match (name.resource, name.verb) {
            ("foos" | "deployments", "list" | "watch") => {
                api::until("not ready, and it says why", async || {
                    let answer = world.health().text("/readyz").await;
                    answer.is_some_and(|(code, text)| code == 500 && name.is_in(&text.into()))
                })
                .await;
                assert_eq!(world.health().text("/livez").await.map(|(code, _)| code), Some(200));
            }
            ("deployments", "get") => {
                world.api.create(&world.deployment_path(""), &tests::deployment("web")).await;
                // When this one is served, the other has been seen.
                world.create(&foo("probe", "web-probe")).await;
                world.until_ready("probe").await;
                world.create(&foo("a", "web")).await;
                self.told(true).await;
            }
            ("deployments", "create") | ("foos/finalizers", _) => {
                world.create(&foo("a", "web")).await;
                self.told(true).await;
            }
            ("foos", "get") => {
                world.create(&foo("a", "web")).await;
                world.until_ready("a").await;
                lose_the_status_subresource(world).await;
                self.told(false).await;
            }
            ("foos/status", _) => {
                world.create(&foo("a", "web")).await;
                world.until_deployment("web", "there", |_| true).await;
                self.told(false).await;
            }
            ("deployments", _) => {
                world.create(&foo("a", "web")).await;
                world.until_ready("a").await;
                let change = json!({"spec": {"replicas": 2, "deploymentName": self.last_name()}});
                world.change("a", change).await;
                self.told(true).await;
            }
            ("events", _) => {
                world.create(&foo("a", "web")).await;
                world.until_ready("a").await;
                world.change("a", json!({"spec": {"replicas": 2}})).await;
                world.until_deployment("web", "scaled", |d| at(d, "/spec/replicas") == 2).await;
            }
            other => panic!("no scene for {other:?}"),
        }
    }

    /// Goes on to where all is well.
    async fn end(&self) {
        let Self { world, name } = self;
        match (name.resource, name.verb) {
            ("foos" | "deployments", "list" | "watch") => {
                world.create(&foo("a", "web")).await;
                world.until_ready("a").await;
                api::until("ready", async || {
                    world.health().text("/readyz").await == Some((200, "ok".into()))
                })
                .await;
            }
            ("deployments", "get") => {
                world.until_event("a", "ErrResourceExists").await;
            }
            ("foos", "get") => {
                world.install(Crd::Ours).await;
                world.until_ready("a").await;
            }
            ("deployments", "patch" | "delete") => {
                world.until_deployment(self.last_name(), "scaled", |d| at(d, "/spec/replicas") == 2).await;
                if self.last_name() != "web" {
                    world.api.until_gone(&world.deployment_path("web")).await;
                }
                world.until_ready("a").await;
            }
            ("events", _) => {
                world.change("a", json!({"spec": {"replicas": 3}})).await;
                let count =
                    |events: Vec<Value>| events.iter().filter_map(|e| e["count"].as_i64()).sum::<i64>();
                let least = if name.verb == "create" { 1 } else { 2 };
                api::until("the Event", async || count(world.events("a").await) >= least).await;
            }
            _ => {
                world.until_ready("a").await;
            }
        }
    }

    /// The name in the Foo when the right is missed: another one where a delete is to come.
    fn last_name(&self) -> &'static str {
        if self.name.verb == "delete" { "web-b" } else { "web" }
    }

    /// An Event names the right, and a condition where a status can be written.
    async fn told(&self, in_status: bool) {
        let event = self.world.until_event("a", "Forbidden").await;
        assert!(event["type"] == "Warning" && self.name.is_in(&event["message"]), "{event:#}");
        if in_status {
            let path = self.world.foo_path("a");
            let told = |foo: &Value| condition(foo, "Ready")["reason"] == "Forbidden";
            let foo = self.world.api.until(&path, "told", told).await;
            assert!(self.name.is_in(&condition(&foo, "Ready")["message"]), "{foo:#}");
        }
    }
}
