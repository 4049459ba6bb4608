//! What the Foo says after a run: status, Events, and when the next run comes.
//!
//! Owns: the result of a run. Must not know how the writes went beyond [`Written`].

use crate::conditions::Standing;
use crate::failure::{Class, Failure, Reason};
use crate::kstatus::{self, Health};
use crate::object::Object;
use crate::operation::Operation;
use crate::planning::{Plan, Wanted};
use crate::snapshot::{Child, Snapshot};
use crate::status::{self, Report};
use contract::{Event, EventType};
use serde_json::Value;
use std::time::Duration;

/// What came of the plan's operations.
#[derive(Clone, Debug, Default)]
pub struct Written<'a> {
    /// Of the first operation that failed; the ones after it were not tried.
    pub failure: Option<Failure>,
    /// A Deployment was created, changed or deleted.
    pub changed: bool,
    /// The Deployment that the Foo names and controls, as it is after the writes: the answer to the
    /// last write, or the snapshot's child where nothing was written; none after a delete.
    pub deployment: Option<&'a Object>,
}

/// What remains to be done for the Foo.
#[derive(Clone, Debug, PartialEq)]
pub struct Conclusion {
    /// A JSON merge patch for `foos/<name>/status`, with `metadata.uid` and
    /// `metadata.resourceVersion`; none if nothing changes.
    pub status: Option<Value>,
    /// To be recorded about the Foo.
    pub events: Vec<Event>,
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

/// Concludes a run; `plan` is as it was made, with its operations.
///
/// A failure that is not to be seen yet changes nothing: the status keeps its conditions. The guest's
/// Events and its part of the status count only when its plan was carried out.
pub fn conclude(snapshot: &Snapshot<'_>, plan: &Plan, written: Written<'_>) -> Conclusion {
    let failure = written.failure.or_else(|| plan.failure.clone());
    if snapshot.foo.meta.deleted {
        return Conclusion { status: None, events: Vec::new(), next: Next::Done, failure };
    }
    // Without a delete the child is still there, whatever the caller knows.
    let deployment = written.deployment.or_else(|| match snapshot.child() {
        Child::Owned(child) if plan.wanted != Wanted::Deleted => Some(child),
        _ => None,
    });
    if let Some(failure) = failure {
        return after_failure(snapshot, plan, failure, deployment);
    }
    let report = carried_out(snapshot, plan, deployment);
    let mut events = plan.events.clone();
    if written.changed {
        events.push(Event {
            r#type: EventType::Normal,
            reason: foo_api::REASON_SYNCED.to_owned(),
            message: foo_api::MESSAGE_SYNCED.to_owned(),
        });
    }
    Conclusion {
        status: status::patch(snapshot, plan, &report, deployment),
        events,
        next: plan.requeue_after.map_or(Next::Done, Next::After),
        failure: None,
    }
}

fn after_failure(
    snapshot: &Snapshot<'_>,
    plan: &Plan,
    failure: Failure,
    deployment: Option<&Object>,
) -> Conclusion {
    let (mut status, mut events) = (None, Vec::new());
    if failure.visible(snapshot.failures) {
        status = status::patch(snapshot, plan, &failed(&failure), deployment);
        events.push(Event {
            r#type: EventType::Warning,
            reason: failure.reason.as_str().to_owned(),
            message: failure.message.clone(),
        });
    }
    Conclusion { status, events, next: after(&failure), failure: Some(failure) }
}

fn after(failure: &Failure) -> Next {
    match failure.class {
        // Nothing can be created there any more, and the deletion of the Foo is on its way.
        Class::Quiet if failure.reason == Reason::NamespaceTerminating => Next::Done,
        Class::Quiet => Next::QuietBackoff,
        Class::Retry => Next::Backoff,
        Class::Permanent => Next::Hold,
    }
}

fn failed(failure: &Failure) -> Report {
    let standing = if failure.class == Class::Permanent { Standing::Stalled } else { Standing::Reconciling };
    let reason = failure.reason.as_str().to_owned();
    Report { standing, reason, message: failure.message.clone(), failed: true }
}

/// What a Foo says whose plan was carried out.
fn carried_out(snapshot: &Snapshot<'_>, plan: &Plan, deployment: Option<&Object>) -> Report {
    let report = |standing, reason: &str, message: String| Report {
        standing,
        reason: reason.to_owned(),
        message,
        failed: false,
    };
    let waiting = |name: &str| {
        let message = format!("waiting for Deployment {name} to be deleted");
        report(Standing::Reconciling, "Terminating", message)
    };
    if let Child::Terminating(child) = snapshot.child() {
        return waiting(&child.meta.name);
    }
    let Some(deployment) = deployment else {
        return if plan.wanted == Wanted::Applied {
            report(Standing::Reconciling, "Progressing", "waiting for the Deployment to appear".to_owned())
        } else {
            report(Standing::Ready, "NoDeployment", "no Deployment is wanted".to_owned())
        };
    };
    let name = &deployment.meta.name;
    let kept = kept_names(snapshot, plan);
    match kstatus::health(&deployment.value()) {
        Health::Terminating => waiting(name),
        Health::Failed => {
            let kept = kept.map(|kept| format!("; {kept} stays until it is available")).unwrap_or_default();
            let message = format!("Deployment {name} passed its progress deadline{kept}");
            report(Standing::Stalled, "ProgressDeadlineExceeded", message)
        }
        Health::InProgress => {
            let kept = kept.map(|kept| format!("; {kept} stays until then")).unwrap_or_default();
            let message = format!("waiting for Deployment {name} to become available{kept}");
            report(Standing::Reconciling, "Progressing", message)
        }
        Health::Current => match kept {
            Some(kept) => report(Standing::Reconciling, "Renaming", format!("{kept} is still to be deleted")),
            None => report(Standing::Ready, "DeploymentAvailable", format!("Deployment {name} is available")),
        },
    }
}

fn deletes(plan: &Plan, object: &Object) -> bool {
    let deleted =
        |operation: &Operation| matches!(operation, Operation::Delete { uid, .. } if *uid == object.meta.uid);
    plan.operations.iter().any(deleted)
}

/// The Deployments of earlier names that this plan leaves, as a message has them.
fn kept_names(snapshot: &Snapshot<'_>, plan: &Plan) -> Option<String> {
    const SHOWN: usize = 3;
    let mut names: Vec<_> = snapshot
        .left_behind()
        .filter(|object| !deletes(plan, object))
        .map(|object| object.meta.name.as_str())
        .collect();
    names.sort_unstable();
    let more = names.len().saturating_sub(SHOWN);
    let shown = names.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
    match (names.is_empty(), more) {
        (true, _) => None,
        (false, 0) => Some(format!("Deployment {shown}")),
        (false, more) => Some(format!("Deployment {shown} and {more} more")),
    }
}
