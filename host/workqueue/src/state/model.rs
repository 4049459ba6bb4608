//! The state machine against a naive model, on random sequences in logical time.
//!
//! The model holds lists and scans them. Beside it stand promises that are checked on their own: no
//! key is lost, none runs twice at once, the order within a priority is kept, neither priority
//! starves, nothing is kept of a key that is done and forgotten.

use super::{Next, State, Wake};
use crate::{Config, Priority, Snapshot};
use proptest::prelude::*;
use std::{collections::HashMap, num::NonZeroU32, time::Duration};

type Key = u8;

const CHANGES_IN_A_ROW: u32 = 3;
const BURST: u32 = 4;
/// Of the bucket: 50 a second.
const TOKEN: Duration = Duration::from_millis(20);

#[derive(Clone, Debug)]
enum Op {
    Add(Key, Priority),
    AddUnlessDelayed(Key, Priority),
    AddAfter(Key, Priority, u16),
    Fail(Key, Priority),
    /// What a worker does whose run fails: the add comes before the end of the run.
    FailRunning(usize, Priority),
    Forget(Key),
    Get,
    Done(usize),
    Pass(u16),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let key = 0..6_u8;
    let priority = prop_oneof![Just(Priority::Background), Just(Priority::Change)];
    let op = prop_oneof![
        3 => (key.clone(), priority.clone()).prop_map(|(key, priority)| Op::Add(key, priority)),
        2 => (key.clone(), priority.clone()).prop_map(|(key, priority)| Op::AddUnlessDelayed(key, priority)),
        2 => (key.clone(), priority.clone(), 0..200_u16).prop_map(|(key, priority, ms)| Op::AddAfter(key, priority, ms)),
        1 => (key.clone(), priority.clone()).prop_map(|(key, priority)| Op::Fail(key, priority)),
        3 => (any::<usize>(), priority).prop_map(|(run, priority)| Op::FailRunning(run, priority)),
        1 => key.prop_map(Op::Forget),
        6 => Just(Op::Get),
        4 => any::<usize>().prop_map(Op::Done),
        3 => (0..120_u16).prop_map(Op::Pass),
    ];
    prop::collection::vec(op, 0..200)
}

struct Wanted {
    key: Key,
    priority: Priority,
    since: Duration,
    yields: bool,
}

struct Later {
    key: Key,
    priority: Priority,
    at: Duration,
    backoff: bool,
}

#[derive(Default)]
struct Model {
    now: Duration,
    /// In the order in which keys became ready or moved to `Change`.
    ready: Vec<Wanted>,
    /// Added during their run.
    dirty: Vec<Wanted>,
    /// In the order in which they were delayed.
    delayed: Vec<Later>,
    running: Vec<Key>,
    failures: HashMap<Key, u32>,
    /// When the bucket will be full again.
    full_at: Duration,
    changes_in_a_row: u32,
}

impl Model {
    fn pass(&mut self, by: Duration) {
        self.now += by;
        while let Some(first) = (0..self.delayed.len()).min_by_key(|at| self.delayed[*at].at) {
            if self.delayed[first].at > self.now {
                break;
            }
            let Later { key, priority, at, .. } = self.delayed.remove(first);
            self.add(key, priority, at, false);
        }
    }

    fn add(&mut self, key: Key, priority: Priority, since: Duration, yields: bool) {
        self.delayed.retain(|later| later.key != key);
        let running = self.running.contains(&key);
        let list = if running { &mut self.dirty } else { &mut self.ready };
        match list.iter().position(|wanted| wanted.key == key) {
            None => list.push(Wanted { key, priority, since, yields }),
            Some(at) => {
                list[at].yields &= yields;
                if list[at].priority < priority {
                    let mut wanted = list.remove(at);
                    wanted.priority = priority;
                    list.push(wanted);
                }
            }
        }
    }

    fn add_unless_delayed(&mut self, key: Key, priority: Priority) {
        if !self.delayed.iter().any(|later| later.key == key && later.backoff) {
            self.add(key, priority, self.now, true);
        }
    }

    fn delay(&mut self, key: Key, priority: Priority, delay: Duration, backoff: bool) {
        if delay.is_zero() {
            return self.add(key, priority, self.now, false);
        }
        if self.dirty.iter().chain(&self.ready).any(|wanted| wanted.key == key) {
            return;
        }
        let at = self.now + delay;
        match self.delayed.iter().position(|later| later.key == key) {
            None => self.delayed.push(Later { key, priority, at, backoff }),
            Some(index) => {
                let old = &mut self.delayed[index];
                old.priority = old.priority.max(priority);
                old.backoff |= backoff;
                if at < old.at {
                    let mut later = self.delayed.remove(index);
                    later.at = at;
                    self.delayed.push(later);
                }
            }
        }
    }

