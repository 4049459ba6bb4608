//! The Foo types, its conditions and its CRD.
//!
//! Owns: the API's names, the types of `spec` and `status`, the CRD that is generated from them, and
//! the words that the controller is known by. Must not know clients or wasmtime.

mod names;

pub use names::*;
