//! The in-memory API over real HTTP: what a client sees.

#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod client;
mod custom;
mod deletion;
mod reads;
mod watches;
mod writes;
