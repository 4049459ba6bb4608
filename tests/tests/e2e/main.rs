//! The end-to-end suite: a controller in front of an API server, looked at from outside.
//!
//! `upstream` has the tests of the Go original by name, `parity` the rows of the parity table, `definitions` the
//! design's invariants and definitions, `cases` the field reports, `guests` what guests can do wrong.

mod cases;
mod definitions;
mod guests;
mod parity;
mod upstream;
