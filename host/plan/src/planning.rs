//! The planning function.
//!
//! Owns: from a snapshot and a verdict to operations. Must not know how they are carried out.

use crate::failure::Failure;
use crate::operation::{Difference, Operation};
use crate::snapshot::Snapshot;
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

/// Makes the plan.
pub fn plan(snapshot: &Snapshot<'_>, verdict: Verdict) -> Plan {
    let _ = snapshot;
    match verdict {
        Verdict::Refused(failure) | Verdict::Failed(failure) => {
            Plan { failure: Some(failure), ..Plan::default() }
        }
        Verdict::Answered(_) => Plan::default(),
    }
}
