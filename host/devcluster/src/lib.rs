//! A small in-memory Kubernetes API over HTTP, for a first run and for tests.
//!
//! What it is: one process that serves, over plain HTTP/1.1 on 127.0.0.1, namespaces,
//! custom resource definitions and the resources they define, Deployments, Events (`v1` and
//! `events.k8s.io/v1`), leases and config maps, with the verbs, patches, subresources, watches, managed
//! fields, garbage collection and error texts of a real API server of Kubernetes 1.36.
//!
//! What it is not: there is no authentication, authorization, admission or TLS; no pods, replica sets, nodes
//! or schedulers (a Deployment's status is made up after a delay); no persistence, no protobuf, no
//! conversion between versions of a custom resource, no CEL rules; Events do not expire. Go's
//! typed clients, and with them kubectl's generators (`kubectl create deployment`), send protobuf unless told
//! otherwise and are answered 415; files (`kubectl apply -f`) are JSON. It injects no
//! faults: a proxy in front of it does that.
//!
//! Must not know: the host, its types, Wasm.

mod admit;
mod apply;
mod beyond_schema;
mod cluster;
mod columns;
mod controllers;
mod definition;
mod deployment;
mod discovery;
mod events;
mod identity;
mod jsonpath;
mod kubelet;
mod meta;
mod patch;
mod read;
mod records;
mod remove;
mod requests;
mod resource;
mod route;
mod selector;
mod server;
mod status;
mod store;
mod structural;
mod watch;
mod write;

pub use cluster::Clock;
pub use records::RequestRecord;

use cluster::{Cluster, Settings};
use server::Shared;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// How long a shutdown waits for requests in flight.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(5);

/// How the server behaves.
#[derive(Clone)]
pub struct Options {
    /// Port on 127.0.0.1; 0 lets the system choose one.
    pub port: u16,
    /// How long a Deployment takes to become available after a change. With zero there is one status write for
    /// a change of the spec, otherwise two.
    pub available_after: Duration,
    /// Whether the status of Deployments is written at all.
    pub fake_kubelet: bool,
    /// Whether dependents of what is gone are deleted, and foreground and orphaning deletions completed.
    pub garbage_collector: bool,
    /// Changes that are remembered for watches and lists, for each resource. Older places answer 410.
    pub history: usize,
    /// The resource version that the server begins with; older ones answer 410. A server that takes the place of
    /// another on the same port needs one above all of the other's, or clients that watch from the old one wait for
    /// ever.
    pub first_version: u64,
    /// Requests that are remembered, the latest.
    pub records: usize,
    /// Where timestamps in objects come from. Delays follow tokio's time.
    pub clock: Clock,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            port: 0,
            available_after: Duration::from_millis(500),
            fake_kubelet: true,
            garbage_collector: true,
            history: 20_000,
            first_version: 1,
            records: 100_000,
            clock: Arc::new(jiff::Timestamp::now),
        }
    }
}

/// Why the server could not be started, or an object not be seeded.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The port could not be opened.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// What was asked for.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// The kubeconfig could not be written.
    #[error("cannot write the kubeconfig {}: {source}", path.display())]
    Kubeconfig {
        /// Where to.
        path: std::path::PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// An object that was to be seeded was refused.
    #[error("{0}")]
    Refused(String),
}

/// A running server. Dropping it ends it without waiting; [`DevCluster::shutdown`] waits.
pub struct DevCluster {
    shared: Arc<Shared>,
    address: SocketAddr,
    server: JoinHandle<()>,
    controllers: JoinHandle<()>,
}

impl std::fmt::Debug for DevCluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DevCluster").field("address", &self.address).finish_non_exhaustive()
    }
}

