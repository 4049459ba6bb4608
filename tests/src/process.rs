//! The controller as a process of its own: the real binary, for what cannot be done to a task, such as SIGKILL.

use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::task::JoinHandle;

/// Starts the controller, passes on the signals that it reads, and kills it when there is nothing more to read: when
/// the test drops the other end of the pipe, or is gone itself, however it went. It gives up its own standard error,
/// so that the end of that is the end of the controller.
const KEEPER: &str = r#"
    "$@" </dev/null &
    host=$!
    trap '' HUP INT TERM
    exec 2>/dev/null
    while read -r signal; do kill -s "$signal" "$host"; done
    kill -s KILL "$host"
    wait "$host""#;

/// The binary `foo-host`, built once in a run with the features of the whole workspace, as `make test` has built it
/// already: `cargo test` builds a package's binaries before its integration tests.
pub fn foo_host() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let output = std::process::Command::new(env!("CARGO"))
            .current_dir(crate::guests::root())
            .args(["test", "--locked", "--workspace", "--test", "cli", "--no-run"])
            // Set by the cargo that runs the tests, for this package.
            .env_remove("CARGO_MANIFEST_DIR")
            .output()
            .expect("cargo runs");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "foo-host does not build:\n{error}");
        // target/debug/deps/this-test
        let this = std::env::current_exe().expect("the test's path");
        this.ancestors().nth(2).expect("a target directory").join("foo-host")
    })
}

/// A running controller. Dropped, it is killed; so it is when the test's process ends.
pub struct Host {
    keeper: Child,
    signals: ChildStdin,
    log: Arc<Mutex<Vec<String>>>,
    reader: JoinHandle<()>,
}

impl Host {
    /// Starts `foo-host` with these arguments, and waits until it serves.
    ///
    /// # Panics
    /// When it ends before, with its log.
    pub async fn start(arguments: &[String], home: &Path) -> Self {
        Self::start_program(foo_host(), arguments, home, "starting workers").await
    }

    /// Starts another controller, which serves when it has logged `serves`.
    ///
    /// # Panics
    /// When it ends before, with its log.
    pub async fn start_program(program: &Path, arguments: &[String], home: &Path, serves: &str) -> Self {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", KEEPER, "keeper"]).arg(program).args(arguments);
        // Variables of the user, such as KUBECONFIG, are not for it.
        command.env_clear().env("HOME", home).env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut keeper = command.spawn().expect("a shell");
        let signals = keeper.stdin.take().expect("piped");
        let mut lines = BufReader::new(keeper.stderr.take().expect("piped")).lines();
        let log = Arc::new(Mutex::new(Vec::new()));
        let lines_read = log.clone();
        let reader = tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                locked(&lines_read).push(line);
            }
        });
        let host = Self { keeper, signals, log, reader };
        let serves = async || host.reader.is_finished() || host.said(serves).is_some();
        crate::api::until("the controller serves", serves).await;
        assert!(!host.reader.is_finished(), "the controller ended:\n{}", host.log());
        host
    }

    fn said(&self, text: &str) -> Option<String> {
        locked(&self.log).iter().find(|line| line.contains(text)).cloned()
    }

    /// What it wrote to standard error so far.
    pub fn log(&self) -> String {
        locked(&self.log).join("\n")
    }

    /// Where it serves metrics and health, `http://HOST:PORT`.
    pub fn address(&self) -> String {
        let line = self.said("metrics and health on ").expect("it has --metrics-addr");
        line[line.rfind("http://").expect("a URL")..].trim().to_owned()
    }

    /// SIGKILL. It is gone when this returns.
    pub async fn kill(mut self) {
        drop(self.signals);
        self.keeper.wait().await.expect("a shell");
    }

    /// SIGTERM, and waits for the end.
    ///
    /// # Panics
    /// When it does not come.
    pub async fn terminate(mut self) -> ExitStatus {
        self.signals.write_all(b"TERM\n").await.expect("a shell reads");
        let ended = tokio::time::timeout(crate::api::PATIENCE, &mut self.reader).await;
        assert!(ended.is_ok(), "the controller does not end:\n{}", self.log());
        drop(self.signals);
        self.keeper.wait().await.expect("a shell")
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
