//! What the end-to-end tests stand on: an API server, a controller in front of it, and a client to look and
//! to meddle with.

pub mod account;
pub mod api;
pub mod backend;
pub mod guests;
pub mod logs;
pub mod objects;
pub mod process;
pub mod world;

pub use api::Api;
pub use backend::Backend;
pub use controlplane::skip;
pub use logs::Logs;
pub use objects::{deployment, foo};
pub use world::{Crd, World};
