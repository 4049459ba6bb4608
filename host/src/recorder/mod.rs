//! Events on their way to the API server: asynchronous, bounded, deduplicated (invariant 8).
//!
//! Owns: the queue of observations, the retries, the end. What becomes of an observation is decided
//! by the [`Correlator`]; how it is written is the [`Sink`]'s. Must not know kube.

mod correlator;
mod event;
mod lru;
#[cfg(test)]
mod tests;

pub use correlator::{Correlator, Limits, Verdict};
pub use event::{Observed, Source};

use futures::future::join_all;
use jiff::Timestamp;
use serde_json::Value;
use std::hash::{BuildHasher, RandomState};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};
use std::time::Duration;
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Events are sent in this many lanes side by side, one request at a time in each. An object has its
/// lane, so that its Events are created before they are patched.
const LANES: usize = 4;

/// Observations that wait in a lane. All lanes hold 8,192 of at most some 2 KiB: a start with 5,000
/// Foos brings one each, faster than they can be sent. client-go holds 1,000 and drops the rest too.
const LANE_CAPACITY: usize = 2_048;

/// Retries of one Event end this long after its first try. (client-go: 12 tries, 10 s apart.)
const RETRY_FOR: Duration = Duration::from_secs(30);

/// Before the first retry; doubles.
const RETRY_DELAY: Duration = Duration::from_millis(500);

/// How long the rest is sent for once nothing can be recorded any more.
const DRAIN_WITHIN: Duration = Duration::from_secs(2);

/// Why a sink did not write an Event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SinkError {
    /// The Event to be patched is gone (404): it is created anew.
    #[error("the Event is gone")]
    NotFound,
    /// The Event need not be written: it exists already, or its namespace is being deleted.
    #[error("{0}")]
    Moot(String),
    /// The API server will refuse it each time (any other 4xx but 429).
    #[error("the API server refused the Event: {0}")]
    Refused(String),
    /// No answer, or one that may be different next time (429, 5xx). Tried again.
    #[error("the Event could not be sent: {0}")]
    Unavailable(String),
}

/// Where Events go.
pub trait Sink: Send + Sync {
    /// Creates `event`, which carries its name, in `namespace`.
    fn create(&self, namespace: &str, event: &Value) -> impl Future<Output = Result<(), SinkError>> + Send;

    /// Merge-patches the Event called `name`.
    fn patch(
        &self,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> impl Future<Output = Result<(), SinkError>> + Send;
}

/// What became of all observations, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Written, as a new Event or as one more count.
    pub written: u64,
    /// Dropped by the correlator: too many Events of one object.
    pub suppressed: u64,
    /// Dropped because too many waited, or nothing is recorded any more.
    pub overflowed: u64,
    /// Given up: refused, moot, or not sent in time.
    pub failed: u64,
}

#[derive(Debug, Default)]
struct Counters {
    written: AtomicU64,
    suppressed: AtomicU64,
    overflowed: AtomicU64,
    failed: AtomicU64,
}

/// Takes observations; clones share it.
#[derive(Clone, Debug)]
pub struct Recorder {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    lanes: Vec<mpsc::Sender<(Timestamp, Observed)>>,
    hasher: RandomState,
    counters: Arc<Counters>,
    /// Ends the lanes' patience when the last recorder is gone.
    _gone: DropGuard,
}

