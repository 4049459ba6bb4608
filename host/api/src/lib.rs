//! The Foo types, its conditions and its CRD.
//!
//! Owns: the API's names, the types of `spec` and `status`, the CRD that is generated from them, and
//! the words that the controller is known by. Must not know clients or wasmtime.

mod crd;
mod name;
mod names;
mod types;

pub use crd::{crd, crd_yaml};
pub use name::{MAX_DEPLOYMENT_NAME_BYTES, validate_deployment_name};
pub use names::*;
pub use types::{FooCondition, FooGuest, FooSpec, FooStatus};
