//! The command `foo-host`. Each error is one line; the exit code is 0, 1 where something failed or a value is
//! wrong, 2 where clap refuses the command line.

use anyhow::Result;
use clap::{CommandFactory as _, Parser as _};
use host::cli::{Cli, ClusterArgs, Command, RunArgs};
use host::controller::Controller;
use host::settings::Settings;
use host::shutdown::Signals;
use host::{client, compiler, logging};
use std::io::Write as _;
use std::process::ExitCode;
use tokio_util::sync::CancellationToken;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command {
        None => block_on(run(cli.run, cli.cluster)),
        #[cfg(feature = "dev")]
        Some(Command::Dev(args)) => block_on(host::dev::run(*args)),
        Some(Command::Crd) => print(&foo_api::crd_yaml()),
        Some(Command::Completions { shell }) => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "foo-host", &mut script);
            print(&String::from_utf8_lossy(&script))
        }
        Some(Command::Compile) => {
            guest_engine::compile::run_compiler(std::io::stdin().lock(), std::io::stdout().lock())
                .map(|()| ExitCode::SUCCESS)
                .map_err(Into::into)
        }
    };
    result.unwrap_or_else(|error| {
        eprintln!("foo-host: {}", host::api::chain(error.as_ref()));
        ExitCode::FAILURE
    })
}

/// A reader that went away (`foo-host crd | head -1`) is no error of ours.
fn print(text: &str) -> Result<ExitCode> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn block_on(work: impl Future<Output = Result<ExitCode>>) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(work);
    // What still blocks a thread (a name look-up that hangs) must not hold up the end.
    runtime.shutdown_background();
    result
}

async fn run(args: RunArgs, cluster: ClusterArgs) -> Result<ExitCode> {
    logging::init(args.observe.log_format, args.observe.log_level.as_deref().unwrap_or("info"))?;
    let settings = Settings { compiler: compiler::command(), ..Settings::from_args(&args)? };
    let signals = Signals::install()?;
    let connection = client::connect(&cluster).await?;
    let server = connection.server.clone();
    let controller = Controller::new(settings, connection).await?;
    tracing::info!(version = env!("CARGO_PKG_VERSION"), server, "foo-host starts");
    let stop = CancellationToken::new();
    tokio::select! {
        // Signals first: a second one that is there already decides the exit code.
        biased;
        code = signals.run(stop.clone()) => Ok(code),
        result = controller.run(stop) => result.map(|()| ExitCode::SUCCESS),
    }
}
