//! client-go's rate-limiting work queue, with priorities.
//!
//! Owns: which key is handed to a worker next, and when. Must not know kube or wasmtime, nor what a
//! key means.
//!
//! The semantics are those of `k8s.io/client-go/util/workqueue` (`queue.go`, `delaying_queue.go`,
//! `default_rate_limiters.go`, `rate_limiting_queue.go`, read at v0.36.3):
//!
//! - A key waits at most once, however often it is added.
//! - A key has at most one run at a time. Added during its run, it runs once more after it.
//! - A failed key comes back after `max(5 ms * 2^failures, bucket)`, at most 1000 s by the first term;
//!   the bucket, shared by all keys, refills 50 a second and holds 300.
//!
//! What differs, on purpose:
//!
//! - Two [priorities](Priority), FIFO within each, neither starves.
//! - A key that is about to run has no pending delayed add: the run decides anew. (In client-go the
//!   delayed add stays and causes one more run.)
//! - [`WorkQueue::add_unless_delayed`], for wake-ups that must not cut a backoff short.
//! - [`WorkQueue::abandon`], a third shutdown, which leaves waiting keys.
//!
//! [`WorkQueue`] is a thin tokio shell; every decision is made by a synchronous state machine on
//! logical time.

mod config;
mod limiter;
mod observer;
mod queue;
mod state;

pub use config::{Config, Priority};
pub use observer::{NoObserver, Observer, Snapshot};
pub use queue::{Ticket, WorkQueue};
