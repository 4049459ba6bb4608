//! A real Kubernetes control plane for tests and for people who want to try things: etcd, kube-apiserver and,
//! where asked for, kube-controller-manager, kube-scheduler and kwok, so that pods run. The programs are
//! built from the Go modules under `modules/`, which pin each of them, into a cache outside the checkout.
//!
//! ```no_run
//! use controlplane::{Options, Plane, User};
//!
//! let plane = Plane::start(&Options {
//!     controllers: true,
//!     pods: true,
//!     users: vec![User::new("foo-host")],
//!     ..Options::default()
//! })?;
//! plane.client("admin").create("/api/v1/namespaces", &serde_json::json!({ "metadata": { "name": "shop" } }))?;
//! println!("{}", plane.kubeconfig("foo-host"));
//! # Ok::<(), controlplane::Error>(())
//! ```
//!
//! All of it is blocking; in async code use `spawn_blocking`. One plane is meant to serve a whole test
//! binary, from a `static`, with a namespace for each test: whatever happens to the process that started it,
//! also a panic or SIGKILL, its programs and its directory go with it.

mod builder;
mod child;
mod client;
mod error;
mod etcd;
mod flags;
mod identity;
mod keeper;
mod options;
mod places;
mod plane;
mod port;
mod process;
mod program;
mod skip;

pub use client::Client;
pub use error::Error;
pub use options::{Options, Process, User};
pub use places::{Found, available, module_dir, program, programs};
pub use plane::Plane;
pub use program::Program;
pub use skip::skip;
