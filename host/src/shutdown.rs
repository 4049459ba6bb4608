//! Signals: the first SIGTERM or SIGINT asks for an orderly end, the second ends the process at once.

use std::process::ExitCode;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The handlers are installed when this is made, so that no signal is lost before `run`.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Takes SIGTERM and SIGINT from their default action.
    pub fn install() -> std::io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }

    /// Cancels `stop` at the first signal; returns 1 at the second, for `main` to exit with, as
    /// `SetupSignalHandler` of the Go sample-controller (pkg/signals) does.
    pub async fn run(mut self, stop: CancellationToken) -> ExitCode {
        let name = self.next().await;
        tracing::info!("{name}: finishing the runs in flight (a second signal exits at once)");
        stop.cancel();
        let name = self.next().await;
        tracing::warn!("{name} again: exiting at once");
        ExitCode::FAILURE
    }
}
