//! One run of one Foo: snapshot, guest, plan, writes, status, Events, and when the next run comes.

use crate::cache::{Cache, ChildView, View};
use crate::foo_schema::FooSchema;
use crate::guest::{ActiveGuest, GuestSlot};
use crate::key::Key;
use crate::metrics::Metrics;
use crate::recorder::{Observed, Recorder};
use crate::standing::Standings;
use crate::writer::{Outcome, StatusOutcome, Writer};
use futures::FutureExt as _;
use guest_engine::CallError;
use plan::{
    Admission, Child, Class, Conclusion, Failure, Next, Operation, Reason, Snapshot, Verdict, Written,
};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use tracing::Instrument as _;
use workqueue::{Priority, WorkQueue};

/// What the workers share.
pub struct Reconciler {
    /// What the cluster is.
    pub cache: Arc<Cache>,
    /// What is to be done.
    pub queue: WorkQueue<Key>,
    /// Who decides.
    pub guest: Arc<GuestSlot>,
    /// Who writes.
    pub writer: Writer,
    /// What a status may hold.
    pub schema: Arc<FooSchema>,
    /// Who tells.
    pub recorder: Recorder,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// How each Foo stands.
    pub standings: Standings,
}

impl Reconciler {
    /// Takes keys from the queue until it is shut down.
    pub async fn work(self: Arc<Self>) {
        while let Some(ticket) = self.queue.get().await {
            let key = ticket.key().clone();
            // Of the least level, so that no filter takes the name from the lines that it lets through.
            let span = tracing::error_span!("reconcile", foo = %key);
            let started = Instant::now();
            let run = AssertUnwindSafe(self.run(&key)).catch_unwind().instrument(span);
            let next = run.await.unwrap_or_else(|_| {
                // The panic hook has printed it; one Foo's bug must not end the worker.
                tracing::error!(foo = %key, "a run panicked: this is a bug in the host; the Foo is tried again");
                self.metrics.reconcile_panic();
                Next::Backoff
            });
            self.metrics.reconciled(next, started.elapsed());
            match next {
                Next::Done | Next::Hold => self.queue.forget(&key),
                Next::After(delay) => {
                    self.queue.forget(&key);
                    self.queue.add_after(key, Priority::Background, delay);
                }
                Next::Backoff | Next::QuietBackoff => self.queue.add_rate_limited(key, Priority::Change),
            }
            ticket.done();
        }
    }

    async fn run(&self, key: &Key) -> Next {
        let Some((view, unread)) = self.view(key).await else {
            tracing::debug!("the Foo is gone");
            self.standings.forget(key);
            return Next::Done;
        };
        let Some(active) = self.guest.current() else {
            return Next::QuietBackoff;
        };
        let snapshot = Snapshot {
            foo: &view.foo,
            child: child(&view.child),
            others: &view.others,
            guest: &active.identity,
            parameters: &active.parameters,
            schema: self.schema.get(),
            now: unix_seconds(),
            failures: self.standings.failures(key, &view.foo.meta.uid),
        };
        let verdict = match (plan::admit(&snapshot), unread) {
            (Admission::Ignore, _) => return Next::Done,
            (Admission::Refuse(failure), _) | (Admission::Call(_), Some(failure)) => {
                Verdict::Refused(failure)
            }
            (Admission::Call(input), None) => self.call(&active, &input).await,
        };
        let made = plan::plan(&snapshot, verdict);
        for difference in &made.differences {
            tracing::debug!(path = %difference.path, "differs");
        }
        let owned = match &view.child {
            ChildView::Owned(object) => Some(object.clone()),
            _ => None,
        };
        let uid = &view.foo.meta.uid;
        let creates = made.operations.iter().any(|operation| matches!(operation, Operation::Create { .. }));
        let there =
            if creates && view.doubtful { self.writer.foo_is_there(key, uid).await } else { Ok(true) };
        let outcome = match there {
            Ok(true) => self.writer.execute(&key.namespace, &made.operations, owned).await,
            Ok(false) => {
                tracing::debug!("the Foo is gone, though its delete event is still to come");
                self.cache.mark_gone(key, uid);
                return Next::Done;
            }
            Err(failure) => Outcome { failure: Some(failure), ..Outcome::default() },
        };
        if outcome.unheard {
            self.standings.write_unheard(key, uid);
        }
        // It was carried out after all, or now.
        let settled = made.failure.is_none() && outcome.failure.is_none();
        let changed = outcome.changed | (settled && self.standings.take_unheard(key, uid));
        let written =
            Written { failure: outcome.failure, changed, deployment: outcome.deployment.as_deref() };
        let conclusion = plan::conclude(&snapshot, &made, written);
        let status_failure = match &conclusion.status {
            Some(status) => self.write_status(key, uid, status).await,
            None => None,
        };
        self.settle(key, &snapshot, conclusion, status_failure.as_ref())
    }

