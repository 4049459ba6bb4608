//! What can go wrong: the kinds of writes, the faults, and how each is brought about.

use crate::snapshot::Slack;
use crate::stage::Stage;
use fault_proxy::{
    Answer, Dam, Ending, EventRecord, EventType, Events, Fault, Hold, Match, Record, Rule, Verb,
};
use std::fmt;

/// Everything that the controller ever writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Create,
    Adopt,
    Apply,
    Delete,
    Status,
    EventCreate,
    EventPatch,
}

/// A write, told from the others of its step.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Write {
    pub(crate) kind: Kind,
    /// Of a new Event it is not known before.
    name: String,
    /// The how manieth of its kind and name in the step.
    nth: usize,
}

/// A watch event, told from the others of its step.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Event {
    resource: String,
    kind: &'static str,
    name: String,
    nth: usize,
}

/// Where.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    Write(Write, WriteFault),
    Event(Event, EventFault),
}

/// What happens to a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteFault {
    /// The server never sees it.
    DroppedBefore,
    /// The server does it, the controller never hears.
    DroppedAfter,
    /// The server answers this in place of doing it. A create meets `AlreadyExists` as 409.
    Answered(u16),
    /// SIGKILL before the server sees it.
    KilledBefore,
    /// SIGKILL once the server has done it.
    KilledAfter,
}

/// What happens to a watch event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventFault {
    /// It comes after the end of the next run.
    Late,
    /// It never comes; after the end of the next run the watch expires, and the list shows what it was about.
    Lost,
}

impl Kind {
    pub(crate) const ALL: [Self; 7] = [
        Self::Create,
        Self::Adopt,
        Self::Apply,
        Self::Delete,
        Self::Status,
        Self::EventCreate,
        Self::EventPatch,
    ];

    fn of(record: &Record) -> Option<Self> {
        let content = record.content_type.as_str();
        match (record.verb, record.resource.as_str(), record.subresource.as_str()) {
            (Verb::Create, "deployments", "") => Some(Self::Create),
            (Verb::Patch, "deployments", "") if content == "application/json-patch+json" => Some(Self::Adopt),
            (Verb::Patch, "deployments", "") if content == "application/apply-patch+yaml" => {
                Some(Self::Apply)
            }
            (Verb::Delete, "deployments", "") => Some(Self::Delete),
            (Verb::Patch, "foos", "status") => Some(Self::Status),
            (Verb::Create, "events", "") => Some(Self::EventCreate),
            (Verb::Patch, "events", "") => Some(Self::EventPatch),
            _ => None,
        }
    }

    fn is_event(self) -> bool {
        matches!(self, Self::EventCreate | Self::EventPatch)
    }
}

impl Write {
    /// The writes of one step, in order.
    ///
    /// # Panics
    /// At one that is of no kind.
    pub(crate) fn all(records: &[Record]) -> Vec<Self> {
        let mut writes: Vec<Self> = Vec::new();
        for record in records {
            let kind = Kind::of(record).unwrap_or_else(|| panic!("the controller never does this: {record}"));
            let name = if kind.is_event() { String::new() } else { record.name.clone() };
            let earlier = writes.iter().filter(|write| (write.kind, &write.name) == (kind, &name)).count();
            writes.push(Self { kind, name, nth: earlier + 1 });
        }
        writes
    }

    fn matching(&self) -> Match {
        let Self { kind, name, nth } = self.clone();
        let fits =
            move |record: &Record| Kind::of(record) == Some(kind) && (kind.is_event() || record.name == name);
        Match::writes().when(fits).nth(nth)
    }
}

impl Event {
    /// The events of one step, in order.
    pub(crate) fn all(records: &[EventRecord]) -> Vec<Self> {
        let mut events: Vec<Self> = Vec::new();
        for record in records {
            let (resource, kind, name) = (record.resource.clone(), record.kind.as_str(), record.name.clone());
            if !["ADDED", "MODIFIED", "DELETED"].contains(&kind) {
                continue;
            }
            let same = |event: &&Self| (&event.resource, event.kind, &event.name) == (&resource, kind, &name);
            let nth = events.iter().filter(same).count() + 1;
            events.push(Self { resource, kind, name, nth });
        }
        events
    }

    /// The end of an object, the first of that name.
    pub(crate) fn is_first_end(&self) -> bool {
        self.kind == EventType::Deleted.as_str() && self.nth == 1
    }

    fn matching(&self) -> Events {
        let kind = self.kind;
        let events = Events::of(&self.resource).name(&self.name);
        events.when(move |record| record.kind.as_str() == kind).nth(self.nth)
    }
}

impl WriteFault {
    pub(crate) const ALL: [Self; 8] = [
        Self::DroppedBefore,
        Self::DroppedAfter,
        Self::Answered(409),
        Self::Answered(429),
        Self::Answered(500),
        Self::Answered(503),
        Self::KilledBefore,
        Self::KilledAfter,
    ];

    fn kills(self) -> bool {
        matches!(self, Self::KilledBefore | Self::KilledAfter)
    }

