//! One core/v1 Event: what is said of which Foo, and its JSON within the API's limits. Knows nothing
//! of what was said before.

use contract::{Event, EventType, MAX_EVENT_MESSAGE_BYTES, MAX_EVENT_REASON_BYTES, truncate};
use jiff::Timestamp;
use plan::Object;
use serde_json::{Value, json};

/// Longest `metadata.name`, in bytes (a DNS-1123 subdomain).
const MAX_NAME_BYTES: usize = 253;
/// Longest `reportingInstance`, in bytes (`ReportingInstanceLengthLimit` of
/// `pkg/apis/core/validation/events.go`).
const MAX_INSTANCE_BYTES: usize = 128;
/// Longest `reportingComponent` without a prefix, in bytes (a qualified name).
const MAX_COMPONENT_BYTES: usize = 63;

/// Something that happened to an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// Namespace of the object, and so of the Event.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// UID of the object.
    pub uid: String,
    /// Kind of the object.
    pub kind: &'static str,
    /// `apiVersion` of the object.
    pub api_version: &'static str,
    /// `resourceVersion` of the object; may be empty.
    pub resource_version: String,
    /// `Normal` or `Warning`.
    pub r#type: EventType,
    /// For programs: one word in `CamelCase`. Cut to 128 bytes.
    pub reason: String,
    /// For people. Cut to 1,024 bytes.
    pub message: String,
}

impl Observed {
    /// `event` happened to `foo`.
    pub fn about(foo: &Object, event: Event) -> Self {
        let meta = &foo.meta;
        Self {
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            uid: meta.uid.clone(),
            kind: foo_api::KIND,
            api_version: foo_api::API_VERSION,
            resource_version: meta.resource_version.clone(),
            r#type: event.r#type,
            reason: event.reason,
            message: event.message,
        }
    }
}

/// Who says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    component: String,
    host: String,
}

impl Source {
    /// Component and host, each cut to what the API takes (63 and 128 bytes). An empty host is left
    /// out.
    pub fn new(component: &str, host: &str) -> Self {
        Self {
            component: cut(component, MAX_COMPONENT_BYTES).to_owned(),
            host: cut(host, MAX_INSTANCE_BYTES).to_owned(),
        }
    }

    /// `sample-controller`, as the Go original, on this machine or in this pod.
    pub fn here() -> Self {
        let host = std::env::var("HOSTNAME")
            .or_else(|_| std::fs::read_to_string("/proc/sys/kernel/hostname"))
            .unwrap_or_default();
        Self::new(foo_api::FIELD_MANAGER, host.trim())
    }
}

/// What the correlator knows of an Event beside what was observed.
pub(super) struct Record<'a> {
    pub(super) name: &'a str,
    pub(super) message: &'a str,
    pub(super) first: Timestamp,
    pub(super) last: Timestamp,
    pub(super) count: i32,
}

/// client-go's name of an Event (`makeEvent` of `tools/record/event.go`): the object's name and the
/// time in hexadecimal nanoseconds. Where that would be too long the object's name is cut (client-go
/// takes a UUID, which tells nothing).
pub(super) fn name(object: &str, nanos: i128) -> String {
    let suffix = format!(".{nanos:x}");
    format!("{}{suffix}", cut(object, MAX_NAME_BYTES.saturating_sub(suffix.len())))
}

/// The reason as the API takes it.
pub(super) fn reason(observed: &Observed) -> &str {
    truncate(&observed.reason, MAX_EVENT_REASON_BYTES)
}

/// The message as the API takes it.
pub(super) fn message(text: &str) -> &str {
    truncate(text, MAX_EVENT_MESSAGE_BYTES)
}

/// The whole Event.
pub(super) fn to_json(observed: &Observed, source: &Source, record: &Record<'_>) -> Value {
    let mut about = json!({
        "apiVersion": observed.api_version,
        "kind": observed.kind,
        "namespace": observed.namespace,
        "name": observed.name,
        "uid": observed.uid,
    });
    if !observed.resource_version.is_empty() {
        about["resourceVersion"] = json!(observed.resource_version);
    }
    let mut from = json!({"component": source.component});
    if !source.host.is_empty() {
        from["host"] = json!(source.host);
    }
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": observed.namespace, "name": record.name},
        "involvedObject": about,
        "type": observed.r#type.as_str(),
        "reason": reason(observed),
        "message": record.message,
        "source": from,
        "reportingComponent": source.component,
        "reportingInstance": source.host,
        "firstTimestamp": time(record.first),
        "lastTimestamp": time(record.last),
        "count": record.count,
    })
}

/// What changes when the Event is seen again, as a JSON merge patch.
pub(super) fn to_patch(record: &Record<'_>) -> Value {
    json!({"count": record.count, "lastTimestamp": time(record.last), "message": record.message})
}

/// `metav1.Time`: whole seconds.
fn time(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second()).unwrap_or(at).to_string()
}

/// The longest prefix of at most `max` bytes that still ends as names must: in a letter or digit.
fn cut(text: &str, max: usize) -> &str {
    if text.len() <= max {
        return text;
    }
    truncate(text, max).trim_end_matches(['-', '.', '_'])
}
