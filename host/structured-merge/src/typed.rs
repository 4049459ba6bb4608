//! Values under a schema: the walks that structured-merge-diff is made of.
//!
//! Owns: validation, the fields of a value, comparison, merging, removal. Must not know managers.

mod compare;
mod fields;
mod merge;
mod remove;
mod validate;

pub(crate) use compare::{Comparison, compare, same};
pub(crate) use fields::{fields_of, with_named_fields};
pub(crate) use merge::merge;
pub(crate) use remove::{Emptied, remove_items};
pub(crate) use validate::{Duplicates, go_type, go_value, validate};
