//! An API server with the Foo CRD, and a controller in this process that speaks to it through the fault proxy.
//! Dropped, all end.

use crate::api::Api;
use crate::backend::{self, Backend, HOST_USER, Needs, Server};
use crate::objects::{self, at, ready};
use clap::Parser as _;
use devcluster::{DevCluster, Options};
use fault_proxy::{Listen, Login, Match, Proxy, Record};
use futures::StreamExt as _;
use host::cli::{Cli, ClusterArgs};
use host::client::Timeouts;
use host::controller::Controller;
use host::metrics::Metrics;
use host::settings::Settings;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Which CRD is installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crd {
    /// This project's.
    Ours,
    /// This project's, without the validation of the spec.
    Lenient,
    /// Upstream's `crd-status-subresource.yaml`.
    UpstreamWithStatus,
    /// Upstream's `crd.yaml`: no status subresource.
    Upstream,
    /// None yet.
    None,
}

/// What a world is made of.
#[must_use]
pub struct Builder {
    backend: Backend,
    needs: Needs,
    namespace: String,
    flags: Vec<String>,
    timeouts: Timeouts,
    tls: bool,
    controller: bool,
}

/// A running controller.
pub struct Running {
    stop: CancellationToken,
    task: JoinHandle<anyhow::Result<()>>,
    /// Its counters.
    pub metrics: Arc<Metrics>,
    /// Where it serves metrics and health.
    pub address: std::net::SocketAddr,
}

/// An API server, a client, a proxy, and a controller behind it.
pub struct World {
    /// The test's own namespace.
    pub namespace: String,
    /// The tests' client, which does not go through the proxy.
    pub api: Api,
    /// Between the controller and the server.
    pub proxy: Proxy,
    /// The controller, unless stopped.
    pub controller: Option<Running>,
    server: Server,
    home: tempfile::TempDir,
    flags: Vec<String>,
    timeouts: Timeouts,
}

impl Builder {
    /// Flags of the controller, as on the command line.
    pub fn flags(mut self, flags: &[&str]) -> Self {
        self.flags.extend(flags.iter().map(|flag| (*flag).to_owned()));
        self
    }

    /// The guest.
    pub fn guest(self, path: &Path) -> Self {
        let path = path.display().to_string();
        self.flags(&["--guest", &path])
    }

    /// Which CRD.
    pub fn crd(mut self, crd: Crd) -> Self {
        self.needs.crd = crd;
        self
    }

    /// No Deployment's status ever moves.
    pub fn no_kubelet(mut self) -> Self {
        self.needs.kubelet = false;
        self
    }

    /// Nobody deletes what lost its owner.
    pub fn no_garbage_collector(mut self) -> Self {
        self.needs.garbage_collector = false;
        self
    }

    /// No other test is on this server, and the controller watches all namespaces, unless a flag says otherwise.
    pub fn alone(mut self) -> Self {
        self.needs.alone = true;
        self
    }

    /// How long the controller waits for its server, where the defaults would make the test wait too.
    pub fn timeouts(mut self, timeouts: Timeouts) -> Self {
        self.timeouts = timeouts;
        self
    }

    /// The controller speaks TLS, also to the API in memory.
    pub fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// The controller is started later, by [`World::start_controller`].
    pub fn no_controller(mut self) -> Self {
        self.controller = false;
        self
    }

