//! Watch events held back: which, in what order they go on, and the test's handle on them.

use crate::events::EventRecord;
use crate::log::locked;
use crate::matching::Events;
use crate::proxy::Shared;
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use tokio::sync::watch;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Holding,
    Released,
    Discarded,
}

pub(crate) struct DamState {
    events: Events,
    seen: Mutex<usize>,
    mode: Mutex<Mode>,
    held: watch::Sender<usize>,
}

impl DamState {
    fn mode(&self) -> Mode {
        *locked(&self.mode)
    }
}

/// All dams, in the order in which they were set.
#[derive(Default)]
pub(crate) struct Dams {
    dams: Mutex<Vec<Arc<DamState>>>,
    changed: watch::Sender<()>,
}

impl Dams {
    pub(crate) fn add(&self, events: Events) -> Arc<DamState> {
        let dam = Arc::new(DamState {
            events,
            seen: Mutex::new(0),
            mode: Mutex::new(Mode::Holding),
            held: watch::Sender::new(0),
        });
        locked(&self.dams).push(dam.clone());
        dam
    }

    /// The first dam that holds this event. Every dam that fits counts it.
    fn claim(&self, event: &EventRecord) -> Option<Arc<DamState>> {
        let mut dams = locked(&self.dams);
        dams.retain(|dam| dam.mode() == Mode::Holding);
        let mut first = None;
        for dam in dams.iter().filter(|dam| dam.events.fits(event)) {
            let mut seen = locked(&dam.seen);
            *seen += 1;
            if dam.events.turn.includes(*seen) {
                first.get_or_insert_with(|| dam.clone());
            }
        }
        first
    }

    /// Told whenever a dam opens.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }
}

/// A place in a dam; counted as long as it lives.
struct Place(Arc<DamState>);

impl Place {
    fn new(dam: Arc<DamState>) -> Self {
        dam.held.send_modify(|held| *held += 1);
        Self(dam)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.held.send_modify(|held| *held = held.saturating_sub(1));
    }
}

struct Waiting {
    /// None for an event that only waits for one before it.
    place: Option<Place>,
    event: EventRecord,
    line: Bytes,
}

/// What comes out of a [`Queue`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The event of this number goes to the client.
    Pass(usize, Bytes),
    /// The event of this number is thrown away.
    Lose(usize),
}

/// The held events of one watch. An object's events keep their order; a bookmark and an error wait for everything
/// before them, as they tell the client that it has seen it all. Nothing waits for them.
#[derive(Default)]
pub(crate) struct Queue {
    waiting: VecDeque<Waiting>,
}

impl Queue {
    /// Takes the next event of the stream; gives it back if nothing holds it.
    pub(crate) fn push(&mut self, dams: &Dams, event: EventRecord, line: Bytes) -> Option<Bytes> {
        let place = dams.claim(&event).map(Place::new);
        if place.is_none() && !self.waiting.iter().any(|earlier| must_wait(&event, &earlier.event)) {
            return Some(line);
        }
        self.waiting.push_back(Waiting { place, event, line });
        None
    }

    /// What can go now, in order.
    pub(crate) fn settle(&mut self) -> Vec<Outcome> {
        let (mut out, mut rest) = (Vec::new(), VecDeque::<Waiting>::new());
        for waiting in self.waiting.drain(..) {
            let mode = waiting.place.as_ref().map_or(Mode::Released, |place| place.0.mode());
            let blocked = rest.iter().any(|earlier| must_wait(&waiting.event, &earlier.event));
            match mode {
                Mode::Discarded => out.push(Outcome::Lose(waiting.event.number)),
                Mode::Released if !blocked => {
                    out.push(Outcome::Pass(waiting.event.number, waiting.line));
                }
                Mode::Holding | Mode::Released => rest.push_back(waiting),
            }
        }
        self.waiting = rest;
        out
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The numbers of the events that are still held.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = usize> {
        self.waiting.iter().map(|waiting| waiting.event.number)
    }
}

fn must_wait(event: &EventRecord, earlier: &EventRecord) -> bool {
    !event.kind.is_about_an_object() || (&event.namespace, &event.name) == (&earlier.namespace, &earlier.name)
}

/// Watch events held back. It stays when this handle is dropped; [`Dam::release`] or [`Dam::discard`] ends it.
///
/// An event is held in the watch that it came in and goes when that watch ends: a client that watches again from an
/// older version gets it again, and it is held again.
#[must_use = "the events are held until the dam is released or discarded"]
pub struct Dam {
    pub(crate) state: Arc<DamState>,
    pub(crate) shared: Arc<Shared>,
}

impl Dam {
    /// How many events it holds now, over all watches.
    pub fn held(&self) -> usize {
        *self.state.held.borrow()
    }

