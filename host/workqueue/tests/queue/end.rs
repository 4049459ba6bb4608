//! How runs, workers and the queue end.

use crate::{millis, poll, queue, take};
use tokio::{
    task::JoinSet,
    time::{advance, timeout},
};
use workqueue::Priority::Change;

#[tokio::test(start_paused = true)]
async fn a_ticket_ends_its_run_when_its_task_panics_or_is_cancelled() {
    let queue = queue();
    queue.add("a", Change);
    let panics = tokio::spawn({
        let queue = queue.clone();
        async move {
            let _ticket = take(&queue).await;
            panic!("as a worker might");
        }
    });
    assert!(panics.await.unwrap_err().is_panic());
    queue.add("a", Change);
    let hangs = tokio::spawn({
        let queue = queue.clone();
        async move {
            let _ticket = take(&queue).await;
            std::future::pending::<()>().await;
        }
    });
    while queue.in_flight() == 0 {
        tokio::task::yield_now().await;
    }
    hangs.abort();
    queue.idle().await;
    queue.add("a", Change);
    take(&queue).await.done();
}

#[tokio::test(start_paused = true)]
async fn a_key_added_during_its_run_wakes_a_worker_that_waits() {
    let queue = queue();
    queue.add("a", Change);
    let run = take(&queue).await;
    let mut other = Box::pin(queue.get());
    assert!(poll(other.as_mut()).is_none());
    queue.add("a", Change);
    assert!(poll(other.as_mut()).is_none());
    run.done();
    assert!(timeout(millis(1), other).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_wake_up_of_a_cancelled_worker_goes_on_to_another() {
    let queue = queue();
    let mut cancelled = Box::pin(queue.get());
    let mut other = Box::pin(queue.get());
    assert!(poll(cancelled.as_mut()).is_none());
    assert!(poll(other.as_mut()).is_none());
    queue.add("a", Change);
    drop(cancelled);
    assert!(timeout(millis(1), other).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn parity_queue_shut_down_hands_out_what_waits_and_takes_in_nothing() {
    let queue = queue();
    queue.add("a", Change);
    queue.add("b", Change);
    let a = take(&queue).await;
    queue.add("a", Change);
    queue.add_after("later", Change, millis(10));
    queue.shut_down();
    assert!(queue.is_shut_down());
    queue.add("c", Change);
    queue.add_unless_delayed("c", Change);
    queue.add_after("c", Change, millis(1));
    queue.add_rate_limited("c", Change);
    take(&queue).await.done();
    assert!(queue.get().await.is_none(), "`a` is in flight, and its worker will find it dirty");
    a.done();
    assert_eq!(*take(&queue).await.key(), "a");
    advance(millis(100)).await;
    assert!(queue.get().await.is_none());
    assert_eq!(queue.waiting(), 0);
}

#[tokio::test(start_paused = true)]
async fn parity_queue_shut_down_ends_the_wait_of_workers() {
    let queue = queue();
    let mut workers = JoinSet::new();
    for _ in 0..4 {
        let queue = queue.clone();
        workers.spawn(async move { queue.get().await.is_none() });
    }
    tokio::task::yield_now().await;
    queue.shut_down();
    assert!(workers.join_all().await.into_iter().all(|ended| ended));
}

#[tokio::test(start_paused = true)]
async fn parity_queue_drain_waits_for_all_runs_and_a_second_shutdown_ends_it() {
    let queue = queue();
    queue.add("a", Change);
    queue.add("b", Change);
    let a = take(&queue).await;
    let mut drain = Box::pin(queue.shut_down_with_drain());
    assert!(poll(drain.as_mut()).is_none());
    a.done();
    assert!(poll(drain.as_mut()).is_none(), "`b` waits");
    let b = take(&queue).await;
    assert!(poll(drain.as_mut()).is_none(), "`b` is in flight");
    b.done();
    assert!(poll(drain.as_mut()).is_some());

    let queue = crate::queue();
    queue.add("a", Change);
    let mut drain = Box::pin(queue.shut_down_with_drain());
    assert!(poll(drain.as_mut()).is_none());
    queue.shut_down();
    assert!(poll(drain.as_mut()).is_some());
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_queue_hands_out_nothing_and_lets_runs_finish() {
    let queue = queue();
    queue.add("a", Change);
    queue.add("b", Change);
    queue.add_after("c", Change, millis(10));
    let a = take(&queue).await;
    queue.add("a", Change);
    assert_eq!(queue.abandon(), 3);
    assert!(queue.get().await.is_none());
    let mut idle = Box::pin(queue.idle());
    assert!(poll(idle.as_mut()).is_none());
    a.done();
    assert!(poll(idle.as_mut()).is_some());
    assert!(queue.get().await.is_none());
}
