//! What can go wrong, each with what to do about it.

use crate::Program;
use std::path::{Path, PathBuf};

/// Why there is no program, or no plane.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Neither `$XDG_CACHE_HOME` nor `$HOME` is an absolute path.
    #[error("there is no directory for the programs: set HOME or XDG_CACHE_HOME to an absolute path")]
    NoCache,
    /// The program is in neither `$KUBEBUILDER_ASSETS` nor the cache, and there is no Go that could build it.
    #[error(
        "{programs} not built yet, and {reason}; install Go {go} or newer, or set KUBEBUILDER_ASSETS to a \
         directory that has {them}"
    )]
    NoGo {
        /// What is missing, all of it, with its verb.
        programs: String,
        /// The pronoun of the programs.
        them: &'static str,
        /// What `go` said, or that it is missing.
        reason: String,
        /// The Go that builds them.
        go: String,
    },
    /// kwok is there, what tells it what to do is not, and there is no Go that could fetch it.
    #[error(
        "kwok's stages.yaml is neither beside kwok nor in the cache, and {reason}; install Go {go} or newer, or \
         start the plane without pods (--no-pods)"
    )]
    NoStages {
        /// What `go` said, or that it is missing.
        reason: String,
        /// The Go that fetches them.
        go: String,
    },
    /// There is no Go that could unpack the sources of a module.
    #[error("the sources of {module} cannot be read, for {reason}; install Go {go} or newer")]
    NoSources {
        /// The Go module.
        module: &'static str,
        /// What `go` said, or that it is missing.
        reason: String,
        /// The Go that fetches it.
        go: String,
    },
    /// `go` failed.
    #[error(
        "{program} cannot be built in {module}; fetching modules needs network or a filled module cache: {output}"
    )]
    Build {
        /// What was built.
        program: &'static str,
        /// The directory of its go.mod.
        module: PathBuf,
        /// The last lines of what `go` said.
        output: String,
    },
    /// An admission plugin that stays off was asked for.
    #[error("the admission plugin {plugin} stays off: {reason}; leave it out")]
    Admission {
        /// Which.
        plugin: &'static str,
        /// Why.
        reason: &'static str,
    },
    /// A file or a directory cannot be used.
    #[error("{path} cannot be used: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// No port of 127.0.0.1 can be had.
    #[error("no port of 127.0.0.1 can be reserved: {0}")]
    Port(std::io::Error),
    /// Keys or certificates cannot be made.
    #[error("the plane's certificates cannot be made: {0}")]
    Certificates(String),
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
    /// The process is not part of this plane, or was stopped.
    #[error("{0} does not run in this plane; ask for it in the Options")]
    NotRunning(&'static str),
}

impl Error {
    /// For `map_err`: what a file operation failed at.
    pub(crate) fn file(path: &Path) -> impl FnOnce(std::io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::File { path, source }
    }

    /// `missing` is not empty.
    pub(crate) fn no_go(missing: &[Program], reason: String) -> Self {
        let names: Vec<_> = missing.iter().map(|which| which.name()).collect();
        let (are, them) = if names.len() == 1 { ("is", "it") } else { ("are", "them") };
        Self::NoGo { programs: format!("{} {are}", names.join(", ")), them, reason, go: missing[0].go() }
    }

    pub(crate) fn no_stages(reason: String) -> Self {
        Self::NoStages { reason, go: Program::Kwok.go() }
    }

    pub(crate) fn no_sources(which: Program, reason: String) -> Self {
        Self::NoSources { module: which.source(), reason, go: which.go() }
    }

    pub(crate) fn build(which: Program, output: &str) -> Self {
        Self::Build { program: which.name(), module: which.module(), output: output.trim().to_owned() }
    }

    /// The HTTP status with which the server refused a request.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Request { status, .. } => *status,
            _ => None,
        }
    }
}
