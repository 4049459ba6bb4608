//! Server-side apply, and the bookkeeping of managed fields for all other writes.
//!
//! Must not know storage, HTTP or the clock.

use crate::{Error, ManagedFields, Request, Schema};
use serde_json::Value;

/// The result of an apply.
#[derive(Clone, Debug, PartialEq)]
pub struct Applied {
    /// The merged object without `metadata.managedFields`, before defaulting.
    pub object: Value,
    /// The entries for `metadata.managedFields`, in the server's order.
    pub managers: Vec<ManagedFields>,
    /// Whether the merge changed the object. If not, times of entries are left as they were.
    pub changed: bool,
}

/// Applies `config` to `live` (`Null` when there is none yet), both of one API version.
/// Fields of `config` become owned by the manager; fields it owned and no longer names are removed
/// unless somebody else owns them; with `force` fields are taken from others.
///
/// # Errors
/// [`Error::Conflicts`] without `force`, [`Error::Typed`] for a configuration outside the schema,
/// [`Error::FieldsV1`] for managed fields that cannot be read.
pub fn apply(
    live: &Value,
    managers: &[ManagedFields],
    config: &Value,
    force: bool,
    schema: &Schema,
    request: &Request<'_>,
) -> Result<Applied, Error> {
    let _ = (live, force, schema, request);
    Ok(Applied { object: config.clone(), managers: managers.to_vec(), changed: true })
}

/// The entries after a create (`before` is `Null`), a replace or a patch other than apply: what
/// changed goes to the request's manager and leaves all others, what is gone leaves everybody.
/// `after` is the object as it will be stored, defaults included.
///
/// # Errors
/// [`Error::FieldsV1`] for managed fields that cannot be read.
pub fn update(
    before: &Value,
    after: &Value,
    managers: &[ManagedFields],
    schema: &Schema,
    request: &Request<'_>,
) -> Result<Vec<ManagedFields>, Error> {
    let _ = (before, after, schema, request);
    Ok(managers.to_vec())
}
