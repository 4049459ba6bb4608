//! Two answers compared field by field.

use serde_json::{Value, json};
use std::collections::BTreeSet;

/// One field that differs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Difference {
    /// `body.metadata.labels.app`, `events[1].object.kind`.
    pub(crate) at: String,
    /// `None` where the field is absent.
    pub(crate) real: Option<Value>,
    pub(crate) dev: Option<Value>,
}

/// All fields of two answers that differ, in order. Where one is an error and the other is not, what else is in
/// them says nothing.
pub(crate) fn of_answers(real: &Value, dev: &Value) -> Vec<Difference> {
    if real.get("status") == dev.get("status") {
        return differences(real, dev);
    }
    let short = |answer: &Value| {
        let message = answer.pointer("/body/message").or(answer.pointer("/body/text"));
        json!({ "status": answer["status"], "message": message })
    };
    differences(&short(real), &short(dev))
}

/// All fields that differ, in order.
fn differences(real: &Value, dev: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    compare("", Some(real), Some(dev), &mut found);
    found
}

fn compare(at: &str, real: Option<&Value>, dev: Option<&Value>, found: &mut Vec<Difference>) {
    match (real, dev) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            let names: BTreeSet<_> = a.keys().chain(b.keys()).collect();
            for name in names {
                // Keys with dots and slashes stand in brackets.
                let below = match (at, name.contains(['.', '/', ' '])) {
                    (_, true) => format!("{at}[{name}]"),
                    ("", false) => name.clone(),
                    (_, false) => format!("{at}.{name}"),
                };
                compare(&below, a.get(name), b.get(name), found);
            }
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            for index in 0..a.len().max(b.len()) {
                compare(&format!("{at}[{index}]"), a.get(index), b.get(index), found);
            }
        }
        (real, dev) if real != dev => {
            found.push(Difference { at: at.to_owned(), real: real.cloned(), dev: dev.cloned() });
        }
        _ => {}
    }
}

/// Whether a text fits a pattern in which `*` stands for anything.
pub(crate) fn fits(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((head, tail)) => text.strip_prefix(head).is_some_and(|rest| {
            tail.is_empty() || (0..=rest.len()).any(|at| rest.get(at..).is_some_and(|rest| fits(tail, rest)))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_field_that_differs_is_named_once() {
        let real = json!({ "a": { "b.c": 1, "d": [1, 2] }, "same": [{ "x": null }] });
        let dev = json!({ "a": { "b.c": 2, "d": [1] }, "same": [{ "x": null }], "more": {} });
        let found: Vec<_> = differences(&real, &dev).into_iter().map(|d| d.at).collect();
        assert_eq!(found, ["a[b.c]", "a.d[1]", "more"]);
        assert_eq!(differences(&json!({ "a": null }), &json!({})).len(), 1);
    }

    #[test]
    fn a_star_stands_for_anything() {
        for (pattern, text, fit) in [
            ("a.*.c", "a.b.c", true),
            ("a*", "a", true),
            ("*c", "abc", true),
            ("a", "ab", false),
            ("a*b", "ac", false),
        ] {
            assert_eq!(fits(pattern, text), fit, "{pattern} {text}");
        }
    }
}
