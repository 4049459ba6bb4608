//! client-go's event correlator (`tools/record/events_cache.go`, v0.36.3) as a pure state machine.
//!
//! Owns: whether an observation becomes a new Event, one more count of an old one, or nothing. Must
//! not know tokio, clients or clocks: the time is passed in.
//!
//! Three stages, each with a cache of bounded size that holds hashes, never text:
//!
//! 1. Similar Events (same object, type and reason) of more than nine different messages, none of
//!    them 10 minutes after the one before, become one whose message changes.
//! 2. An Event that was seen before is counted.
//! 3. An object may have 25 writes of each type, then one each 5 minutes. (By type as in v0.36.3, so
//!    that a chatty guest's Normal Events leave room for the host's Warnings.)

use super::event::{self, Observed, Record, Source};
use super::lru::Lru;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;

/// What client-go puts before the message of an Event that stands for several.
const COMBINED: &str = "(combined from similar events): ";

/// What to do with an observation.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Create this Event in its namespace.
    Create {
        /// The whole Event.
        event: Value,
    },
    /// Patch the Event that was created earlier.
    Update {
        /// Its name.
        name: String,
        /// JSON merge patch of `count`, `lastTimestamp` and `message`.
        patch: Value,
        /// The whole Event, to be created if the server has it no more.
        event: Value,
    },
    /// Too many Events of this object: nothing.
    Drop,
}

/// The correlator's numbers. The default is client-go's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// This many different messages make similar Events one. 10.
    pub combine_at: usize,
    /// Similar Events further apart than this start anew. 600 s.
    pub combine_within: SignedDuration,
    /// Writes at once, by object and type. 25.
    pub burst: u32,
    /// After which one more write is allowed. 300 s.
    pub refill_every: SignedDuration,
    /// Entries of each cache. 4,096.
    pub cache: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            combine_at: 10,
            combine_within: SignedDuration::from_secs(600),
            burst: 25,
            refill_every: SignedDuration::from_secs(300),
            cache: 4_096,
        }
    }
}

/// Similar Events.
#[derive(Debug, Default)]
struct Similar {
    last: Option<Timestamp>,
    /// Hashes of the messages that have Events of their own.
    messages: Vec<u64>,
}

/// An Event that was created, or should have been.
#[derive(Debug, Default)]
struct Logged {
    name: String,
    first: Timestamp,
    /// 0 if it is new.
    count: i32,
}

/// Writes that an object has left; full if new.
#[derive(Debug, Default)]
struct Budget {
    used: f64,
    updated: Timestamp,
}

/// See the module.
#[derive(Debug)]
pub struct Correlator {
    source: Arc<Source>,
    limits: Limits,
    /// Keyed at random, so that no text can be made to collide with another.
    hasher: RandomState,
    similar: Lru<Similar>,
    logged: Lru<Logged>,
    budgets: Lru<Budget>,
    /// The time in the newest name: two Events of one moment have two names.
    named: i128,
}

impl Correlator {
    /// Nothing observed yet. All Events come from `source`.
    pub fn new(source: Arc<Source>, limits: Limits) -> Self {
        Self {
            source,
            limits,
            hasher: RandomState::new(),
            similar: Lru::new(limits.cache),
            logged: Lru::new(limits.cache),
            budgets: Lru::new(limits.cache),
            named: 0,
        }
    }

    /// Decides on what was observed at `now`.
    pub fn observe(&mut self, now: Timestamp, observed: &Observed) -> Verdict {
        let object = self.hash((
            (observed.kind, observed.api_version, &observed.uid),
            (&observed.namespace, &observed.name),
            observed.r#type,
        ));
        let group = self.hash((object, event::reason(observed)));
        let own = self.hash((group, &observed.message));
        let combined;
        let (key, message) = if self.combines(now, group, own) {
            combined = format!("{COMBINED}{}", observed.message);
            (group, event::message(&combined))
        } else {
            (own, event::message(&observed.message))
        };

        let logged = self.logged.touch(key);
        let seen = logged.count > 0;
        if !seen {
            self.named = now.as_nanosecond().max(self.named.saturating_add(1));
            logged.name = event::name(&observed.name, self.named);
            logged.first = now;
        }
        logged.count = logged.count.saturating_add(1);
        if !spend(self.budgets.touch(object), now, self.limits) {
            return Verdict::Drop;
        }
        let record =
            Record { name: &logged.name, message, first: logged.first, last: now, count: logged.count };
        let event = event::to_json(observed, &self.source, &record);
        if seen {
            Verdict::Update { name: logged.name.clone(), patch: event::to_patch(&record), event }
        } else {
            Verdict::Create { event }
        }
    }

