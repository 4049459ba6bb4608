//! A loaded guest, and the call itself.

use super::convert;
use super::convert::Input;
use super::failure::classify;
use super::log::{GuestLog, Source};
use super::state::{Limiter, SharedLog, State};
use crate::bindings::ReconcilerPre;
use crate::bindings::samplecontroller::reconciler::log::Level;
use crate::engine::Inner;
use crate::ticker::ticks;
use crate::wasi::{self, Wasi};
use crate::{CallError, Cause, Limits};
use contract::Action;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wasmtime::component::{Linker, WasmStr};
use wasmtime::{Store, StoreContextMut, UpdateDeadline};

/// A guest, checked, compiled and linked. Cheap to clone; keeps its engine alive.
#[derive(Clone)]
pub struct Guest {
    shared: Arc<Shared>,
}

struct Shared {
    engine: Arc<Inner>,
    pre: ReconcilerPre<State>,
    info: GuestInfo,
}

/// What is known of a guest beside its code.
#[derive(Debug, Clone)]
pub(crate) struct GuestInfo {
    pub(crate) digest: String,
    pub(crate) name: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) size: usize,
    pub(crate) from_cache: bool,
}

/// How a call went.
#[derive(Debug, Clone)]
pub struct Call {
    /// The answer, or why there is none.
    pub result: Result<Vec<Action>, CallError>,
    /// Units of fuel burnt.
    pub fuel: u64,
    /// From the time that the call had its slot to the answer.
    pub duration: Duration,
    /// Bytes that the guest's memory reached.
    pub memory_peak: usize,
    /// Lines of the log dropped, because the call had written its share.
    pub log_dropped: u64,
}

impl Call {
    /// How it ended, as a closed set.
    pub fn cause(&self) -> Cause {
        self.result.as_ref().map_or_else(CallError::cause, |_| Cause::Ok)
    }
}

impl std::fmt::Debug for Guest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Guest").field(&self.shared.info).finish()
    }
}

impl Guest {
    pub(crate) fn new(engine: Arc<Inner>, pre: ReconcilerPre<State>, info: GuestInfo) -> Self {
        Self { shared: Arc::new(Shared { engine, pre, info }) }
    }

    /// `sha256:` and the hexadecimal digest of the file as it was given.
    pub fn digest(&self) -> &str {
        &self.shared.info.digest
    }

    /// The name in the file's own metadata: of the component, else of its module. One clean line of at
    /// most 128 bytes.
    pub fn name(&self) -> Option<&str> {
        self.shared.info.name.as_deref()
    }

    /// The version in the file's own metadata (custom section `version`). One clean line of at most 128
    /// bytes.
    pub fn version(&self) -> Option<&str> {
        self.shared.info.version.as_deref()
    }

    /// Bytes of the file as it was given.
    pub fn size(&self) -> usize {
        self.shared.info.size
    }

    /// Its compiled code was in the cache.
    pub fn from_cache(&self) -> bool {
        self.shared.info.from_cache
    }

    /// Calls `reconcile` in an instance of its own.
    ///
    /// Runs on the worker that polls it and lets others run every [`TICK`](crate::TICK). Waits first
    /// while all slots are taken; that wait is quiet, without limit, and not part of the duration. Needs
    /// a tokio runtime with time. Dropping the future ends the call.
    pub async fn reconcile(&self, foo: &contract::Foo, deployment: Option<&contract::Deployment>) -> Call {
        let Shared { engine, pre, info } = &*self.shared;
        let limits = &engine.limits;
        let slot = engine.slots.acquire().await;
        let started = Instant::now();
        let mut store = match store(engine, info, foo) {
            Ok(store) => store,
            Err(error) => return Call::failed_to_start(&error),
        };
        let last_resort = limits.deadline + limits.deadline.max(Duration::from_secs(1));
        let outcome = tokio::time::timeout(last_resort, answer(&mut store, pre, foo, deployment)).await;
        let fuel = limits.fuel - store.get_fuel().unwrap_or(0).min(limits.fuel);
        let result = match outcome {
            Err(_) => Err(CallError::Deadline { limit: limits.deadline }),
            Ok(Err(error)) => Err(classify(&error, store.data(), limits)),
            Ok(Ok(answer)) => convert::answer(answer, limits),
        };
        let state = store.data();
        let mut log = state.log.lock();
        log.finish();
        let call = Call {
            result,
            fuel,
            duration: started.elapsed(),
            memory_peak: state.limiter.peak_bytes,
            log_dropped: log.dropped(),
        };
        drop(log);
        // The instance goes back to the pool before its slot does.
        drop(store);
        drop(slot);
        call
    }
}

