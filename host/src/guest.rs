//! The guest in use: loaded at start, and tried again for as long as its file is bad.

use crate::health::Health;
use anyhow::{Context as _, Result, bail};
use contract::Pairs;
use guest_engine::{Engine, Guest};
use plan::GuestIdentity;
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// The default guest, prebuilt by `make guest`.
pub const BUILT_IN: &[u8] = include_bytes!("../../artifacts/foo_reconciler.wasm");

/// The name of this part in `/readyz`.
pub const CHECK: &str = "guest";

/// How often the file of a guest that does not load is looked at.
const POLL: Duration = Duration::from_millis(500);

/// A file that did not change is tried again after this: what failed may have been the machine (no memory, no
/// processes, a mode that was mended).
const AGAIN: Duration = Duration::from_secs(30);

/// A loaded guest with its parameters.
#[derive(Debug)]
pub struct ActiveGuest {
    /// The loaded code.
    pub guest: Guest,
    /// What the status says about it.
    pub identity: GuestIdentity,
    /// Its parameters.
    pub parameters: Pairs,
}

/// Holds the guest in use. A run takes it once and keeps it to its end.
#[derive(Debug, Default)]
pub struct GuestSlot {
    current: Mutex<Option<Arc<ActiveGuest>>>,
}

impl GuestSlot {
    /// The guest in use, if one is loaded.
    pub fn current(&self) -> Option<Arc<ActiveGuest>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, guest: ActiveGuest) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(guest));
    }
}

/// A file that is not there is a mistake of the command line; one that is there but bad is mended later.
pub fn check_path(path: &Path) -> Result<()> {
    let metadata = std::fs::metadata(path).with_context(|| format!("--guest {}", path.display()))?;
    if !metadata.is_file() {
        bail!("--guest {}: not a file; give the .wasm itself", path.display());
    }
    Ok(())
}

/// Loads the guest into `slot`; returns once it is loaded.
pub async fn load(
    engine: &Engine,
    path: Option<PathBuf>,
    parameters: Pairs,
    slot: &GuestSlot,
    health: &Health,
) {
    let name =
        path.as_ref().map_or_else(|| "the built-in guest".to_owned(), |path| path.display().to_string());
    let mut tried: Option<(Option<(SystemTime, u64)>, Instant)> = None;
    let mut said = String::new();
    loop {
        let stamp = path.as_deref().and_then(stamp);
        if tried.is_none_or(|(old, when)| (stamp.is_some() && stamp != old) || when.elapsed() >= AGAIN) {
            match try_load(engine, path.as_deref()).await {
                Ok(guest) => {
                    let identity = GuestIdentity {
                        digest: guest.digest().to_owned(),
                        version: guest.version().map(str::to_owned),
                        parameters_digest: parameters_digest(&parameters),
                    };
                    if said.is_empty() {
                        tracing::info!(digest = %identity.digest, "{name} decides from now on");
                    } else {
                        // As loud as the failure was.
                        tracing::warn!(digest = %identity.digest, "{name} is mended and decides from now on");
                    }
                    slot.set(ActiveGuest { guest, identity, parameters });
                    health.good(CHECK);
                    return;
                }
                Err(why) if why == said => tracing::debug!("still cannot load {name}: {why}"),
                Err(why) => {
                    tracing::error!("cannot load {name}: {why}; waiting for a better one");
                    health.bad(CHECK, &why);
                    said = why;
                }
            }
            tried = Some((stamp, Instant::now()));
        }
        tokio::time::sleep(POLL).await;
    }
}

async fn try_load(engine: &Engine, path: Option<&Path>) -> Result<Guest, String> {
    let bytes = match path {
        Some(path) => {
            let limit = engine.limits().max_component_bytes;
            read_bounded(path, limit).await.map_err(|error| error.to_string())?
        }
        None => BUILT_IN.to_vec(),
    };
    engine.load(bytes).await.map_err(|error| error.to_string())
}

/// Reads no more than one byte over the limit: the engine says what is wrong with the rest.
async fn read_bounded(path: &Path, limit: usize) -> std::io::Result<Vec<u8>> {
    use tokio::io::AsyncReadExt as _;
    let file = tokio::fs::File::open(path).await?;
    let mut bytes = Vec::new();
    file.take(limit as u64 + 1).read_to_end(&mut bytes).await?;
    Ok(bytes)
}

fn stamp(path: &Path) -> Option<(SystemTime, u64)> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

/// Digest of the parameters, none without any.
fn parameters_digest(parameters: &Pairs) -> Option<String> {
    if parameters.is_empty() {
        return None;
    }
    let mut hasher = Sha256::new();
    for (key, value) in parameters {
        // Lengths first, so that no two lists of pairs give the same bytes.
        hasher.update((key.len() as u64).to_le_bytes());
        hasher.update(key);
        hasher.update((value.len() as u64).to_le_bytes());
        hasher.update(value);
    }
    let mut text = String::from("sha256:");
    for byte in hasher.finalize() {
        let _ = write!(text, "{byte:02x}");
    }
    Some(text)
}
