//! The engine: one per process, shared by all guests.

use crate::call::{Guest, State, linker};
use crate::load::{self, Cache};
use crate::ticker::Ticker;
use crate::{Compiler, Config, EngineError, Limits, LoadError};
use std::sync::Arc;
use tokio::sync::{Mutex, Semaphore};
use wasmtime::component::Linker;

/// Loads guests and runs them. Cheap to clone. The ticker behind the deadlines stops when the last
/// engine and guest are gone.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

/// What engine and guests share.
pub(crate) struct Inner {
    pub(crate) wasmtime: wasmtime::Engine,
    pub(crate) linker: Linker<State>,
    pub(crate) limits: Limits,
    pub(crate) seed: u64,
    pub(crate) compiler: Compiler,
    pub(crate) cache: Option<Cache>,
    /// Which compiled code this engine can run.
    pub(crate) compatibility: String,
    /// One compilation at a time: each may take hundreds of MB and all processors.
    pub(crate) compiling: Mutex<()>,
    /// As many as the pool has slots, so that a call waits here and the pool is never exhausted.
    pub(crate) slots: Semaphore,
    _ticker: Ticker,
}

impl Engine {
    /// Reserves the pool's address space and starts the ticker. A cache directory that must not be used
    /// is no error: a line in the log says why.
    pub fn new(config: Config) -> Result<Self, EngineError> {
        let Config { limits, cache_dir, compiler, seed } = config;
        limits.check()?;
        let start =
            |error: wasmtime::Error| EngineError::Start(contract::one_line(&format!("{error:#}"), 512));
        let wasmtime = load::runtime(&limits).map_err(start)?;
        let inner = Inner {
            linker: linker(&wasmtime).map_err(start)?,
            compatibility: load::compatibility(&wasmtime),
            cache: cache_dir.as_deref().and_then(Cache::open),
            compiling: Mutex::new(()),
            slots: Semaphore::new(limits.max_concurrent_calls as usize),
            _ticker: Ticker::start(&wasmtime).map_err(|error| EngineError::Start(error.to_string()))?,
            wasmtime,
            limits,
            seed,
            compiler,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Makes a guest of the bytes of a file: a component, or a core module that carries its component
    /// type.
    ///
    /// Takes its code from the cache, or compiles it, off the async threads and one guest at a time; calls
    /// of other guests go on meanwhile. Needs a tokio runtime with time and, for a compiling child
    /// process, with I/O. Dropping the future ends the child process.
    pub async fn load(&self, bytes: impl Into<Arc<[u8]>>) -> Result<Guest, LoadError> {
        load::load(Arc::clone(&self.inner), bytes.into()).await
    }

    /// The limits in force.
    pub fn limits(&self) -> &Limits {
        &self.inner.limits
    }

    /// Slots that are free now, for a gauge.
    pub fn free_slots(&self) -> usize {
        self.inner.slots.available_permits()
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("limits", &self.inner.limits).finish_non_exhaustive()
    }
}
