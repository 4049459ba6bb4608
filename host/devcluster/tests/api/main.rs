//! The in-memory API over real HTTP: what a client sees.

mod client;
mod custom;
mod deletion;
mod reads;
mod watches;
mod writes;
