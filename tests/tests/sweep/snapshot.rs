//! What is compared: all Foos and Deployments of a namespace field by field, and what the Events say.
//!
//! Left out: times, resource versions, and which uid it is; a uid counts as the name of the object that has it.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use tests::Api;
use tests::objects::{at, deployment_path, events_path, foo_path};

/// A namespace at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Snapshot {
    /// By resource and name.
    objects: BTreeMap<String, Value>,
    /// What was said about the Foos of this run, and how often.
    events: BTreeMap<String, i64>,
}

/// How much of what the Events say may be missing or be said again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Slack {
    pub(crate) missing: i64,
    pub(crate) repeated: i64,
}

impl Snapshot {
    /// Takes one. Of the Events those about `foos`, by uid.
    pub(crate) async fn take(api: &Api, namespace: &str, foos: &BTreeSet<String>) -> Self {
        let (foo, deployment, event) =
            (foo_path(namespace, ""), deployment_path(namespace, ""), events_path(namespace));
        let (live_foos, deployments, events) =
            tokio::join!(api.list(&foo), api.list(&deployment), api.list(&event));
        let named = |resource: &str, objects: Vec<Value>| {
            objects
                .into_iter()
                .map(move |object| (format!("{resource}/{}", text(&object, "/metadata/name")), object))
                .collect::<Vec<_>>()
        };
        let all = [named("foos", live_foos), named("deployments", deployments)].concat();
        let uids: Vec<_> =
            all.iter().map(|(name, object)| (text(object, "/metadata/uid"), name.clone())).collect();
        let mut objects = BTreeMap::new();
        for (name, object) in all {
            // In keys of managedFields too, so in the text.
            let mut json = object.to_string();
            for (uid, owner) in &uids {
                json = json.replace(uid, owner);
            }
            let mut object: Value = serde_json::from_str(&json).expect("names need no escapes");
            strip(&mut object, namespace);
            objects.insert(name, object);
        }
        let mut said = BTreeMap::new();
        for event in events.iter().filter(|event| foos.contains(&text(event, "/involvedObject/uid"))) {
            let text = |pointer| text(event, pointer);
            let key = format!(
                "{} {} of {}: {}",
                text("/type"),
                text("/reason"),
                text("/involvedObject/name"),
                text("/message")
            );
            *said.entry(key).or_default() += at(event, "/count").as_i64().unwrap_or(1);
        }
        Self { objects, events: said }
    }

    /// Takes over what `earlier` said.
    pub(crate) fn say_no_more_than(&mut self, earlier: &Self) {
        self.events.clone_from(&earlier.events);
    }

    /// What differs from `wanted`, in words; none if nothing does.
    pub(crate) fn differs(&self, wanted: &Self, slack: Slack) -> Option<String> {
        let mut found = Vec::new();
        let names: BTreeSet<_> = self.objects.keys().chain(wanted.objects.keys()).collect();
        for name in names {
            let null = Value::Null;
            let (here, there) =
                (self.objects.get(name).unwrap_or(&null), wanted.objects.get(name).unwrap_or(&null));
            differences(name, here, there, &mut found);
        }
        let said: BTreeSet<_> = self.events.keys().chain(wanted.events.keys()).collect();
        for text in said {
            let count = |of: &Self| of.events.get(text).copied().unwrap_or_default();
            let (here, there) = (count(self), count(wanted));
            // Said again is not said anew.
            let most = if there == 0 { 0 } else { there + slack.repeated };
            if here < there - slack.missing || here > most {
                found.push(format!("{text}: {here} times, not {there}"));
            }
        }
        (!found.is_empty()).then(|| found.join("; "))
    }
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, object) in &self.objects {
            writeln!(f, "{name}: {object}")?;
        }
        for (text, count) in &self.events {
            writeln!(f, "{count} × {text}")?;
        }
        Ok(())
    }
}

fn text(object: &Value, pointer: &str) -> String {
    at(object, pointer).as_str().unwrap_or_default().to_owned()
}

fn strip(value: &mut Value, namespace: &str) {
    const TIMES: [&str; 5] =
        ["resourceVersion", "creationTimestamp", "lastTransitionTime", "lastUpdateTime", "time"];
    match value {
        Value::Object(map) => {
            let here = |key: &str, value: &Value| key == "namespace" && value == namespace;
            map.retain(|key, value| !(TIMES.contains(&key.as_str()) || here(key, value)));
            map.values_mut().for_each(|value| strip(value, namespace));
            if let Some(Value::Array(entries)) = map.get_mut("managedFields") {
                // Their order is that of their times.
                entries.sort_by_key(Value::to_string);
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| strip(value, namespace)),
        _ => {}
    }
}

fn differences(path: &str, here: &Value, there: &Value, found: &mut Vec<String>) {
    match (here, there) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: BTreeSet<_> = a.keys().chain(b.keys()).collect();
            for key in keys {
                let null = Value::Null;
                let (a, b) = (a.get(key).unwrap_or(&null), b.get(key).unwrap_or(&null));
                differences(&format!("{path}.{key}"), a, b, found);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                differences(&format!("{path}[{index}]"), a, b, found);
            }
        }
        _ if here == there => {}
        _ => found.push(format!("{path}: {here}, not {there}")),
    }
}
