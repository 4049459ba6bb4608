//! Label and field selectors.
//!
//! Source: `apimachinery/pkg/labels/selector.go`, `apimachinery/pkg/fields/selector.go`.
//! Must not know which fields a resource can be selected by: the caller says.

use crate::status::ApiError;
use serde_json::Value;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    Absent,
}

/// All requirements must hold.
#[derive(Clone, Debug, Default)]
pub(crate) struct LabelSelector(Vec<(String, Test)>);

impl LabelSelector {
    /// Parses `a=b,c!=d,e in (f,g),h notin (i),j,!k`.
    pub(crate) fn parse(text: &str) -> Result<Self, ApiError> {
        let mut requirements = Vec::new();
        for part in split_outside_parentheses(text) {
            let part = part.trim();
            if part.is_empty() {
                continue;
            }
            requirements.push(requirement(part).ok_or_else(|| {
                ApiError::bad_request(format!(
                    "unable to parse requirement: found '{part}', expected: a label selector"
                ))
            })?);
        }
        Ok(Self(requirements))
    }

    /// The selector of a `metav1.LabelSelector` value.
    pub(crate) fn from_object(selector: &Value) -> Self {
        let mut requirements = Vec::new();
        for (key, value) in selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten() {
            requirements.push((key.clone(), Test::In(vec![value.as_str().unwrap_or_default().to_owned()])));
        }
        for expression in selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
            let word = |field: &str| expression.get(field).and_then(Value::as_str).unwrap_or_default();
            let values = expression.get("values").and_then(Value::as_array).into_iter().flatten();
            let values = values.filter_map(|v| v.as_str().map(str::to_owned)).collect();
            let test = match word("operator") {
                "In" => Test::In(values),
                "NotIn" => Test::NotIn(values),
                "Exists" => Test::Exists,
                _ => Test::Absent,
            };
            requirements.push((word("key").to_owned(), test));
        }
        Self(requirements)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the labels (an object of strings, or null) satisfy it.
    pub(crate) fn matches(&self, labels: &Value) -> bool {
        self.0.iter().all(|(key, test)| {
            let value = labels.get(key).and_then(Value::as_str);
            match test {
                Test::In(values) => value.is_some_and(|v| values.iter().any(|w| w == v)),
                Test::NotIn(values) => value.is_none_or(|v| values.iter().all(|w| w != v)),
                Test::Exists => value.is_some(),
                Test::Absent => value.is_none(),
            }
        })
    }
}

impl std::fmt::Display for LabelSelector {
    /// As the API prints it, keys in order: `app=nginx,tier in (a,b)`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut parts: Vec<String> = self
            .0
            .iter()
            .map(|(key, test)| match test {
                Test::In(values) => match values.as_slice() {
                    [only] => format!("{key}={only}"),
                    many => format!("{key} in ({})", many.join(",")),
                },
                Test::NotIn(values) => format!("{key} notin ({})", values.join(",")),
                Test::Exists => key.clone(),
                Test::Absent => format!("!{key}"),
            })
            .collect();
        parts.sort();
        f.write_str(&parts.join(","))
    }
}

fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let mut depth = 0_u32;
    text.split(move |c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
    .collect()
}

fn requirement(part: &str) -> Option<(String, Test)> {
    if let Some(key) = part.strip_prefix('!') {
        return label_key(key).map(|key| (key, Test::Absent));
    }
    if let Some((left, right)) = part.split_once('(') {
        let values: Vec<String> = right.strip_suffix(')')?.split(',').map(|v| v.trim().to_owned()).collect();
        let (key, operator) = left.trim().rsplit_once(char::is_whitespace)?;
        let key = label_key(key)?;
        return match operator {
            "in" => Some((key, Test::In(values))),
            "notin" => Some((key, Test::NotIn(values))),
            _ => None,
        };
    }
    for (operator, negative) in [("!=", true), ("==", false), ("=", false)] {
        if let Some((key, value)) = part.split_once(operator) {
            let values = vec![value.trim().to_owned()];
            return label_key(key)
                .map(|key| (key, if negative { Test::NotIn(values) } else { Test::In(values) }));
        }
    }
    label_key(part).map(|key| (key, Test::Exists))
}

fn label_key(text: &str) -> Option<String> {
    let key = text.trim();
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    (!key.is_empty() && key.chars().all(allowed)).then(|| key.to_owned())
}

/// `field=value` and `field!=value`, all of which must hold.
#[derive(Clone, Debug, Default)]
pub(crate) struct FieldSelector(Vec<(String, String, bool)>);

impl FieldSelector {
    pub(crate) fn parse(text: &str) -> Result<Self, ApiError> {
        let mut terms = Vec::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let found =
                ["!=", "==", "="].iter().find_map(|op| part.split_once(op).map(|(f, v)| (f, v, *op != "!=")));
            let (field, value, equal) = found.ok_or_else(|| {
                ApiError::bad_request(format!("invalid selector: {text:?}; can't understand {part:?}"))
            })?;
            terms.push((field.to_owned(), value.to_owned(), equal));
        }
        Ok(Self(terms))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn fields(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(field, ..)| field.as_str())
    }

    /// The same selector under other names.
    pub(crate) fn renamed(self, rename: fn(&str) -> String) -> Self {
        Self(self.0.into_iter().map(|(field, value, equal)| (rename(&field), value, equal)).collect())
    }

    /// The name that it asks for, if it asks for one: then a list is a get.
    pub(crate) fn name(&self) -> Option<&str> {
        self.0
            .iter()
            .find(|(field, _, equal)| *equal && field == "metadata.name")
            .map(|(_, value, _)| value.as_str())
    }

    /// Whether an object satisfies it; a field that is absent counts as empty.
    pub(crate) fn matches(&self, object: &Value) -> bool {
        self.0.iter().all(|(field, wanted, equal)| {
            let mut value = object;
            for step in field.split('.') {
                value = value.get(step).unwrap_or(&Value::Null);
            }
            let found = match value {
                Value::String(text) => text.clone(),
                Value::Null => String::new(),
                other => other.to_string(),
            };
            (found == *wanted) == *equal
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_operator_of_a_label_selector_is_obeyed_and_violated() {
        let labels = json!({ "a": "1", "b": "2" });
        for (text, expected) in [
            ("a=1", true),
            ("a==2", false),
            ("a!=2", true),
            ("c!=2", true),
            ("a in (1, 3),b", true),
            ("a notin (1,3)", false),
            ("!c", true),
            ("!a", false),
            ("c", false),
        ] {
            assert_eq!(LabelSelector::parse(text).unwrap().matches(&labels), expected, "{text}");
        }
        assert!(LabelSelector::parse("a in 1").is_err());
    }

    #[test]
    fn a_field_that_is_absent_counts_as_empty() {
        let selector = FieldSelector::parse("metadata.name=x,reason=").unwrap();
        assert!(selector.matches(&json!({ "metadata": { "name": "x" } })));
        assert!(!selector.matches(&json!({ "metadata": { "name": "x" }, "reason": "r" })));
        assert!(FieldSelector::parse("nonsense").is_err());
    }
}
