//! The columns of the Table form: what `kubectl get` shows.
//!
//! Source: `pkg/printers/internalversion/printers.go` for the built-in kinds, and
//! `apiextensions-apiserver/pkg/registry/customresource/tableconvertor` for custom resources.
//! Must not know HTTP.

use crate::jsonpath::JsonPath;
use crate::resource::{Behaviour, text};
use crate::selector::LabelSelector;
use jiff::Timestamp;
use serde_json::{Value, json};

/// Where a cell comes from.
#[derive(Clone, Debug)]
enum Source {
    Path(JsonPath),
    Cell(fn(&Value, Timestamp) -> Value),
}

/// One column.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    kind: String,
    format: String,
    description: String,
    /// 0 is always shown, more only with `-o wide`.
    priority: i64,
    source: Source,
}

impl Column {
    fn cell(name: &str, kind: &str, priority: i64, cell: fn(&Value, Timestamp) -> Value) -> Self {
        let description = described(name);
        Self {
            name: name.to_owned(),
            kind: kind.to_owned(),
            format: if name == "Name" { "name" } else { "" }.to_owned(),
            description: description.to_owned(),
            priority,
            source: Source::Cell(cell),
        }
    }

    /// From an entry of a CRD's `additionalPrinterColumns`; `None` when its path cannot be read.
    fn custom(entry: &Value) -> Option<Self> {
        Some(Self {
            name: text(entry, "/name").to_owned(),
            kind: text(entry, "/type").to_owned(),
            format: text(entry, "/format").to_owned(),
            description: match text(entry, "/description") {
                "" => format!(
                    "Custom resource definition column (in JSONPath format): {}",
                    text(entry, "/jsonPath")
                ),
                own => own.to_owned(),
            },
            priority: entry.get("priority").and_then(Value::as_i64).unwrap_or(0),
            source: Source::Path(JsonPath::parse(text(entry, "/jsonPath"))?),
        })
    }

    /// The column's `TableColumnDefinition`.
    pub(crate) fn definition(&self) -> Value {
        json!({
            "name": self.name,
            "type": self.kind,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        })
    }

    /// The cell of an object.
    pub(crate) fn value(&self, object: &Value, now: Timestamp) -> Value {
        match &self.source {
            Source::Cell(cell) => cell(object, now),
            Source::Path(path) => {
                let found = path.find(object);
                // As the server, which knows simple paths only, it takes the first.
                let Some(first) = found.first() else { return Value::Null };
                match (self.kind.as_str(), first) {
                    ("string", Value::Null) => "<no value>".into(),
                    ("string", Value::String(text)) => text.as_str().into(),
                    ("string", other) => other.to_string().into(),
                    ("date", Value::String(time)) => match time.parse::<Timestamp>() {
                        Ok(_) => since(time, now).into(),
                        Err(_) => "<invalid>".into(),
                    },
                    ("integer", Value::Number(number)) => {
                        number.as_i64().or(number.as_f64().map(|n| n as i64)).into()
                    }
                    ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => (*first).clone(),
                    _ => Value::Null,
                }
            }
        }
    }
}

