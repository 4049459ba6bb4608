//! One controller, a real process, behind a proxy of its own in a namespace of its own; and somebody who does what
//! the script says, past the proxy. A stage serves many runs, one after the other.

use crate::ground::Ground;
use crate::script::Do;
use crate::snapshot::{Slack, Snapshot};
use fault_proxy::{EventType, Events, Proxy, Record};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tests::api::{PATIENCE, PAUSE};
use tests::objects::{at, deployment_path, events_path, foo_path};
use tests::process::Host;
use tests::{Api, deployment};

/// Somebody's Deployment that nobody ever names.
const BYSTANDER: &str = "bystander";

/// Metrics of the controller.
const FOOS: &str = "foo_host_cached_foos";
const QUEUED: &str = "workqueue_depth";
const RUNNING: &str = "controller_runtime_active_workers";

pub(crate) struct Stage {
    ground: Arc<Ground>,
    pub(crate) namespace: String,
    pub(crate) proxy: Proxy,
    host: Option<Host>,
    arguments: Vec<String>,
    home: tempfile::TempDir,
    /// The foreign Deployments that should be there, byte for byte.
    foreign: BTreeMap<&'static str, Value>,
    /// The uids of the Foos of this run.
    foos: BTreeSet<String>,
}

impl Stage {
    /// With a resync of `resync` and one worker; compiled guests are kept in `cache`.
    pub(crate) async fn new(ground: Arc<Ground>, cache: &std::path::Path, resync: &str) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(1);
        let namespace = format!("sweep-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        ground.api.create("/api/v1/namespaces", &object).await;
        let (proxy, kubeconfig) = ground.proxy().await;
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("kubeconfig");
        std::fs::write(&path, kubeconfig).expect("written");
        let (path, cache) = (path.display().to_string(), cache.display().to_string());
        let arguments = [
            ["--kubeconfig", &path],
            ["--namespace", &namespace],
            ["--resync", resync],
            ["--workers", "1"],
            ["--metrics-addr", "127.0.0.1:0"],
            ["--cache-dir", &cache],
        ];
        let arguments = arguments.as_flattened().iter().map(|text| (*text).to_owned()).collect();
        let (foreign, foos) = (BTreeMap::new(), BTreeSet::new());
        let mut stage = Self { ground, namespace, proxy, host: None, arguments, home, foreign, foos };
        stage.perform(&Do::CreateForeign(BYSTANDER)).await;
        stage.start().await;
        stage
    }

    fn api(&self) -> &Api {
        &self.ground.api
    }

    fn foo(&self, name: &str) -> String {
        foo_path(&self.namespace, name)
    }

    fn deployment(&self, name: &str) -> String {
        deployment_path(&self.namespace, name)
    }

    /// Starts the controller; when this returns it watches.
    pub(crate) async fn start(&mut self) {
        self.host = Some(Host::start(&self.arguments, self.home.path()).await);
    }

    /// SIGKILL.
    pub(crate) async fn kill(&mut self) {
        self.host.take().expect("it runs").kill().await;
    }

    /// The controller's log.
    pub(crate) fn log(&self) -> String {
        self.host.as_ref().map(Host::log).unwrap_or_default()
    }

    /// Does what the script says.
    pub(crate) async fn perform(&mut self, act: &Do) {
        match act {
            Do::CreateFoo(foo) => {
                let created = self.api().create(&self.foo(""), foo).await;
                self.foos.insert(at(&created, "/metadata/uid").as_str().expect("a uid").to_owned());
            }
            Do::ChangeFoo(name, patch) => {
                self.api().merge(&self.foo(name), patch).await;
            }
            Do::RefusedChange(name, patch) => {
                let refused = self.api().try_merge(&self.foo(name), patch).await;
                assert_eq!(refused.expect_err("it should be refused").code, 422);
            }
            Do::DeleteFoo(name) => self.api().delete(&self.foo(name)).await,
            Do::CreateForeign(name) => {
                let created = self.api().create(&self.deployment(""), &deployment(name)).await;
                self.foreign.insert(name, created);
            }
            Do::DeleteForeign(name) => {
                self.check_foreign().await;
                self.foreign.remove(name);
                self.api().delete(&self.deployment(name)).await;
            }
            Do::Available(name) => {
                let live = self.api().get(&self.deployment(name)).await.expect("it was there");
                let status = format!("{}/status", self.deployment(name));
                self.api().merge(&status, &available(&live)).await;
            }
            Do::ChangeDeployment(name, patch) => {
                self.api().merge(&self.deployment(name), patch).await;
            }
            Do::Scale(name, replicas) => {
                let scale = format!("{}/scale", self.deployment(name));
                self.api().merge(&scale, &json!({"spec": {"replicas": replicas}})).await;
            }
            Do::DeleteDeployment(name) => self.api().delete(&self.deployment(name)).await,
            Do::Replace(name) => {
                let gone = Events::of("deployments").name(name).types([EventType::Deleted]);
                let unheard = self.proxy.hold_events(gone);
                self.api().delete(&self.deployment(name)).await;
                let created = self.api().create(&self.deployment(""), &deployment(name)).await;
                self.foreign.insert(name, created);
                unheard.release();
            }
            Do::Restart => {
                let status = self.host.take().expect("it runs").terminate().await;
                assert!(status.success(), "it ended with {status}");
                self.start().await;
            }
        }
    }

