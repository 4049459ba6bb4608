//! A running control plane.

use crate::child::{Child, Spec};
use crate::etcd::Etcd;
use crate::flags::{self, Paths};
use crate::identity::{ADMIN, Identity};
use crate::keeper::Keeper;
use crate::port::Port;
use crate::{Client, Error, Program, program};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a plane is made of. The default is etcd and kube-apiserver with the user `admin` and nothing else.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// kube-controller-manager, twice: Deployments, `ReplicaSets` and namespaces in one process, the garbage
    /// collector in another, so that each can be paused alone.
    pub controllers: bool,
    /// kube-scheduler, kwok and one Node with room for 100,000 pods: pods run. With [`Options::controllers`],
    /// `availableReplicas` is real.
    pub pods: bool,
    /// Admission plugins beyond those that are on by default, such as `OwnerReferencesPermissionEnforcement`.
    pub enable_admission: Vec<String>,
    /// Who may log in, beside `admin` (of the group `system:masters`), who always may. What they may do is up to
    /// RBAC objects that the test creates; the user's name is the subject.
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

impl Process {
    fn name(self) -> &'static str {
        match self {
            Self::ControllerManager => "kube-controller-manager",
            Self::GarbageCollector => "garbage-collector",
            Self::Scheduler => "kube-scheduler",
            Self::Kwok => "kwok",
        }
    }

    fn program(self) -> Program {
        match self {
            Self::ControllerManager | Self::GarbageCollector => Program::KubeControllerManager,
            Self::Scheduler => Program::KubeScheduler,
            Self::Kwok => Program::Kwok,
        }
    }

    /// What a plane with these options runs beside the API server.
    fn of(options: &Options) -> Vec<Self> {
        let controllers =
            [Self::ControllerManager, Self::GarbageCollector].into_iter().filter(|_| options.controllers);
        let pods = [Self::Scheduler, Self::Kwok].into_iter().filter(|_| options.pods);
        controllers.chain(pods).collect()
    }
}

/// A control plane on free ports of 127.0.0.1. Dropped, all of it ends and its directory is removed; the same
/// happens when the process that started it ends in whatever way.
pub struct Plane {
    url: String,
    identity: Identity,
    logs: PathBuf,
    client: Client,
    apiserver: Mutex<Server>,
    others: HashMap<Process, Mutex<Other>>,
    etcd: Etcd,
    _port: Port,
    // Last: it goes when the programs have ended.
    keeper: Keeper,
}

/// The API server, or how to start it again.
struct Server {
    spec: Spec,
    child: Option<Child>,
}

/// A process beside the API server, and where it says that it is healthy: kwok does not, but the Node shows it.
struct Other {
    spec: Spec,
    child: Child,
    health: Option<Client>,
    _port: Port,
}

impl Plane {
    /// Starts one, and builds first what is missing (see [`program`](crate::program())). When it returns, the API
    /// server is ready, the namespace `default` exists, the controllers are healthy and, with [`Options::pods`], the
    /// Node is Ready.
    pub fn start(options: &Options) -> Result<Self, Error> {
        let processes = Process::of(options);
        for which in
            [Program::Etcd, Program::KubeApiserver].into_iter().chain(processes.iter().map(|p| p.program()))
        {
            program(which)?;
        }
        let keeper = Keeper::new()?;
        let (directory, group) = (keeper.directory().to_owned(), keeper.group());
        let logs = directory.join("logs");
        std::fs::create_dir(&logs).map_err(Error::file(&logs))?;

        let etcd = Etcd::start(&directory, &logs, group)?;
        let identity = Identity::create(&directory, &options.users)?;
        let port = Port::reserve()?;
        let url = format!("https://127.0.0.1:{}", port.number());
        let kubeconfig = directory.join("kubeconfig");
        write_private(&kubeconfig, &identity.kubeconfig(&url, ADMIN))?;
        let paths = Paths { directory: &directory, identity: &identity, kubeconfig: &kubeconfig };

        let arguments = flags::apiserver(&paths, port.number(), etcd.url(), &options.enable_admission);
        let spec = Spec { name: "kube-apiserver", path: program(Program::KubeApiserver)?, arguments };
        let mut server = Server { spec, child: None };
        let client = Client::new(&url, Some(&identity.ca_pem), Some(identity.token(ADMIN)))?;
        server.start(&client, &logs, group)?;

        let mut others = HashMap::new();
        for process in processes {
            others.insert(process, Mutex::new(Other::start(process, &paths, &logs, group)?));
        }
        let plane = Self {
            url,
            identity,
            logs,
            client,
            apiserver: Mutex::new(server),
            others,
            etcd,
            _port: port,
            keeper,
        };
        for process in plane.others.keys() {
            plane.ready(*process)?;
        }
        Ok(plane)
    }

    /// `https://127.0.0.1:PORT`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The certificate authority of the server, for clients to verify it with.
    pub fn ca_pem(&self) -> &str {
        &self.identity.ca_pem
    }

    /// The bearer token of `admin` or of one of [`Options::users`].
    ///
    /// # Panics
    /// When there is no such user.
    pub fn token(&self, user: &str) -> &str {
        self.identity.token(user)
    }

    /// A kubeconfig, as YAML, for a user. The namespace is `default`.
    ///
    /// # Panics
    /// When there is no such user.
    pub fn kubeconfig(&self, user: &str) -> String {
        self.identity.kubeconfig(&self.url, user)
    }

    /// Writes [`Plane::kubeconfig`] to a file that only its owner may read.
    ///
    /// # Panics
    /// When there is no such user.
    pub fn write_kubeconfig(&self, user: &str, path: &Path) -> Result<(), Error> {
        write_private(path, &self.kubeconfig(user))
    }

