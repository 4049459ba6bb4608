//! Where a test works: a plane of its own meanwhile, with a Foo CRD, a proxy, and the Go original or the host, one
//! at a time, as processes.

use controlplane::{Plane, Process, Program, User};
use fault_proxy::{Listen, Proxy, Record, Upstream};
use serde_json::{Value, json};
use std::path::PathBuf;
use tests::Api;
use tests::backend::{HOST_USER, clear, grant, install_crd};
use tests::process::Host;
use tokio::sync::{Mutex, MutexGuard, OnceCell};

/// Upstream's example runs with all rights.
const GO_USER: &str = "sample-controller";

/// One of the two planes of this test binary.
#[derive(Clone, Copy)]
pub(crate) enum Site {
    First,
    Second,
}

/// Which controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The Go sample-controller.
    Go,
    /// This project's host, under the role of `artifacts/rbac.yaml`.
    Host,
}

/// A plane with a CRD, and a controller behind a proxy. Dropped, the controller ends.
pub(crate) struct Lab {
    pub(crate) api: Api,
    pub(crate) proxy: Proxy,
    running: Option<Host>,
    home: tempfile::TempDir,
    plane: MutexGuard<'static, Plane>,
}

impl Lab {
    /// Waits for the plane, takes away what an earlier test left, and installs the CRD.
    pub(crate) async fn start(site: Site, crd: Value) -> Self {
        let plane = lease(site).await;
        let api = Api::of_plane(&plane, "admin");
        clear(&api).await;
        install_crd(&api, crd).await;
        // It looks for new kinds every 30 s only.
        tokio::task::block_in_place(|| plane.restart(Process::GarbageCollector)).expect("it runs");
        let upstream = Upstream::tls(plane.url(), plane.ca_pem());
        let proxy = Proxy::start(upstream, Listen::Tls).await.expect("the proxy starts");
        let home = tempfile::tempdir().expect("a directory");
        Self { api, proxy, running: None, home, plane }
    }

    /// Replaces the CRD.
    pub(crate) async fn install(&self, crd: Value) {
        install_crd(&self.api, crd).await;
    }

    /// Starts a controller with flags of its own.
    pub(crate) async fn run(&mut self, side: Side, flags: &[&str]) {
        assert!(self.running.is_none(), "one runs already");
        let user = if side == Side::Go { GO_USER } else { HOST_USER };
        let kubeconfig = self.home.path().join(user);
        std::fs::write(&kubeconfig, self.proxy.kubeconfig(Some(self.plane.token(user)))).expect("written");
        let mut arguments = vec!["--kubeconfig".to_owned(), kubeconfig.display().to_string()];
        if side == Side::Host {
            arguments.extend(["--metrics-addr", "127.0.0.1:0"].map(str::to_owned));
        }
        arguments.extend(flags.iter().map(|flag| (*flag).to_owned()));
        self.running = Some(match side {
            Side::Host => Host::start(&arguments, self.home.path()).await,
            Side::Go => Host::start_program(&go(), &arguments, self.home.path(), "Started workers").await,
        });
    }

    /// SIGTERM, and waits for the end.
    pub(crate) async fn stop(&mut self) {
        let status = self.running.take().expect("one runs").terminate().await;
        assert!(status.success(), "the controller ended after SIGTERM with {status}");
    }

    /// Guest calls of the host so far.
    pub(crate) async fn guest_calls(&self) -> u64 {
        let address = self.running.as_ref().expect("one runs").address();
        let (_, text) = Api::new(&address).text("/metrics").await.expect("it serves metrics");
        let calls = text.lines().filter_map(|line| line.strip_prefix("foo_host_guest_calls_total{"));
        calls.filter_map(|line| line.split_whitespace().last()?.parse::<f64>().ok()).sum::<f64>() as u64
    }

    /// What the controller wrote since the last `proxy.clear()`.
    pub(crate) fn writes(&self) -> Vec<Record> {
        self.proxy.writes()
    }

    /// Creates a namespace.
    pub(crate) async fn namespace(&self, name: &str) {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.api.create("/api/v1/namespaces", &namespace).await;
    }
}

/// Upstream's CRD with the status subresource, from the module.
pub(crate) fn upstream_crd() -> Value {
    let module = controlplane::module_dir(Program::SampleController);
    let path = module
        .unwrap_or_else(|error| panic!("{error}"))
        .join("artifacts/examples/crd-status-subresource.yaml");
    serde_yaml_ng::from_str(&std::fs::read_to_string(path).expect("the module has it")).expect("YAML")
}

fn go() -> PathBuf {
    controlplane::program(Program::SampleController).unwrap_or_else(|error| panic!("{error}"))
}

async fn lease(site: Site) -> MutexGuard<'static, Plane> {
    static PLANES: [OnceCell<Result<Mutex<Plane>, String>>; 2] = [const { OnceCell::const_new() }; 2];
    let plane = PLANES[site as usize].get_or_init(async || start().await.map(Mutex::new)).await;
    plane.as_ref().unwrap_or_else(|error| panic!("{error}")).lock().await
}

/// An error is kept, so that one that cannot start is waited for once and not by each test.
async fn start() -> Result<Plane, String> {
    let options = controlplane::Options {
        controllers: true,
        pods: true,
        users: vec![
            User::new(HOST_USER),
            User { name: GO_USER.into(), groups: vec!["system:masters".into()] },
        ],
        enable_admission: vec!["OwnerReferencesPermissionEnforcement".into()],
    };
    let plane = tokio::task::block_in_place(|| Plane::start(&options));
    let plane = plane.map_err(|error| format!("the control plane: {error}"))?;
    grant(&Api::of_plane(&plane, "admin"), HOST_USER).await;
    Ok(plane)
}