    pub(crate) async fn snapshot(&self) -> Snapshot {
        Snapshot::take(self.api(), &self.namespace, &self.foos).await
    }

    /// Polls until everything is as `wanted`, and looks after what is foreign.
    pub(crate) async fn converge(&self, wanted: &Snapshot, slack: Slack, after: &str) {
        let start = Instant::now();
        loop {
            let look = Instant::now();
            let Some(difference) = self.snapshot().await.differs(wanted, slack) else { break };
            assert!(
                start.elapsed() < PATIENCE,
                "after {after:?} it did not come to the same end: {difference}"
            );
            tokio::time::sleep(PAUSE.max(look.elapsed() * 3)).await;
        }
        self.check_foreign().await;
    }

    /// What is foreign is byte for byte what it was: there is no Deployment controller that would write to it.
    async fn check_foreign(&self) {
        for (name, object) in &self.foreign {
            let live = self.api().get(&self.deployment(name)).await;
            assert_eq!(live.as_ref(), Some(object), "the foreign Deployment {name} was touched");
        }
    }

    /// The values of these metrics at one moment, each summed over its labels.
    async fn metrics<const N: usize>(&self, names: [&str; N]) -> [f64; N] {
        let address = self.host.as_ref().expect("it runs").address();
        let Some((200, text)) = Api::new(&address).text("/metrics").await else {
            panic!("no metrics at {address}");
        };
        names.map(|name| {
            let series = text.lines().filter_map(|line| line.strip_prefix(name));
            let values = series.filter(|rest| rest.starts_with(['{', ' ']));
            values.filter_map(|rest| rest.rsplit(' ').next()?.parse::<f64>().ok()).sum()
        })
    }

    /// Waits until a run has ended that began after now; where the cache has no Foo there is none to wait for.
    pub(crate) async fn until_it_ran(&self) {
        const RUNS: &str = "controller_runtime_reconcile_total";
        let [runs] = self.metrics([RUNS]).await;
        // The one in flight may have begun before.
        let enough = runs + 2.0;
        tests::api::until("the controller ran", async || {
            let [foos, runs] = self.metrics([FOOS, RUNS]).await;
            foos < 0.5 || runs >= enough
        })
        .await;
    }

    /// Waits until the controller has heard of the end of the last Foo, and is at rest.
    pub(crate) async fn until_it_knows_no_foo(&self) {
        tests::api::until("the controller knows no Foo", async || {
            self.metrics([FOOS, QUEUED, RUNNING]).await.iter().sum::<f64>() < 0.5
        })
        .await;
    }

    /// Waits until nothing is queued or in flight and the server has heard nothing for a while.
    pub(crate) async fn until_quiet(&self) {
        let (start, mut quiet_since, mut seen) = (Instant::now(), Instant::now(), (0, 0));
        while quiet_since.elapsed() < Duration::from_millis(500) {
            assert!(start.elapsed() < PATIENCE, "the controller does not come to rest");
            let now = (self.proxy.requests().len(), self.proxy.events().len());
            let busy = self.metrics([QUEUED, RUNNING]).await.iter().sum::<f64>();
            if now != seen || busy > 0.5 {
                (seen, quiet_since) = (now, Instant::now());
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// What the controller wrote in this run so far.
    pub(crate) fn writes(&self) -> Vec<Record> {
        self.proxy.writes()
    }

    /// Makes the stage ready for the next run: what is left of this one are Events.
    pub(crate) async fn clear(&mut self) {
        for event in self.api().list(&events_path(&self.namespace)).await {
            let name = at(&event, "/metadata/name").as_str().unwrap_or_default();
            self.api().delete(&format!("{}/{name}", events_path(&self.namespace))).await;
        }
        self.foos.clear();
        self.proxy.clear();
    }
}

/// The status of a Deployment that is carried out, as a merge patch.
fn available(live: &Value) -> Value {
    let replicas = at(live, "/spec/replicas");
    let condition = |kind, reason| json!({"type": kind, "status": "True", "reason": reason, "message": ""});
    json!({"status": {
        "observedGeneration": at(live, "/metadata/generation"),
        "replicas": replicas,
        "updatedReplicas": replicas,
        "readyReplicas": replicas,
        "availableReplicas": replicas,
        "conditions": [
            condition("Available", "MinimumReplicasAvailable"),
            condition("Progressing", "NewReplicaSetAvailable"),
        ],
    }})
}
