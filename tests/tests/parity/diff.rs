//! Two snapshots, field by field.

use serde_json::Value;
use std::collections::BTreeSet;

/// One field that is not the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    /// Where, as a JSON pointer without its first slash.
    pub(crate) path: String,
    /// What the Go original left there, in one word where it is more than a word.
    pub(crate) go: String,
    /// What the host did.
    pub(crate) host: String,
}

/// What differs.
pub(crate) fn differences(go: &Value, host: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    compare("", go, host, &mut found);
    found
}

fn compare(path: &str, go: &Value, host: &Value, found: &mut Vec<Difference>) {
    match (go, host) {
        (Value::Object(left), Value::Object(right)) => {
            let keys: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
            for key in keys {
                let deeper = format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
                compare(&deeper, &go[key], &host[key], found);
            }
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            for (index, (go, host)) in left.iter().zip(right).enumerate() {
                compare(&format!("{path}/{index}"), go, host, found);
            }
        }
        _ if go == host => {}
        _ => {
            let path = path.trim_start_matches('/').to_owned();
            // How often something was told is a matter of pace; who told it more often is not.
            let counts = path.starts_with("events/") && path.ends_with("/count");
            let (go, host) = match (go.as_i64(), host.as_i64()) {
                (Some(go), Some(host)) if counts && go > host => ("more often".into(), "less often".into()),
                (Some(_), Some(_)) if counts => ("less often".into(), "more often".into()),
                _ => (word(go), word(host)),
            };
            found.push(Difference { path, go, host });
        }
    }
}

/// In a snapshot null is what is not there.
fn word(value: &Value) -> String {
    match value {
        Value::Null => "absent".into(),
        Value::Object(_) | Value::Array(_) => "there".into(),
        Value::String(text) if text.is_empty() => "empty".into(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn seen(go: &Value, host: &Value) -> Vec<String> {
        let shown = |one: &Difference| format!("{}: {} / {}", one.path, one.go, one.host);
        differences(go, host).iter().map(shown).collect()
    }

    #[test]
    fn each_field_that_differs_is_named_once_at_the_deepest_place() {
        let go = json!({"same": [1], "a/b": {"c": [1, 2]}, "gone": {"x": 1}, "list": [1]});
        let host = json!({"same": [1], "a/b": {"c": [1, 3]}, "list": [1, 2], "null": null});
        let expected = ["a~1b/c/1: 2 / 3", "gone: there / absent", "list: there / there"];
        assert_eq!(seen(&go, &host), expected);
        assert_eq!(seen(&go, &go), Vec::<String>::new());
    }

    #[test]
    fn counts_of_events_are_only_ordered() {
        let events = |count| json!({"events": {"a": {"Normal Synced": {"count": count}}}});
        let path = "events/a/Normal Synced/count";
        assert_eq!(seen(&events(5), &events(2)), [format!("{path}: more often / less often")]);
        assert_eq!(seen(&events(1), &events(2)), [format!("{path}: less often / more often")]);
        assert_eq!(seen(&events(2), &events(2)), Vec::<String>::new());
    }
}
