//! Drift: where a live object has not what a desired one names.
//!
//! Must not know who owns a field.

use crate::defaults::is_zero;
use crate::quantity::Quantity;
use crate::schema::{Field, Zero};
use crate::typed::same;
use crate::{Node, Path, PathElement, Schema, quantity};
use serde_json::Value;
use std::collections::BTreeMap;

/// One field that desired names and live has not, or has otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The field.
    pub path: Path,
    /// What is wanted; `Null` for a field of an atomic value that is not wanted.
    pub desired: Value,
    /// What is there; `None`: nothing.
    pub live: Option<Value>,
}

/// Each field that `desired` names and whose value in `live` is different.
///
/// - Maps, lists with keys and sets are compared as subsets, whatever the order.
/// - Atomic lists and maps belong to one manager as a whole: same length, the same items in the same
///   order, no other field but defaults of the API.
/// - Quantities are compared by value, numbers too.
/// - `null` in `desired` names nothing; an empty map or list is the same as an absent one; so is a zero
///   value (`false`, `0`, `""`) where the API stores none, or a default in its place.
/// - List keys that have defaults (`protocol: TCP`) match without being named.
///
/// `status` and the server's metadata are compared like all others: leave them out of `desired`.
pub fn differences(desired: &Value, live: &Value, schema: &Schema) -> Vec<Difference> {
    let mut walk = Walk { at: Path::default(), out: Vec::new() };
    walk.visit(desired, Some(live), schema.root(), None, Context::Granular);
    walk.out
}

/// Whether two values of one shape are the same to the API.
pub(crate) fn equivalent(a: &Value, b: &Value, node: &Node) -> bool {
    let differ = |a, b| {
        let mut walk = Walk { at: Path::default(), out: Vec::new() };
        walk.visit(a, Some(b), node, None, Context::Atomic);
        !walk.out.is_empty()
    };
    !differ(a, b) && !differ(b, a)
}

/// Whether the value at hand is part of an atomic one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Context {
    Granular,
    Atomic,
}

struct Walk {
    at: Path,
    out: Vec<Difference>,
}

impl Walk {
    fn visit(
        &mut self,
        desired: &Value,
        live: Option<&Value>,
        node: &Node,
        field: Option<&Field>,
        context: Context,
    ) {
        if desired.is_null() {
            return;
        }
        let Some(live) = live.filter(|live| !live.is_null()) else {
            if !absent(desired, node, field) {
                self.report(desired, None);
            }
            return;
        };
        if let Some(field) = field
            && field.zero.drops()
            && is_zero(desired)
            && (field.zero == Zero::Fill || field.default.as_ref().is_some_and(|default| same(default, live)))
        {
            return;
        }
        match (desired, live, node) {
            (Value::Object(wanted), Value::Object(there), _) => {
                let atomic = context == Context::Atomic || matches!(node, Node::MapAtomic(_));
                let context = if atomic { Context::Atomic } else { Context::Granular };
                for (name, value) in wanted {
                    self.step(PathElement::Field(name.clone()), |walk| {
                        walk.visit(value, there.get(name), node.child(name), node.field(name), context);
                    });
                }
                let unwanted = there.iter().filter(|(name, value)| {
                    let field = node.field(name);
                    let default = field.and_then(|field| field.default.as_ref());
                    atomic
                        && wanted.get(*name).is_none_or(Value::is_null)
                        && !absent(value, node.child(name), field)
                        && !default.is_some_and(|default| same(default, value))
                });
                for (name, value) in unwanted {
                    self.step(PathElement::Field(name.clone()), |walk| {
                        walk.report(&Value::Null, Some(value));
                    });
                }
            }
            (Value::Array(wanted), Value::Array(there), Node::ListMap { .. } | Node::ListSet { .. })
                if context == Context::Granular =>
            {
                self.associative(wanted, there, node);
            }
            (Value::Array(wanted), Value::Array(there), _) => {
                if wanted.len() != there.len() {
                    return self.report(desired, Some(live));
                }
                for (index, (wanted, there)) in wanted.iter().zip(there).enumerate() {
                    self.step(PathElement::Index(index as i64), |walk| {
                        walk.visit(wanted, Some(there), node.element(), None, Context::Atomic);
                    });
                }
            }
            (_, _, Node::Quantity) if stored_as(desired, live) => {}
            _ if same(desired, live) => {}
            _ => self.report(desired, Some(live)),
        }
    }

