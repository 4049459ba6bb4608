//! The tokio shell: a lock around the state machine, wake-ups, and tickets that end their run when
//! dropped. Decides nothing.

use crate::{
    Config, Observer, Priority, Snapshot,
    state::{Counts, Finished, Next, State, Wake},
};
use std::{
    fmt,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

/// A work queue; clones share it. Adding never blocks or waits, also outside of a runtime;
/// [`get`](Self::get) needs a tokio runtime with time enabled.
pub struct WorkQueue<K: Clone + Eq + Hash> {
    shared: Arc<Shared<K>>,
}

struct Shared<K> {
    start: Instant,
    state: Mutex<State<K>>,
    observer: Arc<dyn Observer>,
    /// Workers that wait for a key.
    workers: Notify,
    /// Those that wait for runs to end.
    idle: Notify,
}

impl<K: Clone + Eq + Hash> Clone for WorkQueue<K> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<K: Clone + Eq + Hash> WorkQueue<K> {
    /// An empty queue.
    pub fn new(config: Config) -> Self {
        let shared = Shared {
            start: Instant::now(),
            observer: Arc::clone(&config.observer),
            state: Mutex::new(State::new(config)),
            workers: Notify::new(),
            idle: Notify::new(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// `key` is to run as soon as a worker is free. It takes the place of a delayed add of that key:
    /// the run that comes decides anew. A key that waits is not added twice; as
    /// [`Priority::Change`] it leaves the background. A key in flight runs again afterwards.
    pub fn add(&self, key: K, priority: Priority) {
        self.shared.change(|state, now| state.add(now, key, priority));
    }

    /// As [`add`](Self::add), but does nothing while `key` waits out a backoff, that is, was delayed
    /// by [`add_rate_limited`](Self::add_rate_limited). A wake-up that comes during a run which then
    /// fails also waits for the backoff. None is lost: the run after the backoff sees the change.
    pub fn add_unless_delayed(&self, key: K, priority: Priority) {
        self.shared.change(|state, now| state.add_unless_delayed(now, key, priority));
    }

    /// `key` is to run once `delay` is over. Of two delays the earlier counts. Does nothing if the
    /// key is to run anyway: that run decides anew. (client-go: `AddAfter`)
    pub fn add_after(&self, key: K, priority: Priority, delay: Duration) {
        self.shared.change(|state, now| state.add_after(now, key, priority, delay));
    }

    /// `key` failed: counts the failure and adds the key after its backoff. Does not cut short or
    /// lengthen what is there, as [`add_after`](Self::add_after). Call it before the ticket's end.
    /// (client-go: `AddRateLimited`)
    pub fn add_rate_limited(&self, key: K, priority: Priority) {
        self.shared.change(|state, now| state.add_rate_limited(now, key, priority));
    }

    /// The next failure of `key` counts as the first. Delays and runs stay. (client-go: `Forget`)
    pub fn forget(&self, key: &K) {
        self.shared.lock().forget(key);
    }

    /// Failures of `key` since it was last forgotten. (client-go: `NumRequeues`)
    pub fn failures(&self, key: &K) -> u32 {
        self.shared.lock().failures(key)
    }

    /// Waits for a key and gives it to the caller, who alone has it until the ticket's end. `None`
    /// once the queue is shut down and empty, or abandoned: the worker ends. Cancel safe.
    pub async fn get(&self) -> Option<Ticket<K>> {
        loop {
            // Registered before the look, so that nothing is missed between look and wait. A wake-up
            // that this worker does not need goes on to another when `woken` is dropped.
            let woken = self.shared.workers.notified();
            tokio::pin!(woken);
            woken.as_mut().enable();
            match self.shared.next() {
                Next::Run { key, priority, waited } => {
                    // First the ticket: should the observer panic, the run ends.
                    let ticket = Ticket { shared: Arc::clone(&self.shared), key, priority, waited };
                    self.shared.observer.started(priority, waited);
                    return Some(ticket);
                }
                Next::Ended => return None,
                Next::Wait { until: None } => woken.as_mut().await,
                Next::Wait { until: Some(until) } => match self.shared.start.checked_add(until) {
                    None => woken.as_mut().await,
                    Some(until) => {
                        tokio::select! {
                            () = woken.as_mut() => {}
                            () = sleep_until(until) => {}
                        }
                    }
                },
            }
        }
    }

    /// Takes in nothing more and drops delayed adds. Keys that wait are still handed out, and those
    /// that were added during their run; then [`get`](Self::get) returns `None`. Ends the waiting of
    /// [`shut_down_with_drain`](Self::shut_down_with_drain). (client-go: `ShutDown`)
    pub fn shut_down(&self) {
        self.shared.change(|state, now| state.shut_down(now, false));
        self.shared.idle.notify_waiters();
    }

    /// As [`shut_down`](Self::shut_down), and waits until all that waits has been run, or until
    /// `shut_down` or [`abandon`](Self::abandon) is called. Waits for ever if no worker is left.
    /// (client-go: `ShutDownWithDrain`, which may also return between two runs of its last worker.)
    pub async fn shut_down_with_drain(&self) {
        self.shared.change(|state, now| state.shut_down(now, true));
        self.shared.until(State::is_drained).await;
    }

    /// Takes in and hands out nothing more: [`get`](Self::get) returns `None` at once, runs in flight
    /// go on. Returns how many keys, waiting or delayed, are left behind.
    pub fn abandon(&self) -> usize {
        let mut left = 0;
        self.shared.change(|state, now| {
            let (count, wake) = state.abandon(now);
            left = count;
            wake
        });
        self.shared.idle.notify_waiters();
        left
    }

    /// Waits until no run is in flight.
    pub async fn idle(&self) {
        self.shared.until(|state| state.in_flight() == 0).await;
    }

    /// Whether the queue takes in nothing more. (client-go: `ShuttingDown`)
    pub fn is_shut_down(&self) -> bool {
        self.shared.lock().is_shut_down()
    }

    /// Keys that a free worker would get now. (client-go: `Len`)
    pub fn len(&self) -> usize {
        self.shared.lock().len(self.shared.now())
    }

    /// Whether [`len`](Self::len) is 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Keys whose delay is not over.
    pub fn waiting(&self) -> usize {
        self.shared.lock().waiting(self.shared.now())
    }

    /// Keys that workers have now.
    pub fn in_flight(&self) -> usize {
        self.shared.lock().in_flight()
    }

    /// The gauges, now. Takes time in proportion to the keys that the queue knows.
    pub fn snapshot(&self) -> Snapshot {
        self.shared.lock().snapshot(self.shared.now())
    }
}

impl<K: Clone + Eq + Hash> fmt::Debug for WorkQueue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkQueue").field("snapshot", &self.snapshot()).finish_non_exhaustive()
    }
}

impl<K: Clone + Eq + Hash> Shared<K> {
    fn now(&self) -> Duration {
        Instant::now().saturating_duration_since(self.start)
    }

    /// The state is whole between any two of its operations, whatever panicked.
    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One operation: the state decides, then workers are woken and the observer is told.
    fn change(&self, operation: impl FnOnce(&mut State<K>, Duration) -> Wake) {
        let (wake, counts) = {
            let mut state = self.lock();
            (operation(&mut state, self.now()), state.take_counts())
        };
        self.wake(wake);
        self.report(counts);
    }

    fn next(&self) -> Next<K> {
        let (next, counts) = {
            let mut state = self.lock();
            (state.next(self.now()), state.take_counts())
        };
        self.report(counts);
        next
    }

    fn done(&self, key: &K) {
        let (finished, counts, idle) = {
            let mut state = self.lock();
            (state.done(self.now(), key), state.take_counts(), state.in_flight() == 0)
        };
        if idle {
            self.idle.notify_waiters();
        }
        if let Some(Finished { wake, priority, worked }) = finished {
            self.wake(wake);
            self.observer.finished(priority, worked);
        }
        self.report(counts);
    }

    fn wake(&self, wake: Wake) {
        match wake {
            Wake::Nobody => {}
            Wake::One => self.workers.notify_one(),
            Wake::All => self.workers.notify_waiters(),
        }
    }

    fn report(&self, counts: Counts) {
        for priority in Priority::ALL {
            for _ in 0..counts.added[priority.index()] {
                self.observer.added(priority);
            }
        }
        for _ in 0..counts.retried {
            self.observer.retried();
        }
    }

    /// Waits until `condition` holds, which only the end of a run or a shutdown can change.
    async fn until(&self, condition: impl Fn(&State<K>) -> bool) {
        loop {
            let changed = self.idle.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if condition(&self.lock()) {
                return;
            }
            changed.await;
        }
    }
}

/// A key in flight. Its run ends when the ticket is dropped, also by a panic or a cancelled task; the
/// key can then be handed out again. (client-go: `Done`)
#[must_use = "dropping a ticket ends its run"]
pub struct Ticket<K: Clone + Eq + Hash> {
    shared: Arc<Shared<K>>,
    key: K,
    priority: Priority,
    waited: Duration,
}

impl<K: Clone + Eq + Hash> Ticket<K> {
    /// What to work on.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// As what the key was handed out.
    pub fn priority(&self) -> Priority {
        self.priority
    }

    /// From the first add, or the end of the delay, to the hand-out.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// Ends the run; the same as a drop.
    pub fn done(self) {}
}

impl<K: Clone + Eq + Hash> Drop for Ticket<K> {
    fn drop(&mut self) {
        self.shared.done(&self.key);
    }
}

impl<K: Clone + Eq + Hash + fmt::Debug> fmt::Debug for Ticket<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket")
            .field("key", &self.key)
            .field("priority", &self.priority)
            .field("waited", &self.waited)
            .finish_non_exhaustive()
    }
}
