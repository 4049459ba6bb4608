//! Where the programs lie: in `$KUBEBUILDER_ASSETS`, in the cache, or nowhere yet.

use crate::builder::{Builder, STAGES, say};
use crate::{Error, Program};
use std::path::PathBuf;

/// A program that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Which.
    pub program: Program,
    /// Where.
    pub path: PathBuf,
    /// It comes from `$KUBEBUILDER_ASSETS`; its version is whatever it is.
    pub is_asset: bool,
}

/// Where a program is: in `$KUBEBUILDER_ASSETS`, else in the cache, else it is built into the cache, which
/// takes from seconds to five minutes (progress goes to stderr). One process builds at a time, the others
/// wait and then find what it built; a build that was interrupted is done again.
pub fn program(which: Program) -> Result<PathBuf, Error> {
    Places::new()?.program(which, "").map(|found| found.path)
}

/// Several programs, in their order, each as [`program()`] finds it. Where there is no Go to build with, the
/// error names all that are missing; assets that have none of the programs are said on stderr.
pub fn programs(wanted: &[Program]) -> Result<Vec<Found>, Error> {
    let places = Places::new()?;
    if let Some(nothing) = places.useless_assets() {
        say(&nothing);
    }
    places.programs(wanted)
}

/// Whether this machine can have a plane and the Go sample-controller: every program is there, or there is a
/// Go to build it with. The error says what is missing, so that a test can [`skip`](crate::skip()).
pub fn available() -> Result<(), Error> {
    Places::new()?.check(&Program::ALL)
}

/// The unpacked sources of the Go module that a program comes from, for instance upstream's CRD and example
/// in `artifacts/examples` of [`Program::SampleController`]. Asks `go`, which fetches them if need be.
pub fn module_dir(which: Program) -> Result<PathBuf, Error> {
    Builder::new()?.module_dir(which)
}

/// What tells kwok what becomes of nodes and pods.
pub(crate) fn kwok_stages() -> Result<PathBuf, Error> {
    Places::new()?.stages()
}

struct Places {
    assets: Option<PathBuf>,
    builder: Builder,
}

impl Places {
    fn new() -> Result<Self, Error> {
        let assets = std::env::var_os("KUBEBUILDER_ASSETS").filter(|assets| !assets.is_empty());
        // The programs are started in another directory.
        let assets = assets.and_then(|assets| std::path::absolute(assets).ok());
        Ok(Self { assets, builder: Builder::new()? })
    }

    fn in_assets(&self, file: &str) -> Option<PathBuf> {
        self.assets.as_ref().map(|assets| assets.join(file)).filter(|path| path.is_file())
    }

    /// What to say of assets that are of no use.
    fn useless_assets(&self) -> Option<String> {
        let assets = self.assets.as_ref()?;
        let reason = if !assets.is_dir() {
            "is no directory"
        } else if Program::ALL.iter().all(|which| self.in_assets(which.name()).is_none()) {
            "has none of the programs"
        } else {
            return None;
        };
        Some(format!("KUBEBUILDER_ASSETS={} {reason}; it is not used", assets.display()))
    }

    fn missing(&self, wanted: &[Program]) -> Vec<Program> {
        let mut missing: Vec<Program> = Vec::new();
        for which in wanted {
            let found = self.in_assets(which.name()).is_some() || self.builder.path(*which).is_file();
            if !found && !missing.contains(which) {
                missing.push(*which);
            }
        }
        missing
    }

    /// An error about all that is missing and cannot be built.
    fn check(&self, wanted: &[Program]) -> Result<(), Error> {
        self.builder.check_go(&self.missing(wanted))?;
        let stages = || self.in_assets(STAGES).is_some() || self.builder.stages_path().is_file();
        if wanted.contains(&Program::Kwok) && !stages() {
            self.builder.check_stages()?;
        }
        Ok(())
    }

    fn programs(&self, wanted: &[Program]) -> Result<Vec<Found>, Error> {
        self.check(wanted)?;
        let missing = self.missing(wanted);
        let turn = |which| missing.iter().position(|missing| *missing == which);
        let turn = |which| turn(which).map(|turn| format!(" ({} of {})", turn + 1, missing.len()));
        wanted.iter().map(|which| self.program(*which, &turn(*which).unwrap_or_default())).collect()
    }

    fn program(&self, program: Program, turn: &str) -> Result<Found, Error> {
        let found = match self.in_assets(program.name()) {
            Some(path) => Found { program, path, is_asset: true },
            None => Found { program, path: self.builder.program(program, turn)?, is_asset: false },
        };
        if program == Program::Kwok {
            // Now, while there may be a Go to ask.
            self.stages()?;
        }
        Ok(found)
    }

    fn stages(&self) -> Result<PathBuf, Error> {
        self.in_assets(STAGES).map_or_else(|| self.builder.stages(), Ok)
    }
}
