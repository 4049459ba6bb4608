//! What the observer is told and the gauges show.

use crate::{millis, take};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::time::advance;
use workqueue::{
    Config, Observer,
    Priority::{self, Background, Change},
    Snapshot, WorkQueue,
};

#[derive(Default)]
struct Counted {
    added: [AtomicU32; 2],
    retried: AtomicU32,
    waited_ms: AtomicU32,
    worked_ms: AtomicU32,
}

impl Observer for Counted {
    fn added(&self, priority: Priority) {
        self.added[usize::from(priority == Change)].fetch_add(1, Ordering::Relaxed);
    }

    fn retried(&self) {
        self.retried.fetch_add(1, Ordering::Relaxed);
    }

    fn started(&self, _: Priority, waited: Duration) {
        self.waited_ms.fetch_add(waited.as_millis() as u32, Ordering::Relaxed);
    }

    fn finished(&self, _: Priority, worked: Duration) {
        self.worked_ms.fetch_add(worked.as_millis() as u32, Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn parity_queue_metrics_are_those_of_client_go() {
    let counted = Arc::new(Counted::default());
    let observer: Arc<dyn Observer> = counted.clone();
    let queue = WorkQueue::new(Config { observer, ..Config::default() });
    let read = |counter: &AtomicU32| counter.load(Ordering::Relaxed);
    queue.add("a", Change);
    queue.add("a", Change);
    queue.add("b", Background);
    advance(millis(30)).await;
    let a = take(&queue).await;
    queue.add("a", Change);
    queue.add_after("c", Background, millis(100));
    advance(millis(20)).await;
    let b = take(&queue).await;
    queue.add_rate_limited("b", Background);
    advance(millis(4)).await;
    assert_eq!(
        queue.snapshot(),
        Snapshot {
            depth_change: 1,
            depth_background: 0,
            delayed: 2,
            in_flight: 2,
            failing: 1,
            unfinished_work: millis(28),
            longest_running: millis(24),
        }
    );
    a.done();
    b.done();
    advance(millis(200)).await;
    assert_eq!(queue.len(), 3);
    assert_eq!((read(&counted.retried), read(&counted.waited_ms), read(&counted.worked_ms)), (2, 80, 28));
    take(&queue).await.done();
    assert_eq!((read(&counted.added[0]), read(&counted.added[1])), (3, 2));
}