    fn fault(self, kind: Kind) -> Option<Fault> {
        Some(match self {
            Self::DroppedBefore => Fault::DropBefore,
            Self::DroppedAfter => Fault::DropAfter,
            Self::Answered(409) if matches!(kind, Kind::Create | Kind::EventCreate) => {
                Fault::Answer(Answer::already_exists())
            }
            Self::Answered(409) => Fault::Answer(Answer::conflict()),
            Self::Answered(429) => Fault::Answer(Answer::too_many(1)),
            Self::Answered(500) => Fault::Answer(Answer::internal()),
            Self::Answered(_) => Fault::Answer(Answer::unavailable()),
            Self::KilledBefore | Self::KilledAfter => return None,
        })
    }
}

impl EventFault {
    pub(crate) const ALL: [Self; 2] = [Self::Late, Self::Lost];
}

impl Target {
    /// What the Events may lack or repeat afterwards: what was said in a run that was killed is lost with it, as is an
    /// Event that meets a conflict (client-go gives it up too).
    pub(crate) fn slack(&self) -> Slack {
        let missing = match self {
            Self::Write(write, WriteFault::Answered(409)) => write.kind.is_event(),
            Self::Write(_, fault) => fault.kills(),
            Self::Event(..) => false,
        };
        Slack { missing: missing.into(), repeated: 1 }
    }

    /// The kind of the write.
    pub(crate) fn kind(&self) -> Option<Kind> {
        match self {
            Self::Write(write, _) => Some(write.kind),
            Self::Event(..) => None,
        }
    }

    /// Which write or event.
    pub(crate) fn what(&self) -> String {
        match self {
            Self::Write(write, _) => write.to_string(),
            Self::Event(event, _) => event.to_string(),
        }
    }

    /// What happens to it.
    pub(crate) fn fault(&self) -> String {
        match self {
            Self::Write(_, fault) => fault.to_string(),
            Self::Event(_, fault) => fault.to_string(),
        }
    }

    /// Sets the trap.
    pub(crate) fn arm(&self, stage: &Stage) -> Armed {
        match self {
            Self::Write(write, fault) => match fault.fault(write.kind) {
                Some(made) => Armed::Rule(stage.proxy.rule(write.matching(), made)),
                None => Armed::Hold(stage.proxy.hold(write.matching()), *fault),
            },
            Self::Event(event, fault) => {
                Armed::Dam(stage.proxy.hold_events(event.matching()), event.resource.clone(), *fault)
            }
        }
    }
}

/// A trap that is set.
#[must_use = "it must be sprung"]
pub(crate) enum Armed {
    Rule(Rule),
    Hold(Hold, WriteFault),
    Dam(Dam, String, EventFault),
}

impl Armed {
    /// Waits until something is caught, and does the harm.
    ///
    /// # Panics
    /// When nothing is caught.
    pub(crate) async fn spring(self, stage: &mut Stage) {
        match self {
            Self::Rule(rule) => {
                rule.hit(1).await;
                rule.lift();
            }
            Self::Hold(hold, fault) => {
                let mut held = hold.arrived().await;
                hold.lift();
                if fault == WriteFault::KilledAfter {
                    let status = held.apply().await;
                    assert!(
                        status.is_some_and(|code| code < 300),
                        "{} was answered {status:?}",
                        held.request()
                    );
                }
                stage.kill().await;
                held.close();
                stage.start().await;
            }
            Self::Dam(dam, resource, fault) => {
                dam.held_at_least(1).await;
                stage.until_it_ran().await;
                match fault {
                    EventFault::Late => dam.release(),
                    EventFault::Lost => {
                        dam.discard();
                        let watch = Match::verb(Verb::Watch).resource(&resource);
                        let known = stage.proxy.requests().iter().filter(|record| watch.fits(record)).count();
                        let ended = stage.proxy.end_watches(&watch, &Ending::ErrorEvent(Answer::gone()));
                        assert_eq!(ended, 1, "one watch of {resource}");
                        // The list came before it.
                        stage.proxy.seen(watch, known + 1).await;
                    }
                }
            }
        }
    }
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.kind {
            Kind::Create => "create Deployment",
            Kind::Adopt => "adopt Deployment",
            Kind::Apply => "apply Deployment",
            Kind::Delete => "delete Deployment",
            Kind::Status => "status of Foo",
            Kind::EventCreate => "create Event",
            Kind::EventPatch => "patch Event",
        };
        named(f, text, &self.name, self.nth)
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.resource == "foos" { "Foo" } else { "Deployment" };
        named(f, &format!("{} {kind}", self.kind), &self.name, self.nth)
    }
}

/// Long names are cut: a table has no room for them.
fn named(f: &mut fmt::Formatter<'_>, text: &str, name: &str, nth: usize) -> fmt::Result {
    let short = name.get(..12).map_or_else(|| name.to_owned(), |start| format!("{start}…"));
    let turn = if nth > 1 { format!(" ({nth})") } else { String::new() };
    f.pad(format!("{text} {short}{turn}").trim_end())
}

impl fmt::Display for WriteFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DroppedBefore => f.pad("lost"),
            Self::DroppedAfter => f.pad("unheard"),
            Self::Answered(code) => f.pad(&code.to_string()),
            Self::KilledBefore => f.pad("kill before"),
            Self::KilledAfter => f.pad("kill after"),
        }
    }
}

impl fmt::Display for EventFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Late => "late",
            Self::Lost => "lost",
        })
    }
}