    fn associative(&mut self, wanted: &[Value], there: &[Value], node: &Node) {
        let mut by_identity = BTreeMap::new();
        for item in there {
            if let Ok(identity) = node.identity(item) {
                by_identity.entry(identity).or_insert(item);
            }
        }
        for (index, item) in wanted.iter().enumerate() {
            // An item without identity cannot be applied; it is wanted and not there.
            let identity = node.identity(item).unwrap_or(PathElement::Index(index as i64));
            let found = by_identity.get(&identity).copied();
            self.step(identity, |walk| match found {
                None => walk.report(item, None),
                Some(found) => walk.visit(item, Some(found), node.element(), None, Context::Granular),
            });
        }
    }

    fn step(&mut self, element: PathElement, visit: impl FnOnce(&mut Self)) {
        self.at.0.push(element);
        visit(self);
        self.at.0.pop();
    }

    fn report(&mut self, desired: &Value, live: Option<&Value>) {
        self.out.push(Difference { path: self.at.clone(), desired: desired.clone(), live: live.cloned() });
    }
}

/// Whether the API may store the quantity `desired` as `live`: it rounds resources up to thousandths.
fn stored_as(desired: &Value, live: &Value) -> bool {
    let rounded = || quantity::of_value(desired).map(Quantity::round_up_to_milli);
    quantity::equal(desired, live) || rounded().is_ok_and(|rounded| Ok(rounded) == quantity::of_value(live))
}