    /// Waits until it holds `n` events.
    ///
    /// # Panics
    ///
    /// After [`PATIENCE`](crate::PATIENCE), with the requests that came.
    pub async fn held_at_least(&self, n: usize) {
        let mut held = self.state.held.subscribe();
        let what = || format!("{n} held events: {}; {} are held", self.state.events, self.held());
        self.shared.patiently(what, async { held.wait_for(|held| *held >= n).await.is_ok() }).await;
    }

    /// Lets what is held go on, in order, and holds nothing more.
    pub fn release(self) {
        self.open(Mode::Released);
    }

    /// Throws away what is held, and holds nothing more. The watches stay open and their clients know nothing of it;
    /// [`Proxy::end_watches`](crate::Proxy::end_watches) with an expired version makes them list anew.
    pub fn discard(self) {
        self.open(Mode::Discarded);
    }

    fn open(&self, mode: Mode) {
        *locked(&self.state.mode) = mode;
        self.shared.dams.changed.send_replace(());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::{EventFate, EventType};

    fn event(number: usize, kind: EventType, name: &str) -> EventRecord {
        EventRecord {
            number,
            watch: 1,
            kind,
            resource: "foos".into(),
            namespace: "default".into(),
            name: name.into(),
            resource_version: number.to_string(),
            user_agent: String::new(),
            object: serde_json::Value::Null,
            fate: EventFate::Held,
        }
    }

    fn push(queue: &mut Queue, dams: &Dams, event: EventRecord) -> bool {
        queue.push(dams, event, Bytes::new()).is_some()
    }

    fn passed(number: usize) -> Outcome {
        Outcome::Pass(number, Bytes::new())
    }

    #[test]
    fn an_objects_events_keep_their_order_and_a_bookmark_waits_for_all() {
        let (dams, mut queue) = (Dams::default(), Queue::default());
        let dam = dams.add(Events::of("foos").name("a").types([EventType::Modified]));
        assert!(push(&mut queue, &dams, event(1, EventType::Added, "a")));
        assert!(!push(&mut queue, &dams, event(2, EventType::Modified, "a")));
        assert!(push(&mut queue, &dams, event(3, EventType::Modified, "b")));
        assert!(!push(&mut queue, &dams, event(4, EventType::Deleted, "a")), "it comes after 2");
        assert!(!push(&mut queue, &dams, event(5, EventType::Bookmark, "")), "it says that 2 was seen");
        assert_eq!(*dam.held.borrow(), 1, "two only wait behind it");
        assert_eq!(queue.settle(), []);
        *locked(&dam.mode) = Mode::Released;
        assert_eq!(queue.settle(), [passed(2), passed(4), passed(5)]);
        assert!(queue.is_empty());
        assert_eq!(*dam.held.borrow(), 0);
        assert!(push(&mut queue, &dams, event(6, EventType::Modified, "a")), "the dam is gone");
    }

    #[test]
    fn of_two_dams_each_opens_for_itself_and_what_is_discarded_is_lost() {
        let (dams, mut queue) = (Dams::default(), Queue::default());
        let a = dams.add(Events::any().name("a"));
        let b = dams.add(Events::any().name("b").nth(2));
        assert!(!push(&mut queue, &dams, event(1, EventType::Added, "a")));
        assert!(push(&mut queue, &dams, event(2, EventType::Added, "b")), "not the second");
        assert!(!push(&mut queue, &dams, event(3, EventType::Modified, "b")));
        assert!(!push(&mut queue, &dams, event(4, EventType::Modified, "b")), "behind 3");
        *locked(&b.mode) = Mode::Discarded;
        assert_eq!(queue.settle(), [Outcome::Lose(3), passed(4)]);
        assert_eq!(queue.numbers().collect::<Vec<_>>(), [1]);
        *locked(&a.mode) = Mode::Released;
        assert_eq!(queue.settle(), [passed(1)]);
    }

    #[test]
    fn a_queue_that_goes_away_gives_its_places_back() {
        let (dams, mut queue) = (Dams::default(), Queue::default());
        let dam = dams.add(Events::any());
        assert!(!push(&mut queue, &dams, event(1, EventType::Added, "a")));
        assert_eq!(*dam.held.borrow(), 1);
        drop(queue);
        assert_eq!(*dam.held.borrow(), 0);
    }
}
