//! A running control plane.

use crate::{Client, Error};
use std::path::Path;

/// What a plane is made of. The default is etcd and kube-apiserver with the user `admin` and nothing else.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// kube-controller-manager, twice: Deployments, `ReplicaSets` and namespaces in one process, the garbage collector in
    /// another, so that each can be paused alone.
    pub controllers: bool,
    /// kube-scheduler, kwok and one Node with room for 100,000 pods: pods run, `availableReplicas` is real.
    pub pods: bool,
    /// Admission plugins beyond those that are on by default, such as `OwnerReferencesPermissionEnforcement`.
    pub enable_admission: Vec<String>,
    /// Who may log in, beside `admin` (of the group `system:masters`), who always may. What they may do is up to RBAC
    /// objects that the test creates; the user's name is the subject.
    pub users: Vec<User>,
}

/// A user with a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The name that RBAC sees.
    pub name: String,
    /// Groups beyond `system:authenticated`.
    pub groups: Vec<String>,
}

impl User {
    /// A user without groups.
    pub fn new(name: &str) -> Self {
        Self { name: name.into(), groups: Vec::new() }
    }
}

/// A process that can be paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Process {
    /// Deployments, `ReplicaSets` and namespaces.
    ControllerManager,
    /// The garbage collector.
    GarbageCollector,
    /// The scheduler.
    Scheduler,
    /// The fake kubelet.
    Kwok,
}

/// A control plane on free ports of 127.0.0.1. Dropped, all of it ends and its directory is removed; the same happens
/// when the process that started it ends in whatever way.
pub struct Plane(());

impl Plane {
    /// Starts one, and builds first what is missing (see [`program`](crate::program())). When it returns, the API server is ready,
    /// the namespace `default` exists and, with [`Options::pods`], the Node is Ready.
    pub fn start(options: &Options) -> Result<Self, Error> {
        unimplemented!("{options:?}")
    }

    /// `https://127.0.0.1:PORT`.
    pub fn url(&self) -> &str {
        unimplemented!()
    }

    /// The certificate authority of the server, for clients to verify it with.
    pub fn ca_pem(&self) -> &str {
        unimplemented!()
    }

    /// The bearer token of `admin` or of one of [`Options::users`].
    ///
    /// # Panics
    /// When there is no such user.
    pub fn token(&self, user: &str) -> &str {
        unimplemented!("{user}")
    }

    /// A kubeconfig, as YAML, for a user. The namespace is `default`.
    ///
    /// # Panics
    /// When there is no such user.
    pub fn kubeconfig(&self, user: &str) -> String {
        unimplemented!("{user}")
    }

    /// Writes [`Plane::kubeconfig`] to a file that only its owner may read.
    ///
    /// # Panics
    /// When there is no such user.
    pub fn write_kubeconfig(&self, user: &str, path: &Path) -> Result<(), Error> {
        unimplemented!("{user} {}", path.display())
    }

    /// A blocking client for a user.
    ///
    /// # Panics
    /// When there is no such user.
    pub fn client(&self, user: &str) -> Client {
        unimplemented!("{user}")
    }

    /// SIGSTOP: the process keeps its connections and does nothing until [`Plane::resume`].
    pub fn pause(&self, process: Process) -> Result<(), Error> {
        unimplemented!("{process:?}")
    }

    /// SIGCONT.
    pub fn resume(&self, process: Process) -> Result<(), Error> {
        unimplemented!("{process:?}")
    }

    /// Kills a process and starts it anew. The garbage collector looks for new kinds every 30 s only; anew, it knows those
    /// whose CRD is there at once.
    pub fn restart(&self, process: Process) -> Result<(), Error> {
        unimplemented!("{process:?}")
    }

    /// Kills the API server: connections break, new ones are refused.
    pub fn stop_apiserver(&self) -> Result<(), Error> {
        unimplemented!()
    }

    /// Starts the API server that [`Plane::stop_apiserver`] ended: same port, same etcd. It is ready when this returns.
    pub fn start_apiserver(&self) -> Result<(), Error> {
        unimplemented!()
    }

    /// [`Plane::stop_apiserver`], then [`Plane::start_apiserver`].
    pub fn restart_apiserver(&self) -> Result<(), Error> {
        self.stop_apiserver()?;
        self.start_apiserver()
    }

    /// Compacts etcd at its present revision, so that older resource versions are answered 410 Expired; returns that
    /// revision. Nothing else ever compacts.
    pub fn compact(&self) -> Result<u64, Error> {
        unimplemented!()
    }

    /// The directory with the log of each program, `NAME.log`.
    pub fn logs(&self) -> &Path {
        unimplemented!()
    }
}
