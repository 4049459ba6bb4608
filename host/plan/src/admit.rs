//! Whether a guest is called, and with what.
//!
//! Owns: what the host answers for itself, and the guest's input. Must not know the engine.

use crate::failure::Failure;
use crate::snapshot::Snapshot;

/// What happens to a key before any guest sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Nothing to do: the Foo is being deleted, and the garbage collector has the rest.
    Ignore,
    /// The host answers for itself: [`crate::Verdict::Refused`].
    Refuse(Failure),
    /// The guest is called with this input.
    Call(Box<contract::Input>),
}

/// Decides whether the guest is called.
pub fn admit(snapshot: &Snapshot<'_>) -> Admission {
    let _ = snapshot;
    Admission::Ignore
}
