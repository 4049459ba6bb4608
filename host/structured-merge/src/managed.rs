//! `metadata.managedFields`: its entries, and what a request says about itself.
//!
//! Must not know schemas or how fields are found.

use crate::{Error, FieldSet};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How an entry came about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Operation {
    /// A server-side apply: the entry is the applied configuration.
    Apply,
    /// Any other write: the entry is what the write changed.
    #[default]
    Update,
}

impl Operation {
    /// As the API writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// One entry of `metadata.managedFields` (`metav1.ManagedFieldsEntry`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ManagedFields {
    /// Name of the field manager.
    #[serde(default)]
    pub manager: String,
    /// Kind of operation.
    #[serde(default)]
    pub operation: Operation,
    /// API version that the field names belong to, `apps/v1`.
    #[serde(default)]
    pub api_version: String,
    /// When it changed last, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// Always `FieldsV1`.
    #[serde(default = "fields_type")]
    pub fields_type: String,
    /// The fields, see [`FieldSet::from_fields_v1`].
    #[serde(default, rename = "fieldsV1")]
    pub fields_v1: Value,
    /// Subresource that was written, empty for the main resource.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub subresource: String,
}

fn fields_type() -> String {
    "FieldsV1".to_owned()
}

impl ManagedFields {
    /// The entries of an object, empty when it has none.
    pub fn of_object(object: &Value) -> Result<Vec<Self>, Error> {
        match object.pointer("/metadata/managedFields") {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(entries) => Self::deserialize_list(entries)
                .map_err(|error| Error::FieldsV1(format!("managedFields: {error}"))),
        }
    }

    fn deserialize_list(entries: &Value) -> Result<Vec<Self>, serde_json::Error> {
        Vec::<Self>::deserialize(entries)
    }

    /// The fields as a set.
    pub fn fields(&self) -> Result<FieldSet, Error> {
        FieldSet::from_fields_v1(&self.fields_v1)
    }
}

/// Who writes, as which version, when.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// Field manager.
    pub manager: &'a str,
    /// API version of the request, `apps/v1`.
    pub api_version: &'a str,
    /// Subresource that is written, empty for the main resource.
    pub subresource: &'a str,
    /// Time of the write, RFC 3339 in whole seconds.
    pub time: &'a str,
    /// Fields that this endpoint resets and so never owns, with all below them: `.status` for the main
    /// resource, `.spec` for its status (`GetResetFields` of the server's strategies).
    pub reset: &'a FieldSet,
}