    /// Whether `message` goes into the Event that stands for its `group`.
    fn combines(&mut self, now: Timestamp, group: u64, message: u64) -> bool {
        let similar = self.similar.touch(group);
        if similar.last.is_none_or(|last| now.duration_since(last) > self.limits.combine_within) {
            similar.messages.clear();
        }
        similar.last = Some(now);
        if similar.messages.contains(&message) {
            return false;
        }
        // client-go adds the message and then drops any one; without adding it, the first stay.
        if similar.messages.len() + 1 >= self.limits.combine_at {
            return true;
        }
        similar.messages.push(message);
        false
    }

    fn hash(&self, what: impl Hash) -> u64 {
        self.hasher.hash_one(what)
    }
}

/// Takes one write from the budget, if there is one.
fn spend(budget: &mut Budget, now: Timestamp, limits: Limits) -> bool {
    let passed = now.duration_since(budget.updated).as_secs_f64().max(0.0);
    budget.used = (budget.used - passed / limits.refill_every.as_secs_f64()).max(0.0);
    budget.updated = budget.updated.max(now);
    let fits = budget.used + 1.0 <= f64::from(limits.burst);
    if fits {
        budget.used += 1.0;
    }
    fits
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::EventType;
    use serde_json::json;
    use std::collections::HashSet;

    fn observed(reason: &str, message: &str) -> Observed {
        Observed {
            namespace: "default".to_owned(),
            name: "example-foo".to_owned(),
            uid: "8a2f".to_owned(),
            kind: "Foo",
            api_version: "samplecontroller.k8s.io/v1alpha1",
            resource_version: "42".to_owned(),
            r#type: EventType::Warning,
            reason: reason.to_owned(),
            message: message.to_owned(),
        }
    }

    fn correlator() -> Correlator {
        Correlator::new(Arc::new(Source::new("sample-controller", "node-1")), Limits::default())
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    fn created(verdict: Verdict) -> Value {
        match verdict {
            Verdict::Create { event } => event,
            other => panic!("not a new Event: {other:?}"),
        }
    }

    /// Counts what a sequence of verdicts writes: new Events, patches.
    fn writes(verdicts: &[Verdict]) -> (usize, usize) {
        let of = |is: fn(&Verdict) -> bool| verdicts.iter().filter(|verdict| is(verdict)).count();
        (of(|v| matches!(v, Verdict::Create { .. })), of(|v| matches!(v, Verdict::Update { .. })))
    }

    #[test]
    fn a_new_event_is_as_client_go_writes_it() {
        let event = created(correlator().observe(at(0), &observed("ErrResourceExists", "taken")));
        assert_eq!(
            event,
            json!({
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"namespace": "default", "name": "example-foo.18fae27693b40000"},
                "involvedObject": {
                    "apiVersion": "samplecontroller.k8s.io/v1alpha1", "kind": "Foo", "namespace": "default",
                    "name": "example-foo", "uid": "8a2f", "resourceVersion": "42",
                },
                "type": "Warning",
                "reason": "ErrResourceExists",
                "message": "taken",
                "source": {"component": "sample-controller", "host": "node-1"},
                "reportingComponent": "sample-controller",
                "reportingInstance": "node-1",
                "firstTimestamp": "2027-01-15T08:00:00Z",
                "lastTimestamp": "2027-01-15T08:00:00Z",
                "count": 1,
            })
        );
    }

    #[test]
    fn the_same_event_again_is_counted_on_the_first() {
        let mut correlator = correlator();
        let first = created(correlator.observe(at(0), &observed("Synced", "done")));
        let Verdict::Update { name, patch, event } = correlator.observe(at(9), &observed("Synced", "done"))
        else {
            panic!("not an update");
        };
        assert_eq!(first["metadata"]["name"], *name);
        assert_eq!(patch, json!({"count": 2, "lastTimestamp": "2027-01-15T08:00:09Z", "message": "done"}));
        assert_eq!(event["firstTimestamp"], first["firstTimestamp"]);
        assert_eq!((&event["metadata"], &event["count"]), (&first["metadata"], &json!(2)));
    }

    #[test]
    fn events_of_one_moment_have_different_names() {
        let mut correlator = correlator();
        let a = created(correlator.observe(at(0), &observed("A", "a")));
        let b = created(correlator.observe(at(0), &observed("B", "b")));
        assert_ne!(a["metadata"]["name"], b["metadata"]["name"]);
    }

    #[test]
    fn events_that_differ_in_any_part_are_different() {
        let mut correlator = correlator();
        let base = observed("A", "a");
        let others = [
            Observed { uid: "other".to_owned(), ..base.clone() },
            Observed { name: "other".to_owned(), ..base.clone() },
            Observed { namespace: "other".to_owned(), ..base.clone() },
            Observed { r#type: EventType::Normal, ..base.clone() },
            Observed { reason: "B".to_owned(), ..base.clone() },
            Observed { message: "b".to_owned(), ..base.clone() },
        ];
        created(correlator.observe(at(0), &base));
        for other in &others {
            created(correlator.observe(at(0), other));
        }
    }

    #[test]
    fn the_tenth_message_for_one_reason_combines_and_known_ones_go_on() {
        let mut correlator = correlator();
        let mut say =
            |n: u32| correlator.observe(at(i64::from(n)), &observed("Failed", &format!("attempt {n}")));
        for n in 1..=9 {
            created(say(n));
        }
        let tenth = created(say(10));
        assert_eq!(tenth["message"], "(combined from similar events): attempt 10");
        let Verdict::Update { name, patch, .. } = say(11) else { panic!("not an update") };
        assert_eq!(tenth["metadata"]["name"], *name);
        assert_eq!(patch["message"], "(combined from similar events): attempt 11");
        let Verdict::Update { patch, .. } = say(3) else { panic!("not an update") };
        assert_eq!((&patch["message"], &patch["count"]), (&json!("attempt 3"), &json!(2)));
    }

    #[test]
    fn similar_events_more_than_ten_minutes_apart_start_anew() {
        for (pause, combined) in [(600, true), (601, false)] {
            let mut correlator = correlator();
            for n in 0..9 {
                correlator.observe(at(0), &observed("Failed", &format!("attempt {n}")));
            }
            let event = created(correlator.observe(at(pause), &observed("Failed", "attempt 9")));
            assert_eq!(event["message"].as_str().unwrap().starts_with(COMBINED), combined);
        }
    }

    #[test]
    fn an_object_may_have_25_writes_and_one_more_each_5_minutes() {
        let mut correlator = correlator();
        let mut say = |seconds| correlator.observe(at(seconds), &observed("Synced", "done")) != Verdict::Drop;
        assert_eq!((0..30).filter(|_| say(0)).count(), 25);
        assert!(!say(299));
        assert!(say(300));
        assert!(!say(300));
        assert!(say(900));
        assert!(say(900));
        assert!(!say(900));
    }

    #[test]
    fn writes_of_one_type_or_object_leave_those_of_another_alone() {
        let mut correlator = correlator();
        for n in 0..30 {
            correlator.observe(at(0), &observed("Noise", &n.to_string()));
        }
        let normal = Observed { r#type: EventType::Normal, ..observed("Synced", "done") };
        let other = Observed { uid: "other".to_owned(), ..observed("Noise", "1") };
        assert_eq!(correlator.observe(at(0), &observed("Noise", "31")), Verdict::Drop);
        created(correlator.observe(at(0), &normal));
        created(correlator.observe(at(0), &other));
    }

    #[test]
    fn a_clock_that_goes_back_refills_nothing_and_stops_nothing() {
        let mut correlator = correlator();
        let mut say = |seconds| correlator.observe(at(seconds), &observed("Synced", "done")) != Verdict::Drop;
        assert_eq!((0..30).filter(|n| say(-1_000 * n)).count(), 25);
        assert!(!say(0));
        assert!(say(300));
    }

    #[test]
    fn case_06_a_foo_that_fails_for_ten_minutes_makes_at_most_five_events() {
        let mut correlator = correlator();
        // Backoff from 5 ms, cut short by the resync each 30 s.
        let mut verdicts = Vec::new();
        let mut delay = 5;
        let mut millis = 0;
        while millis < 600_000 {
            let now = at(0) + SignedDuration::from_millis(millis);
            verdicts.push(correlator.observe(now, &observed("GuestFailed", "no such image")));
            millis += delay.min(30_000);
            delay *= 2;
        }
        assert!(verdicts.len() > 30);
        let (events, patches) = writes(&verdicts);
        assert_eq!(events, 1);
        assert!(patches <= 24 + 2, "{patches}");
    }

    #[test]
    fn case_07_ten_thousand_attempts_make_at_most_25_events_in_bounded_memory() {
        let mut correlator = correlator();
        let mut names = HashSet::new();
        let mut verdicts = Vec::new();
        for n in 0..10_000 {
            let verdict = correlator.observe(at(0), &observed("Attempt", &format!("attempt {n}")));
            if let Verdict::Create { event } | Verdict::Update { event, .. } = &verdict {
                names.insert(event["metadata"]["name"].clone());
            }
            verdicts.push(verdict);
        }
        assert_eq!(writes(&verdicts), (10, 15));
        assert_eq!(names.len(), 10);
        // Nor do different reasons help.
        let mut correlator = self::correlator();
        let verdicts: Vec<_> = (0..10_000)
            .map(|n| correlator.observe(at(0), &observed(&format!("Attempt{n}"), "again")))
            .collect();
        assert_eq!(writes(&verdicts), (25, 0));
        assert_eq!(correlator.similar.len().max(correlator.logged.len()), Limits::default().cache);
        assert!(correlator.budgets.len() == 1);
    }

    #[test]
    fn case_09_long_names_and_multi_byte_messages_are_cut_to_what_the_api_takes() {
        let source = Source::new(&"c".repeat(80), &"h".repeat(200));
        let mut correlator = Correlator::new(Arc::new(source), Limits::default());
        let long = Observed {
            name: format!("{}.{}", "f".repeat(235), "o".repeat(17)),
            reason: "é".repeat(100),
            message: "日本".repeat(400),
            ..observed("", "")
        };
        let event = created(correlator.observe(at(0), &long));
        let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap().to_owned();
        // Cut before the dot: a label does not end in one.
        assert_eq!(text("/metadata/name"), format!("{}.18fae27693b40000", "f".repeat(235)));
        assert_eq!(text("/involvedObject/name"), long.name);
        assert_eq!(text("/reason"), "é".repeat(64));
        assert_eq!(text("/message"), "日本".repeat(400)[..1023]);
        assert_eq!(text("/reportingComponent").len(), 63);
        assert_eq!(text("/reportingInstance").len(), 128);
        // Also with what client-go puts before it.
        for n in 0..8 {
            correlator.observe(at(0), &Observed { message: format!("{n}{}", long.message), ..long.clone() });
        }
        let combined =
            created(correlator.observe(at(0), &Observed { message: format!("x{}", long.message), ..long }));
        assert!((1_020..=1_024).contains(&combined["message"].as_str().unwrap().len()));
    }

    #[test]
    fn case_09_what_fits_is_not_cut() {
        let source = Source::new("sample-controller", &"h".repeat(63));
        let mut correlator = Correlator::new(Arc::new(source), Limits::default());
        let fits = Observed {
            name: "f".repeat(236),
            reason: "R".repeat(128),
            message: "m".repeat(1_024),
            ..observed("", "")
        };
        let event = created(correlator.observe(at(0), &fits));
        assert_eq!((&event["reason"], &event["message"]), (&json!(fits.reason), &json!(fits.message)));
        assert_eq!(event["metadata"]["name"].as_str().unwrap().len(), 253);
        assert_eq!(event["reportingInstance"], "h".repeat(63));
    }
}
