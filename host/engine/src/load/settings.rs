//! wasmtime's settings, for compiling and for running, and the one place where compiled code is taken
//! on trust.

use super::hex;
use crate::Limits;
use crate::wasi;
use sha2::{Digest, Sha256};
use std::hash::{Hash, Hasher};
use std::path::Path;
use wasmtime::component::Component;
use wasmtime::{Config, Engine, InstanceAllocationStrategy, PoolingAllocationConfig};

/// Raise when the way from a core module to a component changes (`encode`), so that cached code of
/// the old way is not used. The version of wit-component and of the adapter is that of the lock file.
const ENCODING: u32 = 1;

/// Core instances that a guest may consist of. Python needs 14.
const CORE_INSTANCES: u32 = 64;

/// Tables that a guest may have, over all its core instances.
const TABLES: u32 = 64;

/// Memory of a slot that stays resident for the next call; cheaper to clear than to map again.
const KEEP_RESIDENT_BYTES: usize = 256 << 10;

/// The same for each table: a call of the default guest takes 21 us with it and 30 us without.
const KEEP_TABLE_BYTES: usize = 64 << 10;

/// Native stack beside the guest's frames, for host functions called at the guest's deepest point.
const HOST_STACK_BYTES: usize = 1 << 20;

/// What code depends on: equal where compiling and where running, whatever the limits.
fn base() -> Config {
    let mut config = Config::new();
    config.wasm_component_model(true);
    config.consume_fuel(true);
    config.epoch_interruption(true);
    // An answer must not depend on the processor.
    config.cranelift_nan_canonicalization(true);
    config.relaxed_simd_deterministic(true);
    // One memory a guest, so that the limit on memory is a limit on the call.
    config.wasm_multi_memory(false);
    config.wasm_memory64(false);
    config
}

/// An engine that compiles and runs nothing. It reserves no address space.
pub(super) fn compiler() -> wasmtime::Result<Engine> {
    Engine::new(&base())
}

/// The engine that runs guests.
pub(crate) fn runtime(limits: &Limits) -> wasmtime::Result<Engine> {
    let slots = limits.max_concurrent_calls;
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(slots)
        .total_core_instances(slots.saturating_mul(CORE_INSTANCES))
        .total_memories(slots)
        .total_tables(slots.saturating_mul(TABLES))
        .total_stacks(slots)
        .max_core_instances_per_component(CORE_INSTANCES)
        .max_memories_per_component(1)
        .max_memories_per_module(1)
        .max_tables_per_component(TABLES)
        .max_tables_per_module(TABLES)
        .table_elements(limits.table_elements)
        .max_memory_size(limits.memory_pages_bytes())
        .linear_memory_keep_resident(KEEP_RESIDENT_BYTES)
        .table_keep_resident(KEEP_TABLE_BYTES);
    let mut config = base();
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    config.max_wasm_stack(limits.stack_bytes);
    config.async_stack_size(limits.stack_bytes + HOST_STACK_BYTES);
    Engine::new(&config)
}

/// Says which code an engine can run, as hexadecimal digits: wasmtime's exact version and settings,
/// and our way to a component.
pub(crate) fn compatibility(engine: &Engine) -> String {
    struct Sha(Sha256);
    impl Hasher for Sha {
        fn write(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }
        fn finish(&self) -> u64 {
            // Never asked for: the whole digest is taken.
            0
        }
    }
    let mut sha = Sha(Sha256::new());
    ENCODING.hash(&mut sha);
    contract::SUPPORTED_WORLDS.hash(&mut sha);
    wasi::NEWEST_PATCH.hash(&mut sha);
    engine.precompile_compatibility_hash().hash(&mut sha);
    let mut digits = hex(&sha.0.finalize());
    digits.truncate(32);
    digits
}

/// Code that our compiler just made.
#[allow(
    unsafe_code,
    reason = "the bytes come from this process or from our own compiling child, through a pipe"
)]
pub(super) fn trusted(engine: &Engine, code: &[u8]) -> wasmtime::Result<Component> {
    // SAFETY: made by `compile::compile` of this program, never by a guest or a user: a precompiled
    // file given as a guest is refused before this (`LoadError::Precompiled`).
    unsafe { Component::deserialize(engine, code) }
}

/// Code in a file of the cache.
#[allow(
    unsafe_code,
    reason = "the directory is ours alone (mode 0700), its files are never changed in place"
)]
pub(super) fn trusted_file(engine: &Engine, path: &Path) -> wasmtime::Result<Component> {
    // SAFETY: `Cache` uses only a directory that belongs to this user, is no link, and that nobody else
    // may write to; it checks the entry's digest; entries appear by rename and are never truncated, so
    // that the mapping stays valid.
    unsafe { Component::deserialize_file(engine, path) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_compiles_and_what_runs_agree_whatever_the_limits() {
        let limits = Limits { max_concurrent_calls: 1, stack_bytes: 64 << 10, ..Limits::default() };
        let running = runtime(&limits).unwrap();
        assert_eq!(compatibility(&compiler().unwrap()), compatibility(&running));
    }
}
