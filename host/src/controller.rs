//! The wiring: what starts in which order, and how it ends.

use crate::api::ApiClient;
use crate::cache::Cache;
use crate::client::Connection;
use crate::events::EventSink;
use crate::foo_schema::FooSchema;
use crate::guest::{self, GuestSlot};
use crate::health::Health;
use crate::informer::Informer;
use crate::key::Key;
use crate::metrics::Metrics;
use crate::recorder::Recorder;
use crate::serve;
use crate::settings::Settings;
use crate::standing::Standings;
use crate::worker::Reconciler;
use crate::writer::Writer;
use anyhow::{Context as _, Result};
use guest_engine::Engine;
use plan::Kind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use workqueue::{Priority, WorkQueue};

/// How long the runs in flight may take to end: a guest's deadline and a few requests, and less than the 30 s
/// that Kubernetes gives a pod.
const FINISH_WITHIN: Duration = Duration::from_secs(20);

/// How often a CRD that lacks something is looked at again. One small read; none while it lacks nothing.
const LOOK_AT_CRD: Duration = Duration::from_secs(10);

/// A controller that is set up and can run.
pub struct Controller {
    settings: Settings,
    connection: Connection,
    engine: Engine,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
    listener: Option<tokio::net::TcpListener>,
}

impl Controller {
    /// Checks what can be wrong before anything runs: the guest's path, the address for metrics.
    pub async fn new(settings: Settings, connection: Connection) -> Result<Self> {
        if let Some(path) = &settings.guest {
            guest::check_path(path)?;
        }
        let listener = match settings.metrics_addr {
            Some(address) => Some(serve::bind(address).await?),
            None => None,
        };
        let engine = Engine::new(guest_engine::Config {
            limits: settings.limits.clone(),
            cache_dir: settings.cache_dir.clone(),
            compiler: settings.compiler.clone(),
            ..guest_engine::Config::default()
        })
        .context("the engine")?;
        Ok(Self { settings, connection, engine, health: Arc::default(), metrics: Metrics::new()?, listener })
    }

    /// Where metrics and health are served, if they are.
    pub fn metrics_addr(&self) -> Option<SocketAddr> {
        self.listener.as_ref().and_then(|listener| listener.local_addr().ok())
    }

    /// The counters, for tests and benchmarks.
    pub fn metrics(&self) -> Arc<Metrics> {
        self.metrics.clone()
    }

    /// The state of the parts.
    pub fn health(&self) -> Arc<Health> {
        self.health.clone()
    }

    /// Runs until `stop`; then the runs in flight finish, and queued keys are left to the next start.
    pub async fn run(self, stop: CancellationToken) -> Result<()> {
        let Self { settings, connection, engine, health, metrics, listener } = self;
        let cache = Arc::new(Cache::default());
        let queue: WorkQueue<Key> =
            WorkQueue::new(workqueue::Config { observer: metrics.clone(), ..workqueue::Config::default() });
        let api = ApiClient::new(&connection);
        let slot = Arc::new(GuestSlot::default());
        let schema = Arc::new(FooSchema::new(api.clone()));
        let mut background = JoinSet::new();

        health.expect(guest::CHECK, "loading");
        let mut needed = vec![guest::CHECK.to_owned()];
        for informer in informers(&settings, &connection, &cache, &queue, &health) {
            health.expect(&informer.label(), "listing");
            needed.push(informer.label());
            background.spawn(informer.run());
        }
        if let Some(listener) = listener {
            if let Ok(address) = listener.local_addr() {
                tracing::info!("metrics and health on http://{address}");
            }
            background.spawn(serve::run(listener, health.clone(), metrics.clone()));
        }
        let (recorder, recording) = Recorder::new(Arc::new(EventSink::new(api.clone())), stop.clone());
        let recording = tokio::spawn(recording);
        metrics.watch(queue.clone(), cache.clone(), settings.workers, recorder.stats_reader())?;

        let started = tokio::select! {
            () = stop.cancelled() => false,
            () = async {
                guest::load(&engine, settings.guest.clone(), settings.parameters.clone(), &slot, &health).await;
                health.wait_for(&needed).await;
                schema.refresh().await;
            } => true,
        };
        let mut workers = JoinSet::new();
        if started {
            let (foos, deployments) = cache.len();
            tracing::info!(
                foos,
                deployments,
                workers = settings.workers,
                "the caches are synced; starting workers"
            );
            let reconciler = Arc::new(Reconciler {
                cache: cache.clone(),
                queue: queue.clone(),
                guest: slot.clone(),
                writer: Writer::new(api, cache.clone()),
                schema: schema.clone(),
                recorder,
                metrics: metrics.clone(),
                standings: Standings::default(),
            });
            for _ in 0..settings.workers {
                workers.spawn(reconciler.clone().work());
            }
            if let Some(period) = settings.resync {
                background.spawn(resync(period, cache.clone(), queue.clone()));
            }
            background.spawn(follow_crd(schema, cache, queue.clone()));
            stop.cancelled().await;
        } else {
            drop(recorder);
        }
        finish(&queue, workers).await;
        background.shutdown().await;
        // The recorder saw `stop` too; it has its own bound for what it still sends.
        let _ = recording.await;
        tracing::info!("stopped");
        Ok(())
    }
}

fn informers(
    settings: &Settings,
    connection: &Connection,
    cache: &Arc<Cache>,
    queue: &WorkQueue<Key>,
    health: &Arc<Health>,
) -> Vec<Informer> {
    let scopes: Vec<_> = if settings.namespaces.is_empty() {
        vec![None]
    } else {
        settings.namespaces.iter().cloned().map(Some).collect()
    };
    let new = |kind, scope: &Option<String>| {
        Informer::new(kind, scope.clone(), connection, cache.clone(), queue.clone(), health.clone())
    };
    scopes.iter().flat_map(|scope| [new(Kind::Foo, scope), new(Kind::Deployment, scope)]).collect()
}

/// Looks at every Foo again, as a plain add behind what changed.
async fn resync(period: Duration, cache: Arc<Cache>, queue: WorkQueue<Key>) {
    let mut ticks = tokio::time::interval(period);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    ticks.tick().await;
    loop {
        ticks.tick().await;
        enqueue_all(&cache, &queue);
    }
}

/// Looks at a CRD that lacked something again; when it has grown, each Foo's status is due.
async fn follow_crd(schema: Arc<FooSchema>, cache: Arc<Cache>, queue: WorkQueue<Key>) {
    loop {
        tokio::time::sleep(LOOK_AT_CRD).await;
        if schema.grown().await {
            enqueue_all(&cache, &queue);
        }
    }
}

fn enqueue_all(cache: &Cache, queue: &WorkQueue<Key>) {
    for key in cache.foo_keys() {
        queue.add(key, Priority::Background);
    }
}

async fn finish(queue: &WorkQueue<Key>, mut workers: JoinSet<()>) {
    let left = queue.abandon();
    let in_flight = queue.in_flight();
    if left > 0 || in_flight > 0 {
        tracing::info!(
            in_flight,
            left,
            "stopping: runs in flight finish, queued keys are left to the next start"
        );
    }
    let all = async { while workers.join_next().await.is_some() {} };
    if tokio::time::timeout(FINISH_WITHIN, all).await.is_err() {
        tracing::warn!("runs in flight did not end within {} s and are cut off", FINISH_WITHIN.as_secs());
        workers.shutdown().await;
    }
}
