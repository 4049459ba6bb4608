//! What a call and a load of the default guest cost.
//!
//! `cargo bench -p guest-engine`. Beside criterion's figures it prints the percentiles of a fresh
//! instance plus call; the target is 30 us p50 on 2 cores.

use contract::{Condition, ConditionStatus, Context, Deployment, DeploymentStatus, Foo, FooSpec, Metadata};
use criterion::{Criterion, criterion_group, criterion_main};
use guest_engine::{Config, Engine, Guest};
use std::hint::black_box;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

#[path = "../tests/support/mod.rs"]
mod support;

const GUEST: &[u8] = include_bytes!("../../../artifacts/foo_reconciler.wasm");

/// Calls whose times make the percentiles.
const SAMPLES: usize = 20_000;

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

fn condition(kind: &str) -> Condition {
    Condition {
        r#type: kind.to_owned(),
        status: ConditionStatus::True,
        reason: "MinimumReplicasAvailable".to_owned(),
        message: "Deployment has minimum availability.".to_owned(),
        last_transition: 1_750_000_000,
        observed_generation: None,
    }
}

fn metadata(name: &str) -> Metadata {
    Metadata {
        name: name.to_owned(),
        namespace: "default".to_owned(),
        uid: "7a1c0f3e-6a2d-4c5b-9a55-0d6c1f1f8b1a".to_owned(),
        generation: 2,
        labels: vec![("app".to_owned(), "nginx".to_owned()), ("controller".to_owned(), name.to_owned())],
        annotations: vec![("deployment.kubernetes.io/revision".to_owned(), "1".to_owned())],
        created: 1_750_000_000,
        ..Metadata::default()
    }
}

/// A converged Foo and its Deployment, as a live cluster has them: some 3 KB of JSON.
fn input() -> (Foo, Deployment) {
    let foo = Foo {
        metadata: metadata("example-foo"),
        spec: FooSpec { deployment_name: "example-foo".to_owned(), replicas: Some(1) },
        context: Context { observed_at: 1_750_000_000, ..Context::default() },
        json: format!(r#"{{"pad":"{}"}}"#, "x".repeat(1_000)),
        ..Foo::default()
    };
    let deployment = Deployment {
        metadata: metadata("example-foo"),
        replicas: 1,
        status: DeploymentStatus {
            observed_generation: 2,
            replicas: 1,
            updated_replicas: 1,
            ready_replicas: 1,
            available_replicas: 1,
            conditions: vec![condition("Available"), condition("Progressing")],
            ..DeploymentStatus::default()
        },
        json: format!(r#"{{"pad":"{}"}}"#, "x".repeat(2_000)),
        ..Deployment::default()
    };
    (foo, deployment)
}

async fn guest(engine: &Engine) -> Guest {
    engine.load(GUEST).await.expect("the default guest loads")
}

/// Calls on a task of the runtime, as the host's workers do.
fn percentiles(runtime: &Runtime, guest: &Guest) {
    let guest = guest.clone();
    let mut times: Vec<Duration> = runtime
        .block_on(runtime.spawn(async move {
            let (foo, deployment) = input();
            let mut times = Vec::with_capacity(SAMPLES);
            for _ in 0..SAMPLES {
                let started = Instant::now();
                let call = guest.reconcile(&foo, Some(&deployment)).await;
                times.push(started.elapsed());
                call.result.expect("an answer");
            }
            times
        }))
        .expect("the task ends");
    times.sort_unstable();
    let at = |share: f64| times[((SAMPLES - 1) as f64 * share) as usize];
    println!("fresh instance plus call: p50 {:?}, p90 {:?}, p99 {:?}", at(0.5), at(0.9), at(0.99));
}

fn calls(criterion: &mut Criterion) {
    let runtime = runtime();
    let engine = Engine::new(Config::default()).expect("an engine");
    let guest = runtime.block_on(guest(&engine));
    percentiles(&runtime, &guest);
    let (foo, deployment) = input();
    // A guest that does nothing: what is left is the instance and the arguments.
    let empty = runtime.block_on(engine.load(support::module("", "", support::EMPTY_ANSWER)));
    let empty = empty.expect("the empty guest loads");
    criterion.bench_function("instantiate", |bencher| {
        bencher
            .to_async(&runtime)
            .iter(|| async { black_box(empty.reconcile(&foo, Some(&deployment)).await.result.is_ok()) });
    });
    criterion.bench_function("instantiate and call", |bencher| {
        bencher
            .to_async(&runtime)
            .iter(|| async { black_box(guest.reconcile(&foo, Some(&deployment)).await.result.is_ok()) });
    });
}

fn loads(criterion: &mut Criterion) {
    let runtime = runtime();
    let mut group = criterion.benchmark_group("load");
    group.sample_size(10);
    let engine = Engine::new(Config::default()).expect("an engine");
    group.bench_function("from source", |bencher| {
        bencher.to_async(&runtime).iter(|| async { black_box(guest(&engine).await.from_cache()) });
    });
    let dir = tempfile::tempdir().expect("a directory");
    let config = Config { cache_dir: Some(dir.path().join("cache")), ..Config::default() };
    let engine = Engine::new(config).expect("an engine");
    runtime.block_on(guest(&engine));
    group.bench_function("from cache", |bencher| {
        bencher.to_async(&runtime).iter(|| async {
            let guest = guest(&engine).await;
            assert!(guest.from_cache(), "the cache is used");
        });
    });
    group.finish();
}

criterion_group!(benches, calls, loads);
criterion_main!(benches);
