//! `controlplane`: builds the programs of a control plane, or runs one for a person at a terminal.

use clap::{Parser, Subcommand};
use controlplane::{Found, Options, Plane, Program};
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};

/// A real Kubernetes control plane, built from Go modules; for tests, and to try things by hand.
#[derive(Parser)]
#[command(version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Build every program that is not there yet; the first time takes some 8 minutes.
    ///
    /// Each comes from the directory `$KUBEBUILDER_ASSETS` if that has it, else from the cache below
    /// `$XDG_CACHE_HOME` or `~/.cache`, else it is built into the cache, which needs Go. kwok also needs
    /// upstream's stages, which come with a build, or lie as `stages.yaml` in `$KUBEBUILDER_ASSETS`.
    Build,
    /// Start a control plane on free ports of 127.0.0.1, until Ctrl-C.
    ///
    /// The first start builds the programs, which takes some 8 minutes. It has etcd, kube-apiserver, the
    /// controllers of Deployments and namespaces, the garbage collector, kube-scheduler, and kwok, which lets
    /// pods become Running without running anything: no logs, no exec. No other controller runs: no
    /// service accounts, no jobs, no endpoints of services. Nothing is kept when it ends.
    Up {
        /// No scheduler, no kwok, no Node: pods stay Pending, and no Foo becomes Ready.
        #[arg(long)]
        no_pods: bool,
        /// An admission plugin beyond those that are on by default; repeatable. `ServiceAccount` and
        /// `TaintNodesByCondition` stay off: nothing here makes service accounts or lifts taints.
        #[arg(long, value_name = "PLUGIN")]
        admission: Vec<String>,
    },
}

/// The time between two looks at the programs of a plane.
const LOOK: Duration = Duration::from_millis(500);

type Result = std::result::Result<(), Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("controlplane: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result {
    match command {
        Command::Build => build(),
        Command::Up { no_pods, admission } => up(&Options {
            controllers: true,
            pods: !no_pods,
            enable_admission: admission,
            ..Options::default()
        }),
    }
}

fn build() -> Result {
    let mut rows = String::new();
    for Found { program, path, is_asset } in controlplane::programs(&Program::ALL)? {
        let version = if is_asset { "from KUBEBUILDER_ASSETS".into() } else { program.version()? };
        writeln!(rows, "{:<24} {version:<24} {}", program.name(), path.display())?;
    }
    print(&rows)
}

/// A reader that went away (`controlplane build | head -1`) is no error of ours.
fn print(text: &str) -> Result {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

fn up(options: &Options) -> Result {
    let started = Instant::now();
    let plane = Plane::start(options)?;
    print(&introduction(&plane, options.pods, started.elapsed()))?;
    let ended = wait(&plane);
    if ended.is_err() {
        eprintln!("controlplane: a program of the plane has ended; ending the rest");
    }
    drop(plane);
    ended?;
    print("\nEnded.\n")
}

/// What a person can do with the plane. In each block only the last command waits for something.
fn introduction(plane: &Plane, pods: bool, after: Duration) -> String {
    let (with, rollout, ready) = if pods {
        (
            "with one Node on which pods seem to run (kwok: no logs, no exec)",
            "  kubectl rollout status deployment web\n",
            "",
        )
    } else {
        ("without a Node: pods stay Pending", "", ", but no Foo becomes Ready, for no pod runs")
    };
    let kubeconfig = plane.logs().with_file_name("kubeconfig");
    format!(
        "A control plane on {url}, ready after {seconds:.1} s, {with}.
In another terminal:

  export KUBECONFIG={kubeconfig}
  kubectl get namespaces
  kubectl create deployment web --image nginx --replicas 2
{rollout}
The controller in front of it, there as well{ready}; the last command runs until Ctrl-C:

  cargo run -p host -- crd | kubectl apply -f -
  kubectl wait --for condition=Established crd/foos.samplecontroller.k8s.io
  kubectl apply -f artifacts/examples/example-foo.yaml
  cargo run -p host

Logs of the programs are in {logs}.
Ctrl-C here or `kill {pid}` ends it all; nothing is kept.
",
        url = plane.url(),
        seconds = after.as_secs_f64(),
        kubeconfig = kubeconfig.display(),
        logs = plane.logs().display(),
        pid = std::process::id(),
    )
}

/// Until a signal, or an error when a program of the plane ends. Before this, a signal simply ends this
/// process, and the plane's keeper does the rest.
fn wait(plane: &Plane) -> Result {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut look = tokio::time::interval(LOOK);
        loop {
            tokio::select! {
                interrupted = tokio::signal::ctrl_c() => return Ok(interrupted?),
                _ = terminate.recv() => return Ok(()),
                _ = look.tick() => plane.check()?,
            }
        }
    })
}
