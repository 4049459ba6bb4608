//! What one key costs: in, out, done; with a failure; beside many that wait.

#![allow(missing_docs, reason = "criterion's macro writes a public function")]

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use std::{hint::black_box, time::Duration};
use tokio::runtime::Builder;
use workqueue::{Config, Priority, WorkQueue};

const KEYS: u32 = 10_000;

fn benches(criterion: &mut Criterion) {
    let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");

    criterion.bench_function("add, get, done", |bencher| {
        let queue = WorkQueue::new(Config::default());
        bencher.to_async(&runtime).iter(|| async {
            queue.add(1_u32, Priority::Change);
            black_box(queue.get().await);
        });
    });

    criterion.bench_function(
        "add, get, done, beside 10,000 that wait and 10,000 that are delayed",
        |bencher| {
            let queue = WorkQueue::new(Config::default());
            for key in 0..KEYS {
                queue.add(key, Priority::Background);
                queue.add_after(KEYS + key, Priority::Background, Duration::from_hours(1));
            }
            bencher.to_async(&runtime).iter(|| async {
                queue.add(u32::MAX, Priority::Change);
                if let Some(ticket) = queue.get().await {
                    // Keeps the background at its size.
                    if ticket.priority() == Priority::Background {
                        queue.add(*ticket.key(), Priority::Background);
                    }
                }
            });
        },
    );

    criterion.bench_function("10,000 failures", |bencher| {
        bencher.iter_batched(
            || WorkQueue::new(Config::default()),
            |queue| {
                for key in 0..KEYS {
                    queue.add_rate_limited(key, Priority::Change);
                }
                queue
            },
            BatchSize::LargeInput,
        );
    });
}

criterion_group!(group, benches);
criterion_main!(group);
