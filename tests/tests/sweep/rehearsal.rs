//! A chapter without a fault: which writes and events there are, and what comes of each step.

use crate::point::{Armed, Event, Target, Write};
use crate::script::Chapter;
use crate::snapshot::{Slack, Snapshot};
use crate::stage::Stage;
use fault_proxy::Record;

/// What came of a step.
pub(crate) struct Acted {
    pub(crate) writes: Vec<Write>,
    pub(crate) events: Vec<Event>,
    pub(crate) snapshot: Snapshot,
}

/// What came of a chapter.
pub(crate) struct Rehearsal {
    pub(crate) steps: Vec<Acted>,
    creates: usize,
    deletes: usize,
}

impl Rehearsal {
    /// Plays the chapter, waiting after each step until all is quiet.
    pub(crate) async fn of(stage: &mut Stage, chapter: &Chapter) -> Self {
        let mut steps = Vec::new();
        let (mut writes, mut events) = (0, 0);
        for step in &chapter.steps {
            stage.perform(&step.act).await;
            stage.until_quiet().await;
            let (written, told) = (stage.writes(), stage.proxy.events());
            let acted = Acted {
                writes: Write::all(&written[writes..]),
                events: Event::all(&told[events..]),
                snapshot: stage.snapshot().await,
            };
            steps.push(acted);
            (writes, events) = (written.len(), told.len());
        }
        let (creates, deletes) = made(&stage.writes());
        stage.clear().await;
        Self { steps, creates, deletes }
    }

    /// Plays the chapter again, with a fault at one of its steps or with none.
    ///
    /// # Panics
    /// When a step does not end as it did, something foreign was touched, or a Deployment was made or deleted once more.
    pub(crate) async fn repeat(&self, stage: &mut Stage, chapter: &Chapter, fault: Option<(usize, &Target)>) {
        let mut slack = Slack::default();
        for (index, (step, acted)) in chapter.steps.iter().zip(&self.steps).enumerate() {
            let target = fault.filter(|(at, _)| *at == index).map(|(_, target)| target);
            let armed = target.map(|target| target.arm(stage));
            stage.perform(&step.act).await;
            if let Some(armed) = armed {
                Armed::spring(armed, stage).await;
            }
            if let Some(target) = target {
                slack = target.slack();
            }
            stage.converge(&acted.snapshot, slack).await;
        }
        let counted = made(&stage.writes());
        let late_owner = matches!(fault, Some((_, Target::Event(event, _))) if event.ends_a_foo());
        if !late_owner {
            assert_eq!(counted, (self.creates, self.deletes), "Deployments that were created and deleted");
        }
        stage.clear().await;
    }
}

/// How many Deployments the controller created and deleted.
fn made(writes: &[Record]) -> (usize, usize) {
    let done = |method: &str| {
        let of_deployments =
            writes.iter().filter(|write| write.resource == "deployments" && write.method == method);
        of_deployments.filter(|write| write.status.is_some_and(|code| code < 300)).count()
    };
    (done("POST"), done("DELETE"))
}
