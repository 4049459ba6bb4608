//! What is counted, in the names that dashboards know (client-go, controller-runtime). Labels come from closed
//! sets: no Foo's name, no text from a guest.

use crate::cache::Cache;
use crate::key::Key;
use crate::recorder::Stats;
use anyhow::Result;
use guest_engine::Call;
use plan::{Next, Reason};
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{
    Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, Opts,
    Registry, TextEncoder,
};
use std::sync::Arc;
use std::time::Duration;
use workqueue::{Observer, Priority, WorkQueue};

/// Label values of `name` (the queue) and `controller`.
const CONTROLLER: &str = "foo";

/// The registry and what is in it.
pub struct Metrics {
    registry: Registry,
    adds: IntCounterVec,
    retries: IntCounter,
    queue_duration: Histogram,
    work_duration: Histogram,
    reconciles: IntCounterVec,
    reconcile_time: Histogram,
    reconcile_panics: IntCounter,
    failures: IntCounterVec,
    guest_calls: IntCounterVec,
    guest_duration: HistogramVec,
    guest_fuel: Histogram,
    guest_memory_peak: IntGauge,
    guest_log_dropped: IntCounter,
}

fn named(name: &str, help: &str) -> Opts {
    Opts::new(name, help).const_label("name", CONTROLLER)
}

fn of_controller(name: &str, help: &str) -> Opts {
    Opts::new(name, help).const_label("controller", CONTROLLER)
}

/// From 10 us to 100 s by powers of ten, as client-go's queue has it; and from 10 us on for guest calls.
fn decades(opts: Opts) -> HistogramOpts {
    HistogramOpts::from(opts).buckets(prometheus::exponential_buckets(1e-5, 10.0, 8).unwrap_or_default())
}

impl Metrics {
    /// Registers everything; fails only if two metrics have one name.
    pub fn new() -> Result<Arc<Self>> {
        let registry = Registry::new();
        let metrics = Self {
            adds: IntCounterVec::new(
                named("workqueue_adds_total", "Total number of adds handled by workqueue"),
                &["priority"],
            )?,
            retries: IntCounter::with_opts(named(
                "workqueue_retries_total",
                "Total number of retries handled by workqueue",
            ))?,
            queue_duration: Histogram::with_opts(decades(named(
                "workqueue_queue_duration_seconds",
                "How long in seconds an item stays in workqueue before being requested",
            )))?,
            work_duration: Histogram::with_opts(decades(named(
                "workqueue_work_duration_seconds",
                "How long in seconds processing an item from workqueue takes",
            )))?,
            reconciles: IntCounterVec::new(
                of_controller(
                    "controller_runtime_reconcile_total",
                    "Total number of reconciliations per controller",
                ),
                &["result"],
            )?,
            reconcile_time: Histogram::with_opts(HistogramOpts::from(of_controller(
                "controller_runtime_reconcile_time_seconds",
                "Length of time per reconciliation per controller",
            )))?,
            reconcile_panics: IntCounter::with_opts(of_controller(
                "controller_runtime_reconcile_panics_total",
                "Total number of reconciliation panics per controller",
            ))?,
            failures: IntCounterVec::new(
                Opts::new("foo_host_reconcile_failures_total", "Failed reconciliations by reason"),
                &["reason"],
            )?,
            guest_calls: IntCounterVec::new(
                Opts::new("foo_host_guest_calls_total", "Calls of the guest by outcome"),
                &["outcome"],
            )?,
            guest_duration: HistogramVec::new(
                decades(Opts::new(
                    "foo_host_guest_call_duration_seconds",
                    "Duration of guest calls, instantiation included, waiting for a slot not",
                )),
                &["outcome"],
            )?,
            guest_fuel: Histogram::with_opts(
                HistogramOpts::new("foo_host_guest_call_fuel_units", "Fuel burnt by guest calls")
                    .buckets(prometheus::exponential_buckets(1e4, 10.0, 7)?),
            )?,
            guest_memory_peak: IntGauge::new(
                "foo_host_guest_memory_peak_bytes",
                "Largest linear memory that a guest call has had",
            )?,
            guest_log_dropped: IntCounter::new(
                "foo_host_guest_log_dropped_total",
                "Log lines of guests that were over the limit",
            )?,
            registry,
        };
        metrics.register()?;
        Ok(Arc::new(metrics))
    }

