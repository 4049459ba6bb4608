//! A small in-memory Kubernetes API over HTTP, for a first run and for tests.
