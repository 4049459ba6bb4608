//! A chapter without a fault: which writes and events there are, and what comes of each step.

use crate::point::{Armed, Event, Kind, Target, Write};
use crate::script::Chapter;
use crate::snapshot::{Slack, Snapshot};
use crate::stage::Stage;
use fault_proxy::Record;

/// Deployments made for a Foo that is gone, before its end is known.
const LATE_CREATES: usize = 1;

/// Writes of one step beyond those of the rehearsal: repeats with growing delays, while the cache is behind.
const MOST_RETRIES: usize = 12;

/// What came of a step.
pub(crate) struct Acted {
    pub(crate) writes: Vec<Write>,
    pub(crate) events: Vec<Event>,
    pub(crate) snapshot: Snapshot,
}

/// What came of a chapter.
pub(crate) struct Rehearsal {
    pub(crate) steps: Vec<Acted>,
}

impl Rehearsal {
    /// Plays the chapter, waiting after each step until all is quiet.
    pub(crate) async fn of(stage: &mut Stage, chapter: &Chapter) -> Self {
        let mut steps: Vec<Acted> = Vec::new();
        let (mut writes, mut events) = (0, 0);
        for step in &chapter.steps {
            stage.perform(&step.act).await;
            stage.until_quiet().await;
            let (written, told) = (stage.writes(), stage.proxy.events());
            // One that was refused, because the cache was a moment behind, need not come each time.
            let done: Vec<_> = written[writes..].iter().filter(|write| succeeded(write)).cloned().collect();
            let mut acted = Acted {
                writes: Write::all(&done),
                events: Event::all(&told[events..]),
                snapshot: stage.snapshot().await,
            };
            if step.act.ends_a_foo() {
                // The collector may be quicker than the news of the Foo's end: then a Deployment is made once more, and
                // collected. What is said of that is no part of the end.
                acted.writes.clear();
                if let Some(Acted { snapshot, .. }) = steps.last() {
                    acted.snapshot.say_no_more_than(snapshot);
                }
                acted.events.retain(Event::is_first_end);
            }
            steps.push(acted);
            (writes, events) = (written.len(), told.len());
        }
        stage.clear().await;
        Self { steps }
    }

    /// Plays the chapter again, with a fault at one of its steps or with none.
    ///
    /// # Panics
    /// When a step does not end as it did, something foreign was touched, or a Deployment was made or deleted once more.
    pub(crate) async fn repeat(&self, stage: &mut Stage, chapter: &Chapter, fault: Option<(usize, &Target)>) {
        let (mut slack, mut carried) = (Slack::default(), None);
        let (mut before, mut wanted, mut most) = (0, [0, 0], 0);
        for (index, (step, acted)) in chapter.steps.iter().zip(&self.steps).enumerate() {
            let target = fault.filter(|(at, _)| *at == index).map(|(_, target)| target);
            let armed = match target {
                Some(target) => Some(target.arm(stage)),
                None => carried.take(),
            };
            stage.perform(&step.act).await;
            slack = target.map_or(slack, Target::slack);
            for (sum, kind) in wanted.iter_mut().zip([Kind::Create, Kind::Delete]) {
                *sum += acted.count(kind);
            }
            most += acted.writes.len();
            match armed {
                Some(Armed::Dam(ref dam, ..)) if step.act.is_foreign() => {
                    dam.held_at_least(1).await;
                    carried = armed;
                    continue;
                }
                Some(armed) => armed.spring(stage).await,
                None => {}
            }
            let mut allowed = slack;
            if step.act.ends_a_foo() {
                stage.until_it_knows_no_foo().await;
                allowed.repeated += LATE_CREATES as i64;
            }
            stage.converge(&acted.snapshot, allowed, step.what).await;
            let written = &stage.writes()[before..];
            let done = made(written);
            if step.act.ends_a_foo() {
                wanted[0] = done[0].min(LATE_CREATES);
            }
            assert_eq!(done, wanted, "after {:?} these Deployments were created and deleted", step.what);
            let storm = written.len() > most + MOST_RETRIES;
            assert!(!storm, "after {:?} there was a storm of writes: {written:#?}", step.what);
            (before, wanted, most) = (before + written.len(), [0, 0], 0);
        }
        stage.clear().await;
    }
}

impl Acted {
    fn count(&self, kind: Kind) -> usize {
        self.writes.iter().filter(|write| write.kind == kind).count()
    }
}

/// How many Deployments the controller created and deleted.
fn made(writes: &[Record]) -> [usize; 2] {
    ["POST", "DELETE"].map(|method| {
        let of_deployments =
            writes.iter().filter(|write| write.resource == "deployments" && write.method == method);
        of_deployments.filter(|write| succeeded(write)).count()
    })
}

fn succeeded(write: &Record) -> bool {
    write.status.is_some_and(|code| code < 300)
}
