//! From the bytes of a file to a guest: outline, cache, compilation, link.

mod cache;
mod child;
pub mod compile;
mod encode;
mod outline;
mod settings;
mod world;

pub(crate) use cache::Cache;
pub(crate) use settings::{compatibility, runtime};

use crate::bindings::ReconcilerPre;
use crate::call::{Guest, GuestInfo};
use crate::engine::Inner;
use crate::{Compiler, LoadError};
use outline::Outline;
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::sync::Arc;
use wasmtime::component::Component;

/// Longest text of wasmtime's or wit-component's in an error, in bytes.
const REASON_BYTES: usize = 512;

/// Loads a guest; see `Engine::load`.
pub(crate) async fn load(engine: Arc<Inner>, bytes: Arc<[u8]>) -> Result<Guest, LoadError> {
    let limit = engine.limits.max_component_bytes;
    if bytes.len() > limit {
        return Err(LoadError::TooLarge { size: bytes.len(), limit });
    }
    let (outline, digest) = {
        let bytes = Arc::clone(&bytes);
        blocking(move || Ok((Outline::of(&bytes)?, sha256(&bytes)))).await?
    };
    let (component, from_cache) = match cached(&engine, &digest).await? {
        Some(component) => (component, true),
        None => compiled(&engine, Arc::clone(&bytes), &digest).await?,
    };
    let pre = link(&engine, &component)?;
    let info = GuestInfo {
        digest: format!("sha256:{digest}"),
        name: outline.name,
        version: outline.version,
        size: bytes.len(),
        from_cache,
    };
    tracing::info!(
        guest = info.digest,
        name = info.name,
        version = info.version,
        size = info.size,
        from_cache,
        fuel = engine.limits.fuel,
        deadline_ms = engine.limits.deadline.as_millis() as u64,
        memory_bytes = engine.limits.memory_bytes,
        "guest loaded",
    );
    Ok(Guest::new(engine, pre, info))
}

/// The component from the cache. An entry that cannot be used counts as none.
async fn cached(engine: &Arc<Inner>, digest: &str) -> Result<Option<Component>, LoadError> {
    let (engine, digest) = (Arc::clone(engine), digest.to_owned());
    blocking(move || {
        let Some(cache) = &engine.cache else { return Ok(None) };
        let Some(path) = cache.find(&digest, &engine.compatibility) else { return Ok(None) };
        match settings::trusted_file(&engine.wasmtime, &path) {
            Ok(component) => Ok(Some(component)),
            Err(error) => {
                if let Some(error) = resources(&error) {
                    return Err(error);
                }
                Cache::reject(&path, &reason(&error));
                Ok(None)
            }
        }
    })
    .await
}

/// Compiles, one guest at a time, and keeps the code in the cache. True if another load has just done it.
async fn compiled(
    engine: &Arc<Inner>,
    bytes: Arc<[u8]>,
    digest: &str,
) -> Result<(Component, bool), LoadError> {
    let _turn = engine.compiling.lock().await;
    // It may have been compiled while this waited.
    if let Some(component) = cached(engine, digest).await? {
        return Ok((component, true));
    }
    let code = match &engine.compiler {
        Compiler::InProcess => {
            let work = blocking(move || compile::compile(&bytes));
            let limit = engine.limits.compile_time;
            tokio::time::timeout(limit, work).await.map_err(|_| LoadError::CompileTimeout { limit })??
        }
        Compiler::Command { program, args } => {
            child::compile(program, args, &bytes, &engine.limits, &engine.compatibility).await?
        }
    };
    let (engine, digest) = (Arc::clone(engine), digest.to_owned());
    blocking(move || {
        // From the file where there is one: its pages are shared and can be dropped.
        let stored =
            engine.cache.as_ref().and_then(|cache| cache.store(&digest, &engine.compatibility, &code));
        let component = match stored {
            Some(path) => settings::trusted_file(&engine.wasmtime, &path),
            None => settings::trusted(&engine.wasmtime, &code),
        };
        component.map(|component| (component, false)).map_err(|error| {
            resources(&error).unwrap_or_else(|| LoadError::Compile { reason: reason(&error) })
        })
    })
    .await
}

/// Checks imports and exports against the world, and resolves them.
fn link(engine: &Inner, component: &Component) -> Result<ReconcilerPre<crate::call::State>, LoadError> {
    world::check(&world::World::of_component(&engine.wasmtime, component))?;
    let pre =
        engine.linker.instantiate_pre(component).map_err(|error| world::unsatisfied(&reason(&error)))?;
    ReconcilerPre::new(pre).map_err(|error| LoadError::ExportType { reason: reason(&error) })
}

/// The error for a guest that no slot of the pool can hold, told by wasmtime's text; a test holds it.
fn resources(error: &wasmtime::Error) -> Option<LoadError> {
    let reason = reason(error);
    (reason.contains("exceed") && (reason.contains("limit") || reason.contains("maximum")))
        .then_some(LoadError::Resources { reason })
}

/// wasmtime's error on one line.
fn reason(error: &wasmtime::Error) -> String {
    contract::one_line(&format!("{error:#}"), REASON_BYTES)
}

/// The hexadecimal sha256 of `bytes`.
fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Runs `work` off the async threads. A panic in it (of a parser, say) is an error, not the host's end.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, LoadError> + Send + 'static,
) -> Result<T, LoadError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => {
            Err(LoadError::Compile { reason: contract::one_line(&error.to_string(), REASON_BYTES) })
        }
    }
}
