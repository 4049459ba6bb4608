//! Reads single members out of JSON without parsing the rest.
//!
//! Owns just enough of JSON's syntax to step over values; a parser would be half of the artifact's
//! size and of the call's time. The text is the host's, valid and compact (no white space between
//! tokens), as the contract says. Must not panic, recurse or loop for any text.

/// The value of `key` in `object`, as it stands there. None if the text is no object, ends early,
/// or has no such member. A key that is written with escapes is not found.
pub(crate) fn member<'a>(object: &'a str, key: &str) -> Option<&'a str> {
    let bytes = object.as_bytes();
    let mut at = after(bytes, 0, b'{')?;
    loop {
        let colon = string_end(bytes, at)?;
        let name = object.get(at + 1..colon - 1)?;
        let value = after(bytes, colon, b':')?;
        let end = value_end(bytes, value)?;
        if name == key {
            return object.get(value..end);
        }
        at = after(bytes, end, b',')?;
    }
}

/// The index after the byte at `at`, which must be `byte`.
fn after(bytes: &[u8], at: usize, byte: u8) -> Option<usize> {
    (*bytes.get(at)? == byte).then_some(at + 1)
}

/// The index after the string that starts at `at`.
fn string_end(bytes: &[u8], at: usize) -> Option<usize> {
    let mut at = after(bytes, at, b'"')?;
    loop {
        match bytes.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// The index after the value that starts at `at`.
fn value_end(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start;
    let mut depth = 0_usize;
    loop {
        match bytes.get(at)? {
            b'"' => at = string_end(bytes, at)?,
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            b'}' | b']' if depth > 0 => {
                depth -= 1;
                at += 1;
            }
            // Part of a number or a word, or what stands between values.
            b',' | b':' if depth > 0 => {
                at += 1;
                continue;
            }
            b',' | b':' | b'}' | b']' => return (at > start).then_some(at),
            _ => {
                at += 1;
                continue;
            }
        }
        if depth == 0 {
            return Some(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OBJECT: &str = r#"{"a":1,"b":"x,\"}\\","c":{"a":[2,{"a":"]"}],"z":{}},"d":[],"e":null,"f":-1.5e3}"#;

    #[test]
    fn each_member_is_found_as_it_stands() {
        let value: serde_json::Value = serde_json::from_str(OBJECT).unwrap();
        for (key, expected) in value.as_object().unwrap() {
            let found = member(OBJECT, key).unwrap();
            assert_eq!(&serde_json::from_str::<serde_json::Value>(found).unwrap(), expected, "{key}");
        }
    }

    #[test]
    fn a_member_of_an_inner_object_is_not_a_member() {
        assert_eq!(member(OBJECT, "z"), None);
        assert_eq!(member(member(OBJECT, "c").unwrap(), "z"), Some("{}"));
    }

    #[test]
    fn a_text_cut_anywhere_gives_the_member_or_none() {
        for end in 0..OBJECT.len() {
            let found = member(&OBJECT[..end], "c");
            assert!(found.is_none() || found == member(OBJECT, "c"), "{end}");
        }
    }

    #[test]
    fn what_is_no_object_has_no_members() {
        for text in
            ["", "{}", "[]", "null", "1", r#""a""#, r#"{"a"}"#, r#"{"a":}"#, r#"{"a":,"b":1}"#, "{{", "{\"\\"]
        {
            assert_eq!(member(text, "a"), None, "{text}");
        }
    }
}
