//! Paths to fields: one element per step, printed and serialised as structured-merge-diff does.
//!
//! Must not know schemas or sets.

use crate::Error;
use serde_json::{Map, Value};
use std::cmp::Ordering;
use std::fmt;

/// A JSON value with an order, for list keys and set members. Numbers are equal by value.
#[derive(Clone, Debug)]
pub struct Literal(pub Value);

impl Literal {
    fn rank(&self) -> u8 {
        match self.0 {
            Value::Number(_) => 0,
            Value::String(_) => 1,
            Value::Bool(_) => 2,
            Value::Array(_) => 3,
            Value::Object(_) => 4,
            Value::Null => 5,
        }
    }
}

impl Ord for Literal {
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.0, &other.0) {
            (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
                (Some(a), Some(b)) => a.cmp(&b),
                _ => a.as_f64().unwrap_or_default().total_cmp(&b.as_f64().unwrap_or_default()),
            },
            (Value::String(a), Value::String(b)) => a.cmp(b),
            (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
            (Value::Array(_), Value::Array(_)) | (Value::Object(_), Value::Object(_)) => {
                self.0.to_string().cmp(&other.0.to_string())
            }
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Literal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Literal {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Literal {}

/// As in messages: strings quoted, the rest as JSON.
impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Value::String(text) => write!(f, "{text:?}"),
            other => write!(f, "{other}"),
        }
    }
}

/// One step into a value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathElement {
    /// A field of a map: `f:name`, printed `.name`.
    Field(String),
    /// The item of an associative list that has these key fields (sorted by name):
    /// `k:{"name":"nginx"}`, printed `[name="nginx"]`.
    Key(Vec<(String, Literal)>),
    /// The item of a set: `v:"x"`, printed `[="x"]`.
    Value(Literal),
    /// The item of a list at this position: `i:0`, printed `[0]`.
    Index(i64),
}

impl PathElement {
    /// Parses the form that `FieldsV1` uses for its keys.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let invalid = || Error::FieldsV1(format!("invalid path element {text:?} in FieldsV1"));
        let (kind, rest) = text.split_once(':').ok_or_else(invalid)?;
        match kind {
            "f" => Ok(Self::Field(rest.to_owned())),
            "v" => Ok(Self::Value(Literal(serde_json::from_str(rest).map_err(|_| invalid())?))),
            "i" => Ok(Self::Index(rest.parse().map_err(|_| invalid())?)),
            "k" => {
                let fields: Map<String, Value> = serde_json::from_str(rest).map_err(|_| invalid())?;
                Ok(Self::key(fields))
            }
            _ => Err(invalid()),
        }
    }

    /// A key of these fields, in their order.
    pub fn key(fields: impl IntoIterator<Item = (String, Value)>) -> Self {
        let mut fields: Vec<_> = fields.into_iter().map(|(name, value)| (name, Literal(value))).collect();
        fields.sort();
        Self::Key(fields)
    }

    /// The form that `FieldsV1` uses for its keys.
    pub fn serialized(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(fields) => {
                let fields: Vec<_> = fields
                    .iter()
                    .map(|(name, value)| format!("{}:{}", Value::from(name.as_str()), value.0))
                    .collect();
                format!("k:{{{}}}", fields.join(","))
            }
            Self::Value(value) => format!("v:{}", value.0),
            Self::Index(index) => format!("i:{index}"),
        }
    }
}

impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(fields) => {
                f.write_str("[")?;
                for (at, (name, value)) in fields.iter().enumerate() {
                    let comma = if at == 0 { "" } else { "," };
                    write!(f, "{comma}{name}={value}")?;
                }
                f.write_str("]")
            }
            Self::Value(value) => write!(f, "[={value}]"),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// A field of an object, from the root: `.spec.template.spec.containers[name="nginx"].image`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(pub Vec<PathElement>);

impl Path {
    /// The path of nested fields: `Path::fields(["spec", "replicas"])`.
    pub fn fields<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        Self(names.into_iter().map(|name| PathElement::Field(name.to_owned())).collect())
    }

    /// This path and one more step.
    #[must_use]
    pub fn join(&self, element: PathElement) -> Self {
        let mut elements = self.0.clone();
        elements.push(element);
        Self(elements)
    }

    /// Whether this path is `prefix` or lies below it.
    pub fn starts_with(&self, prefix: &Self) -> bool {
        self.0.starts_with(&prefix.0)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|element| element.fmt(f))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_are_printed_as_in_the_servers_messages() {
        let mut path = Path::fields(["spec", "template", "spec", "containers"]);
        path.0.push(PathElement::key([("name".to_owned(), json!("nginx"))]));
        let path = path.join(PathElement::Field("image".to_owned()));
        assert_eq!(path.to_string(), r#".spec.template.spec.containers[name="nginx"].image"#);
        let port = PathElement::key([
            ("protocol".to_owned(), json!("TCP")),
            ("containerPort".to_owned(), json!(80)),
        ]);
        assert_eq!(port.to_string(), r#"[containerPort=80,protocol="TCP"]"#);
        assert_eq!(PathElement::Value(Literal(json!("a/b"))).to_string(), r#"[="a/b"]"#);
        assert_eq!(PathElement::Index(3).to_string(), "[3]");
    }

    #[test]
    fn elements_are_read_from_fields_v1_and_written_again() {
        for text in
            ["f:spec", "f:a:b", "f:", r#"k:{"containerPort":80,"protocol":"TCP"}"#, r#"v:"x""#, "v:1", "i:0"]
        {
            assert_eq!(PathElement::parse(text).unwrap().serialized(), text);
        }
        for text in ["", "spec", "x:1", "k:[]", "k:{", "v:", "i:x", "."] {
            assert!(PathElement::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn numbers_are_the_same_by_value() {
        assert_eq!(Literal(json!(1)), Literal(json!(1.0)));
        assert!(Literal(json!(1)) < Literal(json!(1.5)) && Literal(json!(2)) < Literal(json!("1")));
    }
}
