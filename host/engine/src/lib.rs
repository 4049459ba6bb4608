//! Runs guests: wasmtime, limits, loading, digests, errors by cause.
//!
//! Owns everything about Wasm: what a guest file may be ([`Engine::load`]), what a call may cost
//! ([`Limits`]), how a failure is told apart from another ([`CallError`], [`LoadError`]). Must not
//! know Kubernetes: what goes in and what comes out are the plain values of the crate `contract`.
//!
//! - `load/`: bytes to a [`Guest`]: outline of the file, core module to component, compilation in a
//!   child process, cache on disk.
//! - `call/`: a [`Guest`] and an input to a [`Call`]: a fresh instance, its limits, its log, the
//!   conversions, the failure by cause.
//! - `wasi/`: the stand-ins for guests of other toolchains.
//!
//! Invariants: every store has a fuel budget, a deadline, a memory cap and a cap on its answer; the
//! ticker behind the deadline runs as long as an [`Engine`] or a [`Guest`] lives; one call, one
//! instance, so that no state crosses calls; an answer is a function of the input and the file.

mod bindings;
mod call;
mod engine;
mod error;
mod limits;
mod load;
mod ticker;
mod wasi;

pub use call::{Call, Guest};
pub use engine::Engine;
pub use error::{CallError, Cause, EngineError, LoadError};
pub use limits::{Compiler, Config, Limits};
pub use load::compile;
pub use ticker::TICK;