impl Recorder {
    /// A recorder, and the future that sends what it records to `sink`. That future ends when all
    /// clones of the recorder are gone and what they recorded is sent, at most 2 s later. Once `stop`
    /// is cancelled nothing is tried again.
    pub fn new<S: Sink + 'static>(
        sink: Arc<S>,
        stop: CancellationToken,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        Self::with_source(Source::here(), sink, stop)
    }

    /// As [`new`](Self::new), in the name of `source`.
    pub fn with_source<S: Sink + 'static>(
        source: Source,
        sink: Arc<S>,
        stop: CancellationToken,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let counters = Arc::new(Counters::default());
        let source = Arc::new(source);
        let limits = Limits { cache: Limits::default().cache / LANES, ..Limits::default() };
        let (senders, lanes): (Vec<_>, Vec<_>) = (0..LANES)
            .map(|_| {
                let (sender, observations) = mpsc::channel(LANE_CAPACITY);
                let lane = Lane {
                    observations,
                    correlator: Correlator::new(Arc::clone(&source), limits),
                    counters: Arc::clone(&counters),
                };
                (sender, lane)
            })
            .unzip();
        let alive = CancellationToken::new();
        let shared = Shared {
            lanes: senders,
            hasher: RandomState::new(),
            counters,
            _gone: alive.clone().drop_guard(),
        };
        (Self { shared: Arc::new(shared) }, send(lanes, sink, alive, stop))
    }

    /// Records what was observed now. Never blocks or waits; what finds no room is dropped and
    /// counted.
    pub fn record(&self, observed: Observed) {
        let shared = &self.shared;
        let object = shared.hasher.hash_one((&observed.namespace, &observed.name));
        let Some(lane) = shared.lanes.get((object % LANES as u64) as usize) else { return };
        match lane.try_send((Timestamp::now(), observed)) {
            Ok(()) => {}
            Err(TrySendError::Full((_, observed)) | TrySendError::Closed((_, observed))) => {
                shared.counters.overflowed.fetch_add(1, Ordering::Relaxed);
                let Observed { namespace, name, reason, .. } = observed;
                tracing::debug!(%namespace, %name, %reason, "no room for an Event");
            }
        }
    }

    /// What became of all observations so far.
    pub fn stats(&self) -> Stats {
        self.stats_reader()()
    }

    /// The same for later: what it returns is no clone of the recorder and keeps nothing alive.
    pub fn stats_reader(&self) -> impl Fn() -> Stats + Send + Sync + 'static {
        let counters = Arc::clone(&self.shared.counters);
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        move || Stats {
            written: read(&counters.written),
            suppressed: read(&counters.suppressed),
            overflowed: read(&counters.overflowed),
            failed: read(&counters.failed),
        }
    }
}

/// Runs the lanes to their end, or until they had their time.
async fn send<S: Sink>(lanes: Vec<Lane>, sink: Arc<S>, alive: CancellationToken, stop: CancellationToken) {
    // A child: retries end when the process is to stop, and when no recorder is left.
    let last_try = stop.child_token();
    let lanes = join_all(lanes.into_iter().map(|lane| lane.run(&*sink, &last_try)));
    tokio::pin!(lanes);
    tokio::select! {
        _ = &mut lanes => return,
        () = alive.cancelled() => last_try.cancel(),
    }
    if timeout(DRAIN_WITHIN, lanes).await.is_err() {
        tracing::warn!("not all Events were sent within {} s", DRAIN_WITHIN.as_secs());
    }
}

struct Lane {
    observations: mpsc::Receiver<(Timestamp, Observed)>,
    correlator: Correlator,
    counters: Arc<Counters>,
}

impl Lane {
    /// Sends until nothing can be recorded any more. Nothing is tried again once `last_try` is
    /// cancelled.
    async fn run(mut self, sink: &impl Sink, last_try: &CancellationToken) {
        while let Some((at, observed)) = self.observations.recv().await {
            let counter = match self.correlator.observe(at, &observed) {
                Verdict::Drop => &self.counters.suppressed,
                Verdict::Create { event } => {
                    self.count(&observed, publish(sink, last_try, &observed.namespace, None, &event).await)
                }
                Verdict::Update { name, patch, event } => {
                    let update = Some((&*name, &patch));
                    self.count(&observed, publish(sink, last_try, &observed.namespace, update, &event).await)
                }
            };
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The counter of what became of a write. Says so in the log if it was nothing.
    fn count(&self, observed: &Observed, result: Result<(), SinkError>) -> &AtomicU64 {
        let Observed { namespace, name, reason, .. } = observed;
        match result {
            Ok(()) => return &self.counters.written,
            Err(error @ SinkError::Moot(_)) => {
                tracing::debug!(%namespace, %name, %reason, %error, "an Event was not written");
            }
            Err(error) => tracing::warn!(%namespace, %name, %reason, %error, "an Event was not written"),
        }
        &self.counters.failed
    }
}

/// Patches the Event that `update` names, or creates `event`, until that succeeds, cannot succeed, or
/// took too long.
async fn publish(
    sink: &impl Sink,
    last_try: &CancellationToken,
    namespace: &str,
    mut update: Option<(&str, &Value)>,
    event: &Value,
) -> Result<(), SinkError> {
    let deadline = Instant::now() + RETRY_FOR;
    let mut delay = RETRY_DELAY;
    loop {
        let result = match update {
            Some((name, patch)) => sink.patch(namespace, name, patch).await,
            None => sink.create(namespace, event).await,
        };
        match &result {
            Err(SinkError::NotFound) if update.is_some() => {
                update = None;
                continue;
            }
            Err(SinkError::Unavailable(_)) if Instant::now() + delay < deadline => {}
            _ => return result,
        }
        tokio::select! {
            () = sleep(delay) => delay *= 2,
            () = last_try.cancelled() => return result,
        }
    }
}
