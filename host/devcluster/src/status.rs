//! `metav1.Status` errors, worded as the API server words them, and the field errors inside them.
//!
//! Source: `apimachinery/pkg/api/errors/errors.go` and `apimachinery/pkg/util/validation/field/errors.go`.
//! Must not know HTTP or storage.

use serde_json::{Value, json};

/// An error that becomes the body of an answer.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct ApiError {
    pub(crate) code: u16,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    pub(crate) details: Option<Value>,
    /// The answer is text, not a Status: nobody was there to write one.
    pub(crate) plain: bool,
    /// Token with which an expired list can be gone on with; empty where there is none.
    next: String,
}

/// Group and plural of a resource: `deployments.apps`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Qualified<'a> {
    pub(crate) group: &'a str,
    pub(crate) name: &'a str,
}

impl std::fmt::Display for Qualified<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.group.is_empty() { f.write_str(self.name) } else { write!(f, "{}.{}", self.name, self.group) }
    }
}

impl ApiError {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: None, plain: false, next: String::new() }
    }

    fn about(mut self, resource: Qualified<'_>, name: &str) -> Self {
        let mut details = json!({});
        if !resource.name.is_empty() {
            details["kind"] = resource.name.into();
        }
        if !name.is_empty() {
            details["name"] = name.into();
        }
        if !resource.group.is_empty() {
            details["group"] = resource.group.into();
        }
        self.details = Some(details);
        self
    }

    fn causes(mut self, causes: Vec<Value>) -> Self {
        self.details.get_or_insert_with(|| json!({}))["causes"] = Value::Array(causes);
        self
    }

    pub(crate) fn not_found(resource: Qualified<'_>, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{resource} {name:?} not found")).about(resource, name)
    }

    /// What the server answers for a path that it does not serve: the text of Go's `http.NotFound`. Clients make
    /// "the server could not find the requested resource" of it.
    pub(crate) fn no_such_path() -> Self {
        let mut error = Self::new(404, "NotFound", "404 page not found");
        error.plain = true;
        error
    }

    pub(crate) fn already_exists(resource: Qualified<'_>, name: &str, deleting: bool) -> Self {
        let prefix = if deleting { "object is being deleted: " } else { "" };
        Self::new(409, "AlreadyExists", format!("{prefix}{resource} {name:?} already exists"))
            .about(resource, name)
    }

    pub(crate) fn conflict(resource: Qualified<'_>, name: &str, why: &str) -> Self {
        Self::new(409, "Conflict", format!("Operation cannot be fulfilled on {resource} {name:?}: {why}"))
            .about(resource, name)
    }

    /// The optimistic lock failed.
    pub(crate) fn modified(resource: Qualified<'_>, name: &str) -> Self {
        Self::conflict(
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// The field manager conflicts of an apply; each cause is `(message, field)`.
    pub(crate) fn apply_conflict(message: String, causes: impl Iterator<Item = (String, String)>) -> Self {
        let causes = causes
            .map(|(message, field)| json!({ "reason": "FieldManagerConflict", "message": message, "field": field }))
            .collect();
        Self::new(409, "Conflict", message).causes(causes)
    }

    /// 422 for an object; `kind` is its kind, not its resource.
    pub(crate) fn invalid(kind: Qualified<'_>, name: &str, errors: &[FieldError]) -> Self {
        let mut texts: Vec<String> = Vec::new();
        for error in errors {
            let text = format!("{}: {}", error.field, error.body());
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        let text = match texts.as_slice() {
            [only] => only.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let causes = errors
            .iter()
            .map(|e| json!({ "reason": e.kind.reason(), "message": e.body(), "field": e.field }))
            .collect();
        Self::new(422, "Invalid", format!("{kind} {name:?} is invalid: {text}"))
            .about(kind, name)
            .causes(causes)
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub(crate) fn forbidden(resource: Qualified<'_>, name: &str, why: &str) -> Self {
        let named = if name.is_empty() { String::new() } else { format!(" {name:?}") };
        Self::new(403, "Forbidden", format!("{resource}{named} is forbidden: {why}")).about(resource, name)
    }

    /// A create in a namespace that is going away (`plugin/namespace/lifecycle`).
    pub(crate) fn namespace_terminating(resource: Qualified<'_>, name: &str, namespace: &str) -> Self {
        let why =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        Self::forbidden(resource, name, &why).causes(vec![json!({
            "reason": "NamespaceTerminating",
            "message": format!("namespace {namespace} is being terminated"),
            "field": "metadata.namespace",
        })])
    }

    /// 410: the resource version is compacted away.
    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// 410: the version that a page belongs to is compacted away. `next` goes on without it.
    pub(crate) fn page_expired(next: String) -> Self {
        let mut error = Self::expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new list \
             without the continue parameter, or use the continue token in this response to retrieve the remainder of \
             the results. Continuing with the provided token results in an inconsistent list - objects that were \
             created, modified, or deleted between the time the first chunk was returned and now may show up in the \
             list.",
        );
        error.next = next;
        error
    }

    pub(crate) fn too_large_version(wanted: u64, current: u64) -> Self {
        let mut error = Self::new(
            504,
            "Timeout",
            format!("Timeout: Too large resource version: {wanted}, current: {current}"),
        )
        .causes(vec![
            json!({ "reason": "ResourceVersionTooLarge", "message": "Too large resource version" }),
        ]);
        if let Some(details) = &mut error.details {
            details["retryAfterSeconds"] = 1.into();
        }
        error
    }

    pub(crate) fn method_not_allowed() -> Self {
        Self::method_not_allowed_because("the server does not allow this method on the requested resource")
    }

    fn method_not_allowed_because(why: &str) -> Self {
        let mut error = Self::new(405, "MethodNotAllowed", why);
        error.details = Some(json!({}));
        error
    }

    /// What a server answers for a path below a version that it serves.
    pub(crate) fn no_such_resource() -> Self {
        let mut error = Self::new(404, "NotFound", "the server could not find the requested resource");
        error.details = Some(json!({}));
        error
    }

    /// What the router answers for a patch of a type that no handler takes.
    pub(crate) fn unrouted_media() -> Self {
        let mut error = Self::new(415, "UnsupportedMediaType", "415: Unsupported Media Type");
        error.details = Some(json!({}));
        error
    }

    /// A name is neither in the body nor to be made up.
    pub(crate) fn unnamed(on_url: &str) -> Self {
        Self::bad_request(format!(
            "the name of the object ({on_url} based on URL) was undeterminable: name must be provided"
        ))
    }

    pub(crate) fn other_namespace() -> Self {
        Self::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        )
    }

    /// Names what the real server accepts, of which this one speaks JSON only.
    pub(crate) fn not_acceptable() -> Self {
        let accepted = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
        Self::new(406, "NotAcceptable", format!("only the following media types are accepted: {accepted}"))
    }

    pub(crate) fn unsupported_media(accepted: &str) -> Self {
        let text = format!(
            "the body of the request was in an unknown format - accepted media types include: {accepted}"
        );
        Self::new(415, "UnsupportedMediaType", text)
    }

    pub(crate) fn too_large() -> Self {
        Self::new(413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728")
    }

    /// What the server says for a patch that does not apply; why stays its secret.
    pub(crate) fn unprocessable() -> Self {
        let mut error =
            Self::new(422, "Invalid", "the server rejected our request due to an error in our request");
        error.details = Some(json!({}));
        error
    }

    /// 500 whose text is that of an error inside the server.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    /// Seconds after which the client may ask again.
    pub(crate) fn retry_after(&self) -> Option<u64> {
        self.details.as_ref()?.get("retryAfterSeconds")?.as_u64()
    }

    /// The body of the answer.
    pub(crate) fn to_status(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = self.reason.into();
        }
        if let Some(details) = &self.details {
            status["details"] = details.clone();
        }
        if !self.next.is_empty() {
            status["metadata"]["continue"] = self.next.as_str().into();
        }
        status
    }
}

/// Kinds of field errors (`field.ErrorType`), as far as they occur here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldErrorKind {
    Required,
    Invalid,
    TypeInvalid,
    NotSupported,
    Forbidden,
    TooLong,
    TooMany,
    Duplicate,
}

impl FieldErrorKind {
    fn reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::Duplicate => "FieldValueDuplicate",
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::Duplicate => "Duplicate value",
        }
    }
}

