//! Kubernetes' structured merge and strategic merge patch, as far as this project needs them:
//! Deployments (`apps/v1`), custom resources by the schema of their CRD, and objects without one.
//!
//! Owns: the [`Schema`] of list keys and merge strategies, [`FieldSet`]s (`FieldsV1`), drift
//! ([`differences`], [`dropped_fields`],
//! [`unowned_fields`]), server-side [`apply`] and the bookkeeping of managed fields
//! ([`update`]), [`strategic`] merge patches, the API's [`defaults`] and [`quantity`] values.
//! Everything is a pure function over `serde_json::Value`. Must not know clients, HTTP or time.
//!
//! The behaviour is that of `sigs.k8s.io/structured-merge-diff` v6, of
//! `k8s.io/apimachinery/pkg/util/{managedfields,strategicpatch}` and of the defaulting code of
//! Kubernetes 1.36, rewritten from their observable rules.

mod apply;
pub mod defaults;
mod differences;
mod dropped;
mod error;
mod fieldset;
mod managed;
mod path;
pub mod quantity;
mod schema;
pub mod strategic;
mod typed;

pub use apply::{Applied, apply, update};
pub use differences::{Difference, differences};
pub use dropped::{dropped_fields, unowned_fields};
pub use error::{Conflict, Error};
pub use fieldset::FieldSet;
pub use managed::{ManagedFields, Operation, Request};
pub use path::{Literal, Path, PathElement};
pub use schema::{Field, Fields, Node, Scalar, Schema, Zero};