    /// The namespace that the world will have.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Starts it all.
    pub async fn start(self) -> World {
        let Needs { crd, kubelet, garbage_collector, .. } = self.needs;
        let mut flags = self.flags;
        let server = match self.backend {
            Backend::Memory => {
                let options = Options {
                    available_after: Duration::from_millis(50),
                    fake_kubelet: kubelet,
                    garbage_collector,
                    ..Options::default()
                };
                let cluster = DevCluster::start(options).await.expect("the API starts");
                if crd != Crd::None {
                    backend::install(&Api::new(&cluster.url()), crd).await;
                }
                Server::Memory(cluster)
            }
            Backend::Plane => Server::plane(self.needs).await,
        };
        if matches!(server, Server::Shared(_)) {
            flags.splice(0..0, ["--namespace".to_owned(), self.namespace.clone()]);
        }
        let api = server.api();
        let listen = if self.tls || self.backend == Backend::Plane { Listen::Tls } else { Listen::Plain };
        let proxy = Proxy::start(server.upstream(), listen).await.expect("the proxy starts");
        let home = tempfile::tempdir().expect("a directory");
        let (namespace, timeouts) = (self.namespace, self.timeouts);
        let mut world = World { namespace, api, proxy, controller: None, server, home, flags, timeouts };
        world.create_namespace(&world.namespace).await;
        let token = world.server.as_plane().map(|plane| plane.token(HOST_USER).to_owned());
        std::fs::write(world.kubeconfig(), world.proxy.kubeconfig(token.as_deref())).expect("written");
        if self.controller {
            world.start_controller().await;
        }
        world
    }
}

impl World {
    /// With the built-in guest, a resync of an hour (so that what happens has a cause), two workers, and on the
    /// API in memory a fake kubelet that takes 50 ms.
    pub fn builder(backend: Backend) -> Builder {
        static NUMBER: AtomicUsize = AtomicUsize::new(1);
        let namespace = format!("{}{}", backend::NAMESPACES, NUMBER.fetch_add(1, Ordering::Relaxed));
        let needs = Needs { crd: Crd::Ours, alone: false, kubelet: true, garbage_collector: true };
        let flags = vec!["--resync".into(), "1h".into()];
        let timeouts = Timeouts::default();
        Builder { backend, needs, namespace, flags, timeouts, tls: false, controller: true }
    }

    /// [`World::builder`] as it is.
    pub async fn start(backend: Backend) -> Self {
        Self::builder(backend).start().await
    }

    /// The kubeconfig that the controller uses.
    pub fn kubeconfig(&self) -> std::path::PathBuf {
        self.home.path().join("host.kubeconfig")
    }

    /// Who the controller is from its next start on, in place of the plane's `foo-host`.
    pub fn log_in(&self, login: Login<'_>) {
        let config = self.proxy.kubeconfig_for(login, self.proxy.ca_pem());
        std::fs::write(self.kubeconfig(), config).expect("written");
    }

    /// The health and metrics of the controller.
    pub fn health(&self) -> Api {
        let address = self.controller.as_ref().expect("one runs").address;
        Api::new(&format!("http://{address}"))
    }

    /// The control plane, if the world stands on one.
    pub fn plane(&self) -> Option<&controlplane::Plane> {
        self.server.as_plane()
    }

    /// Writes a kubeconfig for a person: past the proxy, with the test's namespace, all rights.
    pub fn write_kubeconfig(&self, path: &Path) {
        let text = match &self.server {
            Server::Memory(cluster) => cluster.kubeconfig(),
            _ => self.plane().map(|plane| plane.kubeconfig("admin")).unwrap_or_default(),
        };
        let mut config: Value = serde_yaml_ng::from_str(&text).expect("YAML");
        config["contexts"][0]["context"]["namespace"] = self.namespace.as_str().into();
        std::fs::write(path, config.to_string()).expect("written");
    }

    /// The path of a Foo, or of all of the test's namespace.
    pub fn foo_path(&self, name: &str) -> String {
        objects::foo_path(&self.namespace, name)
    }

    /// The path of a Deployment, or of all of the test's namespace.
    pub fn deployment_path(&self, name: &str) -> String {
        objects::deployment_path(&self.namespace, name)
    }

    /// The path of the Events of the test's namespace.
    pub fn events_path(&self) -> String {
        objects::events_path(&self.namespace)
    }

    /// Installs or replaces the Foo CRD.
    pub async fn install(&self, crd: Crd) {
        backend::install(&self.api, crd).await;
    }

    /// Makes the server forget the past, as by a compaction: watches of before are answered 410. A plane's API
    /// server is restarted for it, so the world has to be [`Builder::alone`], and the runtime `multi_thread`.
    pub async fn forget_the_past(&self) {
        self.server.forget().await;
    }

