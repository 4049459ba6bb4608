//! What was asked: each request with the attributes that an authorizer sees, in the order of arrival.

use bytes::Bytes;
use http::request::Parts;
use serde_json::Value;
use std::fmt;

/// What a request does, as RBAC names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// One object, or a path that is no resource.
    Get,
    /// A collection.
    List,
    /// A collection or an object, followed.
    Watch,
    /// POST.
    Create,
    /// PUT.
    Update,
    /// PATCH.
    Patch,
    /// DELETE of one object.
    Delete,
    /// DELETE of a collection.
    DeleteCollection,
    /// Any other method.
    Other,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    /// Under way, or held. A watch stays so until it ends.
    Open,
    /// The server's answer was passed on, whole; a watch came to a proper end, or its client left.
    Passed,
    /// Answered by the proxy; the server never saw it.
    Answered,
    /// Closed by the proxy; the server never saw it.
    DroppedBefore,
    /// The server did it; the client never heard.
    DroppedAfter,
    /// The server did it; the client heard a part.
    Cut,
    /// The server did it; the client heard a part and waits for the rest.
    Stalled,
    /// Swallowed; the server never saw it and the client waits.
    BlackHoled,
    /// A watch that the proxy ended with an ERROR event.
    ErrorEvent,
    /// The server could not be reached or broke off; the client's request is closed.
    Unreachable,
}

/// One request. Strings are empty for what it does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its place in the order of arrival, from 1. Never used twice, also after `Proxy::clear`.
    pub number: usize,
    /// What it does.
    pub verb: Verb,
    /// HTTP method.
    pub method: String,
    /// What the client spoke.
    pub http_version: http::Version,
    /// API group; empty for the core group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Plural of the resource; empty for paths that are no resource.
    pub resource: String,
    /// `status`, `scale`, …
    pub subresource: String,
    /// Namespace.
    pub namespace: String,
    /// Name: from the path, of a create from its JSON body, of a list or watch from `metadata.name` in its field
    /// selector.
    pub name: String,
    /// Path without the query.
    pub path: String,
    /// Query, as it came.
    pub query: String,
    /// `User-Agent`.
    pub user_agent: String,
    /// `Content-Type` of the body.
    pub content_type: String,
    /// The body, whole.
    pub body: Bytes,
    /// Whether it asked for `dryRun`.
    pub dry_run: bool,
    /// HTTP status: the server's, or the proxy's answer. Also where the client never heard it.
    pub status: Option<u16>,
    /// What became of it.
    pub fate: Fate,
}

