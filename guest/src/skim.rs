//! Reads single members out of JSON without parsing the rest.
//!
//! Owns just enough of JSON's syntax to step over values; a parser would be half of the artifact's
//! size and of the call's time. The text is the host's, valid and compact (no white space between
//! tokens), as the contract says. Must not panic, recurse or loop for any text.

/// The value at `path` in `object`, as it stands there. None if the text is no object, ends early, or
/// has no such member. A key that is written with escapes is not found.
///
/// What comes after the value is not looked at, so that the order of the path's keys decides the cost.
pub(crate) fn member<'a>(object: &'a str, path: &[&str]) -> Option<&'a str> {
    let start = path.iter().try_fold(0, |at, key| find(object, at, key))?;
    object.get(start..value_end(object.as_bytes(), start)?)
}

/// Where the value of `key` starts in the object that starts at `at`.
fn find(text: &str, at: usize, key: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = after(bytes, at, b'{')?;
    loop {
        let colon = string_end(bytes, at)?;
        let value = after(bytes, colon, b':')?;
        if text.get(at + 1..colon - 1)? == key {
            return Some(value);
        }
        at = after(bytes, value_end(bytes, value)?, b',')?;
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
        at += bytes.get(at..)?.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
        match bytes.get(at)? {
            b'"' => return Some(at + 1),
            // Whatever is escaped, its first byte neither ends the string nor escapes.
            _ => at += 2,
        }
    }
}

/// The index after the value that starts at `at`.
fn value_end(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start;
    let mut depth = 0_usize;
    loop {
        // Over numbers and words, and what stands between values.
        let token = |byte: &u8| matches!(byte, b'"' | b'{' | b'[' | b'}' | b']' | b',' | b':');
        at += bytes.get(at..)?.iter().position(token)?;
        at = match bytes.get(at)? {
            b'"' => string_end(bytes, at)?,
            b'{' | b'[' => {
                depth += 1;
                at + 1
            }
            _ if depth == 0 => return (at > start).then_some(at),
            b'}' | b']' => {
                depth -= 1;
                at + 1
            }
            _ => {
                at += 1;
                continue;
            }
        };
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
            let found = member(OBJECT, &[key]).unwrap();
            assert_eq!(&serde_json::from_str::<serde_json::Value>(found).unwrap(), expected, "{key}");
        }
    }

    #[test]
    fn a_member_of_an_inner_object_is_not_a_member() {
        assert_eq!(member(OBJECT, &["z"]), None);
        assert_eq!(member(OBJECT, &["c", "z"]), Some("{}"));
        assert_eq!(member(OBJECT, &["a", "z"]), None);
    }

    #[test]
    fn a_text_cut_anywhere_gives_the_member_or_none() {
        for end in 0..OBJECT.len() {
            let found = member(&OBJECT[..end], &["c"]);
            assert!(found.is_none() || found == member(OBJECT, &["c"]), "{end}");
        }
    }

    #[test]
    fn what_is_no_object_has_no_members() {
        for text in
            ["", "{}", "[]", "null", "1", r#""a""#, r#"{"a"}"#, r#"{"a":}"#, r#"{"a":,"b":1}"#, "{{", "{\"\\"]
        {
            assert_eq!(member(text, &["a"]), None, "{text}");
        }
    }
}
