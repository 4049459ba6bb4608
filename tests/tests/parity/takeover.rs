//! The host takes over from the Go original, with pods running; then our CRD is installed over upstream's; then the
//! Go original takes over again, and the host once more.

use crate::lab::{self, Lab, Side, Site};
use crate::play::{counted, taken};
use crate::state::{State, look};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use tests::api::{PATIENCE, PAUSE};
use tests::objects::{at, condition, deployment_path, foo, foo_path, generation};

const FOOS: usize = 5;

/// Nothing has moved for so long: all is at rest.
const REST: Duration = Duration::from_millis(500);

#[cfg_attr(not(control_plane), ignore = "there is no Go to build a control plane with")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn taking_over_from_the_go_original_and_back_and_forth_again_restarts_no_pod() {
    let mut cluster = Cluster { lab: Lab::start(Site::Second, lab::upstream_crd()).await };
    cluster.lab.namespace("takeover").await;
    cluster.lab.run(Side::Go, &[]).await;
    for number in 0..FOOS {
        let mut foo = foo(&format!("a{number}"), &format!("web{number}"));
        foo["spec"]["replicas"] = if number == 2 { Value::Null } else { json!(1 + number % 2) };
        cluster.lab.api.create(&foo_path("takeover", ""), &foo).await;
    }
    cluster.until("served", |state| state.served() == FOOS).await;
    cluster.lab.stop().await;
    let by_go = cluster.rest().await;

    // The host has looked at each, and nothing has moved: not a resource version, not an Event.
    let guest = tests::guests::scripted().display().to_string();
    let host = ["--guest", guest.as_str(), "--resync", "1h"];
    cluster.start_host(&host).await;
    let taken_over = cluster.rest().await;
    assert_eq!(cluster.lab.writes(), []);
    same(&by_go, &taken_over, &[]);
    assert_eq!((&by_go.foos, &by_go.events), (&taken_over.foos, &taken_over.events));

    // At the first change ownership moves, in one generation, and nothing else does.
    cluster.name_replicas("a0", 2).await;
    let changed = cluster.until("scaled", |state| replicas(state, "web0") == 2).await;
    assert_eq!(managers(&changed, "web0"), "Apply");
    assert_eq!(managers(&changed, "web1"), "Update");
    assert_eq!(generations(&by_go, &changed, "web0"), 1);
    same(&taken_over, &changed, &["web0"]);
    assert_eq!(cluster.writes().get("patch deployments"), Some(&2), "our entry becomes Apply, and the apply");

    // What the guest names and later does not is gone, with one generation each; its replicas stay.
    cluster.script("a1", &json!({"minReadySeconds": 1, "replicas": 2})).await;
    let named =
        cluster.until("named", |state| at(deployment(state, "web1"), "/spec/minReadySeconds") == 1).await;
    assert_eq!((managers(&named, "web1").as_str(), generations(&changed, &named, "web1")), ("Apply", 1));
    cluster.script("a1", &json!({})).await;
    let dropped =
        cluster.until("gone", |state| at(deployment(state, "web1"), "/spec/minReadySeconds").is_null()).await;
    assert_eq!((replicas(&dropped, "web1"), generations(&named, &dropped, "web1")), (2, 1));
    same(&changed, &dropped, &["web1"]);

    // The same at once with what the Go original named: its replicas are given up, and stay.
    cluster.script("a3", &json!({"minReadySeconds": 1})).await;
    let given_up =
        cluster.until("named", |state| at(deployment(state, "web3"), "/spec/minReadySeconds") == 1).await;
    assert_eq!((replicas(&given_up, "web3"), generations(&dropped, &given_up, "web3")), (2, 1));
    assert_eq!(managers(&given_up, "web3"), "Apply");
    same(&dropped, &given_up, &["web3"]);
    let events = || -> usize {
        cluster.writes().iter().filter(|(kind, _)| kind.ends_with(" events")).map(|(_, n)| n).sum()
    };
    tests::api::until("each change is told", async || events() >= 4).await;
    let told = cluster.rest().await;
    assert_eq!(events(), 4, "one for each change");

    // Our CRD over upstream's: conditions appear.
    cluster.lab.proxy.clear();
    cluster.lab.install(foo_api::crd()).await;
    let conditions = cluster.until("all Ready", all_ready).await;
    same(&told, &conditions, &[]);
    assert_eq!(told.events, conditions.events);
    let kinds: Vec<_> = cluster.writes().into_keys().collect();
    assert_eq!(kinds, ["patch foos/status"]);

    // Back: the Go original works on, also on what the host has applied.
    cluster.lab.stop().await;
    let by_host = cluster.rest().await;
    cluster.start_go().await;
    let back = cluster.rest().await;
    same(&by_host, &back, &[]);
    cluster.name_replicas("a0", 3).await;
    cluster.name_replicas("a2", 3).await;
    let scaled =
        cluster.until("scaled", |state| replicas(state, "web0") == 3 && replicas(state, "web2") == 3).await;
    assert_eq!(generations(&by_host, &scaled, "web0"), 1);
    assert_eq!(managers(&scaled, "web0"), "Apply, Update");
    same(&back, &scaled, &["web0", "web2"]);

    // And forth.
    cluster.lab.stop().await;
    let by_go = cluster.rest().await;
    cluster.start_host(&host).await;
    let again = cluster.until("all Ready", all_ready).await;
    same(&by_go, &again, &[]);
    assert_eq!(by_go.events, again.events);
    let kinds: Vec<_> = cluster.writes().into_keys().collect();
    assert_eq!(kinds, ["patch foos/status"]);
    cluster.name_replicas("a0", 4).await;
    cluster.name_replicas("a2", 4).await;
    let last =
        cluster.until("scaled", |state| replicas(state, "web0") == 4 && replicas(state, "web2") == 4).await;
    for name in ["web0", "web2"] {
        assert_eq!((managers(&last, name).as_str(), generations(&again, &last, name)), ("Apply", 1));
    }
    same(&again, &last, &["web0", "web2"]);
}

