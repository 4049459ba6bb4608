//! What can go wrong, each with what to do about it.

use std::path::PathBuf;

/// Why there is no program, or no plane.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The program is in neither `$KUBEBUILDER_ASSETS` nor the cache, and there is no Go that could build it.
    #[error(
        "{program} is not built yet and cannot be: {reason}; install Go {go} or newer, or set KUBEBUILDER_ASSETS to a directory that has it"
    )]
    NoGo {
        /// What is missing.
        program: &'static str,
        /// What `go` said, or that it is missing.
        reason: String,
        /// The version that the modules ask for.
        go: String,
    },
    /// `go` failed.
    #[error("{program} cannot be built in {module}: {output}")]
    Build {
        /// What was built.
        program: &'static str,
        /// The directory of its go.mod.
        module: PathBuf,
        /// The last lines of what `go` said.
        output: String,
    },
    /// A file or a directory cannot be used.
    #[error("{path} cannot be used: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A program ended, or could not be started.
    #[error("{program} {what}; the end of its log:\n{log}")]
    Ended {
        /// Which.
        program: &'static str,
        /// How it ended.
        what: String,
        /// The last lines of its log.
        log: String,
    },
    /// A program runs, but did not become ready in time.
    #[error("{program} was not ready after {seconds} s: {reason}; the end of its log:\n{log}")]
    NotReady {
        /// Which.
        program: &'static str,
        /// How long it was waited for.
        seconds: u64,
        /// What it answered last.
        reason: String,
        /// The last lines of its log.
        log: String,
    },
    /// A request of [`Client`](crate::Client) was refused or not answered.
    #[error("{method} {path}: {reason}")]
    Request {
        /// The HTTP method.
        method: &'static str,
        /// The path.
        path: String,
        /// The HTTP status, if the server answered.
        status: Option<u16>,
        /// The server's message, or why there is no answer.
        reason: String,
    },
    /// The options ask for this process neither directly nor indirectly, so it does not run.
    #[error("{0} does not run in this plane; ask for it in the Options")]
    NotRunning(&'static str),
}
