//! The two servers: one pair for the whole test binary.

use crate::objects::define;
use crate::session::Session;
use controlplane::{Options, Plane, Process};
use std::sync::{OnceLock, PoisonError, RwLock};
use tokio::runtime::Runtime;

/// The pair, and the runtime that the in-memory server lives on.
pub(crate) struct Servers {
    pub(crate) runtime: Runtime,
    plane: Plane,
    /// Held for reading by all who want no controller to look at their Deployments.
    quiet: RwLock<()>,
    real: kube::Config,
    dev: kube::Config,
}

/// A client that sends what it is given: no retries, and a name of its own.
fn config(kubeconfig: &str, runtime: &Runtime) -> kube::Config {
    let kubeconfig = kube::config::Kubeconfig::from_yaml(kubeconfig).expect("a kubeconfig");
    let options = kube::config::KubeConfigOptions::default();
    let mut config = runtime
        .block_on(kube::Config::from_custom_kubeconfig(kubeconfig, &options))
        .expect("a configuration");
    config.headers.push((http::header::USER_AGENT, http::HeaderValue::from_static("conformance/1")));
    config.default_retry = false;
    config
}

impl Servers {
    /// The servers; none, after [`tests::skip()`], where the real one cannot be had.
    pub(crate) fn get(test: &str) -> Option<&'static Self> {
        static SERVERS: OnceLock<Servers> = OnceLock::new();
        if let Err(reason) = controlplane::available() {
            tests::skip(test, &reason.to_string());
            return None;
        }
        Some(SERVERS.get_or_init(Self::start))
    }

    fn start() -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let options = Options { controllers: true, ..Options::default() };
        let plane = Plane::start(&options).expect("a control plane");
        plane.pause(Process::ControllerManager).expect("nobody looks at Deployments");
        let real = config(&plane.kubeconfig("admin"), &runtime);
        let dev = config(&runtime.block_on(start_dev()), &runtime);
        let servers = Self { runtime, plane, real, dev, quiet: RwLock::new(()) };
        servers.runtime.block_on(async {
            for client in servers.clients() {
                define(&Session::new(client, "").await, &foo_api::crd()).await;
            }
        });
        servers
    }

    /// Runs something while no controller but the garbage collector runs.
    pub(crate) fn quietly<T>(&self, run: impl FnOnce() -> T) -> T {
        let _quiet = self.quiet.read().unwrap_or_else(PoisonError::into_inner);
        run()
    }

    /// Runs something alone, while the controllers run.
    pub(crate) fn with_controllers<T>(&self, run: impl FnOnce() -> T) -> T {
        let _alone = self.quiet.write().unwrap_or_else(PoisonError::into_inner);
        self.plane.resume(Process::ControllerManager).expect("the controllers go on");
        let outcome = run();
        self.plane.pause(Process::ControllerManager).expect("the controllers wait");
        outcome
    }

    /// A client of each, real first; inside the runtime only.
    pub(crate) fn clients(&self) -> [kube::Client; 2] {
        [&self.real, &self.dev].map(|config| kube::Client::try_from(config.clone()).expect("a client"))
    }
}

async fn start_dev() -> String {
    // No status is made up: on the real server nobody runs Deployments either.
    let options = devcluster::Options { fake_kubelet: false, first_version: 1_000, ..Default::default() };
    let cluster = devcluster::DevCluster::start(options).await.expect("a free port");
    let kubeconfig = cluster.kubeconfig();
    // It serves as long as the process lives.
    std::mem::forget(cluster);
    kubeconfig
}
