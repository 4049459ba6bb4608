//! The default guest: an nginx Deployment for each Foo, as the Go sample-controller makes it.
//!
//! Owns the desired state: pure functions from what is to what should be, tested natively. Must not
//! know kube, wasmtime or the contract's bindings; `export` alone does, on `wasm32`.
//!
//! To write a guest of your own, copy this package and change [`desired`].

mod decide;
#[cfg(target_arch = "wasm32")]
mod export;
mod label;
mod skim;

pub use decide::{Desired, Live, Snapshot, desired};
pub use label::{MAX_LABEL_VALUE_BYTES, label_value};