/// The descriptions, which the server takes from its API's documentation.
fn described(name: &str) -> &'static str {
    match name {
        "Name" => {
            "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names"
        }
        "Age" | "Created At" => {
            "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"
        }
        "Data" => {
            "Data contains the configuration data. Each key must consist of alphanumeric characters, '-', '_' or '.'. Values with non-UTF-8 byte sequences must use the BinaryData field. The keys stored in Data must not overlap with the keys in the BinaryData field, this is enforced during validation process."
        }
        "Ready" => "Number of the pod with ready state",
        "Up-to-date" => {
            "Total number of non-terminating pods targeted by this deployment that have the desired template spec."
        }
        "Available" => {
            "Total number of available non-terminating pods (ready for at least minReadySeconds) targeted by this deployment."
        }
        "Containers" => "Names of each container in the template.",
        "Images" => "Images referenced by each container in the template.",
        "Selector" => {
            "Label selector for pods. Existing ReplicaSets whose pods are selected by this will be the ones affected by this deployment. It must match the pod template's labels."
        }
        "Holder" => {
            "holderIdentity contains the identity of the holder of a current lease. If Coordinated Leader Election is used, the holder identity must be equal to the elected LeaseCandidate.metadata.name field."
        }
        "Status" => "The status of the namespace",
        "Last Seen" => "The time at which the most recent occurrence of this event was recorded.",
        "Type" => "Type of this event (Normal, Warning), new types could be added in the future",
        "Reason" => {
            "This should be a short, machine understandable string that gives the reason for the transition into the object's current status."
        }
        "Object" => "The object that this event is about.",
        "Subobject" => {
            "If referring to a piece of an object instead of an entire object, this string should contain a valid JSON/Go field access statement, such as desiredState.manifest.containers[2]. For example, if the object reference is to a container within a pod, this would take on a value like: \"spec.containers{name}\" (where \"name\" refers to the name of the container that triggered the event) or if no container name is specified \"spec.containers[2]\" (container with index 2 in this pod). This syntax is chosen only to have some well-defined way of referencing a part of an object."
        }
        "Source" => "The component reporting this event. Should be a short machine understandable string.",
        "Message" => "A human-readable description of the status of this operation.",
        "First Seen" => {
            "The time at which the event was first recorded. (Time of server receipt is in TypeMeta.)"
        }
        "Count" => "The number of times this event has occurred.",
        _ => "",
    }
}

/// The columns of a custom resource.
pub(crate) fn custom(entries: Option<&Vec<Value>>) -> Vec<Column> {
    let mut columns = vec![Column::cell("Name", "string", 0, name)];
    match entries {
        Some(entries) if !entries.is_empty() => columns.extend(entries.iter().filter_map(Column::custom)),
        _ => columns.push(Column::cell("Age", "date", 0, age)),
    }
    columns
}

/// The columns of a built-in resource.
pub(crate) fn built_in(behaviour: Behaviour) -> Vec<Column> {
    let column = Column::cell;
    let mut columns = vec![column("Name", "string", 0, name)];
    let age = column("Age", "string", 0, age);
    match behaviour {
        Behaviour::Namespace => {
            columns.extend([column("Status", "string", 0, |o, _| text(o, "/status/phase").into()), age]);
        }
        Behaviour::ConfigMap => columns.extend([column("Data", "string", 0, |o, _| data(o).into()), age]),
        Behaviour::Lease => {
            columns
                .extend([column("Holder", "string", 0, |o, _| text(o, "/spec/holderIdentity").into()), age]);
        }
        Behaviour::Definition => {
            columns
                .push(column("Created At", "date", 0, |o, _| text(o, "/metadata/creationTimestamp").into()));
        }
        Behaviour::Deployment => columns.extend([
            column("Ready", "string", 0, |o, _| {
                format!("{}/{}", number(o, "/status/readyReplicas"), number(o, "/spec/replicas")).into()
            }),
            column("Up-to-date", "string", 0, |o, _| number(o, "/status/updatedReplicas").into()),
            column("Available", "string", 0, |o, _| number(o, "/status/availableReplicas").into()),
            age,
            column("Containers", "string", 1, |o, _| containers(o, "name")),
            column("Images", "string", 1, |o, _| containers(o, "image")),
            column("Selector", "string", 1, |o, _| {
                let selector = o.pointer("/spec/selector").unwrap_or(&Value::Null);
                LabelSelector::from_object(selector).to_string().into()
            }),
        ]),
        Behaviour::CoreEvent | Behaviour::NewEvent => return events(),
        Behaviour::Custom => return custom(None),
    }
    columns
}