    /// Creates a namespace; names are to be made from the world's own.
    pub async fn create_namespace(&self, name: &str) {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.api.create("/api/v1/namespaces", &namespace).await;
    }

    /// Creates many Foos before a controller looks.
    pub async fn seed(&self, foos: impl Iterator<Item = Value>) {
        let place = |foo| objects::within(&self.namespace, foo);
        if let Server::Memory(cluster) = &self.server {
            cluster.seed(foos.map(place)).expect("seeded");
        } else {
            let creates = foos.map(|foo| async move { self.create(&foo).await });
            futures::stream::iter(creates).buffer_unordered(16).for_each(async |_| ()).await;
        }
    }

    /// Starts a controller with the world's flags and `--metrics-addr 127.0.0.1:0`.
    pub async fn start_controller(&mut self) {
        assert!(self.controller.is_none(), "one runs already");
        let own = ["foo-host", "--metrics-addr", "127.0.0.1:0"].map(str::to_owned);
        // The last one wins, so that a test can override the world's defaults.
        let cli = Cli::try_parse_from(own.iter().chain(&dedup(&self.flags))).expect("valid flags");
        let mut settings = Settings::from_args(&cli.run).expect("valid settings");
        // No code from another run, unless the test asks for it.
        settings.cache_dir.clone_from(&cli.run.limits.cache_dir);
        let cluster = ClusterArgs { kubeconfig: Some(self.kubeconfig()), context: None, master: None };
        let connection = host::client::connect_with(&cluster, self.timeouts).await.expect("a client");
        let controller = Controller::new(settings, connection).await.expect("a controller");
        let stop = CancellationToken::new();
        let (metrics, address) = (controller.metrics(), controller.metrics_addr().expect("an address"));
        let task = tokio::spawn(controller.run(stop.clone()));
        self.controller = Some(Running { stop, task, metrics, address });
    }

    /// Stops the controller as SIGTERM does, and waits for it.
    pub async fn stop_controller(&mut self) {
        let running = self.controller.take().expect("one runs");
        running.stop.cancel();
        running.task.await.expect("no panic").expect("no error");
    }

    /// Guest calls so far, by the host's own count.
    pub fn guest_calls(&self) -> u64 {
        self.controller.as_ref().map_or(0, |running| running.metrics.guest_calls())
    }

    /// The value of a metric with these labels, as a scrape sees it.
    pub fn metric(&self, series: &str) -> f64 {
        let text = self.controller.as_ref().expect("one runs").metrics.text().expect("metrics");
        let line = text.lines().find_map(|line| line.strip_prefix(series));
        line.and_then(|value| value.trim().parse().ok()).unwrap_or_else(|| panic!("no {series} in\n{text}"))
    }

    /// What the controller wrote since the last `proxy.clear()`: every request that is no read.
    pub fn writes(&self) -> Vec<Record> {
        self.proxy.writes()
    }

    /// The writes about one kind of resource.
    pub fn writes_of(&self, resource: &str) -> Vec<Record> {
        self.writes().into_iter().filter(|request| request.resource == resource).collect()
    }

    /// Creates a Foo.
    pub async fn create(&self, foo: &Value) -> Value {
        self.api.create(&self.foo_path(""), foo).await
    }

    /// Changes a Foo by a merge patch.
    pub async fn change(&self, name: &str, patch: Value) -> Value {
        self.api.merge(&self.foo_path(name), &patch).await
    }

    /// Waits until the Foo is Ready for its generation.
    pub async fn until_ready(&self, name: &str) -> Value {
        self.api.until(&self.foo_path(name), "ready", ready).await
    }

    /// Waits until the Deployment is as said.
    pub async fn until_deployment(&self, name: &str, what: &str, good: impl Fn(&Value) -> bool) -> Value {
        self.api.until(&self.deployment_path(name), what, good).await
    }

