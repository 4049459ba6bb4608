//! Label values from names.
//!
//! Owns the one rule; must not know which label it is for.

use std::borrow::Cow;

/// Longest label value, in bytes (apimachinery `validation.LabelValueMaxLength`).
pub const MAX_LABEL_VALUE_BYTES: usize = 63;

/// Bytes of the hash, written in hexadecimal.
const HASH_BYTES: usize = 16;

/// `name` if it is a valid label value, else one made from it: up to 46 bytes of the name (bytes
/// that no label value may have become `-`), `_`, and 16 hexadecimal digits of its 64-bit FNV-1a
/// hash. The same name always gives the same value.
///
/// A Foo's name may have 253 bytes, a label value 63 (apimachinery `IsValidLabelValue`). The `_`,
/// which no Foo's name can have, keeps made values apart from names. The hash guards against
/// accidents, not against someone who searches for a collision: they could create Foos in that
/// namespace anyway, and a `ReplicaSet` adopts pods of its own template hash only.
pub fn label_value(name: &str) -> Cow<'_, str> {
    if is_label_value(name) {
        return Cow::Borrowed(name);
    }
    let keep = MAX_LABEL_VALUE_BYTES - HASH_BYTES - 1;
    let mut value: String = name
        .bytes()
        .map(|byte| if is_inner(byte) { char::from(byte) } else { '-' })
        .skip_while(|c| !c.is_ascii_alphanumeric())
        .take(keep)
        .collect();
    if !value.is_empty() {
        value.push('_');
    }
    let hash = fnv1a(name.as_bytes());
    value.extend((0..HASH_BYTES).rev().filter_map(|i| char::from_digit((hash >> (4 * i)) as u32 & 15, 16)));
    Cow::Owned(value)
}

/// `(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?`, up to 63 bytes. The empty value is valid in
/// Kubernetes but tells nobody apart, so it is not one here.
fn is_label_value(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() <= MAX_LABEL_VALUE_BYTES
        && bytes.iter().all(|&byte| is_inner(byte))
        && bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
}

fn is_inner(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

/// 64-bit FNV-1a: a few instructions a byte, no table.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_a_label_value_is_used_as_it_is() {
        for name in ["a", "example-foo", "a.b.c", &"x".repeat(63)] {
            assert_eq!(label_value(name), name);
        }
    }

    #[test]
    fn any_other_name_becomes_a_label_value_of_its_own() {
        let long = ["x".repeat(64), "x".repeat(65), "x".repeat(253), format!("{}.{}", "x".repeat(63), "y")];
        let odd = ["", "-", "-a", "a-", "a/b", "ä", "日本", "a b", "_"].map(str::to_owned);
        let mut seen = std::collections::BTreeSet::new();
        for name in long.iter().chain(&odd) {
            let value = label_value(name).into_owned();
            assert!(is_label_value(&value), "{name}: {value}");
            assert_ne!(&value, name);
            assert!(seen.insert(value), "{name}: its value was seen before");
        }
    }

    #[test]
    fn a_made_value_never_changes_for_it_is_in_the_selectors_of_live_deployments() {
        assert_eq!(
            label_value(&"long-name.".repeat(7)),
            "long-name.long-name.long-name.long-name.long-n_f507359fa3a7c3bd"
        );
        assert_eq!(label_value(""), "cbf29ce484222325");
    }

    #[test]
    fn the_hash_is_fnv_1a() {
        // Vectors of the reference implementation.
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }
}
