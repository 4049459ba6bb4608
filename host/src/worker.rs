//! One run of one Foo: snapshot, guest, plan, writes, status, Events, and when the next run comes.

use crate::cache::{Cache, ChildView, View};
use crate::foo_schema::FooSchema;
use crate::guest::{ActiveGuest, GuestSlot};
use crate::key::Key;
use crate::metrics::Metrics;
use crate::recorder::{Observed, Recorder};
use crate::writer::{StatusOutcome, Writer};
use futures::FutureExt as _;
use guest_engine::CallError;
use plan::{Admission, Child, Class, Failure, Next, Reason, Snapshot, Verdict, Written};
use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tracing::Instrument as _;
use workqueue::{Priority, WorkQueue};

/// A failure that stays the same is told again as an Event after this: Events last an hour.
const REMIND_AFTER: Duration = Duration::from_mins(30);

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
    /// The failures that were told as Events, so that each is told once.
    pub told: Mutex<HashMap<Key, (Reason, String, Instant)>>,
}

impl Reconciler {
    /// Takes keys from the queue until it is shut down.
    pub async fn work(self: Arc<Self>) {
        while let Some(ticket) = self.queue.get().await {
            let key = ticket.key().clone();
            let failures = self.queue.failures(&key);
            let span = tracing::info_span!("reconcile", foo = %key);
            let started = Instant::now();
            let run = AssertUnwindSafe(self.run(&key, failures)).catch_unwind().instrument(span);
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

    async fn run(&self, key: &Key, failures: u32) -> Next {
        let Some(view) = self.view(key).await else {
            return Next::QuietBackoff;
        };
        let Some(view) = view else {
            tracing::debug!("the Foo is gone");
            self.forget_told(key);
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
            failures,
        };
        let verdict = match plan::admit(&snapshot) {
            Admission::Ignore => return Next::Done,
            Admission::Refuse(failure) => Verdict::Refused(failure),
            Admission::Call(input) => self.call(&active, &input).await,
        };
        let made = plan::plan(&snapshot, verdict);
        for difference in &made.differences {
            tracing::debug!(path = %difference.path, "differs");
        }
        let owned = match &view.child {
            ChildView::Owned(object) => Some(object.clone()),
            _ => None,
        };
        let outcome = self.writer.execute(&key.namespace, &made.operations, owned).await;
        let written = Written {
            failure: outcome.failure,
            changed: outcome.changed,
            deployment: outcome.deployment.as_deref(),
        };
        let conclusion = plan::conclude(&snapshot, &made, written);
        let status_failure = match &conclusion.status {
            Some(status) => self.write_status(key, status).await,
            None => None,
        };
        self.tell(key, &view, conclusion.events, conclusion.failure.as_ref());
        match (&conclusion.failure, status_failure) {
            (Some(failure), _) => {
                log(failure, failures, conclusion.next);
                self.metrics.failed(failure.reason);
                conclusion.next
            }
            (None, Some(failure)) => {
                log(&failure, failures, Next::Backoff);
                self.metrics.failed(failure.reason);
                if failure.class == Class::Quiet { Next::QuietBackoff } else { Next::Backoff }
            }
            (None, None) => conclusion.next,
        }
    }

    /// The view of the Foo, with its child read if the cache knows no more than the name. The outer none is a
    /// read that failed.
    async fn view(&self, key: &Key) -> Option<Option<View>> {
        let view = self.cache.view(key);
        let Some(View { foo, child: ChildView::Unread, .. }) = &view else { return Some(view) };
        let name =
            foo.value().pointer("/spec/deploymentName").and_then(|name| name.as_str()).map(str::to_owned);
        if let Some(name) = name
            && let Err(failure) = self.writer.read_deployment(&Key::new(&key.namespace, &name)).await
        {
            tracing::warn!(reason = failure.reason.as_str(), "{}", failure.message);
            self.metrics.failed(failure.reason);
            return None;
        }
        // Deleted meanwhile and not seen yet, it may be unread again: then the next run finds it.
        Some(self.cache.view(key).filter(|view| !matches!(view.child, ChildView::Unread)))
    }

    async fn call(&self, active: &ActiveGuest, input: &contract::Input) -> Verdict {
        let call = active.guest.reconcile(&input.foo, input.deployment.as_ref()).await;
        self.metrics.guest_call(&call);
        if call.log_dropped > 0 {
            tracing::warn!(
                dropped = call.log_dropped,
                "the guest logged more than it may; the rest was dropped"
            );
        }
        match call.result {
            Ok(actions) => Verdict::Answered(actions),
            Err(error) => Verdict::Failed(call_failure(&error)),
        }
    }

    async fn write_status(&self, key: &Key, status: &serde_json::Value) -> Option<Failure> {
        match self.writer.write_status(key, status).await {
            StatusOutcome::Written(answer) => {
                self.schema.learn(status, &answer);
                None
            }
            StatusOutcome::NoSubresource => {
                self.schema.no_subresource();
                None
            }
            StatusOutcome::Gone => None,
            StatusOutcome::Failed(failure) => Some(failure),
        }
    }

    fn tell(&self, key: &Key, view: &View, events: Vec<contract::Event>, failure: Option<&Failure>) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(failure) = failure else {
            told.remove(key);
            drop(told);
            for event in events {
                self.recorder.record(Observed::about(&view.foo, event));
            }
            return;
        };
        for event in events {
            if event.r#type == contract::EventType::Warning && event.reason == failure.reason.as_str() {
                let again = told.get(key).is_some_and(|(reason, message, when)| {
                    *reason == failure.reason && *message == event.message && when.elapsed() < REMIND_AFTER
                });
                if again {
                    continue;
                }
                told.insert(key.clone(), (failure.reason, event.message.clone(), Instant::now()));
            }
            self.recorder.record(Observed::about(&view.foo, event));
        }
    }

    fn forget_told(&self, key: &Key) {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
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

/// Loud at the attempt that makes it visible and quiet at its repeats; always to be had with `debug`.
fn log(failure: &Failure, failures: u32, next: Next) {
    let reason = failure.reason.as_str();
    let first = failures == 0 || failures == 2;
    if failure.class == Class::Quiet {
        tracing::debug!(reason, ?next, "{}", failure.message);
    } else if failure.visible(failures) && (first || failure.class == Class::Permanent) {
        tracing::warn!(reason, ?next, "{}", failure.message);
    } else {
        tracing::info!(reason, attempt = failures + 1, ?next, "{}", failure.message);
    }
}

fn unix_seconds() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}
