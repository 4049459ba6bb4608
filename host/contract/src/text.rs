//! Text and JSON in the forms that the contract promises.

use serde_json::{Map, Value};
use std::borrow::Cow;

/// The longest prefix of `text` of at most `max` bytes that ends between characters.
pub fn truncate(text: &str, max: usize) -> &str {
    if text.len() <= max {
        return text;
    }
    let mut end = max;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// `text` as one clean line of at most `max` bytes: control characters and runs of white space
/// become one space, so that text from a guest can neither break a log line nor move a cursor.
pub fn one_line(text: &str, max: usize) -> String {
    // A hostile text may be long: do not clean more than can be kept.
    let head = truncate(text, max.saturating_mul(4));
    let mut line = String::with_capacity(head.len().min(max));
    for word in head.split(|c: char| c.is_whitespace() || c.is_control()).filter(|w| !w.is_empty()) {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        if line.len() > max {
            break;
        }
    }
    truncate(&line, max).trim_end().to_owned()
}

/// `value` as compact JSON with sorted keys, whatever order its maps keep.
pub fn canonical_json(value: &Value) -> String {
    fn sorted(value: &Value) -> Cow<'_, Value> {
        match value {
            Value::Object(map) => {
                let mut entries: Vec<_> = map.iter().collect();
                entries.sort_unstable_by_key(|(key, _)| *key);
                let map: Map<_, _> = entries
                    .into_iter()
                    .map(|(key, value)| (key.clone(), sorted(value).into_owned()))
                    .collect();
                Cow::Owned(Value::Object(map))
            }
            Value::Array(items) => {
                Cow::Owned(Value::Array(items.iter().map(|item| sorted(item).into_owned()).collect()))
            }
            scalar => Cow::Borrowed(scalar),
        }
    }
    sorted(value).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn text_is_cut_between_characters() {
        assert_eq!(truncate("aé", 2), "a");
        assert_eq!(truncate("aé", 3), "aé");
        assert_eq!(truncate("日本", 4), "日");
    }

    #[test]
    fn one_line_drops_control_characters_and_keeps_the_words() {
        assert_eq!(one_line("  a\r\n\tb\u{1b}[31m  c ", 100), "a b [31m c");
        assert_eq!(one_line(&"x".repeat(5_000), 1_024).len(), 1_024);
        assert_eq!(one_line("ab cd", 3), "ab");
    }

    #[test]
    fn canonical_json_sorts_keys_at_every_level() {
        let value = json!({"b": [{"d": 1, "c": null}], "a": "x"});
        assert_eq!(canonical_json(&value), r#"{"a":"x","b":[{"c":null,"d":1}]}"#);
    }
}
