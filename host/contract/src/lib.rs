//! The contract of `wit/reconciler.wit` as plain serde values.
//!
//! Owns: the types that the engine converts to and from, that golden inputs and recordings are made
//! of, and the limits that the contract states. Must not know kube or wasmtime.

mod limits;
mod text;
mod types;

pub use limits::*;
pub use text::{canonical_json, one_line, truncate};
pub use types::*;

/// Versions of the world `samplecontroller:reconciler/reconciler` that this host takes.
pub const SUPPORTED_WORLDS: &[&str] = &["0.1.0"];

/// The package of the world, without its version.
pub const WORLD_PACKAGE: &str = "samplecontroller:reconciler";
