//! How each Foo stands: its failed attempts in a row, which failure was told as an Event, and whether a write went
//! unheard.
//!
//! Apart from the queue's count, which also knows quiet failures: a conflict is no attempt that somebody should
//! hear of. A synchronous state machine; the time is passed in.

use crate::key::Key;
use contract::{Event, EventType};
use plan::{Class, Failure, Reason};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A failure that stays the same is told again as an Event after this: Events last an hour.
const REMIND_AFTER: Duration = Duration::from_mins(30);

#[derive(Debug, Default)]
struct Standing {
    uid: String,
    failures: u32,
    told: Option<(Reason, String, Instant)>,
    unheard: bool,
}

impl Standing {
    /// This one, or a new one where it is another Foo's of that name.
    fn of(&mut self, uid: &str) -> &mut Self {
        if self.uid != uid {
            *self = Self { uid: uid.to_owned(), ..Self::default() };
        }
        self
    }
}

/// How all Foos that fail stand; the others take no room.
#[derive(Debug, Default)]
pub struct Standings {
    foos: Mutex<HashMap<Key, Standing>>,
}

impl Standings {
    fn foos(&self) -> MutexGuard<'_, HashMap<Key, Standing>> {
        self.foos.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Failed attempts in a row of this Foo, quiet ones not counted.
    pub fn failures(&self, key: &Key, uid: &str) -> u32 {
        self.foos().get(key).filter(|standing| standing.uid == uid).map_or(0, |standing| standing.failures)
    }

    /// A write to a Deployment got no answer that says whether it was done. If it was, the next run finds nothing to
    /// change.
    pub fn write_unheard(&self, key: &Key, uid: &str) {
        self.foos().entry(key.clone()).or_default().of(uid).unheard = true;
    }

    /// Whether there was such a write; asked once, by the run that finds the Deployment as it should be.
    pub fn take_unheard(&self, key: &Key, uid: &str) -> bool {
        let mut foos = self.foos();
        let standing = foos.get_mut(key).filter(|standing| standing.uid == uid);
        standing.is_some_and(|standing| std::mem::take(&mut standing.unheard))
    }

    /// The Foo is gone.
    pub fn forget(&self, key: &Key) {
        self.foos().remove(key);
    }

    /// Ends a run. Returns the Events to record (without the Warning of a failure that was told already), and
    /// whether that Warning is among them.
    pub fn settle(
        &self,
        key: &Key,
        uid: &str,
        failure: Option<&Failure>,
        mut events: Vec<Event>,
        now: Instant,
    ) -> (Vec<Event>, bool) {
        let mut foos = self.foos();
        let Some(failure) = failure else {
            foos.remove(key);
            return (events, false);
        };
        let standing = foos.entry(key.clone()).or_default().of(uid);
        match failure.class {
            Class::Quiet => {}
            // Told at its first attempt; its repeats are none of another failure.
            Class::Retry if failure.immediate => standing.failures = 0,
            Class::Retry => standing.failures = standing.failures.saturating_add(1),
            Class::Permanent => standing.failures = 0,
        }
        let mut tells = false;
        events.retain(|event| {
            if event.r#type != EventType::Warning || event.reason != failure.reason.as_str() {
                return true;
            }
            let again = standing.told.as_ref().is_some_and(|(reason, message, when)| {
                *reason == failure.reason
                    && *message == event.message
                    && now.duration_since(*when) < REMIND_AFTER
            });
            if !again {
                standing.told = Some((failure.reason, event.message.clone(), now));
                tells = true;
            }
            !again
        });
        (events, tells)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warning(failure: &Failure) -> Vec<Event> {
        vec![Event {
            r#type: EventType::Warning,
            reason: failure.reason.as_str().to_owned(),
            message: failure.message.clone(),
        }]
    }

    #[test]
    fn invariant_9_quiet_failures_are_no_attempts() {
        let (standings, key, now) = (Standings::default(), Key::new("ns", "a"), Instant::now());
        for reason in [Reason::Conflict, Reason::ApiUnavailable, Reason::Conflict, Reason::ApiUnavailable] {
            standings.settle(&key, "1", Some(&Failure::new(reason, "x")), Vec::new(), now);
        }
        assert_eq!(standings.failures(&key, "1"), 2);
        assert_eq!(standings.failures(&key, "2"), 0, "another Foo of that name");
        standings.settle(&key, "1", None, Vec::new(), now);
        assert_eq!(standings.failures(&key, "1"), 0);
    }

    #[test]
    fn invariant_9_repeats_of_what_was_told_at_once_are_no_attempts_of_the_next_failure() {
        let (standings, key, now) = (Standings::default(), Key::new("ns", "a"), Instant::now());
        for reason in [Reason::ErrResourceExists, Reason::ErrResourceExists, Reason::ErrResourceExists] {
            standings.settle(&key, "1", Some(&Failure::new(reason, "x")), Vec::new(), now);
        }
        assert_eq!(standings.failures(&key, "1"), 0);
    }

    #[test]
    fn an_unheard_write_is_remembered_until_a_run_asks_and_no_longer() {
        let (standings, key, now) = (Standings::default(), Key::new("ns", "a"), Instant::now());
        standings.write_unheard(&key, "1");
        standings.settle(&key, "1", Some(&Failure::new(Reason::ApiUnavailable, "x")), Vec::new(), now);
        standings.settle(&key, "1", Some(&Failure::new(Reason::AlreadyExists, "x")), Vec::new(), now);
        assert!(!standings.take_unheard(&key, "2") && standings.take_unheard(&key, "1"));
        // Its status write failed: the next run has nothing to tell.
        standings.settle(&key, "1", Some(&Failure::new(Reason::Conflict, "x")), Vec::new(), now);
        assert!(!standings.take_unheard(&key, "1"));
    }

    #[test]
    fn case_29_a_failure_is_told_once_and_again_when_it_changes_or_is_old_or_of_a_new_foo() {
        let (standings, key, now) = (Standings::default(), Key::new("ns", "a"), Instant::now());
        let blocked = Failure::new(Reason::ErrResourceExists, "taken");
        let other = Failure::new(Reason::ErrResourceExists, "taken too");
        let tells = |uid, failure: &Failure, now| {
            let (events, tells) = standings.settle(&key, uid, Some(failure), warning(failure), now);
            assert_eq!(events.len(), usize::from(tells));
            tells
        };
        assert!(tells("1", &blocked, now));
        assert!(!tells("1", &blocked, now));
        assert!(tells("1", &other, now));
        assert!(!tells("1", &other, now + REMIND_AFTER / 2));
        assert!(tells("1", &other, now + REMIND_AFTER));
        assert!(tells("2", &other, now + REMIND_AFTER));
    }
}
