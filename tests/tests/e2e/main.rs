//! The end-to-end suite: a controller in front of an API server, looked at from outside. Each test runs on the
//! API in memory (`case_1_memory`) and on a real control plane (`case_2_plane`).
//!
//! `upstream` has the tests of the Go original by name, `parity` the rows of the parity table, `definitions` the
//! design's invariants and definitions, `cases` the field reports, `faults` those that need the fault proxy, `rbac`
//! the role, `guests` what guests can do wrong, `kubectl` what a person at a terminal sees.

use rstest_reuse::template;

/// The two servers. Without Go the real one is ignored (`tests/build.rs`).
#[template]
#[rstest::rstest]
#[case::memory(Backend::Memory)]
#[cfg_attr(not(control_plane), ignore = "there is no Go to build a control plane with")]
#[case::plane(Backend::Plane)]
fn both(#[case] backend: Backend) {}

mod cases;
mod definitions;
mod faults;
mod guests;
mod kubectl;
mod parity;
mod rbac;
mod upstream;
