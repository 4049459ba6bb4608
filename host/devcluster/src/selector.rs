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
    Above(i64),
    Below(i64),
}

/// All requirements must hold.
#[derive(Clone, Debug, Default)]
pub(crate) struct LabelSelector(Vec<(String, Test)>);

impl LabelSelector {
    /// Parses `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1`.
    pub(crate) fn parse(text: &str) -> Result<Self, ApiError> {
        Parser::new(text).all().map(Self).map_err(ApiError::bad_request)
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
                Test::Above(limit) => value.and_then(|v| v.parse::<i64>().ok()).is_some_and(|v| v > *limit),
                Test::Below(limit) => value.and_then(|v| v.parse::<i64>().ok()).is_some_and(|v| v < *limit),
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
                Test::Above(limit) => format!("{key}>{limit}"),
                Test::Below(limit) => format!("{key}<{limit}"),
            })
            .collect();
        parts.sort();
        f.write_str(&parts.join(","))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token<'a> {
    /// A name, a value, or one of the words `in` and `notin`.
    Word(&'a str),
    /// One of `= == != ! ( ) , > <`.
    Symbol(&'a str),
    End,
}

impl Token<'_> {
    fn text(&self) -> &str {
        match self {
            Self::Word(text) | Self::Symbol(text) => text,
            Self::End => "",
        }
    }
}

/// The server's parser, with its texts.
struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Self {
        let special = |c: char| "=!(),><".contains(c);
        let mut tokens = Vec::new();
        let mut rest = text.trim_start();
        while let Some(first) = rest.chars().next() {
            let length = if !special(first) {
                rest.find(|c: char| special(c) || c.is_whitespace()).unwrap_or(rest.len())
            } else if rest.starts_with("==") || rest.starts_with("!=") {
                2
            } else {
                1
            };
            let (token, after) = rest.split_at(length);
            tokens.push(if special(first) { Token::Symbol(token) } else { Token::Word(token) });
            rest = after.trim_start();
        }
        Self { tokens, at: 0 }
    }

    fn peek(&self) -> Token<'a> {
        self.tokens.get(self.at).cloned().unwrap_or(Token::End)
    }

    fn next(&mut self) -> Token<'a> {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn all(mut self) -> Result<Vec<(String, Test)>, String> {
        let mut requirements = Vec::new();
        loop {
            match self.peek() {
                Token::Word(_) | Token::Symbol("!") => {
                    let one = self.requirement().map_err(|e| format!("unable to parse requirement: {e}"))?;
                    requirements.push(one);
                    match self.next() {
                        Token::End => return Ok(requirements),
                        Token::Symbol(",") if !matches!(self.peek(), Token::Word(_) | Token::Symbol("!")) => {
                            return Err(format!(
                                "found '{}', expected: identifier after ','",
                                self.peek().text()
                            ));
                        }
                        Token::Symbol(",") => {}
                        other => {
                            return Err(format!(
                                "found '{}', expected: ',' or 'end of string'",
                                other.text()
                            ));
                        }
                    }
                }
                Token::End => return Ok(requirements),
                Token::Symbol(found) => {
                    return Err(format!("found '{found}', expected: !, identifier, or 'end of string'"));
                }
            }
        }
    }

    fn requirement(&mut self) -> Result<(String, Test), String> {
        let mut token = self.next();
        let negated = token == Token::Symbol("!");
        if negated {
            token = self.next();
        }
        let Token::Word(key) = token else {
            return Err(format!("found '{}', expected: identifier", token.text()));
        };
        if let Some(fault) = crate::meta::qualified_name(key).first() {
            return Err(format!("<nil>: Invalid value: {key:?}: {fault}"));
        }
        let key = key.to_owned();
        if negated {
            return Ok((key, Test::Absent));
        }
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return Ok((key, Test::Exists));
        }
        let operator = self.next();
        let test = match operator.text() {
            "in" => Test::In(self.values()?),
            "notin" => Test::NotIn(self.values()?),
            "=" | "==" => Test::In(vec![self.value()?]),
            "!=" => Test::NotIn(vec![self.value()?]),
            ">" => Test::Above(self.number()?),
            "<" => Test::Below(self.number()?),
            other => return Err(format!("found '{other}', expected: in, notin, =, ==, !=, gt, lt")),
        };
        Ok((key, test))
    }

    fn value(&mut self) -> Result<String, String> {
        match self.peek() {
            Token::End | Token::Symbol(",") => Ok(String::new()),
            Token::Word(value) => {
                self.at += 1;
                Ok(value.to_owned())
            }
            Token::Symbol(other) => Err(format!("found '{other}', expected: identifier")),
        }
    }

    fn number(&mut self) -> Result<i64, String> {
        let value = self.value()?;
        let fault = "for 'Gt', 'Lt' operators, the value must be an integer";
        value.parse().map_err(|_| format!("values[0]: Invalid value: {value:?}: {fault}"))
    }

    fn values(&mut self) -> Result<Vec<String>, String> {
        let open = self.next();
        if open != Token::Symbol("(") {
            return Err(format!("found '{}' expected: '('", open.text()));
        }
        let mut values = Vec::new();
        loop {
            match self.next() {
                Token::Word(value) => {
                    values.push(value.to_owned());
                    match self.next() {
                        Token::Symbol(",") => {}
                        Token::Symbol(")") => return Ok(values),
                        other => return Err(format!("found '{}', expected: ',' or ')'", other.text())),
                    }
                }
                // An empty value.
                Token::Symbol(")") => {
                    values.push(String::new());
                    return Ok(values);
                }
                Token::Symbol(",") => values.push(String::new()),
                other => return Err(format!("found '{}', expected: ',', or identifier", other.text())),
            }
        }
    }
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
                ApiError::bad_request(format!("invalid selector: '{text}'; can't understand '{part}'"))
            })?;
            // A term of nothing says nothing.
            if !(field.is_empty() && value.is_empty()) {
                terms.push((field.to_owned(), value.to_owned(), equal));
            }
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
                // Of an event: who told it.
                Value::Object(source) if field == "source" => {
                    let named = source.get("component").and_then(Value::as_str);
                    let reporter = object.get("reportingComponent").and_then(Value::as_str);
                    named.or(reporter).unwrap_or_default().to_owned()
                }
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
            ("b>1", true),
            ("b<2", false),
        ] {
            assert_eq!(LabelSelector::parse(text).unwrap().matches(&labels), expected, "{text}");
        }
        for (text, fault) in [
            ("a in 1", "unable to parse requirement: found '1' expected: '('"),
            ("a=1 b", "found 'b', expected: ',' or 'end of string'"),
            ("a,", "found '', expected: identifier after ','"),
            ("=a", "found '=', expected: !, identifier, or 'end of string'"),
        ] {
            assert_eq!(LabelSelector::parse(text).unwrap_err().message, fault);
        }
    }

    #[test]
    fn a_field_that_is_absent_counts_as_empty() {
        let selector = FieldSelector::parse("metadata.name=x,reason=").unwrap();
        assert!(selector.matches(&json!({ "metadata": { "name": "x" } })));
        assert!(!selector.matches(&json!({ "metadata": { "name": "x" }, "reason": "r" })));
        assert!(FieldSelector::parse("nonsense").is_err());
    }
}
