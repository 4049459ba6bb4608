//! The planning function.
//!
//! Owns: from a snapshot and a verdict to operations. Must not know how they are carried out.

use crate::admit::foreign;
use crate::answer::{self, Folded};
use crate::failure::Failure;
use crate::kstatus::{self, Health};
use crate::object::Object;
use crate::operation::{Difference, Operation};
use crate::snapshot::{Child, Snapshot};
use crate::{drift, manifest, spec};
use serde_json::Value;
use std::time::Duration;

/// What came of asking the guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It was not asked ([`crate::Admission::Refuse`]).
    Refused(Failure),
    /// It gave no answer: an error of its own, or one of the engine.
    Failed(Failure),
    /// It answered.
    Answered(Vec<contract::Action>),
}

/// What the answer says about the Deployment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
    /// It should be as the manifest says.
    Applied,
    /// It should not be.
    Deleted,
    /// Nothing: it stays as it is.
    #[default]
    Kept,
}

/// What is to be done, and what [`crate::conclude`] needs to know afterwards.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// To be carried out in this order; the first failure ends the run.
    pub operations: Vec<Operation>,
    /// Why there is nothing to carry out.
    pub failure: Option<Failure>,
    /// What makes a change due, for logs and for `diff`.
    pub differences: Vec<Difference>,
    /// What the answer says about the Deployment.
    pub wanted: Wanted,
    /// The guest's part of the status, checked.
    pub status: Option<contract::StatusUpdate>,
    /// The guest's Events, cut to the limits.
    pub events: Vec<contract::Event>,
    /// When the guest asked to be called again.
    pub requeue_after: Option<Duration>,
}

impl Plan {
    fn failed(failure: Failure) -> Self {
        Self { failure: Some(failure), ..Self::default() }
    }
}

/// Makes the plan.
///
/// Nothing is planned for a Foo that is being deleted, nor beyond what it controls: whatever the
/// answer holds, each operation is about a Deployment in the Foo's namespace that is called
/// `spec.deploymentName` or has the Foo's UID as controller. An answer that breaks the contract is
/// refused whole.
pub fn plan(snapshot: &Snapshot<'_>, verdict: Verdict) -> Plan {
    let actions = match verdict {
        Verdict::Refused(failure) | Verdict::Failed(failure) => return Plan::failed(failure),
        Verdict::Answered(actions) => actions,
    };
    if snapshot.foo.meta.deleted {
        return Plan::default();
    }
    let answered = spec::read(&snapshot.foo.value())
        .and_then(|spec| answered(snapshot, &spec.deployment_name, answer::fold(actions)?));
    answered.unwrap_or_else(Plan::failed)
}

fn answered(snapshot: &Snapshot<'_>, name: &str, folded: Folded) -> Result<Plan, Failure> {
    let child = snapshot.child();
    if matches!(child, Child::Foreign { .. }) {
        return Err(foreign(name));
    }
    let wanted = match (&folded.apply, folded.delete) {
        (Some(_), _) => Wanted::Applied,
        (None, true) => Wanted::Deleted,
        (None, false) => Wanted::Kept,
    };
    let mut plan = Plan {
        wanted,
        status: folded.status,
        events: folded.events,
        requeue_after: folded.requeue_after,
        ..Plan::default()
    };
    let live_value = match child {
        Child::Owned(live) => live.value(),
        _ => Value::Null,
    };
    // The manifest is checked even while nothing can be done with it.
    if let Some((place, text)) = folded.apply {
        let mut desired =
            manifest::desired(&text, &snapshot.foo.meta, name).map_err(|message| place.refuse(message))?;
        match child {
            Child::Absent => plan.operations.push(Operation::Create { manifest: desired }),
            Child::Owned(live) => {
                manifest::check_selector(&desired, &live_value).map_err(|message| place.refuse(message))?;
                if let Some(due) = drift::due(&desired, &live_value, &live.own) {
                    pin(&mut desired, live);
                    plan.differences = due.differences;
                    plan.operations.push(Operation::Apply {
                        name: live.meta.name.clone(),
                        uid: live.meta.uid.clone(),
                        resource_version: live.meta.resource_version.clone(),
                        manifest: desired,
                        adopt: due.adopt,
                    });
                }
            }
            // Its delete event wakes the Foo.
            Child::Terminating(_) | Child::Foreign { .. } => {}
        }
    }
    if let Child::Owned(live) = child {
        if wanted == Wanted::Deleted {
            plan.operations.push(delete(live));
        } else if plan.operations.is_empty() && kstatus::health(&live_value) == Health::Current {
            plan.operations.extend(snapshot.left_behind().map(delete));
        }
    }
    Ok(plan)
}

/// An apply that carries these re-creates nothing and overwrites no other version.
fn pin(desired: &mut Value, live: &Object) {
    if let Some(metadata) = desired.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("uid".to_owned(), live.meta.uid.as_str().into());
        metadata.insert("resourceVersion".to_owned(), live.meta.resource_version.as_str().into());
    }
}

fn delete(object: &Object) -> Operation {
    Operation::Delete {
        name: object.meta.name.clone(),
        uid: object.meta.uid.clone(),
        resource_version: object.meta.resource_version.clone(),
    }
}
