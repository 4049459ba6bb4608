//! The planning function: snapshot and answer in, operations out.
