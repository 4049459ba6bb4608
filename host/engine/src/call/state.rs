//! What a store carries: the limiter, the log, and WASI's state for guests that import it.

use super::GuestLog;
use crate::Limits;
use crate::wasi::Wasi;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wasmtime::ResourceLimiter;

/// Data of a store.
pub(crate) struct State {
    pub(crate) limiter: Limiter,
    pub(crate) log: SharedLog,
    pub(crate) wasi: Wasi,
    /// Ticks of the deadline that are left.
    pub(crate) ticks_left: u64,
    /// The deadline has passed; the trap that follows is told from others by this.
    pub(crate) deadline_passed: bool,
}

/// The log, shared with WASI's output streams, which are objects of their own.
#[derive(Clone)]
pub(crate) struct SharedLog(Arc<Mutex<GuestLog>>);

impl SharedLog {
    pub(crate) fn new(log: GuestLog) -> Self {
        Self(Arc::new(Mutex::new(log)))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, GuestLog> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Caps memories and tables, and remembers what it denied: the guest's failure that follows looks
/// like any other trap.
#[derive(Debug)]
pub(crate) struct Limiter {
    memory_bytes: usize,
    table_elements: usize,
    /// Largest size that a memory reached.
    pub(crate) peak_bytes: usize,
    /// The size that was asked for and denied.
    pub(crate) denied: Option<usize>,
}

impl Limiter {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            memory_bytes: limits.memory_pages_bytes(),
            table_elements: limits.table_elements,
            peak_bytes: 0,
            denied: None,
        }
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(&mut self, _: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        if desired > self.memory_bytes {
            self.denied = Some(desired);
            return Ok(false);
        }
        // Beyond the maximum that the guest itself declares, wasmtime refuses after this.
        if maximum.is_none_or(|maximum| desired <= maximum) {
            self.peak_bytes = self.peak_bytes.max(desired);
        }
        Ok(true)
    }

    fn table_growing(&mut self, _: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        Ok(desired <= self.table_elements)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_within_the_limit_is_given_and_beyond_it_denied_and_remembered() {
        let mut limiter = Limiter::new(&Limits { memory_bytes: 65_536 * 2, ..Limits::default() });
        assert!(limiter.memory_growing(0, 65_536 * 2, None).unwrap());
        assert_eq!((limiter.peak_bytes, limiter.denied), (131_072, None));
        assert!(!limiter.memory_growing(65_536 * 2, 65_536 * 3, None).unwrap());
        assert_eq!((limiter.peak_bytes, limiter.denied), (131_072, Some(196_608)));
    }

    #[test]
    fn tables_within_the_limit_are_given_and_beyond_it_denied() {
        let mut limiter = Limiter::new(&Limits { table_elements: 10, ..Limits::default() });
        assert!(limiter.table_growing(0, 10, None).unwrap());
        assert!(!limiter.table_growing(0, 11, None).unwrap());
    }
}
