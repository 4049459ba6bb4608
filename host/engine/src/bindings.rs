//! The world `samplecontroller:reconciler@0.1.0` as wasmtime sees it. One `bindgen!` for each version
//! that `contract::SUPPORTED_WORLDS` lists; the conversions are in `call/convert.rs`.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::pedantic,
    reason = "generated from wit/reconciler.wit, which documents it"
)]

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "samplecontroller:reconciler/reconciler",
    exports: { default: async },
    // Inputs are borrowed from the contract's values: no string is copied but into the guest.
    ownership: Borrowing { duplicate_if_necessary: true },
});
