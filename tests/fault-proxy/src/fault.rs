//! What can go wrong with a request, and the answers that the proxy gives in the server's place.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde_json::{Value, json};

/// What happens to a request.
///
/// Over HTTP/1.1 a dropped or cut request closes its connection. Over HTTP/2 it resets its stream, so that the
/// other requests of the connection go on. Go's client tries a GET again by itself when a kept-alive HTTP/1.1
/// connection is closed before any answer: count what arrives, not what the caller asked.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The proxy answers; the server never sees the request.
    Answer(Answer),
    /// Closed; the server never sees the request.
    DropBefore,
    /// The server does it and answers, the client hears nothing: closed.
    DropAfter,
    /// The client gets so much of the answer's body, then it is cut: no proper end.
    CutAfter(Portion),
    /// The client gets so much of the answer's body, then nothing more comes and nothing is closed.
    StallAfter(Portion),
    /// A JSON watch gets so many events, then an ERROR event with this answer's Status, then a proper end. What is
    /// no JSON watch is cut at once: a protobuf stream is not taken apart.
    ErrorEventAfter(usize, Answer),
    /// Swallowed: the server never sees it, no answer comes, nothing is closed.
    BlackHole,
}

/// A part of an answer's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Portion {
    /// So many bytes.
    Bytes(usize),
    /// So many whole events of a JSON watch; of another answer, nothing.
    Events(usize),
}

/// An answer of the proxy: by default a `metav1.Status` with the texts of a real server.
#[derive(Clone, Debug)]
pub struct Answer {
    pub(crate) code: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    /// A failure with this code, reason (`Conflict`, …) and message.
    ///
    /// # Panics
    ///
    /// Where `code` is no HTTP status (100 to 999).
    pub fn status(code: u16, reason: &str, message: &str) -> Self {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": reason, "code": code,
        });
        Self::json(code, &status)
    }

    /// Any JSON with this code: an older list, for a server whose cache is behind.
    ///
    /// # Panics
    ///
    /// Where `code` is no HTTP status (100 to 999).
    pub fn json(code: u16, body: &Value) -> Self {
        let code = StatusCode::from_u16(code).expect("an HTTP status has three digits");
        let headers = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
        Self { code, headers: headers.into_iter().collect(), body: body.to_string().into() }
    }

    /// 400 `BadRequest`
    pub fn bad_request(message: &str) -> Self {
        Self::status(400, "BadRequest", message)
    }

    /// 401 `Unauthorized`
    pub fn unauthorized() -> Self {
        Self::status(401, "Unauthorized", "Unauthorized")
    }

    /// 403 `Forbidden`
    pub fn forbidden(message: &str) -> Self {
        Self::status(403, "Forbidden", message)
    }

    /// 404 `NotFound`
    pub fn not_found() -> Self {
        Self::status(404, "NotFound", "the server could not find the requested resource")
    }

    /// 409 `Conflict`: the object changed since it was read.
    pub fn conflict() -> Self {
        let message = "Operation cannot be fulfilled: the object has been modified; please apply your changes to \
                       the latest version and try again";
        Self::status(409, "Conflict", message)
    }

    /// 409 `AlreadyExists`
    pub fn already_exists() -> Self {
        Self::status(409, "AlreadyExists", "object already exists")
    }

    /// 410 `Expired`: the resource version is too old.
    pub fn gone() -> Self {
        Self::status(410, "Expired", "too old resource version: 1 (2)")
    }

    /// 422 `Invalid`
    pub fn invalid() -> Self {
        Self::status(422, "Invalid", "object is invalid: spec: Invalid value: refused by the fault proxy")
    }

    /// 429 `TooManyRequests`, with `Retry-After` in seconds.
    pub fn too_many(retry_after: u32) -> Self {
        let message = "Too many requests, please try again later.";
        Self::retry_later(429, "TooManyRequests", message, retry_after)
    }

    /// 500 `InternalError`
    pub fn internal() -> Self {
        Self::status(500, "InternalError", "Internal error occurred: injected by the fault proxy")
    }

    /// 503 `ServiceUnavailable`
    pub fn unavailable() -> Self {
        Self::status(503, "ServiceUnavailable", "apiserver is shutting down")
    }

    /// 504 `Timeout`: the server may or may not have done it.
    pub fn timeout() -> Self {
        Self::retry_later(504, "Timeout", "Timeout: request did not complete within the allotted timeout", 1)
    }

    /// With a header more.
    ///
    /// # Panics
    ///
    /// Where it is no valid header.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.insert(name, HeaderValue::from_str(value).expect("a header's value is visible ASCII"));
        self
    }

    fn retry_later(code: u16, reason: &str, message: &str, seconds: u32) -> Self {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
            "reason": reason, "details": { "retryAfterSeconds": seconds }, "code": code,
        });
        Self::json(code, &status).header("retry-after", &seconds.to_string())
    }

    /// As an event of a watch.
    pub(crate) fn error_event(&self) -> Bytes {
        let mut line = br#"{"type":"ERROR","object":"#.to_vec();
        line.extend_from_slice(&self.body);
        line.extend_from_slice(b"}\n");
        line.into()
    }
}
