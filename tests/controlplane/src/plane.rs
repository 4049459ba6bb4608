//! A running control plane.

use crate::child::Spec;
use crate::etcd::Etcd;
use crate::flags::{self, Paths};
use crate::identity::{ADMIN, Identity};
use crate::keeper::Keeper;
use crate::port::Port;
use crate::process::{Other, Server};
use crate::{Client, Error, Options, Process, Program, program, programs};
use std::collections::HashMap;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

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

impl Plane {
    /// Starts one, and builds first what is missing (see [`program`](crate::program())). When it returns, the
    /// API server is ready, the namespace `default` exists, the controllers are healthy and, with
    /// [`Options::pods`], the Node is Ready.
    pub fn start(options: &Options) -> Result<Self, Error> {
        let asked = options.enable_admission.iter().flat_map(|plugins| plugins.split(','));
        for (plugin, reason) in flags::ADMISSION_OFF {
            if asked.clone().any(|asked| asked.trim() == plugin) {
                return Err(Error::Admission { plugin, reason });
            }
        }
        let processes = Process::of(options);
        let servers = [Program::Etcd, Program::KubeApiserver].into_iter();
        programs(&servers.chain(processes.iter().map(|process| process.program())).collect::<Vec<_>>())?;
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
        for other in plane.others.values() {
            lock(other).ready(&plane.client)?;
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

    /// An error if a program of the plane has ended by itself.
    pub fn check(&self) -> Result<(), Error> {
        self.etcd.check()?;
        if let Some(child) = &mut lock(&self.apiserver).child {
            child.check()?;
        }
        self.others.values().try_for_each(|other| lock(other).child.check())
    }

    /// SIGSTOP: the process keeps its connections and does nothing until [`Plane::resume`].
    pub fn pause(&self, process: Process) -> Result<(), Error> {
        self.other(process)?.child.pause()
    }

    /// SIGCONT.
    pub fn resume(&self, process: Process) -> Result<(), Error> {
        self.other(process)?.child.resume()
    }

    /// Kills a process, paused or not, and starts it anew. The garbage collector looks for new kinds every 30
    /// s only; anew, it knows at once those whose CRD is there.
    pub fn restart(&self, process: Process) -> Result<(), Error> {
        let mut other = self.other(process)?;
        other.restart(&self.logs, self.keeper.group())?;
        other.ready(&self.client)
    }

    /// Kills the API server: connections break, new ones are refused.
    pub fn stop_apiserver(&self) {
        lock(&self.apiserver).child = None;
    }

    /// Starts the API server that [`Plane::stop_apiserver`] ended: same port, same etcd. It is ready when
    /// this returns.
    pub fn start_apiserver(&self) -> Result<(), Error> {
        lock(&self.apiserver).start(&self.client, &self.logs, self.keeper.group())
    }

    /// [`Plane::stop_apiserver`], then [`Plane::start_apiserver`]. Its watch cache is new: a watch from a
    /// resource version of before is answered 410.
    pub fn restart_apiserver(&self) -> Result<(), Error> {
        self.stop_apiserver();
        self.start_apiserver()
    }

    /// Compacts etcd at its present revision and returns that. Lists at older resource versions and the rest
    /// of a list in pages are answered 410 Expired from now on. Watches are served from the API server's
    /// watch cache, which [`Plane::restart_apiserver`] empties. Nothing else ever compacts.
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