fn events() -> Vec<Column> {
    let column = Column::cell;
    vec![
        column("Last Seen", "string", 0, |o, now| {
            let places = ["/series/lastObservedTime", "/lastTimestamp", "/eventTime", "/firstTimestamp"];
            since(first_text(o, &places), now).into()
        }),
        column("Type", "string", 0, |o, _| text(o, "/type").into()),
        column("Reason", "string", 0, |o, _| text(o, "/reason").into()),
        column("Object", "string", 0, |o, _| {
            let kind = text(o, "/involvedObject/kind").to_lowercase();
            format!("{kind}/{}", text(o, "/involvedObject/name")).into()
        }),
        column("Subobject", "string", 1, |o, _| text(o, "/involvedObject/fieldPath").into()),
        column("Source", "string", 1, |o, _| {
            let component = first_text(o, &["/source/component", "/reportingComponent"]);
            match first_text(o, &["/source/host", "/reportingInstance"]) {
                "" => component.into(),
                host => format!("{component}, {host}").into(),
            }
        }),
        column("Message", "string", 0, |o, _| text(o, "/message").trim().into()),
        column("First Seen", "string", 1, |o, now| {
            since(first_text(o, &["/firstTimestamp", "/eventTime"]), now).into()
        }),
        column("Count", "string", 1, |o, _| {
            let count = number(o, "/series/count").max(number(o, "/count")).max(1);
            count.into()
        }),
        column("Name", "string", 1, name),
    ]
}

fn name(object: &Value, _: Timestamp) -> Value {
    text(object, "/metadata/name").into()
}

fn age(object: &Value, now: Timestamp) -> Value {
    since(text(object, "/metadata/creationTimestamp"), now).into()
}

fn number(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
}

fn first_text<'a>(object: &'a Value, pointers: &[&str]) -> &'a str {
    pointers.iter().map(|p| text(object, p)).find(|t| !t.is_empty()).unwrap_or_default()
}

fn data(object: &Value) -> usize {
    let count = |field: &str| object.get(field).and_then(Value::as_object).map_or(0, serde_json::Map::len);
    count("data") + count("binaryData")
}

fn containers(object: &Value, field: &str) -> Value {
    let list = object.pointer("/spec/template/spec/containers").and_then(Value::as_array);
    let names: Vec<_> = list.into_iter().flatten().filter_map(|c| c.get(field)?.as_str()).collect();
    names.join(",").into()
}

/// How long ago a time of RFC 3339 was, as `duration.HumanDuration` words it.
fn since(time: &str, now: Timestamp) -> String {
    match time.parse::<Timestamp>() {
        Ok(time) => human(now.as_second() - time.as_second()),
        Err(_) => "<unknown>".to_owned(),
    }
}

fn human(seconds: i64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let (days, years) = (hours / 24, hours / 24 / 365);
    let two = |a: i64, unit: &str, b: i64, rest: &str| {
        if b == 0 { format!("{a}{unit}") } else { format!("{a}{unit}{b}{rest}") }
    };
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1..0 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        _ if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => two(hours, "h", minutes % 60, "m"),
        _ if hours < 48 => format!("{hours}h"),
        _ if hours < 192 => two(days, "d", hours % 24, "h"),
        _ if years < 2 => format!("{days}d"),
        _ if years < 8 => two(years, "y", days % 365, "d"),
        _ => format!("{years}y"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_worded_as_kubectl_shows_them() {
        for (seconds, text) in [
            (-1, "0s"),
            (5, "5s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (700, "11m"),
            (4 * 3600 + 60, "4h1m"),
            (10 * 3600, "10h"),
            (50 * 3600, "2d2h"),
            (400 * 86_400, "400d"),
        ] {
            assert_eq!(human(seconds), text);
        }
    }

    #[test]
    fn a_printer_column_shows_what_its_path_finds() {
        let entry = json!({ "name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status" });
        let columns = custom(Some(&vec![entry]));
        let object = json!({ "metadata": { "name": "x" }, "status": { "conditions": [{ "type": "Ready", "status": "True" }] } });
        let cells: Vec<_> = columns.iter().map(|c| c.value(&object, Timestamp::UNIX_EPOCH)).collect();
        assert_eq!(cells, [json!("x"), json!("True")]);
    }
}
