//! When a key comes: delays, backoff, what overtakes them.

use crate::{millis, queue, quiet, take, time_to};
use std::time::Duration;
use tokio::time::{Instant, advance};
use workqueue::{
    Config,
    Priority::{Background, Change},
    WorkQueue,
};

/// Lets `key` fail `times` times, each after its backoff.
async fn fail(queue: &WorkQueue<&'static str>, key: &'static str, times: u32) {
    queue.add(key, Change);
    for _ in 0..times {
        let ticket = take(queue).await;
        queue.add_rate_limited(key, Change);
        ticket.done();
    }
}

#[tokio::test(start_paused = true)]
async fn a_delayed_key_comes_when_its_delay_is_over_and_the_earlier_delay_counts() {
    let queue = queue();
    queue.add_after("a", Background, millis(500));
    queue.add_after("a", Change, millis(900));
    queue.add_after("b", Change, millis(700));
    queue.add_after("b", Change, millis(200));
    assert_eq!((queue.waiting(), queue.len()), (2, 0));
    let (after, b) = time_to(&queue, "b").await;
    assert_eq!(after, millis(200));
    let (after, a) = time_to(&queue, "a").await;
    assert_eq!((after, a.priority(), a.waited()), (millis(300), Change, Duration::ZERO));
    drop((a, b));
    assert!(quiet(&queue, millis(5000)).await);
}

#[tokio::test(start_paused = true)]
async fn an_earlier_deadline_is_seen_by_workers_that_wait_already() {
    let queue = queue();
    queue.add_after("late", Change, millis(60_000));
    let worker = tokio::spawn({
        let queue = queue.clone();
        async move { time_to(&queue, "early").await.0 }
    });
    tokio::task::yield_now().await;
    queue.add_after("early", Change, millis(50));
    assert_eq!(worker.await.unwrap(), millis(50));
}

#[tokio::test(start_paused = true)]
async fn an_add_takes_the_place_of_a_delayed_one() {
    let queue = queue();
    queue.add_after("a", Background, millis(100));
    queue.add("a", Change);
    assert_eq!(queue.waiting(), 0);
    take(&queue).await.done();
    assert!(quiet(&queue, millis(1000)).await);
    // And the other way round: the run to come decides anew.
    queue.add("a", Change);
    queue.add_after("a", Change, millis(100));
    take(&queue).await.done();
    assert!(quiet(&queue, millis(1000)).await);
}

#[tokio::test(start_paused = true)]
async fn a_delay_that_ends_during_the_run_makes_one_more() {
    let queue = queue();
    queue.add("a", Change);
    let run = take(&queue).await;
    queue.add_after("a", Change, millis(10));
    assert!(quiet(&queue, millis(50)).await);
    run.done();
    let again = take(&queue).await;
    assert_eq!(again.waited(), millis(40));
}

#[tokio::test(start_paused = true)]
async fn parity_queue_each_failure_doubles_the_delay_until_forgotten() {
    let queue = queue();
    queue.add("a", Change);
    let mut delays = Vec::new();
    for failures in 0..20 {
        let (after, ticket) = time_to(&queue, "a").await;
        delays.push(after.as_millis());
        assert_eq!(queue.failures(&"a"), failures);
        queue.add_rate_limited("a", Change);
        ticket.done();
    }
    assert_eq!(delays[..6], [0, 5, 10, 20, 40, 80]);
    assert_eq!(delays[17..], [327_680, 655_360, 1_000_000]);
    queue.forget(&"a");
    assert_eq!((queue.failures(&"a"), queue.waiting()), (0, 1));
    take(&queue).await.done();
    queue.add_rate_limited("a", Change);
    assert_eq!(time_to(&queue, "a").await.0, millis(5));
}

#[tokio::test(start_paused = true)]
async fn parity_queue_failures_of_many_keys_share_a_bucket() {
    let queue = WorkQueue::new(Config::default());
    for key in 0..310 {
        queue.add_rate_limited(key, Change);
    }
    advance(millis(5)).await;
    // Up to 300, and none of the others: their tokens take 20 ms each.
    assert_eq!((queue.len(), queue.waiting()), (300, 10));
    advance(millis(15)).await;
    assert_eq!(queue.len(), 301);
    advance(millis(180)).await;
    assert_eq!(queue.len(), 310);
}

#[tokio::test(start_paused = true)]
async fn case_22_a_childs_status_keeps_the_backoff_and_a_change_of_the_foo_runs_at_once() {
    let queue = queue();
    fail(&queue, "foo", 15).await;
    // 5 ms * 2^14 = 81.92 s from now. For 60 s the child's status changes each 200 ms.
    let start = Instant::now();
    while start.elapsed() < Duration::from_mins(1) {
        queue.add_unless_delayed("foo", Change);
        assert!(quiet(&queue, millis(200)).await);
    }
    assert_eq!((queue.failures(&"foo"), queue.waiting()), (15, 1));

    queue.add("foo", Change);
    let (after, run) = time_to(&queue, "foo").await;
    assert_eq!(after, Duration::ZERO);
    assert_eq!(queue.failures(&"foo"), 15, "the count is kept");
    queue.add_rate_limited("foo", Change);
    run.done();
    assert_eq!(time_to(&queue, "foo").await.0, millis(163_840));
}

#[tokio::test(start_paused = true)]
async fn case_22_a_childs_status_during_a_run_that_fails_waits_for_the_backoff() {
    let queue = queue();
    fail(&queue, "foo", 10).await;
    let run = take(&queue).await;
    queue.add_unless_delayed("foo", Change);
    queue.add_rate_limited("foo", Change);
    run.done();
    let (after, run) = time_to(&queue, "foo").await;
    assert_eq!(after, millis(5120));
    // A change of the Foo itself does not.
    queue.add_unless_delayed("foo", Change);
    queue.add("foo", Change);
    queue.add_rate_limited("foo", Change);
    run.done();
    let (after, run) = time_to(&queue, "foo").await;
    assert_eq!(after, Duration::ZERO);
    // Nor does a child's status during a run that succeeds.
    queue.add_unless_delayed("foo", Change);
    queue.forget(&"foo");
    run.done();
    assert_eq!(time_to(&queue, "foo").await.0, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_delay_by_request_is_no_backoff() {
    let queue = queue();
    queue.add_after("a", Change, Duration::from_mins(1));
    queue.add_unless_delayed("a", Change);
    assert_eq!(time_to(&queue, "a").await.0, Duration::ZERO);
}