    fn fail(&mut self, key: Key, priority: Priority) {
        self.full_at = self.full_at.max(self.now) + TOKEN;
        let for_token = self.full_at.saturating_sub(self.now + TOKEN * BURST);
        let failures = self.failures.entry(key).or_default();
        let own = Duration::from_millis(5) * 2_u32.pow(*failures);
        *failures += 1;
        if self.running.contains(&key) {
            self.dirty.retain(|wanted| wanted.key != key || !wanted.yields);
        }
        self.delay(key, priority, own.max(for_token), true);
    }

    fn next(&mut self) -> Next<Key> {
        let first = |priority| self.ready.iter().position(|wanted| wanted.priority == priority);
        let (background, change) = (first(Priority::Background), first(Priority::Change));
        let chosen = match (background, change) {
            (None, None) => {
                self.changes_in_a_row = 0;
                return Next::Wait { until: self.delayed.iter().map(|later| later.at).min() };
            }
            (None, Some(change)) => {
                self.changes_in_a_row = 0;
                change
            }
            (Some(_), Some(change)) if self.changes_in_a_row < CHANGES_IN_A_ROW => {
                self.changes_in_a_row += 1;
                change
            }
            (Some(background), _) => {
                self.changes_in_a_row = 0;
                background
            }
        };
        let Wanted { key, priority, since, .. } = self.ready.remove(chosen);
        self.running.push(key);
        Next::Run { key, priority, waited: self.now.saturating_sub(since) }
    }

    fn done(&mut self, key: Key) {
        self.running.retain(|running| *running != key);
        if let Some(at) = self.dirty.iter().position(|wanted| wanted.key == key) {
            self.ready.push(self.dirty.remove(at));
        }
    }

    fn snapshot(&self) -> (usize, usize, usize, usize) {
        let depth = |priority| {
            self.ready.iter().chain(&self.dirty).filter(|wanted| wanted.priority == priority).count()
        };
        (depth(Priority::Background), depth(Priority::Change), self.delayed.len(), self.running.len())
    }
}

/// The promises that need no model.
#[derive(Default)]
struct Promises {
    step: usize,
    /// The last step in which each key was asked for.
    asked: HashMap<Key, usize>,
    /// The last step in which each key was handed out.
    started: HashMap<Key, usize>,
    running: Vec<Key>,
    /// Changes handed out in a row while the background waited.
    row: u32,
}

impl Promises {
    fn asked(&mut self, key: Key) {
        self.asked.insert(key, self.step);
    }

    fn started(
        &mut self,
        key: Key,
        priority: Priority,
        background_waited: bool,
    ) -> Result<(), TestCaseError> {
        prop_assert!(!self.running.contains(&key), "{key} runs twice at once");
        self.running.push(key);
        self.started.insert(key, self.step);
        self.row = if priority == Priority::Change && background_waited { self.row + 1 } else { 0 };
        prop_assert!(self.row <= CHANGES_IN_A_ROW, "the background starves");
        Ok(())
    }

    fn done(&mut self, key: Key) {
        self.running.retain(|running| *running != key);
    }

    fn nothing_lost(&self) -> Result<(), TestCaseError> {
        for (key, asked) in &self.asked {
            prop_assert!(self.started.get(key).is_some_and(|started| started > asked), "{key} is lost");
        }
        Ok(())
    }
}

