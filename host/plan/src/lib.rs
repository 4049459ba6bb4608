//! The planning function: snapshot and answer in, operations out.
//!
//! Owns: what of an object is cached ([`Object`]), whether a guest is called ([`admit`]), what its
//! answer means ([`plan`]), and what the Foo's status and Events say afterwards ([`conclude`]). Live
//! reconciles, previews and replays call the same three functions; only what carries out the
//! operations differs. Pure: the same arguments give the same result, nothing panics on any JSON.
//!
//! Must not know clients, wasmtime, or a clock: the time is part of the [`Snapshot`].

mod admit;
mod answer;
mod conclude;
mod conditions;
mod drift;
mod failure;
mod kstatus;
mod managed_fields;
mod manifest;
mod object;
mod operation;
mod planning;
mod snapshot;
mod spec;
mod status;
mod time;

pub use admit::{Admission, admit};
pub use conclude::{Conclusion, Next, Written, conclude};
pub use failure::{Class, Failure, Reason};
pub use managed_fields::upgraded_managed_fields;
pub use object::{EntryOperation, Kind, Malformed, Meta, Object, OwnEntry, Owner};
pub use operation::{Adopt, Difference, Operation};
pub use planning::{Plan, Verdict, Wanted, plan};
pub use snapshot::{Child, GuestIdentity, Snapshot, StatusSchema};
