//! The queue as a synchronous state machine on logical time (a `Duration` since its start).
//!
//! Owns every decision. Must not know tokio, locks or clocks: the shell passes the time in, and
//! wakes workers as the returned [`Wake`] says.

#[cfg(test)]
mod model;

use crate::{
    Config, Priority, Snapshot,
    limiter::{Bucket, backoff},
};
use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
    time::Duration,
};

/// Which waiting workers must look again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Wake {
    /// None.
    Nobody,
    /// Any one: a key became ready.
    One,
    /// All: the next deadline is earlier than the one that they wait for, or the queue ended.
    All,
}

/// What a worker that asks for a key gets.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next<K> {
    /// This key is now in flight.
    Run { key: K, priority: Priority, waited: Duration },
    /// Nothing is ready before this time, if any.
    Wait { until: Option<Duration> },
    /// Nothing will come any more.
    Ended,
}

/// What the end of a run amounts to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finished {
    pub(crate) wake: Wake,
    pub(crate) priority: Priority,
    pub(crate) worked: Duration,
}

/// Events for the [`Observer`](crate::Observer), kept until the shell has left its lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// By [`Priority::index`].
    pub(crate) added: [u32; 2],
    pub(crate) retried: u32,
}

/// How much of the queue still works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    /// Nothing is taken in; what waits is handed out.
    Draining,
    /// Nothing is taken in or handed out.
    Abandoned,
}

/// A run that is due: in `ready` while the key has none in flight, afterwards otherwise.
struct Due {
    priority: Priority,
    since: Duration,
    /// Its place in `ready`.
    order: u64,
    /// Asked for only by wake-ups that respect a backoff.
    yields: bool,
}

/// A run that is due later.
struct Delayed {
    priority: Priority,
    at: Duration,
    order: u64,
    /// Made by a failure.
    backoff: bool,
}

/// What is kept of a key beside its run in flight. Never both `due` and `delayed`: a run that is
/// about to come decides anew.
struct Entry {
    due: Option<Due>,
    delayed: Option<Delayed>,
    failures: u32,
}

impl Entry {
    const NEW: Self = Self { due: None, delayed: None, failures: 0 };

    fn is_empty(&self) -> bool {
        self.due.is_none() && self.delayed.is_none() && self.failures == 0
    }
}

struct Run {
    priority: Priority,
    started: Duration,
}

pub(crate) struct State<K> {
    config: Config,
    phase: Phase,
    /// Somebody waits for the end of all that is ready or in flight.
    drain: bool,
    /// No empty ones.
    entries: HashMap<K, Entry>,
    in_flight: HashMap<K, Run>,
    /// By [`Priority::index`]: the keys that a worker may have now, in order.
    ready: [BTreeMap<u64, K>; 2],
    /// By time, then order.
    delayed: BTreeMap<(Duration, u64), K>,
    /// The next place in `ready` and `delayed`.
    order: u64,
    /// Keys of `Change` handed out since `Background` last had its turn or had nothing waiting.
    changes_in_a_row: u32,
    bucket: Bucket,
    counts: Counts,
}

impl<K: Clone + Eq + Hash> State<K> {
    pub(crate) fn new(config: Config) -> Self {
        Self {
            phase: Phase::Open,
            drain: false,
            entries: HashMap::new(),
            in_flight: HashMap::new(),
            ready: [BTreeMap::new(), BTreeMap::new()],
            delayed: BTreeMap::new(),
            order: 0,
            changes_in_a_row: 0,
            bucket: Bucket::new(&config),
            counts: Counts::default(),
            config,
        }
    }

    /// `key` is to run as soon as it can, past any delay.
    pub(crate) fn add(&mut self, now: Duration, key: K, priority: Priority) -> Wake {
        self.advance(now);
        self.want(now, key, priority, false)
    }

    /// As [`Self::add`], unless `key` waits out a backoff. If its run in flight fails, the backoff
    /// that follows stands for this wake-up too.
    pub(crate) fn add_unless_delayed(&mut self, now: Duration, key: K, priority: Priority) -> Wake {
        self.advance(now);
        let in_backoff = |entry: &Entry| entry.delayed.as_ref().is_some_and(|delayed| delayed.backoff);
        if self.entries.get(&key).is_some_and(in_backoff) {
            return Wake::Nobody;
        }
        self.want(now, key, priority, true)
    }

    /// `key` is to run when `delay` is over; the earlier of two delays counts.
    pub(crate) fn add_after(&mut self, now: Duration, key: K, priority: Priority, delay: Duration) -> Wake {
        self.advance(now);
        self.delay(now, key, priority, delay, false)
    }

