//! What can go wrong at this crate's boundary, worded as the API server words it.
//!
//! Must not know HTTP: the caller maps a variant to a status code.

use crate::{Operation, Path};
use std::fmt::{self, Write as _};

/// Why a merge was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Fields of an unforced apply belong to others (HTTP 409, reason `Conflict`). The text is that of
    /// the API server's `Apply failed with ...`; never empty.
    #[error("{}", conflict_message(.0))]
    Conflicts(Vec<Conflict>),
    /// The applied configuration does not fit the schema: an undeclared field, a wrong type, a list
    /// item without its key, or a duplicate (HTTP 500 or 422 there). One line for each fault:
    /// `.status.x: field not declared in schema`.
    #[error("{0}")]
    Typed(String),
    /// A request that makes no sense (HTTP 400).
    #[error("{0}")]
    BadRequest(String),
    /// An entry of `managedFields` cannot be read.
    #[error("{0}")]
    FieldsV1(String),
    /// A request that the server understands and cannot carry out (HTTP 422).
    #[error("{0}")]
    Unprocessable(String),
    /// A strategic merge patch that the server fails on (HTTP 500).
    #[error("{0}")]
    Strategic(String),
    /// Text that is no resource quantity.
    #[error("{0}")]
    Quantity(String),
    /// A CRD's `openAPIV3Schema` that cannot be used.
    #[error("{0}")]
    Schema(String),
}

/// One field that somebody else owns and an unforced apply would change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Field manager that owns the field.
    pub manager: String,
    /// Operation of its entry.
    pub operation: Operation,
    /// API version of its entry; empty for an apply.
    pub api_version: String,
    /// Subresource of its entry, empty for the main resource.
    pub subresource: String,
    /// The field.
    pub path: Path,
}

impl Conflict {
    /// The owner as the API server prints it: `"kubectl" using apps/v1`. Goes into the `message` of
    /// the Status cause (`conflict with ...`), whose `field` is the path.
    pub fn owner(&self) -> String {
        let mut text = format!("{:?}", self.manager);
        if !self.subresource.is_empty() {
            let _ = write!(text, " with subresource {:?}", self.subresource);
        }
        if self.operation == Operation::Update {
            let _ = write!(text, " using {}", self.api_version);
        }
        text
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "conflict with {}: {}", self.owner(), self.path)
    }
}

/// The message of the whole answer; owners in order, each with its fields.
fn conflict_message(conflicts: &[Conflict]) -> String {
    if let [only] = conflicts {
        return format!("Apply failed with 1 conflict: {only}");
    }
    let mut text = format!("Apply failed with {} conflicts: ", conflicts.len());
    let mut last: Option<String> = None;
    for conflict in conflicts {
        let owner = conflict.owner();
        if last.as_ref() != Some(&owner) {
            let separator = if last.is_some() { "\n" } else { "" };
            let _ = write!(text, "{separator}conflicts with {owner}:");
            last = Some(owner);
        }
        let _ = write!(text, "\n- {}", conflict.path);
    }
    text
}