    fn register(&self) -> Result<()> {
        // A series that starts with its first event makes `rate()` miss that event: name them all now.
        for priority in Priority::ALL {
            self.adds.with_label_values(&[priority.as_str()]);
        }
        for result in ["success", "error", "requeue", "requeue_after"] {
            self.reconciles.with_label_values(&[result]);
        }
        for reason in Reason::ALL {
            self.failures.with_label_values(&[reason.as_str()]);
        }
        for cause in guest_engine::Cause::ALL {
            self.guest_calls.with_label_values(&[cause.as_str()]);
        }
        let collectors: [Box<dyn Collector>; 14] = [
            Box::new(self.adds.clone()),
            Box::new(self.retries.clone()),
            Box::new(self.queue_duration.clone()),
            Box::new(self.work_duration.clone()),
            Box::new(self.reconciles.clone()),
            Box::new(self.reconcile_time.clone()),
            Box::new(self.reconcile_panics.clone()),
            Box::new(self.failures.clone()),
            Box::new(self.guest_calls.clone()),
            Box::new(self.guest_duration.clone()),
            Box::new(self.guest_fuel.clone()),
            Box::new(self.guest_memory_peak.clone()),
            Box::new(self.guest_log_dropped.clone()),
            Box::new(prometheus::process_collector::ProcessCollector::for_self()),
        ];
        for collector in collectors {
            self.registry.register(collector)?;
        }
        Ok(())
    }

    /// Adds what is read at each scrape: the depth of the queue, the size of the cache, the fate of Events.
    pub fn watch(
        &self,
        queue: WorkQueue<Key>,
        cache: Arc<Cache>,
        workers: usize,
        events: impl Fn() -> Stats + Send + Sync + 'static,
    ) -> Result<()> {
        self.registry.register(Box::new(Live::new(queue, cache, workers, Box::new(events))?))?;
        Ok(())
    }

    /// The exposition in Prometheus' text format.
    pub fn text(&self) -> Result<String> {
        Ok(TextEncoder::new().encode_to_string(&self.registry.gather())?)
    }

    /// A run ended.
    pub fn reconciled(&self, next: Next, took: Duration) {
        // The results of controller-runtime (internal/controller/controller.go).
        let result = match next {
            Next::Done => "success",
            Next::After(_) => "requeue_after",
            Next::QuietBackoff => "requeue",
            Next::Backoff | Next::Hold => "error",
        };
        self.reconciles.with_label_values(&[result]).inc();
        self.reconcile_time.observe(took.as_secs_f64());
    }

    /// A run panicked.
    pub fn reconcile_panic(&self) {
        self.reconcile_panics.inc();
    }

    /// A run failed.
    pub fn failed(&self, reason: Reason) {
        self.failures.with_label_values(&[reason.as_str()]).inc();
    }

    /// A guest was called.
    pub fn guest_call(&self, call: &Call) {
        let outcome = call.cause();
        self.guest_calls.with_label_values(&[outcome.as_str()]).inc();
        self.guest_duration.with_label_values(&[outcome.as_str()]).observe(call.duration.as_secs_f64());
        self.guest_fuel.observe(call.fuel as f64);
        let peak = i64::try_from(call.memory_peak).unwrap_or(i64::MAX);
        if peak > self.guest_memory_peak.get() {
            self.guest_memory_peak.set(peak);
        }
        self.guest_log_dropped.inc_by(call.log_dropped);
    }

