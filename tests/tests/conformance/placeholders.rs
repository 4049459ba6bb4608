//! What cannot be the same on two servers, replaced by names that are: uids, times, resource versions.
//!
//! The same value gets the same placeholder for the whole of a scenario, named after the step in which it first
//! appears, so that "the uid of before" is still compared. Versions of lists and bookmarks are those of the whole
//! server, which other scenarios move: they get one placeholder for all.

use regex::{Captures, Regex};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::sync::LazyLock;

/// The placeholders of one side.
#[derive(Debug, Default)]
pub(crate) struct Placeholders {
    uids: Seen,
    versions: Seen,
    masks: Vec<(String, String)>,
}

/// Values of one sort, by where they first appeared.
#[derive(Debug, Default)]
struct Seen {
    places: HashMap<String, String>,
    step: String,
    /// New values in this step.
    fresh: usize,
}

impl Seen {
    fn begin(&mut self, step: &str) {
        step.clone_into(&mut self.step);
        self.fresh = 0;
    }

    fn place(&mut self, value: &str, what: &str) -> String {
        if !self.places.contains_key(value) {
            self.fresh += 1;
            let number = if self.fresh > 1 { format!(" {}", self.fresh) } else { String::new() };
            self.places
                .insert(value.to_owned(), format!("<{what}{number} of \u{201c}{}\u{201d}>", self.step));
        }
        self.places[value].clone()
    }
}

fn regex(text: &str) -> Regex {
    Regex::new(text).expect("a regular expression")
}

static UID: LazyLock<Regex> =
    LazyLock::new(|| regex("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"));
static TIME: LazyLock<Regex> =
    LazyLock::new(|| regex(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)"));
static NUMBER: LazyLock<Regex> = LazyLock::new(|| regex(r"\b\d+\b"));
static CURRENT: LazyLock<Regex> = LazyLock::new(|| regex(r"(resource version: \d+ \(|current: )\d+"));
static AGE: LazyLock<Regex> = LazyLock::new(|| regex(r"^\d+s$"));
/// A whole object inside an error text, in Go's order of fields.
static DOCUMENT: LazyLock<Regex> = LazyLock::new(|| regex(r#"(?s)Invalid value: "\{.*\}": "#));
static ADDRESS: LazyLock<Regex> = LazyLock::new(|| regex(r"\b\d+\.\d+\.\d+\.\d+:\d+\b"));

impl Placeholders {
    pub(crate) fn mask(&mut self, text: &str, placeholder: &str) {
        self.masks.push((text.to_owned(), format!("<{placeholder}>")));
    }

    /// The answer of a step with placeholders.
    pub(crate) fn of_step(&mut self, step: &str, answer: Value) -> Value {
        self.uids.begin(step);
        self.versions.begin(step);
        self.replace(answer)
    }

    fn replace(&mut self, value: Value) -> Value {
        match value {
            Value::Object(mut fields) => {
                order_causes(&mut fields);
                order_managers(&mut fields);
                order_conditions(&mut fields);
                Value::Object(self.object(fields))
            }
            Value::Array(items) => items.into_iter().map(|item| self.replace(item)).collect(),
            Value::String(text) => self.text(&text).into(),
            other => other,
        }
    }

    fn object(&mut self, fields: Map<String, Value>) -> Map<String, Value> {
        let kind = fields.get("kind").and_then(Value::as_str).unwrap_or_default();
        let list =
            kind.ends_with("List") || kind == "Table" || fields.get("type") == Some(&"BOOKMARK".into());
        // In one order on both sides, whatever the order in the answer.
        let mut fields: Vec<_> = fields.into_iter().collect();
        fields.sort_by(|a, b| a.0.cmp(&b.0));
        fields
            .into_iter()
            .map(|(name, mut value)| {
                if list {
                    hide_version(&name, &mut value);
                }
                let value = match (name.as_str(), value) {
                    ("resourceVersion", Value::String(text))
                        if text.parse::<u64>().is_ok() && text != "0" =>
                    {
                        self.versions.place(&text, "version").into()
                    }
                    ("continue", Value::String(text)) if !text.is_empty() => "<continue>".into(),
                    ("cells", Value::Array(cells)) => cells.into_iter().map(|cell| self.cell(cell)).collect(),
                    (_, value) => self.replace(value),
                };
                (self.text(&name), value)
            })
            .collect()
    }

    fn cell(&mut self, cell: Value) -> Value {
        match cell {
            Value::String(text) if AGE.is_match(&text) => "<age>".into(),
            other => self.replace(other),
        }
    }

    fn text(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        for (mask, placeholder) in &self.masks {
            text = text.replace(mask, placeholder);
        }
        let text = DOCUMENT.replace_all(&text, "Invalid value: <document>: ").into_owned();
        let uids = &mut self.uids;
        let text = UID.replace_all(&text, |found: &Captures<'_>| uids.place(&found[0], "uid"));
        let text = TIME.replace_all(&text, |found: &Captures<'_>| match found.get(1) {
            Some(fraction) => format!("<time with {} digits>", fraction.len() - 1),
            None => "<time>".to_owned(),
        });
        let text = ADDRESS.replace_all(&text, "<address>");
        let lower = text.to_lowercase();
        if !(lower.contains("resource version") || lower.contains("resourceversion")) {
            return text.into_owned();
        }
        // What the server is at: in parentheses, or after "current".
        let text = CURRENT.replace_all(&text, "${1}now");
        let versions = &self.versions;
        let number = |found: &Captures<'_>| match versions.places.get(&found[0]) {
            Some(place) => place.clone(),
            None if found[0].len() > 2 => "<server's version>".to_owned(),
            None => found[0].to_owned(),
        };
        NUMBER.replace_all(&text, number).into_owned()
    }
}

/// The version of a list, or of a bookmark of any form.
fn hide_version(name: &str, value: &mut Value) {
    // The row of a bookmark in a Table.
    let row = value.pointer_mut("/rows/0/object/metadata/resourceVersion");
    if let Some(version) = row.filter(|_| name == "object") {
        *version = "<server's version>".into();
    }
    let metadata = if name == "metadata" { Some(value) } else { value.get_mut("metadata") };
    if let Some(version) = metadata.and_then(|m| m.get_mut("resourceVersion"))
        && version.as_str().is_some_and(|v| v.parse::<u64>().is_ok())
    {
        *version = "<server's version>".into();
    }
}

/// Entries are in the order of their times, which are seconds: who was first in one is chance.
fn order_managers(metadata: &mut Map<String, Value>) {
    if let Some(entries) = metadata.get_mut("managedFields").and_then(Value::as_array_mut) {
        entries
            .sort_by_key(|e| ["operation", "manager", "subresource", "apiVersion"].map(|f| e[f].to_string()));
    }
}

/// Controllers that run side by side add conditions in the order in which they come.
fn order_conditions(status: &mut Map<String, Value>) {
    if let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut) {
        conditions.sort_by_key(|c| c["type"].to_string());
    }
}

/// Several faults come in whatever order Go has its maps in: they are sorted, and the message that joins them is cut.
fn order_causes(status: &mut Map<String, Value>) {
    let Some(causes) =
        status.get_mut("details").and_then(|d| d.get_mut("causes")).and_then(Value::as_array_mut)
    else {
        return;
    };
    causes.sort_by_key(ToString::to_string);
    let several = causes.len() > 1;
    if let Some(Value::String(message)) = status.get_mut("message").filter(|_| several)
        && let Some(at) = message.find(" is invalid: [")
    {
        message.truncate(at);
        message.push_str(" is invalid: [the causes]");
    }
}
