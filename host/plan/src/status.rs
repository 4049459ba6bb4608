//! The Foo's status after a run, as a merge patch.
//!
//! Owns: what each field says, and that a status which says so already is not written. Must not know
//! whether the run failed, but for [`Report::failed`].

use crate::conditions::{self, Standing};
use crate::object::Object;
use crate::planning::Plan;
use crate::snapshot::{GuestIdentity, Snapshot};
use serde_json::{Map, Value, json};

/// What the host says about a run that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) standing: Standing,
    /// One word in CamelCase.
    pub(crate) reason: String,
    /// One line, constant for a constant state.
    pub(crate) message: String,
    /// The plan was not carried out: what the guest set stays.
    pub(crate) failed: bool,
}

/// The merge patch for `foos/<name>/status`; none if nothing changes, or if there is no such
/// subresource.
pub(crate) fn patch(
    snapshot: &Snapshot<'_>,
    plan: &Plan,
    report: &Report,
    deployment: Option<&Object>,
) -> Option<Value> {
    let schema = snapshot.schema;
    if !schema.subresource {
        return None;
    }
    let foo = snapshot.foo.value();
    let empty = Map::new();
    let live = foo.get("status").and_then(Value::as_object).unwrap_or(&empty);
    let deployment = deployment.map(Object::value);
    let set = plan.status.as_ref().filter(|_| !report.failed);

    let mut status = Map::new();
    let mut compare = |taken: bool, field: &str, value: Option<Value>| {
        if let (true, Some(change)) = (taken, change(live.get(field), value)) {
            status.insert(field.to_owned(), change);
        }
    };
    if let Some(set) = set {
        compare(schema.available_replicas, "availableReplicas", Some(set.available_replicas.into()));
    }
    compare(schema.replicas, "replicas", deployment.as_ref().map(replicas));
    compare(schema.selector, "selector", deployment.as_ref().and_then(selector).map(Value::from));
    compare(schema.observed_generation, "observedGeneration", Some(snapshot.foo.meta.generation.into()));
    compare(schema.guest, "guest", Some(guest(snapshot.guest)));
    if schema.conditions {
        let hosts = conditions::hosts(&report.standing, &report.reason, &report.message);
        let listed = live.get("conditions").and_then(Value::as_array).map(Vec::as_slice);
        let guests = set.map(|set| set.conditions.as_slice());
        let merged =
            conditions::merged(snapshot.foo, listed.unwrap_or_default(), hosts, guests, snapshot.now);
        status.extend(merged.map(|list| ("conditions".to_owned(), Value::Array(list))));
    }
    if status.is_empty() {
        return None;
    }
    let meta = &snapshot.foo.meta;
    Some(json!({
        "metadata": { "uid": meta.uid, "resourceVersion": meta.resource_version },
        "status": status,
    }))
}

/// What a merge patch must say to make `live` what `value` is; none if it is that.
fn change(live: Option<&Value>, value: Option<Value>) -> Option<Value> {
    let live = live.filter(|live| !live.is_null());
    match (live, value) {
        (None, None) => None,
        (Some(_), None) => Some(Value::Null),
        (Some(Value::Object(live)), Some(Value::Object(mut value))) => {
            // Keys that are gone must be said to be.
            for key in live.keys().filter(|key| !value.contains_key(*key)).cloned().collect::<Vec<_>>() {
                value.insert(key, Value::Null);
            }
            value.retain(|key, value| live.get(key).unwrap_or(&Value::Null) != value);
            (!value.is_empty()).then_some(Value::Object(value))
        }
        (live, Some(value)) => (live != Some(&value)).then_some(value),
    }
}

/// `status.replicas` of the Deployment: the pods that exist, as `scale` has it.
fn replicas(deployment: &Value) -> Value {
    deployment.pointer("/status/replicas").and_then(Value::as_i64).unwrap_or(0).into()
}

fn guest(identity: &GuestIdentity) -> Value {
    let mut guest = Map::new();
    let fields = [
        ("digest", Some(&identity.digest)),
        ("version", identity.version.as_ref()),
        ("parametersDigest", identity.parameters_digest.as_ref()),
    ];
    for (field, text) in fields {
        // The version is the guest's text.
        let text = text.map(|text| contract::one_line(text, 128));
        guest.extend(text.map(|text| (field.to_owned(), Value::String(text))));
    }
    Value::Object(guest)
}

/// The selector in the form of `metav1.FormatLabelSelector`, which `scale` and autoscalers read:
/// requirements sorted by key. None for a selector that selects nothing.
fn selector(deployment: &Value) -> Option<String> {
    let selector = deployment.pointer("/spec/selector")?;
    let text = |value: &Value, field: &str| value.get(field).and_then(Value::as_str).map(str::to_owned);
    let mut requirements = Vec::new();
    for (key, value) in selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten() {
        requirements.push((key.clone(), format!("{key}={}", value.as_str()?)));
    }
    for expression in selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
        let key = text(expression, "key")?;
        let mut values: Vec<_> = expression
            .get("values")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        values.sort_unstable();
        let values = values.join(",");
        let requirement = match text(expression, "operator")?.as_str() {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.clone(),
            "DoesNotExist" => format!("!{key}"),
            _ => return None,
        };
        requirements.push((key, requirement));
    }
    requirements.sort();
    let requirements: Vec<_> = requirements.into_iter().map(|(_, requirement)| requirement).collect();
    (!requirements.is_empty()).then(|| requirements.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_selector_is_written_as_kubectl_writes_it() {
        let deployment = json!({"spec": {"selector": {
            "matchLabels": {"controller": "foo", "app": "nginx"},
            "matchExpressions": [
                {"key": "zone", "operator": "In", "values": ["b", "a"]},
                {"key": "canary", "operator": "DoesNotExist"},
                {"key": "tier", "operator": "Exists"},
                {"key": "os", "operator": "NotIn", "values": ["x"]},
            ],
        }}});
        let expected = "app=nginx,!canary,controller=foo,os notin (x),tier,zone in (a,b)";
        assert_eq!(selector(&deployment).as_deref(), Some(expected));
    }

    #[test]
    fn an_odd_selector_is_no_selector() {
        for odd in [
            json!({}),
            json!({"spec": {"selector": {}}}),
            json!({"spec": {"selector": {"matchLabels": {"a": 1}}}}),
            json!({"spec": {"selector": {"matchExpressions": [{"operator": "In"}]}}}),
        ] {
            assert_eq!(selector(&odd), None, "{odd}");
        }
    }

    #[test]
    fn a_change_says_what_is_gone_and_leaves_out_what_is_the_same() {
        let map = |value: Value| Some(value);
        assert_eq!(change(None, None), None);
        assert_eq!(change(Some(&Value::Null), None), None);
        assert_eq!(change(Some(&json!(1)), None), Some(Value::Null));
        assert_eq!(change(Some(&json!(1)), Some(json!(1))), None);
        assert_eq!(change(Some(&json!(1)), Some(json!(2))), Some(json!(2)));
        let live = json!({"digest": "a", "version": "1"});
        assert_eq!(change(Some(&live), map(live.clone())), None);
        let patch = change(Some(&live), map(json!({"digest": "b"})));
        assert_eq!(patch, Some(json!({"digest": "b", "version": null})));
    }
}
