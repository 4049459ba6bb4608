//! Which key comes next: once, one run at a time, by priority.

use crate::{millis, queue, quiet, take};
use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::{
    task::JoinSet,
    time::{advance, timeout},
};
use workqueue::{
    Config,
    Priority::{Background, Change},
    WorkQueue,
};

#[tokio::test(start_paused = true)]
async fn a_waiting_key_is_handed_out_once_and_in_order() {
    let queue = queue();
    for key in ["a", "b", "a", "c", "b"] {
        queue.add(key, Change);
    }
    assert_eq!(queue.len(), 3);
    for key in ["a", "b", "c"] {
        assert_eq!(*take(&queue).await.key(), key);
    }
    assert!(queue.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_key_added_during_its_run_runs_again_after_it_and_not_beside_it() {
    let queue = queue();
    queue.add("a", Change);
    let run = take(&queue).await;
    queue.add("a", Change);
    queue.add("a", Background);
    assert!(quiet(&queue, millis(1000)).await);
    assert_eq!((queue.len(), queue.snapshot().depth_change, queue.in_flight()), (0, 1, 1));
    run.done();
    take(&queue).await.done();
    assert!(quiet(&queue, millis(1000)).await);
}

#[tokio::test(start_paused = true)]
async fn a_change_goes_before_the_background_and_lifts_a_key_out_of_it() {
    let queue = queue();
    for key in ["a", "b", "c"] {
        queue.add(key, Background);
    }
    queue.add("d", Change);
    queue.add("b", Change);
    queue.add("d", Background);
    let mut got = Vec::new();
    while !queue.is_empty() {
        let ticket = take(&queue).await;
        got.push((*ticket.key(), ticket.priority()));
    }
    assert_eq!(got, [("d", Change), ("b", Change), ("a", Background), ("c", Background)]);
}

#[tokio::test(start_paused = true)]
async fn the_background_has_its_turn_after_ten_changes() {
    let queue = WorkQueue::new(Config::default());
    queue.add(1000, Background);
    queue.add(1001, Background);
    for key in 0..30 {
        queue.add(key, Change);
    }
    let mut background = Vec::new();
    for turn in 0..32 {
        if take(&queue).await.priority() == Background {
            background.push(turn);
        }
    }
    assert_eq!(background, [10, 21]);
}

#[tokio::test(start_paused = true)]
async fn changes_without_background_work_do_not_count_towards_its_turn() {
    let queue = WorkQueue::new(Config { changes_in_a_row: NonZeroU32::MIN, ..Config::default() });
    for key in 0..5 {
        queue.add(key, Change);
        take(&queue).await.done();
    }
    queue.add(1, Background);
    queue.add(2, Change);
    assert_eq!(*take(&queue).await.key(), 2);
}

#[tokio::test(start_paused = true)]
async fn case_21_a_new_key_overtakes_five_thousand_of_the_start() {
    let queue = WorkQueue::new(Config::default());
    for key in 0..5000 {
        queue.add(key, Background);
    }
    for _ in 0..100 {
        take(&queue).await.done();
    }
    queue.add(9999, Change);
    assert_eq!(*take(&queue).await.key(), 9999);
    // Behind other changes, the background delays it by two turns in twenty.
    for key in 10_000..10_020 {
        queue.add(key, Change);
    }
    let mut before = 0;
    while *take(&queue).await.key() != 10_019 {
        before += 1;
    }
    assert_eq!(before, 19 + 2);
}

#[derive(Default)]
struct Object {
    generation: AtomicU32,
    seen: AtomicU32,
    runs: AtomicU32,
    running: AtomicU32,
}

#[tokio::test(start_paused = true)]
async fn case_25_each_of_fifty_keys_runs_after_its_last_trigger_and_never_twice_at_once() {
    let queue = WorkQueue::new(Config::default());
    let objects: Arc<Vec<Object>> = Arc::new((0..50).map(|_| Object::default()).collect());
    let mut workers = JoinSet::new();
    for _ in 0..2 {
        let (queue, objects) = (queue.clone(), Arc::clone(&objects));
        workers.spawn(async move {
            while let Some(ticket) = queue.get().await {
                let object: &Object = &objects[*ticket.key()];
                assert_eq!(object.running.fetch_add(1, Ordering::Relaxed), 0, "runs twice at once");
                let read = object.generation.load(Ordering::Relaxed);
                // Two triggers come while the first run is at work.
                for _ in 0..2 {
                    if object.runs.load(Ordering::Relaxed) == 0 {
                        object.generation.fetch_add(1, Ordering::Relaxed);
                        queue.add(*ticket.key(), Change);
                    }
                    tokio::task::yield_now().await;
                }
                object.seen.store(read, Ordering::Relaxed);
                object.runs.fetch_add(1, Ordering::Relaxed);
                object.running.fetch_sub(1, Ordering::Relaxed);
            }
        });
    }
    for key in 0..objects.len() {
        queue.add(key, Change);
    }
    while queue.len() + queue.in_flight() > 0 {
        tokio::task::yield_now().await;
    }
    queue.shut_down();
    while let Some(worker) = workers.join_next().await {
        worker.unwrap();
    }
    for object in objects.iter() {
        let read = |counter: &AtomicU32| counter.load(Ordering::Relaxed);
        assert_eq!((read(&object.generation), read(&object.seen), read(&object.runs)), (2, 2, 2));
    }
}

#[tokio::test(start_paused = true)]
async fn case_27_a_change_overtakes_a_thousand_keys_of_the_resync() {
    let queue = WorkQueue::new(Config::default());
    let worker = tokio::spawn({
        let queue = queue.clone();
        async move {
            let mut latest = Duration::ZERO;
            while let Some(ticket) = queue.get().await {
                if ticket.priority() == Change {
                    latest = latest.max(ticket.waited());
                }
                // 1000 converged keys at 6 ms: more than a resync of 5 s leaves time for.
                tokio::time::sleep(millis(6)).await;
            }
            latest
        }
    });
    for resync in 0..5 {
        for key in 0..1000 {
            queue.add(key, Background);
        }
        advance(millis(2500)).await;
        queue.add(2000 + resync, Change);
        tokio::time::sleep(millis(2500)).await;
    }
    queue.shut_down();
    let latest = worker.await.unwrap();
    assert!(latest <= millis(12), "{latest:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_key_is_lost_between_threads() {
    const KEYS: u32 = 20_000;
    let queue = WorkQueue::new(Config::default());
    let runs = Arc::new(AtomicU32::new(0));
    let mut workers = JoinSet::new();
    for _ in 0..8 {
        let (queue, runs) = (queue.clone(), Arc::clone(&runs));
        workers.spawn(async move {
            while let Some(ticket) = queue.get().await {
                runs.fetch_add(1, Ordering::Relaxed);
                if ticket.key() % 7 == 0 && queue.failures(ticket.key()) == 0 {
                    queue.add_after(*ticket.key(), Change, Duration::from_micros(200));
                    queue.add_rate_limited(1 + ticket.key(), Background);
                }
                ticket.done();
                tokio::task::yield_now().await;
            }
        });
    }
    let mut adders = JoinSet::new();
    for adder in 0..4 {
        let queue = queue.clone();
        adders.spawn(async move {
            for key in (adder..KEYS).step_by(4) {
                queue.add(key, if key % 3 == 0 { Change } else { Background });
                if key % 64 == 0 {
                    tokio::task::yield_now().await;
                }
            }
        });
    }
    adders.join_all().await;
    queue.shut_down_with_drain().await;
    let ended = timeout(Duration::from_mins(1), workers.join_all()).await;
    assert!(ended.is_ok(), "a worker sleeps for ever");
    assert!(runs.load(Ordering::Relaxed) >= KEYS);
    assert_eq!((queue.len(), queue.in_flight()), (0, 0));
}
