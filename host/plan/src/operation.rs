//! What a plan asks of whoever carries it out.
//!
//! Owns: the shape of the writes. Must not know how they are sent.

use serde_json::Value;

/// One write to a Deployment in the Foo's namespace. Each carries what makes it safe to send late.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// POST with the field manager: can never take over somebody's Deployment.
    Create {
        /// The whole object: `apiVersion`, `kind`, `metadata.{name,namespace,ownerReferences}` and
        /// what the guest named.
        manifest: Value,
    },
    /// A forced server-side apply.
    Apply {
        /// The Deployment.
        name: String,
        /// Of the object that the plan was made from.
        uid: String,
        /// Of the object that the plan was made from.
        resource_version: String,
        /// The complete apply configuration, `metadata.uid` and `metadata.resourceVersion` in it, so
        /// that an apply of a stale plan answers 422 or 409 and never re-creates what was deleted.
        manifest: Value,
        /// `managedFields` are to be edited first (a write of its own, [`crate::upgraded_managed_fields`]
        /// over a live read): an apply that follows carries the resource version of that write's answer.
        adopt: Option<Adopt>,
    },
    /// DELETE with preconditions and background propagation.
    Delete {
        /// The Deployment.
        name: String,
        /// `preconditions.uid`.
        uid: String,
        /// `preconditions.resourceVersion`.
        resource_version: String,
    },
}

impl Operation {
    /// The name of the Deployment.
    pub fn name(&self) -> &str {
        match self {
            Self::Create { manifest } => {
                manifest.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
            }
            Self::Apply { name, .. } | Self::Delete { name, .. } => name,
        }
    }
}

/// How `managedFields` change before an apply: our `Update` entry becomes `Apply`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adopt {
    /// Our entry also gives up `spec.replicas`: applying without a field that one owns alone removes
    /// it, and the API would default it to 1.
    pub release_replicas: bool,
}

/// A field that the guest names and whose live value is another one.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Such as `.spec.template.spec.containers[name="nginx"].image`.
    pub path: String,
    /// As the guest wants it; none for a field that it no longer names.
    pub desired: Option<Value>,
    /// As it is; none where absent.
    pub live: Option<Value>,
}