    /// The Events about a Foo.
    pub async fn events(&self, foo: &str) -> Vec<Value> {
        let events = self.api.list(&self.events_path()).await;
        events.into_iter().filter(|event| at(event, "/involvedObject/name") == foo).collect()
    }

    /// Waits for an Event about a Foo with this reason.
    pub async fn until_event(&self, foo: &str, reason: &str) -> Value {
        let collection = self.events_path();
        let of_foo = |event: &&Value| at(event, "/involvedObject/name") == foo && event["reason"] == reason;
        let list = self
            .api
            .until(&collection, &format!("told {reason} of {foo}"), |list| {
                list["items"].as_array().is_some_and(|items| items.iter().any(|event| of_foo(&event)))
            })
            .await;
        list["items"].as_array().and_then(|items| items.iter().find(of_foo)).cloned().unwrap_or_default()
    }

    /// Waits until nothing is queued, delayed or in flight, and the server has heard nothing from the controller
    /// for a while: then what is asserted about writes is final.
    pub async fn until_quiet(&self) {
        let mut quiet_since = tokio::time::Instant::now();
        let mut seen = usize::MAX;
        let start = quiet_since;
        while quiet_since.elapsed() < Duration::from_millis(400) {
            assert!(start.elapsed() < crate::api::PATIENCE, "the controller does not come to rest");
            let requests = self.proxy.count(&Match::writes());
            let busy = self.metric("workqueue_depth{name=\"foo\",priority=\"change\"}")
                + self.metric("workqueue_depth{name=\"foo\",priority=\"background\"}")
                + self.metric("controller_runtime_active_workers{controller=\"foo\"}");
            if requests != seen || busy > 0.0 {
                seen = requests;
                quiet_since = tokio::time::Instant::now();
            }
            tokio::time::sleep(crate::api::PAUSE).await;
        }
    }
}

/// Of flags that were given twice, the last; `--guest-param` and `--namespace` may repeat.
fn dedup(flags: &[String]) -> Vec<String> {
    let mut kept: Vec<[String; 2]> = Vec::new();
    for pair in flags.chunks(2) {
        let [flag, value] = pair else { panic!("flags come with values: {flags:?}") };
        if flag != "--guest-param" && flag != "--namespace" {
            kept.retain(|[old, _]| old != flag);
        }
        kept.push([flag.clone(), value.clone()]);
    }
    kept.into_iter().flatten().collect()
}

/// A CRD as an object.
pub fn crd_object(crd: Crd) -> Value {
    let mut ours = foo_api::crd();
    match crd {
        Crd::Ours | Crd::None => ours,
        Crd::Lenient => {
            // The spec as anything, so that objects get in that the API should have refused.
            ours["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] =
                json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
            ours["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["required"] = json!(["spec"]);
            ours["spec"]["versions"][0]["subresources"] = json!({"status": {}});
            ours
        }
        Crd::Upstream | Crd::UpstreamWithStatus => {
            let mut upstream = upstream_crd();
            if crd == Crd::UpstreamWithStatus {
                upstream["spec"]["versions"][0]["subresources"] = json!({"status": {}});
            }
            upstream
        }
    }
}

/// The CRD of the module `k8s.io/sample-controller` (artifacts/examples/crd.yaml), as facts.
fn upstream_crd() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": foo_api::CRD_NAME,
            "annotations": {"api-approved.kubernetes.io": "unapproved, experimental-only; please get an approval from Kubernetes API reviewers if you're trying to develop a CRD in the *.k8s.io or *.kubernetes.io groups"},
        },
        "spec": {
            "group": foo_api::GROUP,
            "scope": "Namespaced",
            "names": {"kind": "Foo", "plural": "foos"},
            "versions": [{
                "name": foo_api::VERSION,
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "spec": {
                            "type": "object",
                            "properties": {
                                "deploymentName": {"type": "string"},
                                "replicas": {"type": "integer", "minimum": 1, "maximum": 10},
                            },
                        },
                        "status": {
                            "type": "object",
                            "properties": {"availableReplicas": {"type": "integer"}},
                        },
                    },
                }},
            }],
        },
    })
}
