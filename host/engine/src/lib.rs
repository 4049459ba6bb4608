//! Runs guests: wasmtime, limits, loading, digests, errors by cause.
