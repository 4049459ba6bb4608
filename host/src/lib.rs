//! Runs a Kubernetes controller whose desired-state logic is a WebAssembly guest.
