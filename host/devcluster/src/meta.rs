//! `metadata`: names, labels, annotations, finalizers, owner references.
//!
//! Source: `apimachinery/pkg/util/validation/validation.go` and `apimachinery/pkg/api/validation/objectmeta.go`.
//! Must not know kinds beyond how their names are formed.

use crate::status::FieldError;
use serde_json::{Value, json};

/// Sum of the sizes of all annotations, in bytes.
const ANNOTATIONS_LIMIT: usize = 256 * 1024;
/// A generated name is the prefix, cut to this, and five characters.
const GENERATE_PREFIX_LIMIT: usize = 58;

const LABEL_FORMAT: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', \
    and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation \
    is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN_FORMAT: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, \
    '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation \
    is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const QUALIFIED_FORMAT: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end \
    with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE_FORMAT: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', \
    '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', \
    regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// Names count "characters" and labels "bytes": the server has two texts for one thing.
fn too_long(limit: usize, unit: &str) -> String {
    format!("must be no more than {limit} {unit}")
}

fn ends_alphanumeric(text: &str) -> bool {
    let alphanumeric = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    alphanumeric(text.chars().next()) && alphanumeric(text.chars().next_back())
}

fn is_dns_label(text: &str) -> bool {
    ends_alphanumeric(text) && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

fn is_qualified(text: &str) -> bool {
    ends_alphanumeric(text) && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

/// Faults of a DNS-1123 label, up to 63 bytes.
pub(crate) fn dns_label(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if text.len() > 63 {
        faults.push(too_long(63, "characters"));
    }
    if !is_dns_label(text) {
        faults.push(LABEL_FORMAT.to_owned());
    }
    faults
}

/// Faults of a DNS-1123 subdomain, up to 253 bytes.
pub(crate) fn dns_subdomain(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if text.len() > 253 {
        faults.push(too_long(253, "characters"));
    }
    if !text.split('.').all(is_dns_label) {
        faults.push(SUBDOMAIN_FORMAT.to_owned());
    }
    faults
}

/// Faults of a qualified name, `PREFIX/NAME` with the prefix optional.
pub(crate) fn qualified_name(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let name = match text.split_once('/') {
        None => text,
        Some((_, name)) if name.contains('/') => {
            faults.push(format!(
                "a qualified name {QUALIFIED_FORMAT} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            ));
            return faults;
        }
        Some((prefix, name)) => {
            if prefix.is_empty() {
                faults.push("prefix part must be non-empty".to_owned());
            } else {
                faults.extend(dns_subdomain(prefix).into_iter().map(|f| format!("prefix part {f}")));
            }
            name
        }
    };
    if name.is_empty() {
        faults.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        faults.push(format!("name part {}", too_long(63, "bytes")));
    }
    if !is_qualified(name) {
        faults.push(format!("name part {QUALIFIED_FORMAT}"));
    }
    faults
}

fn label_value(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if text.len() > 63 {
        faults.push(too_long(63, "bytes"));
    }
    if !text.is_empty() && !is_qualified(text) {
        faults.push(LABEL_VALUE_FORMAT.to_owned());
    }
    faults
}

/// How a kind's names are formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameRule {
    Label,
    Subdomain,
}

/// Faults of labels, at `field`.
pub(crate) fn labels(labels: &Value, field: &str, errors: &mut Vec<FieldError>) {
    for (key, value) in labels.as_object().into_iter().flatten() {
        errors.extend(
            qualified_name(key).into_iter().map(|f| FieldError::invalid(field, &key.as_str().into(), f)),
        );
        let text = value.as_str().unwrap_or_default();
        errors.extend(label_value(text).into_iter().map(|f| FieldError::invalid(field, value, f)));
    }
}

/// Faults of an object's metadata.
pub(crate) fn validate(metadata: &Value, rule: NameRule, built_in: bool, errors: &mut Vec<FieldError>) {
    let text = |field: &str| metadata.get(field).and_then(Value::as_str).unwrap_or_default();
    let check = |name: &str| match rule {
        NameRule::Label => dns_label(name),
        NameRule::Subdomain => dns_subdomain(name),
    };
    let generate = text("generateName");
    if !generate.is_empty() {
        // A trailing dash is masked, as something follows it.
        let masked = generate.strip_suffix('-').map_or(generate.to_owned(), |head| format!("{head}a"));
        let faults = check(&masked).into_iter();
        errors.extend(faults.map(|f| FieldError::invalid("metadata.generateName", &generate.into(), f)));
    }
    let name = text("name");
    if name.is_empty() {
        errors.push(FieldError::required("metadata.name", "name or generateName is required"));
    } else {
        errors.extend(check(name).into_iter().map(|f| FieldError::invalid("metadata.name", &name.into(), f)));
    }
    labels(metadata.get("labels").unwrap_or(&Value::Null), "metadata.labels", errors);
    let mut size = 0;
    for (key, value) in metadata.get("annotations").and_then(Value::as_object).into_iter().flatten() {
        let faults = qualified_name(&key.to_lowercase()).into_iter();
        errors.extend(faults.map(|f| FieldError::invalid("metadata.annotations", &key.as_str().into(), f)));
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > ANNOTATIONS_LIMIT {
        errors.push(FieldError::too_long("metadata.annotations", ANNOTATIONS_LIMIT));
    }
    owner_references(metadata, errors);
    finalizers(metadata, built_in, errors);
}

/// The finalizers that need no domain, of built-in kinds.
const STANDARD_FINALIZERS: [&str; 4] =
    ["kubernetes", "orphan", "foregroundDeletion", crate::definition::CLEANUP];

fn finalizers(metadata: &Value, built_in: bool, errors: &mut Vec<FieldError>) {
    let field = "metadata.finalizers";
    let all = metadata.get("finalizers").unwrap_or(&Value::Null);
    let list = all.as_array().map(Vec::as_slice).unwrap_or_default();
    for finalizer in list {
        let faults = qualified_name(finalizer.as_str().unwrap_or_default()).into_iter();
        errors.extend(faults.map(|f| FieldError::invalid(field, finalizer, f)));
    }
    if list.iter().any(|f| f == "orphan") && list.iter().any(|f| f == "foregroundDeletion") {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(FieldError::invalid(field, all, detail));
    }
    for (index, finalizer) in list.iter().enumerate().filter(|_| built_in) {
        let name = finalizer.as_str().unwrap_or_default();
        if !name.contains('/') && !STANDARD_FINALIZERS.contains(&name) && qualified_name(name).is_empty() {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(FieldError::invalid(format!("{field}[{index}]"), finalizer, detail));
        }
    }
}

/// What the server warns of in the finalizers of custom resources.
pub(crate) fn finalizer_warnings(metadata: &Value) -> impl Iterator<Item = String> {
    let list = metadata.get("finalizers").and_then(Value::as_array).into_iter().flatten();
    let bare =
        list.filter_map(Value::as_str).filter(|f| !f.contains('/') && !STANDARD_FINALIZERS.contains(f));
    bare.map(|f| {
        format!(
            "metadata.finalizers: {f:?}: prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers"
        )
    })
}

fn owner_references(metadata: &Value, errors: &mut Vec<FieldError>) {
    let field = "metadata.ownerReferences";
    let mut controller: Option<String> = None;
    for reference in metadata.get("ownerReferences").and_then(Value::as_array).into_iter().flatten() {
        let text = |name: &str| reference.get(name).and_then(Value::as_str).unwrap_or_default();
        let bad_version = text("apiVersion").matches('/').count() > 1;
        for (name, detail) in [
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ] {
            if text(name).is_empty() || (name == "apiVersion" && bad_version) {
                errors.push(FieldError::invalid(format!("{field}.{name}"), &json!(text(name)), detail));
            }
        }
        if (text("apiVersion"), text("kind")) == ("v1", "Event") {
            let detail = "/v1, Kind=Event is disallowed from being an owner";
            errors.push(FieldError::invalid(field, reference, detail));
        }
        if reference.get("controller") == Some(&Value::Bool(true)) {
            let this = format!("{}/{}", text("kind"), text("name"));
            if let Some(first) = &controller {
                let detail = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"
                );
                let all = metadata.get("ownerReferences").unwrap_or(&Value::Null);
                errors.push(FieldError::invalid(field, all, detail));
            } else {
                controller = Some(this);
            }
        }
    }
}

/// Faults of a change of metadata. `old` and `new` are whole objects' metadata.
pub(crate) fn validate_update(old: &Value, new: &Value, errors: &mut Vec<FieldError>) {
    for field in
        ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"]
    {
        let value = new.get(field).unwrap_or(&Value::Null);
        if value != old.get(field).unwrap_or(&Value::Null) {
            errors.push(FieldError::invalid(format!("metadata.{field}"), value, "field is immutable"));
        }
    }
    if old.get("deletionTimestamp").is_some() {
        let list = |m: &Value| m.get("finalizers").and_then(Value::as_array).cloned().unwrap_or_default();
        let before = list(old);
        let added: Vec<_> =
            list(new).iter().filter(|f| !before.contains(f)).map(ToString::to_string).collect();
        if !added.is_empty() {
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                added.join(", ")
            );
            errors.push(FieldError::forbidden("metadata.finalizers", detail));
        }
    }
}

/// A JSON type as Go's decoder names it.
pub(crate) fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Checks the types of the fields that the rest relies on; the answer is the decoder's text for the first bad one.
/// `within` is where the decoder of the kind says that the metadata are.
pub(crate) fn wrong_type(metadata: &Value, within: &str) -> Option<String> {
    let Some(fields) = metadata.as_object() else {
        return Some(format!(
            "json: cannot unmarshal {} into Go value of type v1.ObjectMeta",
            go_kind(metadata)
        ));
    };
    for (name, value) in fields {
        let (wrong, wanted) = match name.as_str() {
            "name" | "namespace" | "uid" | "resourceVersion" | "generateName" | "creationTimestamp"
            | "deletionTimestamp" => (Some(value).filter(|v| !v.is_string()), "string"),
            "labels" | "annotations" => match value {
                Value::Object(map) => (map.values().find(|v| !v.is_string() && !v.is_null()), "string"),
                other => (Some(other), "map[string]string"),
            },
            "finalizers" => match value {
                Value::Array(items) => (items.iter().find(|v| !v.is_string()), "string"),
                other => (Some(other), "[]string"),
            },
            "ownerReferences" => match value {
                Value::Array(items) => (items.iter().find(|v| !v.is_object()), "v1.OwnerReference"),
                other => (Some(other), "[]v1.OwnerReference"),
            },
            "managedFields" => match value {
                Value::Array(items) => (items.iter().find(|v| !v.is_object()), "v1.ManagedFieldsEntry"),
                other => (Some(other), "[]v1.ManagedFieldsEntry"),
            },
            _ => (None, ""),
        };
        if let Some(wrong) = wrong.filter(|v| !v.is_null()) {
            let kind = go_kind(wrong);
            return Some(format!(
                "json: cannot unmarshal {kind} into Go struct field ObjectMeta.{within}{name} of type {wanted}"
            ));
        }
    }
    None
}

/// A name made from a prefix: the prefix and five random characters of the API's alphabet.
pub(crate) fn generated_name(prefix: &str) -> String {
    const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut cut = prefix.len().min(GENERATE_PREFIX_LIMIT);
    while !prefix.is_char_boundary(cut) {
        cut -= 1;
    }
    let mut name = prefix.get(..cut).unwrap_or_default().to_owned();
    for byte in uuid::Uuid::new_v4().as_bytes().iter().take(5) {
        name.push(char::from(ALPHABET.get(usize::from(*byte) % ALPHABET.len()).copied().unwrap_or(b'x')));
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_limited_in_form_and_length() {
        for (name, label, subdomain) in [
            ("web-1", true, true),
            ("a.b", false, true),
            ("A_b", false, false),
            ("a/b", false, false),
            ("-a", false, false),
            ("", false, false),
        ] {
            assert_eq!(dns_label(name).is_empty(), label, "{name}");
            assert_eq!(dns_subdomain(name).is_empty(), subdomain, "{name}");
        }
        assert!(dns_label(&"a".repeat(63)).is_empty() && !dns_label(&"a".repeat(64)).is_empty());
        assert!(dns_subdomain(&"a".repeat(253)).is_empty() && !dns_subdomain(&"a".repeat(254)).is_empty());
    }

    #[test]
    fn a_label_value_of_64_bytes_is_refused_and_one_of_63_is_taken() {
        for (length, faults) in [(63, 0), (64, 1)] {
            let mut errors = Vec::new();
            labels(&json!({ "controller": "a".repeat(length) }), "metadata.labels", &mut errors);
            assert_eq!(errors.len(), faults);
        }
    }

    #[test]
    fn a_generated_name_keeps_its_prefix_and_fits() {
        let name = generated_name(&"a".repeat(100));
        assert_eq!(name.len(), 63);
        assert!(dns_label(&name).is_empty());
    }
}