impl Verb {
    /// As RBAC writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
            Self::Other => "other",
        }
    }

    /// Whether it changes something.
    pub fn is_write(self) -> bool {
        matches!(self, Self::Create | Self::Update | Self::Patch | Self::Delete | Self::DeleteCollection)
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Record {
    /// Reads a request as the API server's authorizer does (apiserver `request/requestinfo.go`).
    pub(crate) fn read(parts: &Parts, body: Bytes) -> Self {
        let header = |name| parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let mut record = Self {
            number: 0,
            verb: Verb::Other,
            method: parts.method.to_string(),
            http_version: parts.version,
            group: String::new(),
            version: String::new(),
            resource: String::new(),
            subresource: String::new(),
            namespace: String::new(),
            name: String::new(),
            path: parts.uri.path().to_owned(),
            query: parts.uri.query().unwrap_or_default().to_owned(),
            user_agent: header(http::header::USER_AGENT).to_owned(),
            content_type: header(http::header::CONTENT_TYPE).to_owned(),
            body,
            dry_run: false,
            status: None,
            fate: Fate::Open,
        };
        record.read_path();
        record.dry_run = record.param("dryRun").is_some_and(|value| !value.is_empty());
        record.verb = record.read_verb();
        record.read_name();
        record
    }

    fn read_path(&mut self) {
        let path = self.path.clone();
        let mut segments = path
            .split('/')
            .filter(|segment| !segment.is_empty())
            .map(decoded)
            .collect::<Vec<_>>()
            .into_iter();
        match segments.next().as_deref() {
            Some("api") => {}
            Some("apis") => self.group = segments.next().unwrap_or_default(),
            _ => return,
        }
        self.version = segments.next().unwrap_or_default();
        let rest: Vec<String> = segments.collect();
        let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
        match rest[..] {
            // The subresources of a namespace; anything else after its name is a resource inside it.
            ["namespaces", namespace] => self.set(namespace, "namespaces", namespace, ""),
            ["namespaces", namespace, subresource @ ("status" | "finalize")] => {
                self.set(namespace, "namespaces", namespace, subresource);
            }
            ["namespaces", namespace, resource] => self.set(namespace, resource, "", ""),
            ["namespaces", namespace, resource, name] => self.set(namespace, resource, name, ""),
            ["namespaces", namespace, resource, name, subresource, ..] => {
                self.set(namespace, resource, name, subresource);
            }
            [resource] => self.set("", resource, "", ""),
            [resource, name] => self.set("", resource, name, ""),
            [resource, name, subresource, ..] => self.set("", resource, name, subresource),
            [] => {}
        }
    }

    fn set(&mut self, namespace: &str, resource: &str, name: &str, subresource: &str) {
        namespace.clone_into(&mut self.namespace);
        resource.clone_into(&mut self.resource);
        name.clone_into(&mut self.name);
        subresource.clone_into(&mut self.subresource);
    }

    fn read_name(&mut self) {
        if self.resource.is_empty() || !self.name.is_empty() {
            return;
        }
        if self.method == "POST" {
            let name = self.json().pointer("/metadata/name").and_then(Value::as_str).map(str::to_owned);
            self.name = name.unwrap_or_default();
        } else if let Some(selector) = self.param("fieldSelector") {
            let name = selector.split(',').find_map(|term| term.strip_prefix("metadata.name="));
            self.name = name.map(|name| name.trim_start_matches('=').to_owned()).unwrap_or_default();
        }
    }

    fn read_verb(&self) -> Verb {
        let one = self.resource.is_empty() || !self.name.is_empty();
        let watched = self.param("watch").is_some_and(|value| !matches!(value.as_str(), "" | "0" | "false"));
        match self.method.as_str() {
            "GET" | "HEAD" if watched && !self.resource.is_empty() => Verb::Watch,
            "GET" | "HEAD" if one => Verb::Get,
            "GET" | "HEAD" => Verb::List,
            "POST" => Verb::Create,
            "PUT" => Verb::Update,
            "PATCH" => Verb::Patch,
            "DELETE" if one => Verb::Delete,
            "DELETE" => Verb::DeleteCollection,
            _ => Verb::Other,
        }
    }

    /// Whether it asked for a change: a verb that writes, and no dry run.
    pub fn is_write(&self) -> bool {
        self.verb.is_write() && !self.dry_run
    }

    /// The body as JSON; `Null` where it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// A parameter of the query, decoded.
    pub fn param(&self, name: &str) -> Option<String> {
        let mut pairs = form_urlencoded::parse(self.query.as_bytes());
        pairs.find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
    }

    /// `deployments`, `foos/status`: as a role names it.
    pub fn rbac_resource(&self) -> String {
        if self.subresource.is_empty() {
            self.resource.clone()
        } else {
            format!("{}/{}", self.resource, self.subresource)
        }
    }
}

/// `#7 patch foos/status default/web: 409 (Answered)`
impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{} {} ", self.number, self.verb)?;
        if self.resource.is_empty() {
            write!(f, "{}", self.path)?;
        } else {
            write!(f, "{}", self.rbac_resource())?;
        }
        match (self.namespace.as_str(), self.name.as_str()) {
            ("", "") => {}
            ("", name) => write!(f, " {name}")?,
            (namespace, name) => write!(f, " {namespace}/{name}")?,
        }
        match self.status {
            Some(status) => write!(f, ": {status} ({:?})", self.fate),
            None => write!(f, ": ({:?})", self.fate),
        }
    }
}