    /// Guest calls so far, whatever their outcome.
    pub fn guest_calls(&self) -> u64 {
        guest_engine::Cause::ALL
            .iter()
            .map(|cause| self.guest_calls.with_label_values(&[cause.as_str()]).get())
            .sum()
    }
}

impl Observer for Metrics {
    fn added(&self, priority: Priority) {
        self.adds.with_label_values(&[priority.as_str()]).inc();
    }

    fn retried(&self) {
        self.retries.inc();
    }

    fn started(&self, _priority: Priority, waited: Duration) {
        self.queue_duration.observe(waited.as_secs_f64());
    }

    fn finished(&self, _priority: Priority, worked: Duration) {
        self.work_duration.observe(worked.as_secs_f64());
    }
}

/// Gauges that are read when somebody asks.
struct Live {
    queue: WorkQueue<Key>,
    cache: Arc<Cache>,
    workers: usize,
    stats: Box<dyn Fn() -> Stats + Send + Sync>,
    /// Counters elsewhere, read as such: a gauge by type, so that its name has no `_total`.
    events: GaugeVec,
    depth: GaugeVec,
    unfinished: Gauge,
    longest: Gauge,
    active: IntGauge,
    max_concurrent: IntGauge,
    foos: IntGauge,
    deployments: IntGauge,
}

impl Live {
    fn new(
        queue: WorkQueue<Key>,
        cache: Arc<Cache>,
        workers: usize,
        stats: Box<dyn Fn() -> Stats + Send + Sync>,
    ) -> Result<Self> {
        Ok(Self {
            queue,
            cache,
            workers,
            stats,
            events: GaugeVec::new(Opts::new("foo_host_events", "Events since the start by fate"), &["fate"])?,
            depth: GaugeVec::new(named("workqueue_depth", "Current depth of workqueue"), &["priority"])?,
            unfinished: Gauge::with_opts(named(
                "workqueue_unfinished_work_seconds",
                "How many seconds of work is in progress and has not been observed by work_duration",
            ))?,
            longest: Gauge::with_opts(named(
                "workqueue_longest_running_processor_seconds",
                "How many seconds the longest running processor of workqueue has been running",
            ))?,
            active: IntGauge::with_opts(of_controller(
                "controller_runtime_active_workers",
                "Number of currently used workers per controller",
            ))?,
            max_concurrent: IntGauge::with_opts(of_controller(
                "controller_runtime_max_concurrent_reconciles",
                "Maximum number of concurrent reconciles per controller",
            ))?,
            foos: IntGauge::new("foo_host_cached_foos", "Foos in the cache")?,
            deployments: IntGauge::new("foo_host_cached_deployments", "Deployments of Foos in the cache")?,
        })
    }

    fn parts(&self) -> [&dyn Collector; 8] {
        [
            &self.events,
            &self.depth,
            &self.unfinished,
            &self.longest,
            &self.active,
            &self.max_concurrent,
            &self.foos,
            &self.deployments,
        ]
    }
}

impl Collector for Live {
    fn desc(&self) -> Vec<&Desc> {
        self.parts().into_iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let snapshot = self.queue.snapshot();
        for priority in Priority::ALL {
            self.depth.with_label_values(&[priority.as_str()]).set(snapshot.depth(priority) as f64);
        }
        self.unfinished.set(snapshot.unfinished_work.as_secs_f64());
        self.longest.set(snapshot.longest_running.as_secs_f64());
        self.active.set(snapshot.in_flight as i64);
        self.max_concurrent.set(self.workers as i64);
        let (foos, deployments) = self.cache.len();
        self.foos.set(foos as i64);
        self.deployments.set(deployments as i64);
        let Stats { written, suppressed, overflowed, failed } = (self.stats)();
        for (fate, count) in
            [("written", written), ("suppressed", suppressed), ("overflowed", overflowed), ("failed", failed)]
        {
            self.events.with_label_values(&[fate]).set(count as f64);
        }
        self.parts().into_iter().flat_map(Collector::collect).collect()
    }
}
