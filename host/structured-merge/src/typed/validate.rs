//! Whether a value fits its schema, in the words of structured-merge-diff.

use crate::schema::Kind;
use crate::{Error, Node, Path, PathElement, Scalar};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Whether items of an associative list may have the same identity.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Duplicates {
    Allowed,
    Refused,
}

/// # Errors
/// [`Error::Typed`] with all faults.
pub(crate) fn validate(value: &Value, node: &Node, duplicates: Duplicates) -> Result<(), Error> {
    let mut walk = Walk { at: Path::default(), duplicates, faults: Vec::new() };
    walk.visit(value, node);
    match walk.faults.as_slice() {
        [] => Ok(()),
        [only] => Err(Error::Typed(only.clone())),
        many => {
            Err(Error::Typed(many.iter().fold("errors:".to_owned(), |text, fault| text + "\n  " + fault)))
        }
    }
}

struct Walk {
    at: Path,
    duplicates: Duplicates,
    faults: Vec<String>,
}

impl Walk {
    fn fault(&mut self, text: &str) {
        let separator = if self.at.0.is_empty() { "" } else { ": " };
        self.faults.push(format!("{}{separator}{text}", self.at));
    }

    fn step(&mut self, element: PathElement, value: &Value, node: &Node) {
        self.at.0.push(element);
        self.visit(value, node);
        self.at.0.pop();
    }

    fn visit(&mut self, value: &Value, node: &Node) {
        if value.is_null() {
            return;
        }
        match (node.kind(value), value) {
            (Kind::Scalar, _) => {
                if let Some(text) = scalar_fault(value, node) {
                    self.fault(&text);
                }
            }
            (Kind::Map { fields, .. }, Value::Object(map)) => {
                for (name, value) in map {
                    let known = fields.is_none_or(|fields| {
                        fields.additional.is_some() || fields.declared.contains_key(name)
                    });
                    if !known {
                        self.at.0.push(PathElement::Field(name.clone()));
                        self.fault("field not declared in schema");
                        self.at.0.pop();
                        return;
                    }
                    self.step(PathElement::Field(name.clone()), value, node.child(name));
                }
            }
            (Kind::Map { .. }, _) => self.fault(&format!("expected map, got &{{{}}}", go_value(value))),
            (Kind::Associative, Value::Array(items)) => self.items(items, node),
            (Kind::ListAtomic, Value::Array(items)) => {
                for (index, item) in items.iter().enumerate() {
                    self.step(PathElement::Index(index as i64), item, node.element());
                }
            }
            (Kind::Associative | Kind::ListAtomic, _) => {
                self.fault(&format!("expected list, got &{{{}}}", go_value(value)));
            }
        }
    }

    fn items(&mut self, items: &[Value], node: &Node) {
        let mut seen = BTreeSet::new();
        for (index, item) in items.iter().enumerate() {
            match node.identity(item) {
                Err(reason) => return self.fault(&format!("element {index}: {reason}")),
                Ok(identity) => {
                    if !seen.insert(identity.clone()) && self.duplicates == Duplicates::Refused {
                        self.fault(&format!("duplicate entries for key {identity}"));
                    }
                    self.step(identity, item, node.element());
                }
            }
        }
    }
}

fn scalar_fault(value: &Value, node: &Node) -> Option<String> {
    let kind = if let Node::Scalar(kind) = node { *kind } else { Scalar::Any };
    match kind {
        Scalar::String if !value.is_string() => {
            Some(format!("expected string, got &value.valueUnstructured{{Value:{}}}", go_syntax(value)))
        }
        Scalar::Number if !value.is_number() => {
            Some(format!("expected numeric (int or float), got {}", go_type(value)))
        }
        Scalar::Boolean if !value.is_boolean() => {
            Some(format!("expected boolean, got &{{{}}}", go_value(value)))
        }
        Scalar::Any if value.is_array() || value.is_object() => {
            Some(format!("expected any scalar, got &{{{}}}", go_value(value)))
        }
        _ => None,
    }
}

/// Go's name of the type.
pub(crate) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Go's `%#v`.
fn go_syntax(value: &Value) -> String {
    let mut text = String::new();
    match value {
        Value::Null => text.push_str("interface {}(nil)"),
        Value::Bool(_) | Value::Number(_) => text = value.to_string(),
        Value::String(string) => text = format!("{string:?}"),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(go_syntax).collect();
            let _ = write!(text, "[]interface {{}}{{{}}}", items.join(", "));
        }
        Value::Object(map) => {
            let fields: Vec<_> =
                map.iter().map(|(name, value)| format!("{name:?}:{}", go_syntax(value))).collect();
            let _ = write!(text, "map[string]interface {{}}{{{}}}", fields.join(", "));
        }
    }
    text
}

/// Go's `%v`.
pub(crate) fn go_value(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(go_value).collect::<Vec<_>>().join(" ")),
        Value::Object(map) => {
            let fields: Vec<_> =
                map.iter().map(|(name, value)| format!("{name}:{}", go_value(value))).collect();
            format!("map[{}]", fields.join(" "))
        }
    }
}