fn decoded(segment: &str) -> String {
    percent_encoding::percent_decode_str(segment).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(method: &str, uri: &str, body: &str) -> Record {
        let request = http::Request::builder().method(method).uri(uri).body(()).expect("a request");
        Record::read(&request.into_parts().0, Bytes::from(body.to_owned()))
    }

    fn seen(method: &str, uri: &str) -> String {
        let record = record(method, uri, r#"{"metadata":{"name":"made"}}"#);
        let (group, resource) = (&record.group, record.rbac_resource());
        format!("{} {group} {resource} {}/{}", record.verb, record.namespace, record.name)
    }

    #[test]
    fn requests_are_read_as_an_authorizer_reads_them() {
        let foos = "/apis/samplecontroller.k8s.io/v1alpha1/namespaces/default/foos";
        let group = "samplecontroller.k8s.io";
        assert_eq!(seen("GET", foos), format!("list {group} foos default/"));
        assert_eq!(seen("POST", foos), format!("create {group} foos default/made"));
        assert_eq!(seen("DELETE", foos), format!("deletecollection {group} foos default/"));
        assert_eq!(seen("GET", &format!("{foos}?watch=1")), format!("watch {group} foos default/"));
        assert_eq!(seen("GET", &format!("{foos}?watch=false")), format!("list {group} foos default/"));
        assert_eq!(seen("GET", &format!("{foos}/a")), format!("get {group} foos default/a"));
        assert_eq!(seen("PUT", &format!("{foos}/a")), format!("update {group} foos default/a"));
        assert_eq!(
            seen("PATCH", &format!("{foos}/a/status")),
            format!("patch {group} foos/status default/a")
        );
        assert_eq!(seen("DELETE", &format!("{foos}/a")), format!("delete {group} foos default/a"));
        let selector = format!("{foos}?watch=true&fieldSelector=metadata.name%3Da,metadata.namespace%3Db");
        assert_eq!(seen("GET", &selector), format!("watch {group} foos default/a"));
        let selector = format!("{foos}?fieldSelector=metadata.name%3Da");
        assert_eq!(seen("GET", &selector), format!("list {group} foos default/a"));
        assert_eq!(seen("GET", "/apis/apps/v1/deployments?limit=5"), "list apps deployments /");
        assert_eq!(seen("GET", "/api/v1/namespaces/a"), "get  namespaces a/a");
        assert_eq!(seen("PUT", "/api/v1/namespaces/a/finalize"), "update  namespaces/finalize a/a");
        assert_eq!(seen("GET", "/api/v1/namespaces"), "list  namespaces /");
        assert_eq!(seen("GET", "/api/v1/nodes/a%3Ab/status"), "get  nodes/status /a:b");
        assert_eq!(seen("GET", "/version?watch=1"), "get   /");
        assert_eq!(seen("OPTIONS", "/"), "other   /");
    }

    #[test]
    fn odd_paths_and_bodies_are_no_trouble() {
        for uri in [
            "/",
            "/api",
            "/apis",
            "/apis/g",
            "//apis//g//v//r//",
            "/api/v1/%FF%2F/x/y/z/w",
            "/api/v1/a?%FF&=&&x",
        ] {
            for method in ["GET", "POST", "DELETE", "BREW"] {
                let _ = record(method, uri, "no json").to_string();
            }
        }
    }

    #[test]
    fn a_dry_run_is_no_write() {
        assert!(record("POST", "/api/v1/namespaces", "{}").is_write());
        assert!(!record("POST", "/api/v1/namespaces?dryRun=All", "{}").is_write());
        assert!(!record("GET", "/api/v1/namespaces", "").is_write());
    }
}
