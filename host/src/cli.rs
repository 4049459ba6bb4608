//! What the user typed: flags and their environment variables, as clap reads them.
//!
//! Validated settings are made of it in `settings.rs`; nothing here touches the cluster.

use crate::logging::LogFormat;
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// Runs a Kubernetes controller whose desired-state logic is a WebAssembly guest.
///
/// Without a command it runs the controller: for each Foo it keeps the Deployment that the guest asks for,
/// the Foo's status and its Events in line.
#[derive(Debug, Parser)]
#[command(
    name = "foo-host",
    version,
    args_conflicts_with_subcommands = true,
    after_help = "Start here:\n  foo-host dev                 a Kubernetes API in memory and the controller, in one process\n  \
                  foo-host crd | kubectl apply -f -   install the Foo CRD in a cluster\n  \
                  foo-host --guest my.wasm     run with logic of your own (wit/reconciler.wit has the contract)\n\n\
                  Each flag can be given as the environment variable beside it; the flag wins."
)]
pub struct Cli {
    #[command(subcommand)]
    /// What to do instead of running the controller.
    pub command: Option<Command>,

    #[command(flatten)]
    /// Where the cluster is.
    pub cluster: ClusterArgs,

    #[command(flatten)]
    /// Flags of the controller.
    pub run: RunArgs,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start an in-memory Kubernetes API and the controller in one process (a first run without a cluster).
    #[cfg(feature = "dev")]
    Dev(Box<DevArgs>),
    /// Print the Foo CRD as YAML.
    Crd,
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Compile a guest: what the host starts as a child of its own and talks to through pipes.
    #[command(hide = true)]
    Compile,
}

/// Flags of the controller.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Controller")]
pub struct RunArgs {
    /// The guest: a WebAssembly component, or a core module that carries its component type. Without it the
    /// built-in one runs (an nginx Deployment for each Foo).
    #[arg(long, value_name = "PATH", env = "FOO_HOST_GUEST")]
    pub guest: Option<PathBuf>,

    /// A parameter that the guest finds in `foo.context.parameters`; may be repeated (in the environment
    /// variable: one a line).
    #[arg(
        long = "guest-param",
        value_name = "KEY=VALUE",
        env = "FOO_HOST_GUEST_PARAM",
        value_delimiter = '\n'
    )]
    pub guest_params: Vec<String>,

    /// Serve only this namespace; may be repeated. Default: all.
    #[arg(
        long = "namespace",
        short = 'n',
        value_name = "NAME",
        env = "FOO_HOST_NAMESPACE",
        value_delimiter = ','
    )]
    pub namespaces: Vec<String>,

    /// How many Foos are reconciled at once.
    #[arg(long, value_name = "N", default_value_t = 2, env = "FOO_HOST_WORKERS",
          value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub workers: u16,

    /// How often every Foo is looked at again though nothing changed; 0s turns it off.
    #[arg(long, value_name = "DURATION", default_value = "30s", env = "FOO_HOST_RESYNC")]
    pub resync: String,

    #[command(flatten)]
    /// What the host shows of itself.
    pub observe: ObserveArgs,

    #[command(flatten)]
    /// What a guest may use.
    pub limits: LimitArgs,
}

/// Where the cluster is.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Cluster")]
pub struct ClusterArgs {
    /// The kubeconfig file. Default: $KUBECONFIG, ~/.kube/config, then the pod's service account.
    #[arg(long, value_name = "PATH", env = "FOO_HOST_KUBECONFIG")]
    pub kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig. Default: its current one.
    #[arg(long, value_name = "NAME", env = "FOO_HOST_CONTEXT")]
    pub context: Option<String>,

    /// The address of the API server; overrides the one of --kubeconfig. Without --kubeconfig or --context it
    /// is used alone, without credentials.
    #[arg(long, value_name = "URL", env = "FOO_HOST_MASTER")]
    pub master: Option<String>,
}

/// What the host shows of itself.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Observability")]
pub struct ObserveArgs {
    /// Where /metrics, /healthz, /livez and /readyz are served; port 0 takes a free one, `off` serves none.
    /// Default: 127.0.0.1:8080, a free port in `dev`.
    #[arg(long, value_name = "HOST:PORT", env = "FOO_HOST_METRICS_ADDR")]
    pub metrics_addr: Option<String>,