impl DevCluster {
    /// Starts a server; it serves when this returns. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// [`Error::Listen`] when the port is taken.
    pub async fn start(options: Options) -> Result<Self, Error> {
        use axum::serve::ListenerExt as _;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, options.port));
        let listen = |source| Error::Listen { address, source };
        let listener = tokio::net::TcpListener::bind(address).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let settings = Settings {
            available_after: options.available_after,
            garbage_collector: options.garbage_collector,
            fake_kubelet: options.fake_kubelet,
            clock: options.clock,
        };
        let cluster = Cluster::new(settings, options.history, options.first_version);
        let shared = Shared::new(cluster, records::Records::new(options.records));
        let router = axum::Router::new().fallback(server::handle).with_state(shared.clone());
        // Small answers must not wait for the acknowledgement of earlier ones.
        let listener = listener.tap_io(|stream| {
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!(%error, "cannot set TCP_NODELAY");
            }
        });
        let mut gone = shared.shutdown();
        let server = tokio::spawn(async move {
            let wait = async move {
                let _ = gone.wait_for(|gone| *gone).await;
            };
            if let Err(error) = axum::serve(listener, router).with_graceful_shutdown(wait).await {
                tracing::error!(%error, "the API server ended");
            }
        });
        let controllers = tokio::spawn(server::run_controllers(shared.clone()));
        Ok(Self { shared, address, server, controllers })
    }

    /// `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A kubeconfig with this server as its only context.
    pub fn kubeconfig(&self) -> String {
        let url = self.url();
        format!(
            "apiVersion: v1\nkind: Config\nclusters:\n- name: devcluster\n  cluster:\n    server: {url}\ncontexts:\n\
             - name: devcluster\n  context:\n    cluster: devcluster\n    user: devcluster\n    namespace: default\n\
             current-context: devcluster\nusers:\n- name: devcluster\n  user: {{}}\n"
        )
    }

    /// Writes [`DevCluster::kubeconfig`] to a file.
    ///
    /// # Errors
    /// [`Error::Kubeconfig`] when the file cannot be written.
    pub fn write_kubeconfig(&self, path: &Path) -> Result<(), Error> {
        std::fs::write(path, self.kubeconfig())
            .map_err(|source| Error::Kubeconfig { path: path.to_owned(), source })
    }

    /// Ends all watches and connections and waits until they are gone, at most five seconds: a client may hold a
    /// request open that it never finishes.
    pub async fn shutdown(mut self) {
        self.shared.begin_shutdown();
        let _ = (&mut self.controllers).await;
        if tokio::time::timeout(SHUTDOWN_LIMIT, &mut self.server).await.is_err() {
            self.server.abort();
        }
    }

    /// The requests so far, oldest first, up to [`Options::records`].
    pub fn requests(&self) -> Vec<RequestRecord> {
        self.shared.records.all()
    }

    /// How many of the remembered requests satisfy `filter`.
    pub fn count(&self, filter: impl Fn(&RequestRecord) -> bool) -> usize {
        self.shared.records.count(filter)
    }

    /// Forgets the requests so far.
    pub fn clear_requests(&self) {
        self.shared.records.clear();
    }

    /// Forgets all changes so far, as etcd's compaction does: resource versions from before the latest write answer
    /// 410 (watches in the stream, lists and pages as the status). Open watches that have seen everything go on.
    pub fn compact(&self) {
        self.shared.lock().store.compact();
    }

    /// Ends every open watch with an ERROR event of status 410.
    pub fn expire_watches(&self) {
        self.shared.lock().store.expire_watches();
    }

    /// Creates objects without HTTP, as a client of the name `seed` would: the quick way to ten thousand of them.
    ///
    /// # Errors
    /// [`Error::Refused`] with the API's text for the first object that it refuses.
    pub fn seed(&self, objects: impl IntoIterator<Item = serde_json::Value>) -> Result<(), Error> {
        for object in objects {
            self.shared.change(|cluster| cluster.seed(object)).map_err(|e| Error::Refused(e.to_string()))?;
        }
        Ok(())
    }
}

impl Drop for DevCluster {
    fn drop(&mut self) {
        self.shared.begin_shutdown();
    }
}