struct Cluster {
    lab: Lab,
}

impl Cluster {
    /// Starts the host, and waits until it has looked at each Foo.
    async fn start_host(&mut self, flags: &[&str]) {
        self.lab.proxy.clear();
        self.lab.run(Side::Host, flags).await;
        let looked = async || self.lab.guest_calls().await >= FOOS as u64;
        tests::api::until("each Foo was looked at", looked).await;
    }

    /// Starts the Go original, and waits until it has looked at each Foo.
    async fn start_go(&mut self) {
        self.lab.proxy.clear();
        self.lab.run(Side::Go, &[]).await;
        let looked = |writes: &[fault_proxy::Record]| {
            let status =
                writes.iter().filter(|write| write.is_write() && write.rbac_resource() == "foos/status");
            let foos: BTreeSet<_> = status.map(|write| write.name.clone()).collect();
            (foos.len() == FOOS).then_some(())
        };
        self.lab.proxy.until("each Foo was looked at", looked).await;
    }

    async fn name_replicas(&self, foo: &str, number: i64) {
        let patch = json!({"spec": {"replicas": number}});
        self.lab.api.merge(&foo_path("takeover", foo), &patch).await;
    }

    /// From now on the guest answers for this Foo with a Deployment that has these fields too.
    async fn script(&self, name: &str, more: &Value) {
        let labels = json!({"app": "nginx", "controller": name});
        let mut spec = json!({
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "nginx", "image": "nginx:latest"}]},
            },
        });
        for (field, value) in more.as_object().into_iter().flatten() {
            spec[field] = value.clone();
        }
        let answer = json!([{"ApplyDeployment": json!({"spec": spec}).to_string()}]).to_string();
        let patch = json!({"metadata": {"annotations": {"script/answer": answer}}});
        self.lab.api.merge(&foo_path("takeover", name), &patch).await;
    }

    /// What the controller wrote since it started and the server took, by verb and resource.
    fn writes(&self) -> BTreeMap<String, usize> {
        counted(&self.lab.writes().into_iter().filter(taken).collect::<Vec<_>>())
    }

    /// Waits until nothing moves.
    async fn rest(&self) -> State {
        self.until("at rest", |_| true).await
    }

    /// Waits until it is so and nothing moves any more.
    async fn until(&self, what: &str, good: impl Fn(&State) -> bool) -> State {
        let start = Instant::now();
        let (mut last, mut since) = (State::default(), start);
        loop {
            let state = look(&self.lab.api, "takeover").await.remove("").unwrap_or_default();
            if state != last || state.unsettled().is_some() || !good(&state) {
                (last, since) = (state, Instant::now());
            } else if since.elapsed() > REST {
                return state;
            }
            assert!(start.elapsed() < PATIENCE, "it did not become {what}: {:?} {last:#?}", last.unsettled());
            tokio::time::sleep(PAUSE).await;
        }
    }
}

fn deployment<'a>(state: &'a State, name: &str) -> &'a Value {
    &state.deployments[name]
}

fn replicas(state: &State, name: &str) -> i64 {
    at(deployment(state, name), "/spec/replicas").as_i64().unwrap_or_default()
}

fn generations(before: &State, after: &State, name: &str) -> i64 {
    generation(deployment(after, name)) - generation(deployment(before, name))
}

/// By which operations `sample-controller` owns fields.
fn managers(state: &State, name: &str) -> String {
    let path = format!("/deployments/{name}/sample-controller writes by");
    at(&state.snapshot(), &path).as_str().unwrap_or_default().to_owned()
}

fn all_ready(state: &State) -> bool {
    state.foos.values().all(|foo| condition(foo, "Ready")["status"] == "True")
}

/// Deployments are the same to the last byte, but for those named; and each pod is still there, as it was.
fn same(before: &State, after: &State, but: &[&str]) {
    for (name, deployment) in before.deployments.iter().filter(|(name, _)| !but.contains(&name.as_str())) {
        assert_eq!(Some(deployment), after.deployments.get(name), "{}", deployment_path("takeover", name));
    }
    for pod in &before.pods {
        assert!(after.pods.contains(pod), "this pod was touched: {pod:#}");
    }
}