    /// The form of the log, on standard error.
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "text", env = "FOO_HOST_LOG_FORMAT")]
    pub log_format: LogFormat,

    /// The least level that is logged (error, warn, info, debug, trace), or a filter such as
    /// `info,guest=debug` (`guest` is what guests log). Default: info, warn in `dev`.
    #[arg(long, value_name = "LEVEL", env = "FOO_HOST_LOG_LEVEL")]
    pub log_level: Option<String>,
}

/// What a guest may use. Each call has these limits; a call that passes one is ended and counts as a failure.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Guest limits")]
pub struct LimitArgs {
    /// Units of fuel (roughly Wasm instructions) a call may burn.
    #[arg(long, value_name = "UNITS", default_value_t = 1_000_000_000, env = "FOO_HOST_GUEST_FUEL")]
    pub guest_fuel: u64,

    /// How long a call may take.
    #[arg(long, value_name = "DURATION", default_value = "1s", env = "FOO_HOST_GUEST_TIMEOUT")]
    pub guest_timeout: String,

    /// Linear memory of a call.
    #[arg(long, value_name = "SIZE", default_value = "64Mi", env = "FOO_HOST_GUEST_MEMORY")]
    pub guest_memory: String,

    /// Stack of a call.
    #[arg(long, value_name = "SIZE", default_value = "512Ki", env = "FOO_HOST_GUEST_STACK")]
    pub guest_stack: String,

    /// Size of an answer.
    #[arg(long, value_name = "SIZE", default_value = "1Mi", env = "FOO_HOST_GUEST_RESULT")]
    pub guest_result: String,

    /// Number of actions in an answer.
    #[arg(long, value_name = "N", default_value_t = 32, env = "FOO_HOST_GUEST_MAX_ACTIONS")]
    pub guest_max_actions: usize,

    /// Size of a guest's file.
    #[arg(long, value_name = "SIZE", default_value = "64Mi", env = "FOO_HOST_GUEST_MAX_SIZE")]
    pub guest_max_size: String,

    /// Calls that may run at once; 0 takes the number of workers.
    #[arg(long, value_name = "N", default_value_t = 0, env = "FOO_HOST_GUEST_MAX_CALLS")]
    pub guest_max_calls: u32,

    /// How long the compilation of a guest may take.
    #[arg(long, value_name = "DURATION", default_value = "120s", env = "FOO_HOST_COMPILE_TIMEOUT")]
    pub compile_timeout: String,

    /// Memory of the process that compiles a guest.
    #[arg(long, value_name = "SIZE", default_value = "2Gi", env = "FOO_HOST_COMPILE_MEMORY")]
    pub compile_memory: String,

    /// Where compiled guests are kept; created with mode 0700. Default: $XDG_CACHE_HOME/foo-host/guests or
    /// ~/.cache/foo-host/guests.
    #[arg(long, value_name = "DIR", env = "FOO_HOST_CACHE_DIR")]
    pub cache_dir: Option<PathBuf>,
}

/// Flags of `dev`.
#[cfg(feature = "dev")]
#[derive(Debug, Args)]
#[command(next_help_heading = "Development API")]
pub struct DevArgs {
    /// Serve the API alone, without a controller, the CRD or an example.
    #[arg(long, env = "FOO_HOST_DEV_API_ONLY", conflicts_with = "guest",
          value_parser = clap::builder::BoolishValueParser::new())]
    pub api_only: bool,

    /// The port of the API on 127.0.0.1; 0 takes a free one.
    #[arg(long, value_name = "PORT", default_value_t = 0, env = "FOO_HOST_DEV_PORT")]
    pub port: u16,

    /// Where the kubeconfig for it is written. Default: foo-host/dev/kubeconfig under the cache directory.
    #[arg(long, value_name = "PATH", env = "FOO_HOST_DEV_WRITE_KUBECONFIG")]
    pub write_kubeconfig: Option<PathBuf>,

    /// How long after a change a Deployment becomes available, as a kubelet would make it.
    #[arg(long, value_name = "DURATION", default_value = "1s", env = "FOO_HOST_DEV_AVAILABLE_AFTER")]
    pub available_after: String,

    #[command(flatten)]
    /// Flags of the controller.
    pub run: RunArgs,
}
