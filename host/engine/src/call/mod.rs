//! One call: a fresh instance under its limits, from an input to an answer or a failure by cause.

mod convert;
mod failure;
mod guest;
mod log;
mod state;

pub use guest::{Call, Guest};
pub(crate) use guest::{GuestInfo, linker};
pub(crate) use log::{GuestLog, Source};
pub(crate) use state::{SharedLog, State};
