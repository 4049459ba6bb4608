//! The queue as its workers see it, on paused time.

mod delay;
mod end;
mod metrics;
mod order;

use std::{
    hash::Hash,
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Duration,
};
use tokio::time::{Instant, timeout};
use workqueue::{Config, Ticket, WorkQueue};

fn queue() -> WorkQueue<&'static str> {
    WorkQueue::new(Config::default())
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

async fn take<K: Clone + Eq + Hash>(queue: &WorkQueue<K>) -> Ticket<K> {
    queue.get().await.expect("the queue is open")
}

/// Waits until `key` is handed out and says how long that took.
async fn time_to(queue: &WorkQueue<&'static str>, key: &str) -> (Duration, Ticket<&'static str>) {
    let start = Instant::now();
    let ticket = take(queue).await;
    assert_eq!(*ticket.key(), key);
    (start.elapsed(), ticket)
}

/// Whether no key is handed out in the next `within`.
async fn quiet(queue: &WorkQueue<&'static str>, within: Duration) -> bool {
    timeout(within, queue.get()).await.is_err()
}

/// Polls once; the result, if it is there.
fn poll<F: Future>(future: Pin<&mut F>) -> Option<F::Output> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}
