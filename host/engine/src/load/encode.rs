//! From a core module with a component type to a component, as `wit-component` does it.

use super::REASON_BYTES;
use super::outline::Outline;
use crate::LoadError;
use contract::one_line;
use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
};
use wit_component::ComponentEncoder;

/// The component around the module in `bytes`; with the adapter from WASI 0.1 to 0.2 where the module
/// imports that (Go and C do).
pub(super) fn component(bytes: &[u8], outline: &Outline) -> Result<Vec<u8>, LoadError> {
    let encode = || {
        let mut encoder = ComponentEncoder::default().module(bytes)?;
        if outline.wasip1 {
            encoder = encoder
                .adapter(WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER)?;
        }
        encoder.encode()
    };
    // wit-component's own error type, which is `anyhow`'s; only its text is kept.
    encode().map_err(|error| LoadError::Encode { reason: one_line(&format!("{error:#}"), REASON_BYTES) })
}
