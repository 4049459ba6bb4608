//! Virtual time: the wall clock starts at `context.observed-at`, the monotonic clock above 0; both
//! move a little with each read, so that a loop that waits for them ends, and jump when a guest waits
//! for a timer and nothing else is ready. A sleep of any length is over at once.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wasmtime::component::{Resource, ResourceTable};
use wasmtime_wasi::async_trait;
use wasmtime_wasi::p2::bindings::clocks::monotonic_clock::{self, Duration, Instant};
use wasmtime_wasi::p2::bindings::clocks::wall_clock::{self, Datetime};
use wasmtime_wasi::p2::{DynPollable, Pollable, subscribe};

/// Where the monotonic clock starts, in nanoseconds: Go refuses one that reads 0.
const START: u64 = 1_000_000_000;

/// What each read moves the time by, in nanoseconds.
const STEP: u64 = 1_000;

const NANOSECONDS: u64 = 1_000_000_000;

/// The time of one call.
#[derive(Debug)]
pub(super) struct Clock {
    time: SharedTime,
    observed_at: u64,
}

/// Shared with the timers, which are resources of their own.
#[derive(Clone, Debug)]
struct SharedTime(Arc<Mutex<Time>>);

#[derive(Debug)]
struct Time {
    now: u64,
    /// Deadlines of the timers that the guest waits for just now.
    waiting: Vec<u64>,
}

impl Clock {
    /// A time before 1970, which WASI cannot say, counts as 1970.
    pub(super) fn new(observed_at: contract::UnixSeconds) -> Self {
        let time = Time { now: START, waiting: Vec::new() };
        Self {
            time: SharedTime(Arc::new(Mutex::new(time))),
            observed_at: u64::try_from(observed_at).unwrap_or(0),
        }
    }

    fn read(&self) -> u64 {
        let mut time = self.time.lock();
        time.now = time.now.saturating_add(STEP);
        time.now
    }
}

impl SharedTime {
    fn lock(&self) -> MutexGuard<'_, Time> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Time {
    /// Nothing is ready: goes to where the first timer is.
    fn jump(&mut self) {
        if let Some(&first) = self.waiting.iter().min() {
            self.now = self.now.max(first);
        }
    }

    fn leave(&mut self, deadline: u64) {
        if let Some(index) = self.waiting.iter().position(|&waiting| waiting == deadline) {
            self.waiting.swap_remove(index);
        }
    }
}

/// A `pollable` that is ready at `deadline`.
#[derive(Debug)]
struct Timer {
    time: SharedTime,
    deadline: u64,
}

/// Takes a timer off the waiting ones, also when the poll ends for another reason.
struct Waiting<'a>(&'a Timer);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.time.lock().leave(self.0.deadline);
    }
}

#[async_trait]
impl Pollable for Timer {
    async fn ready(&mut self) {
        {
            let mut time = self.time.lock();
            time.now = time.now.saturating_add(STEP);
            if time.now >= self.deadline {
                return;
            }
            time.waiting.push(self.deadline);
        }
        let _waiting = Waiting(self);
        loop {
            // All that is polled at once is asked before the time jumps.
            tokio::task::yield_now().await;
            let mut time = self.time.lock();
            time.jump();
            if time.now >= self.deadline {
                return;
            }
        }
    }
}

/// What the generated traits are implemented for.
pub(super) struct ClockView<'a> {
    pub(super) clock: &'a mut Clock,
    pub(super) table: &'a mut ResourceTable,
}

impl ClockView<'_> {
    fn timer(&mut self, deadline: u64) -> wasmtime::Result<Resource<DynPollable>> {
        let timer = self.table.push(Timer { time: self.clock.time.clone(), deadline })?;
        subscribe(self.table, timer)
    }
}

impl monotonic_clock::Host for ClockView<'_> {
    fn now(&mut self) -> wasmtime::Result<Instant> {
        Ok(self.clock.read())
    }

    fn resolution(&mut self) -> wasmtime::Result<Duration> {
        Ok(STEP)
    }

    fn subscribe_instant(&mut self, when: Instant) -> wasmtime::Result<Resource<DynPollable>> {
        self.timer(when)
    }

    fn subscribe_duration(&mut self, when: Duration) -> wasmtime::Result<Resource<DynPollable>> {
        let deadline = self.clock.read().saturating_add(when);
        self.timer(deadline)
    }
}

impl wall_clock::Host for ClockView<'_> {
    fn now(&mut self) -> wasmtime::Result<Datetime> {
        let elapsed = self.clock.read() - START;
        Ok(Datetime {
            seconds: self.clock.observed_at.saturating_add(elapsed / NANOSECONDS),
            nanoseconds: (elapsed % NANOSECONDS) as u32,
        })
    }

    fn resolution(&mut self) -> wasmtime::Result<Datetime> {
        Ok(Datetime { seconds: 0, nanoseconds: STEP as u32 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Poll;

    fn timer(clock: &Clock, seconds: u64) -> Timer {
        Timer { time: clock.time.clone(), deadline: START + seconds * NANOSECONDS }
    }

    #[tokio::test]
    async fn case_46_a_sleep_of_any_length_is_over_at_once_and_moves_both_clocks() {
        let mut clock = Clock::new(1_700_000_000);
        timer(&clock, 10).ready().await;
        let mut table = ResourceTable::new();
        let mut view = ClockView { clock: &mut clock, table: &mut table };
        assert!(monotonic_clock::Host::now(&mut view).unwrap() >= START + 10 * NANOSECONDS);
        assert_eq!(wall_clock::Host::now(&mut view).unwrap().seconds, 1_700_000_010);
    }

    #[tokio::test]
    async fn of_two_timers_the_earlier_one_is_ready_first() {
        let clock = Clock::new(0);
        let (mut late, mut early) = (timer(&clock, 10), timer(&clock, 1));
        let (mut late, mut early) = (pin!(late.ready()), pin!(early.ready()));
        let ready = poll_fn(|context| {
            match (late.as_mut().poll(context).is_ready(), early.as_mut().poll(context).is_ready()) {
                (false, false) => Poll::Pending,
                ready => Poll::Ready(ready),
            }
        });
        assert_eq!(ready.await, (false, true));
        assert_eq!(clock.read(), START + NANOSECONDS + STEP);
    }

    #[tokio::test]
    async fn a_timer_that_is_no_longer_waited_for_moves_nothing() {
        let clock = Clock::new(0);
        let mut abandoned = timer(&clock, 1);
        {
            let mut ready = pin!(abandoned.ready());
            poll_fn(|context| {
                assert!(ready.as_mut().poll(context).is_pending());
                Poll::Ready(())
            })
            .await;
        }
        assert!(clock.time.lock().waiting.is_empty());
        assert!(clock.read() < START + NANOSECONDS);
    }

    #[test]
    fn time_moves_with_each_read_and_does_not_overflow() {
        let clock = Clock::new(-5);
        assert!(clock.read() < clock.read());
        clock.time.lock().now = u64::MAX;
        assert_eq!(clock.read(), u64::MAX);
        assert_eq!(clock.observed_at, 0);
    }
}
