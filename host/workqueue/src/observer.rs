//! The metrics that client-go's queue exposes (`metrics.go`), without a metrics library.

use crate::Priority;
use std::time::Duration;

/// Told what happens in a queue, once each time and outside the queue's lock. Calls of concurrent
/// operations come in any order, so this is for counters and histograms; gauges are read with
/// [`WorkQueue::snapshot`](crate::WorkQueue::snapshot).
pub trait Observer: Send + Sync {
    /// A key now waits for a run that did not before (`workqueue_adds_total`).
    fn added(&self, priority: Priority) {
        let _ = priority;
    }

    /// A key was delayed, by a failure or by request (`workqueue_retries_total`).
    fn retried(&self) {}

    /// A worker got a key that had waited this long, its delay apart
    /// (`workqueue_queue_duration_seconds`).
    fn started(&self, priority: Priority, waited: Duration) {
        let _ = (priority, waited);
    }

    /// A worker is done with a key after this long (`workqueue_work_duration_seconds`).
    fn finished(&self, priority: Priority, worked: Duration) {
        let _ = (priority, worked);
    }
}

/// Observes nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl Observer for NoObserver {}

/// A queue at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Keys of [`Priority::Change`] to be run (`workqueue_depth`). As in client-go this counts keys
    /// that were added during their run, which [`WorkQueue::len`](crate::WorkQueue::len) does not.
    pub depth_change: usize,
    /// The same for [`Priority::Background`].
    pub depth_background: usize,
    /// Keys whose delay is not over.
    pub delayed: usize,
    /// Keys that workers have now.
    pub in_flight: usize,
    /// Keys with a failure that was not forgotten.
    pub failing: usize,
    /// How long the runs in flight have been going, summed (`workqueue_unfinished_work_seconds`).
    pub unfinished_work: Duration,
    /// How long the oldest run in flight has been going
    /// (`workqueue_longest_running_processor_seconds`).
    pub longest_running: Duration,
}

impl Snapshot {
    /// The depth of one priority.
    pub const fn depth(&self, priority: Priority) -> usize {
        match priority {
            Priority::Background => self.depth_background,
            Priority::Change => self.depth_change,
        }
    }
}