    /// Tells what is to be told, and decides when the next run comes.
    fn settle(
        &self,
        key: &Key,
        snapshot: &Snapshot<'_>,
        conclusion: Conclusion,
        status_failure: Option<&Failure>,
    ) -> Next {
        let Conclusion { mut events, failure, next, .. } = conclusion;
        if failure.is_none()
            && let Some(failure) = status_failure
            && failure.visible(snapshot.failures)
        {
            events.push(contract::Event {
                r#type: contract::EventType::Warning,
                reason: failure.reason.as_str().to_owned(),
                message: failure.message.clone(),
            });
        }
        let worst = failure.as_ref().or(status_failure);
        let (events, tells) =
            self.standings.settle(key, &snapshot.foo.meta.uid, worst, events, Instant::now());
        for event in events {
            self.recorder.record(Observed::about(snapshot.foo, event));
        }
        let next = match (&failure, status_failure) {
            // What should be seen was not written: once more, though the failure itself is permanent.
            (Some(_), Some(status)) if next == Next::Hold && status.class != Class::Permanent => {
                Next::QuietBackoff
            }
            (None, None) | (Some(_), _) => next,
            (None, Some(status)) => match status.class {
                Class::Quiet => Next::QuietBackoff,
                Class::Retry => Next::Backoff,
                Class::Permanent => Next::Hold,
            },
        };
        for failure in failure.iter().chain(status_failure) {
            log(failure, tells, next);
            self.metrics.failed(failure.reason);
        }
        next
    }

    /// The view of the Foo. Where the cache knows no more of its child than the name, that is read first; the
    /// failure is of this read.
    async fn view(&self, key: &Key) -> Option<(View, Option<Failure>)> {
        let view = self.cache.view(key)?;
        if !matches!(view.child, ChildView::Unread) {
            return Some((view, None));
        }
        let foo = view.foo.value();
        let name = foo.pointer("/spec/deploymentName").and_then(|name| name.as_str()).unwrap_or_default();
        match self.writer.read_deployment(&Key::new(&key.namespace, name)).await {
            Ok(()) => Some((self.cache.view(key)?, None)),
            Err(failure) => Some((view, Some(failure))),
        }
    }

    async fn call(&self, active: &ActiveGuest, input: &contract::Input) -> Verdict {
        let call = active.guest.reconcile(&input.foo, input.deployment.as_ref()).await;
        self.metrics.guest_call(&call);
        match call.result {
            Ok(actions) => Verdict::Answered(actions),
            Err(error) => Verdict::Failed(call_failure(&error)),
        }
    }

    async fn write_status(&self, key: &Key, uid: &str, status: &serde_json::Value) -> Option<Failure> {
        match self.writer.write_status(key, status).await {
            StatusOutcome::Written(answer) => {
                self.schema.learn(status, &answer);
                None
            }
            StatusOutcome::NoSubresource => {
                self.schema.no_subresource();
                None
            }
            StatusOutcome::Gone => {
                self.cache.mark_gone(key, uid);
                None
            }
            StatusOutcome::Failed(failure) => Some(failure),
        }
    }
}

fn child(view: &ChildView) -> Child<'_> {
    match view {
        ChildView::Absent | ChildView::Unread => Child::Absent,
        ChildView::Owned(object) => Child::Owned(object),
        ChildView::Terminating(object) => Child::Terminating(object),
        ChildView::Foreign { uid } => Child::Foreign { uid },
    }
}

/// The engine's errors in the words of the plan.
fn call_failure(error: &CallError) -> Failure {
    let reason = match error {
        CallError::Retry(_) => Reason::GuestRetry,
        CallError::Permanent(_) => Reason::GuestPermanent,
        CallError::Fuel { .. } => Reason::FuelExhausted,
        CallError::Deadline { .. } => Reason::DeadlineExceeded,
        CallError::Memory { .. } => Reason::MemoryLimitExceeded,
        CallError::StackOverflow { .. } => Reason::StackOverflow,
        CallError::Trap { .. } => Reason::GuestTrapped,
        CallError::ResultTooLarge { .. } | CallError::TooManyActions { .. } => Reason::AnswerTooLarge,
        CallError::Host(_) => Reason::HostFault,
    };
    Failure::new(reason, &error.to_string())
}

/// Loud when it is told on the Foo, and quiet at its repeats; always to be had with `debug`.
fn log(failure: &Failure, tells: bool, next: Next) {
    let reason = failure.reason.as_str();
    let retry = match next {
        Next::Backoff | Next::QuietBackoff => "backoff",
        Next::Hold => "on change",
        Next::Done | Next::After(_) => "none",
    };
    if tells {
        tracing::warn!(reason, retry, "{}", failure.message);
    } else if failure.class == Class::Retry {
        tracing::info!(reason, retry, "{}", failure.message);
    } else {
        tracing::debug!(reason, retry, "{}", failure.message);
    }
}

fn unix_seconds() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}