    /// A blocking client for a user.
    ///
    /// # Panics
    /// When there is no such user.
    pub fn client(&self, user: &str) -> Client {
        self.client.with_token(self.token(user))
    }

    /// SIGSTOP: the process keeps its connections and does nothing until [`Plane::resume`].
    pub fn pause(&self, process: Process) -> Result<(), Error> {
        self.other(process)?.child.pause()
    }

    /// SIGCONT.
    pub fn resume(&self, process: Process) -> Result<(), Error> {
        self.other(process)?.child.resume()
    }

    /// Kills a process, paused or not, and starts it anew. The garbage collector looks for new kinds every 30 s only;
    /// anew, it knows at once those whose CRD is there.
    pub fn restart(&self, process: Process) -> Result<(), Error> {
        self.other(process)?.restart(&self.logs, self.keeper.group())?;
        self.ready(process)
    }

    /// Kills the API server: connections break, new ones are refused.
    pub fn stop_apiserver(&self) {
        lock(&self.apiserver).child = None;
    }

    /// Starts the API server that [`Plane::stop_apiserver`] ended: same port, same etcd. It is ready when this
    /// returns.
    pub fn start_apiserver(&self) -> Result<(), Error> {
        lock(&self.apiserver).start(&self.client, &self.logs, self.keeper.group())
    }

    /// [`Plane::stop_apiserver`], then [`Plane::start_apiserver`]. Its watch cache is new: a watch from a resource version of
    /// before is answered 410.
    pub fn restart_apiserver(&self) -> Result<(), Error> {
        self.stop_apiserver();
        self.start_apiserver()
    }

    /// Compacts etcd at its present revision and returns that. Lists at older resource versions and the rest of a
    /// list in pages are answered 410 Expired from now on. Watches are served from the API server's watch cache, which
    /// [`Plane::restart_apiserver`] empties. Nothing else ever compacts.
    pub fn compact(&self) -> Result<u64, Error> {
        self.etcd.compact()
    }

    /// The directory with the log of each program, `NAME.log`.
    pub fn logs(&self) -> &Path {
        &self.logs
    }

    fn other(&self, process: Process) -> Result<MutexGuard<'_, Other>, Error> {
        self.others.get(&process).map(lock).ok_or(Error::NotRunning(process.name()))
    }

    /// Waits until a process does its work.
    fn ready(&self, process: Process) -> Result<(), Error> {
        let mut other = self.other(process)?;
        let Other { child, health, .. } = &mut *other;
        match health {
            Some(health) => child.wait(|| health.get("/healthz").map(drop)),
            None => child.wait(|| node_is_ready(&self.client)),
        }
    }
}

impl Server {
    fn start(&mut self, client: &Client, logs: &Path, group: i32) -> Result<(), Error> {
        let child = self.child.insert(Child::start(&self.spec, logs, group)?);
        child.wait(|| {
            client.get("/readyz")?;
            // A controller inside the server makes it; readiness does not wait for that.
            client.get("/api/v1/namespaces/default").map(drop)
        })
    }
}

impl Other {
    fn start(process: Process, paths: &Paths<'_>, logs: &Path, group: i32) -> Result<Self, Error> {
        let port = Port::reserve()?;
        let arguments = match process {
            Process::ControllerManager => {
                let controllers = ["deployment-controller", "replicaset-controller", "namespace-controller"];
                flags::controller_manager(paths, port.number(), &controllers)
            }
            Process::GarbageCollector => {
                flags::controller_manager(paths, port.number(), &["garbage-collector-controller"])
            }
            Process::Scheduler => flags::scheduler(paths, port.number()),
            Process::Kwok => flags::kwok(paths, &crate::program::kwok_stages()?),
        };
        let health = match process {
            Process::Kwok => None,
            _ => {
                let url = format!("https://127.0.0.1:{}", port.number());
                Some(Client::new(&url, Some(&paths.identity.ca_pem), None)?)
            }
        };
        let spec = Spec { name: process.name(), path: program(process.program())?, arguments };
        let child = Child::start(&spec, logs, group)?;
        Ok(Self { spec, child, health, _port: port })
    }

    fn restart(&mut self, logs: &Path, group: i32) -> Result<(), Error> {
        self.child.kill();
        self.child = Child::start(&self.spec, logs, group)?;
        Ok(())
    }
}

/// Makes the Node, once, and asks whether kwok has taken it on.
fn node_is_ready(client: &Client) -> Result<(), Error> {
    let path = "/api/v1/nodes/kwok";
    let node = match client.get(path) {
        Err(error) if error.status() == Some(404) => {
            let room = json!({ "cpu": "100k", "memory": "100Ti", "pods": "100000" });
            let node = json!({
                "metadata": { "name": "kwok", "labels": { "kubernetes.io/hostname": "kwok" } },
                "status": { "allocatable": room, "capacity": room },
            });
            client.create("/api/v1/nodes", &node)?
        }
        answer => answer?,
    };
    let conditions = node["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let ready = |condition: &Value| condition["type"] == "Ready" && condition["status"] == "True";
    if conditions.iter().any(ready) {
        return Ok(());
    }
    let reason = format!("the Node is not Ready: {}", node["status"]["conditions"]);
    Err(Error::Request { method: "GET", path: path.into(), status: Some(200), reason })
}

fn write_private(path: &Path, text: &str) -> Result<(), Error> {
    let write = || {
        let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        file.write_all(text.as_bytes())
    };
    write().map_err(Error::file(path))
}

/// A panic of another test while it held the lock left nothing half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
