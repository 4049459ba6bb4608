//! The requests and watch events that came, in order.

use crate::events::{EventFate, EventRecord};
use crate::record::{Fate, Record};
use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// A mutex that a panic elsewhere does not poison: what it guards is consistent after each statement.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Default)]
struct Entries {
    requests: Vec<Record>,
    events: Vec<EventRecord>,
    requests_so_far: usize,
    events_so_far: usize,
}

#[derive(Default)]
pub(crate) struct Log {
    entries: Mutex<Entries>,
    changed: watch::Sender<()>,
}

impl Log {
    /// Numbers a request and keeps it.
    pub(crate) fn arrive(&self, record: &mut Record) {
        let mut entries = locked(&self.entries);
        entries.requests_so_far += 1;
        record.number = entries.requests_so_far;
        entries.requests.push(record.clone());
        drop(entries);
        self.changed.send_replace(());
    }

    /// Numbers an event and keeps it.
    pub(crate) fn arrive_event(&self, event: &mut EventRecord) {
        let mut entries = locked(&self.entries);
        entries.events_so_far += 1;
        event.number = entries.events_so_far;
        entries.events.push(event.clone());
        drop(entries);
        self.changed.send_replace(());
    }

    pub(crate) fn answered(&self, number: usize, status: u16) {
        self.update(number, |record| record.status = Some(status));
    }

    pub(crate) fn ended(&self, number: usize, fate: Fate) {
        self.update(number, |record| record.fate = fate);
    }

    /// A record that was cleared away is not looked for.
    fn update(&self, number: usize, change: impl FnOnce(&mut Record)) {
        let mut entries = locked(&self.entries);
        if let Ok(at) = entries.requests.binary_search_by_key(&number, |record| record.number) {
            change(&mut entries.requests[at]);
        }
        drop(entries);
        self.changed.send_replace(());
    }

    pub(crate) fn event_ended(&self, number: usize, fate: EventFate) {
        let mut entries = locked(&self.entries);
        if let Ok(at) = entries.events.binary_search_by_key(&number, |event| event.number) {
            entries.events[at].fate = fate;
        }
        drop(entries);
        self.changed.send_replace(());
    }

    /// Looks at the requests where they are: copies of thousands, many times a second, take a machine.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&[Record]) -> T) -> T {
        look(&locked(&self.entries).requests)
    }

    pub(crate) fn events(&self) -> Vec<EventRecord> {
        locked(&self.entries).events.clone()
    }

    pub(crate) fn clear(&self) {
        let mut entries = locked(&self.entries);
        entries.requests.clear();
        entries.events.clear();
    }

    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// The last requests, one a line, for a failed wait.
    pub(crate) fn tail(&self) -> String {
        const LINES: usize = 40;
        let entries = locked(&self.entries);
        let skipped = entries.requests.len().saturating_sub(LINES);
        let mut text = String::new();
        for record in &entries.requests[skipped..] {
            let _ = write!(text, "\n  {record}");
        }
        if text.is_empty() { "\n  nothing".to_owned() } else { text }
    }
}
