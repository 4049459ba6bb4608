//! What a run starts from.
//!
//! Owns: the snapshot and what the installed CRD's status takes. Must not know the cache.

use crate::object::Object;
use serde_json::Value;
use std::sync::Arc;

/// Everything that a plan is made from; the same snapshot gives the same plan.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    /// The Foo, as cached.
    pub foo: &'a Object,
    /// The Deployment called `spec.deploymentName` in the Foo's namespace.
    pub child: Child<'a>,
    /// Other Deployments that this Foo controls (by UID): left behind by a change of
    /// `spec.deploymentName`.
    pub others: &'a [Arc<Object>],
    /// The guest that is asked.
    pub guest: &'a GuestIdentity,
    /// The guest's parameters, sorted by key.
    pub parameters: &'a [(String, String)],
    /// What the installed CRD's status takes.
    pub schema: StatusSchema,
    /// Seconds since 1970: the only clock.
    pub now: i64,
    /// Failed attempts in a row before this one.
    pub failures: u32,
}

impl<'a> Snapshot<'a> {
    /// The child, checked once more: nothing is planned for an object that is not this Foo's, whatever
    /// the cache took it for.
    pub(crate) fn child(&self) -> Child<'a> {
        match self.child {
            Child::Owned(object) if !self.controls(object) => Child::Foreign { uid: &object.meta.uid },
            Child::Owned(object) if object.meta.deleted => Child::Terminating(object),
            child => child,
        }
    }

    /// The Deployments left behind by a rename, but those on their way out.
    pub(crate) fn left_behind(&self) -> impl Iterator<Item = &'a Object> {
        let snapshot = *self;
        self.others.iter().map(Arc::as_ref).filter(move |object| {
            let child = match snapshot.child {
                Child::Owned(child) | Child::Terminating(child) => child.meta.uid.as_str(),
                Child::Foreign { uid } => uid,
                Child::Absent => "",
            };
            snapshot.controls(object) && !object.meta.deleted && object.meta.uid != child
        })
    }

    /// As `metav1.IsControlledBy`: by UID; and in the Foo's namespace.
    fn controls(&self, object: &Object) -> bool {
        object.meta.namespace == self.foo.meta.namespace
            && object.meta.owner.as_ref().is_some_and(|owner| owner.uid == self.foo.meta.uid)
    }
}

/// The Deployment that the Foo names.
#[derive(Clone, Copy, Debug)]
pub enum Child<'a> {
    /// There is none.
    Absent,
    /// It is controlled by this Foo, by UID.
    Owned(&'a Object),
    /// It was controlled by this Foo and is being deleted: counts as absent, but its successor is
    /// created only after its delete event.
    Terminating(&'a Object),
    /// Somebody else's.
    Foreign {
        /// Its `metadata.uid`.
        uid: &'a str,
    },
}

/// What `status.guest` says about the logic that produced a status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuestIdentity {
    /// `sha256:` and 64 hex digits, of the file as given.
    pub digest: String,
    /// As the component says it.
    pub version: Option<String>,
    /// Digest of the parameters; none without parameters.
    pub parameters_digest: Option<String>,
}

/// What the installed CRD's status takes: an undeclared field is pruned in silence by a merge patch,
/// so writing it would differ for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "one flag for each field of the status")]
pub struct StatusSchema {
    /// `subresources.status`: without it no status is written.
    pub subresource: bool,
    /// `status.availableReplicas`: all that upstream's CRD has.
    pub available_replicas: bool,
    /// `status.replicas`, for `scale`.
    pub replicas: bool,
    /// `status.selector`, for `scale`.
    pub selector: bool,
    /// `status.observedGeneration`.
    pub observed_generation: bool,
    /// `status.conditions`.
    pub conditions: bool,
    /// `status.guest`.
    pub guest: bool,
}

impl StatusSchema {
    /// What this project's CRD takes.
    pub const fn full() -> Self {
        Self {
            subresource: true,
            available_replicas: true,
            replicas: true,
            selector: true,
            observed_generation: true,
            conditions: true,
            guest: true,
        }
    }

    /// From the OpenAPI v3 document of `apis/samplecontroller.k8s.io/v1alpha1`, which any
    /// authenticated user may read; none if it does not describe Foos (the CRD is not installed, or
    /// not published yet).
    pub fn from_openapi(document: &Value) -> Option<Self> {
        let schema = document.pointer("/components/schemas")?.as_object()?.values().find(|schema| {
            schema.get("x-kubernetes-group-version-kind").and_then(Value::as_array).is_some_and(|kinds| {
                kinds.iter().any(|kind| {
                    kind.get("group").and_then(Value::as_str) == Some(foo_api::GROUP)
                        && kind.get("version").and_then(Value::as_str) == Some(foo_api::VERSION)
                        && kind.get("kind").and_then(Value::as_str) == Some(foo_api::KIND)
                })
            })
        })?;
        let path = format!(
            "/apis/{}/{}/namespaces/{{namespace}}/{}/{{name}}/status",
            foo_api::GROUP,
            foo_api::VERSION,
            foo_api::PLURAL
        );
        let subresource = document.get("paths").is_some_and(|paths| paths.get(path).is_some());
        Some(Self::from_schema(schema, subresource))
    }

    /// From the schema of a Foo (a CRD's `openAPIV3Schema`), and whether its version has
    /// `subresources.status`.
    pub fn from_schema(schema: &Value, subresource: bool) -> Self {
        let keeps_unknown = |node: &Value| {
            node.get("x-kubernetes-preserve-unknown-fields").and_then(Value::as_bool).unwrap_or(false)
        };
        let status = schema.pointer("/properties/status");
        let takes = |field: &str| match status {
            Some(status) => {
                keeps_unknown(status)
                    || status.get("properties").is_some_and(|properties| properties.get(field).is_some())
            }
            None => keeps_unknown(schema),
        };
        Self {
            subresource,
            available_replicas: takes("availableReplicas"),
            replicas: takes("replicas"),
            selector: takes("selector"),
            observed_generation: takes("observedGeneration"),
            conditions: takes("conditions"),
            guest: takes("guest"),
        }
    }

    /// What this project's CRD has and the installed one lacks, in the CRD's words, for the one line
    /// that says so.
    pub fn missing(&self) -> Vec<&'static str> {
        [
            (self.subresource, "subresources.status"),
            (self.available_replicas, "status.availableReplicas"),
            (self.replicas, "status.replicas"),
            (self.selector, "status.selector"),
            (self.observed_generation, "status.observedGeneration"),
            (self.conditions, "status.conditions"),
            (self.guest, "status.guest"),
        ]
        .into_iter()
        .filter_map(|(taken, name)| (!taken).then_some(name))
        .collect()
    }
}
