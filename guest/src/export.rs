//! The glue between the contract and the policy: `reconcile` is exported, `log` imported.
//!
//! Owns the bindings; must not decide anything.
#![allow(
    unsafe_code,
    reason = "the bindings of wit_bindgen pass pointers into linear memory, and sections have names"
)]

use crate::{Live, Snapshot, desired};
use bindings::samplecontroller::reconciler::{log, types};

mod bindings {
    #![allow(
        missing_docs,
        unreachable_pub,
        clippy::pedantic,
        reason = "generated; documented in the WIT file"
    )]

    wit_bindgen::generate!({ path: "../wit", world: "reconciler" });
    super::bindings::export!(Reconciler with_types_in self);
    use super::Reconciler;
}

/// Tools that read a module's metadata find the version in the section of this name.
#[unsafe(link_section = "version")]
#[used]
static VERSION: [u8; env!("CARGO_PKG_VERSION").len()] = bytes(env!("CARGO_PKG_VERSION"));

/// The same for what it is.
#[unsafe(link_section = "description")]
#[used]
static DESCRIPTION: [u8; env!("CARGO_PKG_DESCRIPTION").len()] = bytes(env!("CARGO_PKG_DESCRIPTION"));

/// The bytes of `text`: a section holds them, not a pointer to them.
const fn bytes<const N: usize>(text: &str) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(text.as_bytes());
    bytes
}

struct Reconciler;

impl bindings::Guest for Reconciler {
    fn reconcile(
        foo: types::Foo,
        deployment: Option<types::Deployment>,
    ) -> Result<Vec<types::Action>, types::ReconcileError> {
        // Without WASI a panic's message has nowhere else to go.
        std::panic::set_hook(Box::new(|info| log::log(log::Level::Error, &info.to_string())));

        let desired = desired(&Snapshot {
            foo_name: &foo.metadata.name,
            replicas: foo.spec.replicas,
            live: deployment.as_ref().map(|deployment| Live {
                available_replicas: deployment.status.available_replicas,
                json: &deployment.json,
            }),
        });
        // The instance ends with this call, and its memory with it.
        std::mem::forget((foo, deployment));
        Ok(vec![
            types::Action::ApplyDeployment(desired.manifest),
            types::Action::SetStatus(types::StatusUpdate {
                available_replicas: desired.available_replicas,
                conditions: Vec::new(),
            }),
        ])
    }
}
