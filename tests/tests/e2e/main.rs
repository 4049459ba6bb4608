//! The end-to-end suite: a controller in front of an API server, looked at from outside.
//!
//! `upstream` has the tests of the Go original by name, `parity` the rows of the parity table, `definitions` the
//! design's invariants and definitions, `cases` the field reports, `guests` what guests can do wrong,
//! `kubectl` what a person at a terminal sees.

mod cases;
mod definitions;
mod guests;
mod kubectl;
mod parity;
mod upstream;