    /// `key` failed and is to run again after its backoff.
    pub(crate) fn add_rate_limited(&mut self, now: Duration, key: K, priority: Priority) -> Wake {
        self.advance(now);
        if self.phase != Phase::Open {
            return Wake::Nobody;
        }
        let entry = self.entries.entry(key.clone()).or_insert(Entry::NEW);
        let delay = backoff(&self.config, entry.failures).max(self.bucket.reserve(now));
        entry.failures = entry.failures.saturating_add(1);
        if self.in_flight.contains_key(&key) {
            // The run after the backoff sees all that such wake-ups were about.
            entry.due.take_if(|due| due.yields);
        }
        self.delay(now, key, priority, delay, true)
    }

    /// `key` did not fail, or will not be tried again.
    pub(crate) fn forget(&mut self, key: &K) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.failures = 0;
            self.drop_if_empty(key);
        }
    }

    pub(crate) fn failures(&self, key: &K) -> u32 {
        self.entries.get(key).map_or(0, |entry| entry.failures)
    }

    /// Hands out the next key.
    pub(crate) fn next(&mut self, now: Duration) -> Next<K> {
        self.advance(now);
        if self.phase == Phase::Abandoned {
            return Next::Ended;
        }
        let Some((priority, key)) = self.pop_ready() else {
            return match self.phase {
                Phase::Open => Next::Wait { until: self.delayed.keys().next().map(|(at, _)| *at) },
                Phase::Draining | Phase::Abandoned => Next::Ended,
            };
        };
        let due = self.entries.get_mut(&key).and_then(|entry| entry.due.take());
        self.drop_if_empty(&key);
        self.in_flight.insert(key.clone(), Run { priority, started: now });
        let waited = due.map_or(Duration::ZERO, |due| now.saturating_sub(due.since));
        Next::Run { key, priority, waited }
    }

    /// The run of `key` is over. `None` if there was none.
    pub(crate) fn done(&mut self, now: Duration, key: &K) -> Option<Finished> {
        self.advance(now);
        let run = self.in_flight.remove(key)?;
        let mut wake = Wake::Nobody;
        if let Some(due) = self.entries.get_mut(key).and_then(|entry| entry.due.as_mut()) {
            due.order = next_order(&mut self.order);
            self.ready[due.priority.index()].insert(due.order, key.clone());
            wake = Wake::One;
        }
        Some(Finished { wake, priority: run.priority, worked: now.saturating_sub(run.started) })
    }

    /// Takes in nothing more and drops what is delayed; what waits is handed out. With `drain`
    /// somebody waits until all of that is done.
    pub(crate) fn shut_down(&mut self, now: Duration, drain: bool) -> Wake {
        self.advance(now);
        self.drain = drain;
        if self.phase == Phase::Open {
            self.phase = Phase::Draining;
            for key in std::mem::take(&mut self.delayed).into_values() {
                if let Some(entry) = self.entries.get_mut(&key) {
                    entry.delayed = None;
                }
                self.drop_if_empty(&key);
            }
        }
        Wake::All
    }

    /// Takes in and hands out nothing more. Says how many keys are left behind.
    pub(crate) fn abandon(&mut self, now: Duration) -> (usize, Wake) {
        self.advance(now);
        self.phase = Phase::Abandoned;
        self.drain = false;
        let left =
            self.entries.values().filter(|entry| entry.due.is_some() || entry.delayed.is_some()).count();
        (left, Wake::All)
    }

    pub(crate) fn is_shut_down(&self) -> bool {
        self.phase != Phase::Open
    }

    /// Keys that a worker may have now.
    pub(crate) fn len(&mut self, now: Duration) -> usize {
        self.advance(now);
        self.ready.iter().map(BTreeMap::len).sum()
    }

    /// Keys whose delay is not over.
    pub(crate) fn waiting(&mut self, now: Duration) -> usize {
        self.advance(now);
        self.delayed.len()
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Whether whoever shut the queue down to drain it has nothing more to wait for.
    pub(crate) fn is_drained(&self) -> bool {
        !self.drain || self.in_flight.is_empty() && self.ready.iter().all(BTreeMap::is_empty)
    }

    pub(crate) fn snapshot(&mut self, now: Duration) -> Snapshot {
        self.advance(now);
        let mut snapshot =
            Snapshot { delayed: self.delayed.len(), in_flight: self.in_flight.len(), ..Snapshot::default() };
        for entry in self.entries.values() {
            match entry.due.as_ref().map(|due| due.priority) {
                Some(Priority::Background) => snapshot.depth_background += 1,
                Some(Priority::Change) => snapshot.depth_change += 1,
                None => {}
            }
            snapshot.failing += usize::from(entry.failures > 0);
        }
        for run in self.in_flight.values() {
            let age = now.saturating_sub(run.started);
            snapshot.unfinished_work += age;
            snapshot.longest_running = snapshot.longest_running.max(age);
        }
        snapshot
    }

    /// What happened since the last call.
    pub(crate) fn take_counts(&mut self) -> Counts {
        std::mem::take(&mut self.counts)
    }

    /// Moves the keys whose delay is over to the ready ones, so that they keep their place before
    /// keys that are added later. Wakes nobody: waiting workers never sleep past a deadline.
    fn advance(&mut self, now: Duration) {
        if self.phase != Phase::Open {
            return;
        }
        while let Some(first) = self.delayed.first_entry() {
            if first.key().0 > now {
                break;
            }
            let ((at, _), key) = first.remove_entry();
            if let Some(delayed) = self.entries.get_mut(&key).and_then(|entry| entry.delayed.take()) {
                let _ = self.want(at, key, delayed.priority, false);
            }
        }
    }

    fn want(&mut self, now: Duration, key: K, priority: Priority, yields: bool) -> Wake {
        if self.phase != Phase::Open {
            return Wake::Nobody;
        }
        let entry = self.entries.entry(key.clone()).or_insert(Entry::NEW);
        if let Some(delayed) = entry.delayed.take() {
            self.delayed.remove(&(delayed.at, delayed.order));
        }
        let runs = self.in_flight.contains_key(&key);
        let Some(due) = &mut entry.due else {
            let order = next_order(&mut self.order);
            entry.due = Some(Due { priority, since: now, order, yields });
            self.counts.added[priority.index()] += 1;
            if runs {
                return Wake::Nobody;
            }
            self.ready[priority.index()].insert(order, key);
            return Wake::One;
        };
        due.yields &= yields;
        if due.priority < priority {
            if !runs {
                self.ready[due.priority.index()].remove(&due.order);
                due.order = next_order(&mut self.order);
                self.ready[priority.index()].insert(due.order, key);
            }
            due.priority = priority;
        }
        Wake::Nobody
    }

    fn delay(&mut self, now: Duration, key: K, priority: Priority, delay: Duration, backoff: bool) -> Wake {
        if self.phase != Phase::Open {
            return Wake::Nobody;
        }
        self.counts.retried += 1;
        if delay.is_zero() {
            return self.want(now, key, priority, false);
        }
        let mut new =
            Delayed { priority, at: now.saturating_add(delay), order: next_order(&mut self.order), backoff };
        let first = self.delayed.keys().next().map(|(at, _)| *at);
        let entry = self.entries.entry(key.clone()).or_insert(Entry::NEW);
        if entry.due.is_some() {
            return Wake::Nobody;
        }
        if let Some(old) = entry.delayed.take() {
            self.delayed.remove(&(old.at, old.order));
            new.priority = new.priority.max(old.priority);
            new.backoff |= old.backoff;
            if old.at <= new.at {
                (new.at, new.order) = (old.at, old.order);
            }
        }
        let at = new.at;
        self.delayed.insert((at, new.order), key);
        entry.delayed = Some(new);
        if first.is_none_or(|first| at < first) { Wake::All } else { Wake::Nobody }
    }

    /// The next ready key: of `Change`, unless it is `Background`'s turn.
    fn pop_ready(&mut self) -> Option<(Priority, K)> {
        let [background, change] = &mut self.ready;
        if background.is_empty() {
            self.changes_in_a_row = 0;
            return change.pop_first().map(|(_, key)| (Priority::Change, key));
        }
        if self.changes_in_a_row < self.config.changes_in_a_row.get()
            && let Some((_, key)) = change.pop_first()
        {
            self.changes_in_a_row += 1;
            return Some((Priority::Change, key));
        }
        self.changes_in_a_row = 0;
        background.pop_first().map(|(_, key)| (Priority::Background, key))
    }

    fn drop_if_empty(&mut self, key: &K) {
        if self.entries.get(key).is_some_and(Entry::is_empty) {
            self.entries.remove(key);
        }
    }
}

fn next_order(order: &mut u64) -> u64 {
    *order += 1;
    *order
}