impl Call {
    fn failed_to_start(error: &wasmtime::Error) -> Self {
        Self {
            result: Err(CallError::Host(contract::one_line(&error.to_string(), contract::MAX_ERROR_BYTES))),
            fuel: 0,
            duration: Duration::ZERO,
            memory_peak: 0,
            log_dropped: 0,
        }
    }
}

/// A store with all its limits set. The deadline counts from here, because start functions run when
/// the guest is instantiated.
fn store(engine: &Inner, info: &GuestInfo, foo: &contract::Foo) -> wasmtime::Result<Store<State>> {
    let limits = &engine.limits;
    let log = SharedLog::new(GuestLog::new(&foo.metadata, info.short_digest().to_owned(), limits));
    let state = State {
        limiter: Limiter::new(limits),
        wasi: Wasi::new(foo.context.observed_at, engine.seed, log.clone()),
        log,
        ticks_left: ticks(limits.deadline),
        deadline_passed: false,
    };
    let mut store = Store::try_new(&engine.wasmtime, state)?;
    store.limiter(|state| &mut state.limiter);
    store.set_fuel(limits.fuel)?;
    store.set_hostcall_fuel(hostcall_bytes(limits));
    store.set_epoch_deadline(1);
    store.epoch_deadline_callback(|mut store| Ok(tick(&mut store)));
    Ok(store)
}

/// Bytes that may pass from the guest to the host at once: an answer, or a line of the log, which is cut only after
/// it has passed. 4 MiB are enough to log the largest object that etcd takes (1.5 MiB) as a string in a
/// string.
pub(super) fn hostcall_bytes(limits: &Limits) -> usize {
    limits.result_bytes.max(4 << 20)
}

/// Called at each tick while the guest runs.
fn tick(store: &mut StoreContextMut<'_, State>) -> UpdateDeadline {
    let state = store.data_mut();
    state.ticks_left = state.ticks_left.saturating_sub(1);
    if state.ticks_left == 0 {
        state.deadline_passed = true;
        return UpdateDeadline::Interrupt;
    }
    // tokio's own yield: unlike a plain wake-up it lets the driver of timers and sockets run first, so
    // that guests that loop on all workers do not delay a health probe.
    UpdateDeadline::YieldCustom(1, Box::pin(tokio::task::yield_now()))
}

/// Instantiates and calls.
async fn answer(
    store: &mut Store<State>,
    pre: &ReconcilerPre<State>,
    foo: &contract::Foo,
    deployment: Option<&contract::Deployment>,
) -> wasmtime::Result<convert::Answer> {
    let input = Input::new(foo, deployment);
    let instance = pre.instantiate_async(&mut *store).await?;
    instance.call_reconcile(&mut *store, input.foo(), input.deployment()).await
}

impl GuestInfo {
    /// Enough of the digest to tell guests apart in a log.
    fn short_digest(&self) -> &str {
        const HEX: usize = 12;
        let hex = self.digest.strip_prefix("sha256:").unwrap_or(&self.digest);
        hex.get(..HEX).unwrap_or(hex)
    }
}

/// What guests can import.
pub(crate) fn linker(engine: &wasmtime::Engine) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    for version in contract::SUPPORTED_WORLDS {
        // Not by the generated function: it would copy each message out of the guest, and refuse those
        // larger than an answer, before it is cut.
        linker.instance(&format!("{}/log@{version}", contract::WORLD_PACKAGE))?.func_wrap(
            "log",
            |store: StoreContextMut<'_, State>, (level, message): (Level, WasmStr)| {
                let text = message.to_str(&store)?;
                store.data().log.lock().line(Source::Log(convert::level(level)), &text);
                Ok(())
            },
        )?;
    }
    wasi::add_to_linker(&mut linker)?;
    Ok(linker)
}
