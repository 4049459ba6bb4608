//! The reconciler host: informers, queue and writes here, the decision in a WebAssembly guest.
//!
//! The modules follow a Foo on its way (design.md): `informer` → `cache` → the work queue → `worker` (snapshot,
//! guest, plan) → `writer` → `recorder`. `controller` wires them; `cli` and `settings` are what the user typed.

pub mod api;
pub mod cache;
pub mod cli;
pub mod client;
pub mod compiler;
pub mod controller;
#[cfg(feature = "dev")]
pub mod dev;
pub mod events;
pub mod foo_schema;
pub mod gate;
pub mod guest;
pub mod health;
pub mod informer;
pub mod key;
pub mod logging;
pub mod metrics;
pub mod proxy;
pub mod recorder;
pub mod serve;
pub mod settings;
pub mod shutdown;
pub mod standing;
pub mod token;
pub mod worker;
pub mod writer;
