//! The whole: rehearses every chapter, plays it again for every point, many at once, and prints what came of it.

use crate::ground::Ground;
use crate::point::{EventFault, Kind, Target, WriteFault};
use crate::rehearsal::Rehearsal;
use crate::script::{Chapter, chapters};
use crate::stage::Stage;
use futures::FutureExt as _;
use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tests::Backend;

/// Controllers at once. They wait more than they work: for backoffs, for `Retry-After`, for a resync.
const STAGES: usize = 8;

/// Points of the whole sweep. Another number means that the controller writes or is told more or less than it did:
/// see in the table what, and put the number here if that is right.
const POINTS: usize = 650;

/// One fault at one place.
struct Point {
    chapter: usize,
    step: usize,
    target: Target,
}

/// A point and, if it failed, how.
type Outcome = (Point, Option<String>);

struct Sweep {
    ground: Arc<Ground>,
    cache: tempfile::TempDir,
    chapters: Vec<Chapter>,
    rehearsals: Vec<Rehearsal>,
}

/// Plays every point on this server.
///
/// # Panics
/// When one fails, or a kind of write does not occur.
pub(crate) async fn run(backend: Backend) {
    let start = Instant::now();
    let ground = Arc::new(Ground::new(backend).await);
    // The host keeps nothing in a directory that others may enter.
    let mode = std::fs::Permissions::from_mode(0o700);
    let cache = tempfile::Builder::new().permissions(mode).tempdir().expect("a directory");
    let chapters = chapters();
    let rehearsing = chapters.iter().map(|chapter| rehearse(&ground, cache.path(), chapter));
    let rehearsals = futures::future::join_all(rehearsing).await;
    let sweep = Sweep { ground, cache, chapters, rehearsals };
    println!("{backend:?}: rehearsed in {:.0} s", start.elapsed().as_secs_f64());

    let points = sweep.points();
    assert_eq!(
        points.len(),
        POINTS,
        "points; the table of the last run that passed shows which are new or lost"
    );
    let (writes, events): (Vec<_>, Vec<_>) =
        points.into_iter().partition(|point| matches!(point.target, Target::Write(..)));
    let kinds: BTreeSet<_> = writes.iter().filter_map(|point| point.target.kind()).collect();
    assert_eq!(kinds.len(), Kind::ALL.len(), "each kind of write occurs; these do: {kinds:?}");
    // A wake-up that was lost must show, so there is no resync; but to run with a stale cache needs a cause.
    let mut outcomes = sweep.play(writes, "1h").await;
    outcomes.extend(sweep.play(events, "1s").await);

    println!("{}", sweep.table(&outcomes));
    let failures: Vec<_> = outcomes.iter().filter_map(|(_, failure)| failure.as_deref()).collect();
    println!(
        "{backend:?}: {} points, {} passed, in {:.0} s",
        outcomes.len(),
        outcomes.len() - failures.len(),
        start.elapsed().as_secs_f64()
    );
    assert!(failures.is_empty(), "{} points failed:\n\n{}", failures.len(), failures.join("\n\n"));
}

/// Rehearses a chapter, and plays it again without a fault: that must be the same, or nothing can be compared.
async fn rehearse(ground: &Arc<Ground>, cache: &Path, chapter: &Chapter) -> Rehearsal {
    let mut stage = Stage::new(ground.clone(), cache, "1h").await;
    let rehearsal = Rehearsal::of(&mut stage, chapter).await;
    rehearsal.repeat(&mut stage, chapter, None).await;
    rehearsal
}

impl Sweep {
    fn points(&self) -> Vec<Point> {
        let mut points = Vec::new();
        for (number, (chapter, rehearsal)) in self.chapters.iter().zip(&self.rehearsals).enumerate() {
            for (step, acted) in rehearsal.steps.iter().enumerate().skip(chapter.swept_from) {
                let mut point = |target| points.push(Point { chapter: number, step, target });
                for write in &acted.writes {
                    for fault in WriteFault::ALL {
                        point(Target::Write(write.clone(), fault));
                    }
                }
                for event in &acted.events {
                    for fault in EventFault::ALL {
                        point(Target::Event(event.clone(), fault));
                    }
                }
            }
        }
        points
    }

    /// Plays points on several stages at once.
    async fn play(&self, points: Vec<Point>, resync: &str) -> Vec<Outcome> {
        let queue = Mutex::new(VecDeque::from(points));
        let stages = (0..STAGES).map(|_| self.serve(&queue, resync));
        futures::future::join_all(stages).await.into_iter().flatten().collect()
    }

    /// Plays points from the queue on one stage; on a new one after a failure.
    async fn serve(&self, queue: &Mutex<VecDeque<Point>>, resync: &str) -> Vec<Outcome> {
        let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let (mut stage, mut outcomes) = (None, Vec::new());
        while let Some(point) = next() {
            let mut present = match stage.take() {
                Some(stage) => stage,
                None => Stage::new(self.ground.clone(), self.cache.path(), resync).await,
            };
            let (chapter, rehearsal) = (&self.chapters[point.chapter], &self.rehearsals[point.chapter]);
            let playing = rehearsal.repeat(&mut present, chapter, Some((point.step, &point.target)));
            let failure = AssertUnwindSafe(playing).catch_unwind().await.err().map(|panic| {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
                format!("{}: {text}\n{}", self.name(&point), present.log())
            });
            if failure.is_none() {
                stage = Some(present);
            }
            outcomes.push((point, failure));
        }
        outcomes
    }

    fn name(&self, point: &Point) -> String {
        let chapter = &self.chapters[point.chapter];
        let (what, fault) = (point.target.what(), point.target.fault());
        format!("{}, {}: {what}, {fault}", chapter.name, chapter.steps[point.step].what)
    }

    /// A line for each write and each watch event, with what came of each fault.
    fn table(&self, outcomes: &[Outcome]) -> String {
        let mut table = String::new();
        for (number, chapter) in self.chapters.iter().enumerate() {
            for (index, step) in chapter.steps.iter().enumerate().skip(chapter.swept_from) {
                let here =
                    outcomes.iter().filter(|(point, _)| (point.chapter, point.step) == (number, index));
                let mut lines: Vec<(String, String)> = Vec::new();
                for (point, failure) in here {
                    let what = point.target.what();
                    let result = if failure.is_some() { "FAILED" } else { "ok" };
                    let cell = format!("  {} {result}", point.target.fault());
                    match lines.iter_mut().find(|(name, _)| *name == what) {
                        Some((_, cells)) => cells.push_str(&cell),
                        None => lines.push((what, cell)),
                    }
                }
                if !lines.is_empty() {
                    let _ = writeln!(table, "\n{}: {}", chapter.name, step.what);
                }
                for (what, cells) in lines {
                    let _ = writeln!(table, "  {what:<34}{cells}");
                }
            }
        }
        table
    }
}
