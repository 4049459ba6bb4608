//! `controlplane`: builds the programs of a control plane, or runs one for a person at a terminal.

use clap::{Parser, Subcommand};
use controlplane::{Options, Plane, Program};
use std::process::ExitCode;
use std::time::Instant;
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
    /// Build every program that is not there yet; the first time takes up to 10 minutes.
    ///
    /// Each comes from the directory `$KUBEBUILDER_ASSETS` if that has it, else from the cache below
    /// `$XDG_CACHE_HOME` or `~/.cache`, else it is built into the cache, which needs Go.
    Build,
    /// Start a control plane on free ports of 127.0.0.1, until Ctrl-C.
    ///
    /// It has etcd, kube-apiserver, the controllers of Deployments and namespaces, the garbage collector,
    /// kube-scheduler, and kwok, which lets pods become Running without running anything. Nothing is kept
    /// when it ends.
    Up {
        /// No scheduler, no kwok, no Node: pods stay Pending.
        #[arg(long)]
        no_pods: bool,
        /// An admission plugin beyond those that are on by default; repeatable.
        #[arg(long, value_name = "PLUGIN")]
        admission: Vec<String>,
    },
}

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
    for which in Program::ALL {
        let started = Instant::now();
        let path = controlplane::program(which)?;
        let (version, seconds) = (which.version()?, started.elapsed().as_secs());
        println!("{:<24} {version:<9} {seconds:>4} s  {}", which.name(), path.display());
    }
    Ok(())
}

fn up(options: &Options) -> Result {
    let started = Instant::now();
    let plane = Plane::start(options)?;
    let kubeconfig = plane.logs().with_file_name("kubeconfig");
    let pods = if options.pods { ", with one Node on which pods become Running" } else { "" };
    println!(
        "A control plane on {url}, ready after {seconds:.1} s{pods}.

  export KUBECONFIG={kubeconfig}
  kubectl get namespaces
  kubectl create deployment web --image nginx --replicas 2
  kubectl rollout status deployment web

The controller in front of it, in another terminal with the same KUBECONFIG:

  cargo run -p host -- crd | kubectl apply -f -
  cargo run -p host
  kubectl apply -f artifacts/examples/example-foo.yaml

Logs of the programs are in {logs}. Ctrl-C ends it all; nothing is kept.",
        url = plane.url(),
        seconds = started.elapsed().as_secs_f64(),
        kubeconfig = kubeconfig.display(),
        logs = plane.logs().display(),
    );
    wait_for_signal()?;
    drop(plane);
    println!("\nEnded.");
    Ok(())
}

/// Until then a signal simply ends this process, and the plane's keeper does the rest.
fn wait_for_signal() -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            interrupted = tokio::signal::ctrl_c() => interrupted,
            _ = terminate.recv() => Ok(()),
        }
    })
}