/// Whether `value` is the same to the API as no value at all.
fn absent(value: &Value, node: &Node, field: Option<&Field>) -> bool {
    let drops_zero = field.is_some_and(|field| field.zero.drops());
    match value {
        Value::Null => true,
        Value::Object(map) => {
            map.iter().all(|(name, value)| absent(value, node.child(name), node.field(name)))
        }
        Value::Array(items) => items.is_empty(),
        scalar => drops_zero && is_zero(scalar),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn in_deployment(desired: &Value, live: &Value) -> Vec<String> {
        let found = differences(desired, live, Schema::deployment());
        found.iter().map(|difference| difference.path.to_string()).collect()
    }

    fn container(container: &Value) -> Value {
        json!({"spec": {"template": {"spec": {"containers": [container]}}}})
    }

    fn in_container(desired: &Value, live: &Value) -> Vec<String> {
        let prefix = r#".spec.template.spec.containers[name="nginx"]"#;
        let named = |value: &Value| {
            let mut value = value.clone();
            value["name"] = json!("nginx");
            container(&value)
        };
        let paths = in_deployment(&named(desired), &named(live));
        paths.into_iter().map(|path| path.strip_prefix(prefix).unwrap_or(&path).to_owned()).collect()
    }

    const NONE: [&str; 0] = [];

    #[test]
    fn what_the_server_and_others_add_is_no_difference() {
        let desired = container(&json!({"name": "nginx", "image": "nginx:latest"}));
        let mut live = container(&json!({"name": "nginx", "image": "nginx:latest"}));
        crate::defaults::deployment(&mut live);
        live["metadata"]["labels"] = json!({"a": "b"});
        live["spec"]["template"]["spec"]["containers"]
            .as_array_mut()
            .unwrap()
            .insert(0, json!({"name": "sidecar", "image": "proxy"}));
        assert_eq!(in_deployment(&desired, &live), NONE);
    }

    #[test]
    fn a_changed_field_is_named_with_both_values() {
        let desired = container(&json!({"name": "nginx", "image": "nginx:1"}));
        let live = container(&json!({"name": "nginx", "image": "nginx:2"}));
        let found = differences(&desired, &live, Schema::deployment());
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].path.to_string(), r#".spec.template.spec.containers[name="nginx"].image"#);
        assert_eq!((&found[0].desired, &found[0].live), (&json!("nginx:1"), &Some(json!("nginx:2"))));
    }

    #[test]
    fn quantities_are_compared_by_value() {
        let resources =
            |cpu: Value, memory: &str| json!({"resources": {"requests": {"cpu": cpu, "memory": memory}}});
        assert_eq!(in_container(&resources(json!("1000m"), "1024Mi"), &resources(json!("1"), "1Gi")), NONE);
        assert_eq!(in_container(&resources(json!(0.1), "1Gi"), &resources(json!("100m"), "1Gi")), NONE);
        assert_eq!(in_container(&resources(json!("1u"), "1Gi"), &resources(json!("1m"), "1Gi")), NONE);
        assert_eq!(
            in_container(&resources(json!("2"), "1Gi"), &resources(json!("1"), "1Gi")),
            [".resources.requests.cpu"]
        );
    }

    #[test]
    fn list_keys_match_with_their_defaults() {
        let live = json!({"ports": [{"containerPort": 80, "protocol": "UDP"}, {"containerPort": 80, "protocol": "TCP"}]});
        assert_eq!(in_container(&json!({"ports": [{"containerPort": 80}]}), &live), NONE);
        assert_eq!(
            in_container(&json!({"ports": [{"containerPort": 81}]}), &live),
            [r#".ports[containerPort=81,protocol="TCP"]"#]
        );
    }

    #[test]
    fn null_and_empty_values_name_nothing() {
        let desired = json!({"env": [], "command": null, "securityContext": {}, "resources": {"limits": {}}});
        assert_eq!(in_container(&desired, &json!({})), NONE);
        assert_eq!(in_container(&desired, &json!({"env": [{"name": "A"}]})), NONE);
    }

    #[test]
    fn zero_values_that_the_server_does_not_store_are_no_difference() {
        let live = container(&json!({"name": "nginx"}));
        assert_eq!(in_deployment(&json!({"spec": {"paused": false, "minReadySeconds": 0}}), &live), NONE);
        assert_eq!(in_container(&json!({"stdin": false, "workingDir": ""}), &json!({})), NONE);
        // A default takes its place.
        let probe = |seconds: i64| json!({"readinessProbe": {"periodSeconds": seconds}});
        assert_eq!(in_container(&probe(0), &probe(10)), NONE);
        assert_eq!(in_container(&probe(0), &probe(5)), [".readinessProbe.periodSeconds"]);
        assert_eq!(
            in_container(&json!({"imagePullPolicy": ""}), &json!({"imagePullPolicy": "Always"})),
            NONE
        );
        // Somebody else's value is not zero.
        let paused = |paused: bool| json!({"spec": {"paused": paused}});
        assert_eq!(in_deployment(&paused(false), &paused(true)), [".spec.paused"]);
        // A pointer in the API: false is not unset.
        let token = json!({"spec": {"template": {"spec": {"automountServiceAccountToken": false}}}});
        assert_eq!(in_deployment(&token, &live), [".spec.template.spec.automountServiceAccountToken"]);
        assert_eq!(
            in_deployment(&json!({"spec": {"replicas": 0}}), &json!({"spec": {}})),
            [".spec.replicas"]
        );
    }

    #[test]
    fn atomic_lists_are_compared_item_by_item_and_may_not_be_longer() {
        let args = |args: &[&str]| json!({"args": args});
        assert_eq!(in_container(&args(&["a", "b"]), &args(&["a", "b"])), NONE);
        assert_eq!(in_container(&args(&["a", "b"]), &args(&["a", "c"])), [".args[1]"]);
        assert_eq!(in_container(&args(&["a"]), &args(&["a", "c"])), [".args"]);
        assert_eq!(in_container(&args(&[]), &args(&["a"])), [".args"]);
    }

    #[test]
    fn atomic_maps_have_no_other_fields_but_defaults() {
        let env = |field_ref: Value| json!({"env": [{"name": "A", "valueFrom": {"fieldRef": field_ref}}]});
        let named = env(json!({"fieldPath": "metadata.name"}));
        assert_eq!(
            in_container(&named, &env(json!({"fieldPath": "metadata.name", "apiVersion": "v1"}))),
            NONE
        );
        assert_eq!(
            in_container(&named, &env(json!({"fieldPath": "metadata.name", "apiVersion": "v2"}))),
            [r#".env[name="A"].valueFrom.fieldRef.apiVersion"#]
        );
        let selector = |labels: Value| json!({"spec": {"selector": {"matchLabels": labels}}});
        assert_eq!(
            in_deployment(&selector(json!({"a": "1"})), &selector(json!({"a": "1", "b": "2"}))),
            [".spec.selector.matchLabels.b"]
        );
    }

    #[test]
    fn sets_are_compared_whatever_the_order() {
        let finalizers = |names: &[&str]| json!({"metadata": {"finalizers": names}});
        assert_eq!(in_deployment(&finalizers(&["a", "b"]), &finalizers(&["c", "b", "a"])), NONE);
        assert_eq!(
            in_deployment(&finalizers(&["a", "b"]), &finalizers(&["a"])),
            [r#".metadata.finalizers[="b"]"#]
        );
    }
}
