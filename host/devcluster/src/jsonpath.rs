//! The `JSONPath` of printer columns: fields, indices, wildcards and one kind of filter.
//!
//! Source: `client-go/util/jsonpath`, as far as `additionalPrinterColumns` are used in practice:
//! `.a.b`, `.a['b\.c']`, `.a[0]`, `.a[*]`, `.a[?(@.type=="Ready")].status`.

use serde_json::Value;

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    /// From the end where it is negative.
    Index(isize),
    All,
    Where(Vec<Step>, String),
}

/// A compiled path.
#[derive(Clone, Debug)]
pub(crate) struct JsonPath(Vec<Step>);

impl JsonPath {
    /// `None` for a path outside the dialect.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim().trim_start_matches('{').trim_end_matches('}').trim_start_matches('$');
        steps(text).map(Self)
    }

    /// All values that it finds.
    pub(crate) fn find<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        find(&self.0, vec![value])
    }
}

fn steps(text: &str) -> Option<Vec<Step>> {
    let mut rest = text;
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('.') {
            let unescaped =
                |at: &usize| *at == 0 || !after.get(..*at).is_some_and(|head| head.ends_with('\\'));
            let mut ends = after.match_indices(['.', '[']).map(|(at, _)| at);
            let end = ends.find(unescaped).unwrap_or(after.len());
            let (name, tail) = after.split_at(end);
            match name {
                "" => {}
                "*" => steps.push(Step::All),
                _ => steps.push(Step::Field(name.replace("\\.", "."))),
            }
            rest = tail;
        } else {
            let (inner, tail) = bracket(rest.strip_prefix('[')?)?;
            match quoted(inner) {
                // As a path of its own: dots in a name are escaped.
                Some(name) => steps.extend(names(name).map(Step::Field)),
                None => steps.push(bracketed(inner)?),
            }
            rest = tail;
        }
    }
    Some(steps)
}

/// Splits at the bracket that closes, outside quotes.
fn bracket(text: &str) -> Option<(&str, &str)> {
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (None, ']') => return Some((text.get(..at)?, text.get(at + 1..)?)),
            (None, '\'' | '"') => quote = Some(c),
            (Some(q), c) if q == c => quote = None,
            _ => {}
        }
    }
    None
}

fn bracketed(inner: &str) -> Option<Step> {
    if inner == "*" {
        return Some(Step::All);
    }
    if let Some(filter) = inner.strip_prefix("?(").and_then(|f| f.strip_suffix(')')) {
        let (path, value) = filter.split_once("==")?;
        let value = value.trim().trim_matches(['"', '\'']).to_owned();
        return Some(Step::Where(steps(path.trim().strip_prefix('@')?)?, value));
    }
    if let Ok(index) = inner.parse() {
        return Some(Step::Index(index));
    }
    None
}

fn quoted(inner: &str) -> Option<&str> {
    let name = inner.strip_prefix('\'').and_then(|i| i.strip_suffix('\''));
    name.or_else(|| inner.strip_prefix('"').and_then(|i| i.strip_suffix('"')))
}

/// The names that dots separate, but escaped ones.
fn names(text: &str) -> impl Iterator<Item = String> {
    let marked = text.replace("\\.", "\u{0}");
    marked.split('.').map(|name| name.replace('\u{0}', ".")).collect::<Vec<_>>().into_iter()
}

fn find<'a>(steps: &[Step], mut values: Vec<&'a Value>) -> Vec<&'a Value> {
    for step in steps {
        values = values
            .into_iter()
            .flat_map(|value| -> Vec<&'a Value> {
                let items = || value.as_array().into_iter().flatten();
                match step {
                    Step::Field(name) => value.get(name).into_iter().collect(),
                    Step::Index(index) => {
                        let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
                        let at = if *index < 0 {
                            list.len().checked_add_signed(*index)
                        } else {
                            Some(*index as usize)
                        };
                        at.and_then(|at| list.get(at)).into_iter().collect()
                    }
                    Step::All => {
                        items().chain(value.as_object().into_iter().flat_map(|o| o.values())).collect()
                    }
                    Step::Where(path, wanted) => items()
                        .filter(|item| {
                            find(path, vec![item]).first().is_some_and(|v| match v {
                                Value::String(text) => text == wanted,
                                other => other.to_string() == *wanted,
                            })
                        })
                        .collect(),
                }
            })
            .collect();
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_indices_wildcards_and_filters_are_found() {
        let object = json!({
            "a": { "b.c": 1, "list": [{ "type": "X", "status": "no" }, { "type": "Ready", "status": "True" }] },
        });
        for (path, found) in [
            (r".a['b\.c']", json!([1])),
            (r".a.b\.c", json!([1])),
            (".a['b.c']", json!([])),
            (".a.list[0].type", json!(["X"])),
            (".a.list[-1].type", json!(["Ready"])),
            (".a.list[*].type", json!(["X", "Ready"])),
            (r#".a.list[?(@.type=="Ready")].status"#, json!(["True"])),
            (".a.nothing", json!([])),
        ] {
            assert_eq!(json!(JsonPath::parse(path).unwrap().find(&object)), found, "{path}");
        }
        assert!(JsonPath::parse("a[").is_none());
    }
}