fn config() -> Config {
    Config {
        changes_in_a_row: NonZeroU32::new(CHANGES_IN_A_ROW).unwrap(),
        failure_burst: NonZeroU32::new(BURST).unwrap(),
        ..Config::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_queue_does_as_the_naive_model_and_loses_no_key(ops in ops()) {
        let mut state = State::new(config());
        let mut model = Model::default();
        let mut promises = Promises::default();
        for op in ops {
            promises.step += 1;
            let now = model.now;
            match op {
                Op::Add(key, priority) => {
                    promises.asked(key);
                    model.add(key, priority, now, false);
                    let _ = state.add(now, key, priority);
                }
                Op::AddUnlessDelayed(key, priority) => {
                    promises.asked(key);
                    model.add_unless_delayed(key, priority);
                    let _ = state.add_unless_delayed(now, key, priority);
                }
                Op::AddAfter(key, priority, ms) => {
                    promises.asked(key);
                    let delay = Duration::from_millis(ms.into());
                    model.delay(key, priority, delay, false);
                    let _ = state.add_after(now, key, priority, delay);
                }
                Op::Fail(key, priority) => {
                    promises.asked(key);
                    model.fail(key, priority);
                    let _ = state.add_rate_limited(now, key, priority);
                }
                Op::FailRunning(run, priority) if !model.running.is_empty() => {
                    let key = model.running[run % model.running.len()];
                    promises.asked(key);
                    model.fail(key, priority);
                    model.done(key);
                    promises.done(key);
                    let _ = state.add_rate_limited(now, key, priority);
                    prop_assert!(state.done(now, &key).is_some());
                }
                Op::Forget(key) => {
                    model.failures.remove(&key);
                    state.forget(&key);
                }
                Op::Get => {
                    let background_waited = !state.ready[Priority::Background.index()].is_empty();
                    let next = state.next(now);
                    if let Next::Run { key, priority, .. } = next {
                        promises.started(key, priority, background_waited)?;
                    }
                    prop_assert_eq!(next, model.next());
                }
                Op::Done(run) if !model.running.is_empty() => {
                    let key = model.running[run % model.running.len()];
                    model.done(key);
                    promises.done(key);
                    prop_assert!(state.done(now, &key).is_some());
                }
                Op::FailRunning(..) | Op::Done(_) => {}
                Op::Pass(ms) => model.pass(Duration::from_millis(ms.into())),
            }
            let Snapshot { depth_background, depth_change, delayed, in_flight, .. } = state.snapshot(model.now);
            prop_assert_eq!((depth_background, depth_change, delayed, in_flight), model.snapshot());
            for key in 0..6 {
                prop_assert_eq!(state.failures(&key), model.failures.get(&key).copied().unwrap_or(0));
            }
        }

        // Whatever is still asked for comes, and then nothing is left.
        for key in std::mem::take(&mut promises.running) {
            state.done(model.now, &key);
        }
        loop {
            promises.step += 1;
            match state.next(model.now) {
                Next::Run { key, .. } => {
                    promises.started.insert(key, promises.step);
                    state.done(model.now, &key);
                }
                Next::Wait { until: Some(until) } => {
                    prop_assert!(until > model.now, "a worker would spin");
                    model.now = until;
                }
                Next::Wait { until: None } => break,
                Next::Ended => prop_assert!(false, "nobody shut it down"),
            }
        }
        promises.nothing_lost()?;
        let failing = model.failures.len();
        prop_assert_eq!(state.entries.len(), failing, "a key is kept that is done and has no failures");
        for key in 0..6 {
            state.forget(&key);
        }
        prop_assert!(state.entries.is_empty() && state.in_flight.is_empty() && state.delayed.is_empty());
        prop_assert!(state.ready.iter().all(std::collections::BTreeMap::is_empty));
    }

    #[test]
    fn waiting_workers_are_woken_for_every_key_and_every_earlier_deadline(ops in ops()) {
        // One worker that looks only when woken or when its deadline has come, as the shell has it.
        let mut state = State::new(config());
        let mut now = Duration::ZERO;
        let mut deadline = None;
        for op in ops {
            let mut wake = Wake::Nobody;
            match op {
                Op::Add(key, priority) => wake = state.add(now, key, priority),
                Op::AddUnlessDelayed(key, priority) => wake = state.add_unless_delayed(now, key, priority),
                Op::AddAfter(key, priority, ms) => {
                    wake = state.add_after(now, key, priority, Duration::from_millis(ms.into()));
                }
                Op::Fail(key, priority) => wake = state.add_rate_limited(now, key, priority),
                Op::Pass(ms) => now += Duration::from_millis(ms.into()),
                _ => {}
            }
            if wake != Wake::Nobody || deadline.is_some_and(|deadline| deadline <= now) {
                loop {
                    match state.next(now) {
                        Next::Run { key, .. } => {
                            state.done(now, &key);
                        }
                        Next::Wait { until } => {
                            deadline = until;
                            break;
                        }
                        Next::Ended => prop_assert!(false, "nobody shut it down"),
                    }
                }
            }
            prop_assert_eq!(state.len(now), 0, "a key waits and the worker sleeps");
        }
    }
}
