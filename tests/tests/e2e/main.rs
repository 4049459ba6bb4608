//! The end-to-end suite: a controller in front of an API server, looked at from outside. Each test runs on the
//! API in memory (`case_1_memory`) and on a real control plane (`case_2_plane`).
//!
//! `upstream` has the tests of the Go original by name, `parity` the rows of the parity table, `definitions` the
//! design's invariants and definitions, `cases` the field reports, `faults` those that need the fault proxy, `rbac`
//! the role, `guests` what guests can do wrong, `kubectl` what a person at a terminal sees.

tests::both_servers!();

mod cases;
mod definitions;
mod faults;
mod guests;
mod kubectl;
mod parity;
mod rbac;
mod upstream;
