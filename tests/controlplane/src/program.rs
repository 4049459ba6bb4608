//! The programs of a plane: their names, where they come from, and where they lie.

use crate::Error;
use std::path::PathBuf;

/// A program that a Go module under `modules/` pins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Program {
    /// The store.
    Etcd,
    /// The API server.
    KubeApiserver,
    /// The controllers of Deployments, `ReplicaSets`, namespaces, and the garbage collector.
    KubeControllerManager,
    /// Gives pods a node.
    KubeScheduler,
    /// A kubelet that only pretends: pods become Running.
    Kwok,
    /// The Go original of this project.
    SampleController,
}

/// Where a program is: in `$KUBEBUILDER_ASSETS`, else in the cache, else it is built into the cache, which takes from half a
/// minute to five (progress goes to stderr). One process builds at a time, the others wait and then find what it
/// built; a build that was interrupted is done again.
pub fn program(which: Program) -> Result<PathBuf, Error> {
    unimplemented!("{which:?}")
}

/// Whether this machine can have a plane at all: every program of it is there, or there is a Go to build it with. The
/// error says what is missing, so that a test can [`skip`](crate::skip()).
pub fn available() -> Result<(), Error> {
    unimplemented!()
}

/// The unpacked sources of the Go module that a program comes from, for instance upstream's CRD and example in
/// `artifacts/examples` of [`Program::SampleController`]. Asks `go`, and fetches them if need be.
pub fn module_dir(which: Program) -> Result<PathBuf, Error> {
    unimplemented!("{which:?}")
}
