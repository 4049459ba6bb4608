//! What the Foo says after a run: status, Events, and when the next run comes.
//!
//! Owns: the result of a run. Must not know how the writes went beyond [`Written`].

use crate::failure::Failure;
use crate::object::Object;
use crate::planning::Plan;
use crate::snapshot::Snapshot;
use serde_json::Value;
use std::time::Duration;

/// What came of the plan's operations.
#[derive(Clone, Debug, Default)]
pub struct Written<'a> {
    /// Of the first operation that failed; the ones after it were not tried.
    pub failure: Option<Failure>,
    /// A Deployment was created, changed or deleted.
    pub changed: bool,
    /// The Deployment that the Foo names and controls, as it is after the writes.
    pub deployment: Option<&'a Object>,
}

/// What remains to be done for the Foo.
#[derive(Clone, Debug, PartialEq)]
pub struct Conclusion {
    /// A JSON merge patch for `foos/<name>/status`, with `metadata.uid` and
    /// `metadata.resourceVersion`; none if nothing changes.
    pub status: Option<Value>,
    /// To be recorded about the Foo.
    pub events: Vec<contract::Event>,
    /// When the next run comes.
    pub next: Next,
    /// Why the run failed, for log and metric.
    pub failure: Option<Failure>,
}

/// When the next run comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// With the next event or resync. The queue forgets the key's failures.
    Done,
    /// After this time, as the guest asked. The queue forgets the key's failures.
    After(Duration),
    /// Rate-limited: the delay grows with each failure.
    Backoff,
    /// After a permanent failure: with the next wake-up or resync, not before.
    Hold,
    /// Rate-limited, and nobody is told.
    QuietBackoff,
}

/// Concludes a run.
pub fn conclude(snapshot: &Snapshot<'_>, plan: &Plan, written: Written<'_>) -> Conclusion {
    let _ = snapshot;
    let failure = written.failure.or_else(|| plan.failure.clone());
    Conclusion { status: None, events: Vec::new(), next: Next::Done, failure }
}