/// One faulty field.
#[derive(Clone, Debug)]
pub(crate) struct FieldError {
    pub(crate) kind: FieldErrorKind,
    pub(crate) field: String,
    /// As it is printed; empty where the kind prints no value.
    value: String,
    detail: String,
}

impl FieldError {
    pub(crate) fn required(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            kind: FieldErrorKind::Required,
            field: field.into(),
            value: String::new(),
            detail: detail.into(),
        }
    }

    pub(crate) fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            kind: FieldErrorKind::Forbidden,
            field: field.into(),
            value: String::new(),
            detail: detail.into(),
        }
    }

    pub(crate) fn too_long(field: impl Into<String>, limit: usize) -> Self {
        let detail = format!("may not be more than {limit} bytes");
        Self { kind: FieldErrorKind::TooLong, field: field.into(), value: String::new(), detail }
    }

    pub(crate) fn invalid(field: impl Into<String>, value: &Value, detail: impl Into<String>) -> Self {
        Self::with(FieldErrorKind::Invalid, field, value, detail)
    }

    /// A value that is none of `values` (quoted, with commas).
    pub(crate) fn not_supported(field: impl Into<String>, value: &Value, values: &str) -> Self {
        Self::with(FieldErrorKind::NotSupported, field, value, format!("supported values: {values}"))
    }

    /// A text with characters that Go prints in its own way.
    pub(crate) fn invalid_go(field: &str, value: &str, detail: impl Into<String>) -> Self {
        let characters = value.chars().map(|c| match c {
            '\u{7}' => "\\a".to_owned(),
            c if c.is_control() => format!("\\x{:02x}", u32::from(c)),
            c => c.to_string(),
        });
        let value = format!("\"{}\"", characters.collect::<String>());
        Self { kind: FieldErrorKind::Invalid, field: field.to_owned(), value, detail: detail.into() }
    }

    pub(crate) fn with(
        kind: FieldErrorKind,
        field: impl Into<String>,
        value: &Value,
        detail: impl Into<String>,
    ) -> Self {
        Self { kind, field: field.into(), value: value.to_string(), detail: detail.into() }
    }

    fn body(&self) -> String {
        let mut text = self.kind.text().to_owned();
        for part in [&self.value, &self.detail] {
            if !part.is_empty() {
                text.push_str(": ");
                text.push_str(part);
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_field_error_stands_alone_and_several_stand_in_brackets() {
        let kind = Qualified { group: "samplecontroller.k8s.io", name: "Foo" };
        let one = FieldError::invalid("spec.replicas", &json!(11), "too many");
        let error = ApiError::invalid(kind, "x", std::slice::from_ref(&one));
        assert_eq!(
            error.message,
            r#"Foo.samplecontroller.k8s.io "x" is invalid: spec.replicas: Invalid value: 11: too many"#
        );
        let two = [one, FieldError::required("spec.deploymentName", "")];
        let error = ApiError::invalid(kind, "x", &two);
        assert!(
            error.message.ends_with(
                "[spec.replicas: Invalid value: 11: too many, spec.deploymentName: Required value]"
            )
        );
        assert_eq!(error.to_status()["details"]["causes"][1]["reason"], "FieldValueRequired");
    }

    #[test]
    fn a_terminating_namespace_is_named_in_a_cause() {
        let error =
            ApiError::namespace_terminating(Qualified { group: "apps", name: "deployments" }, "web", "old");
        let status = error.to_status();
        assert_eq!(status["code"], 403);
        assert_eq!(status["details"]["causes"][0]["reason"], "NamespaceTerminating");
    }
}
