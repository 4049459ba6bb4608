//! Our entry of managed fields against what we want: what we no longer name, what we do not own yet.
//!
//! Must not know how entries are kept or written.

use crate::differences::equivalent;
use crate::{FieldSet, Node, Operation, Path, PathElement, Schema, defaults};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The fields of `own`, our entry in the live object's managed fields, that `desired` no longer
/// names and that the next apply must remove or release.
///
/// For an `Apply` entry: what `desired` does not name. An `Update` entry (from a POST or PUT) owns the
/// server's defaults as well, and every map that the write brought along: of those count only fields
/// that the live object has, and not because the API's defaults would make it so of `desired`.
/// Deployments only for `Update`: the defaults are theirs.
pub fn dropped_fields(
    own: &FieldSet,
    operation: Operation,
    desired: &Value,
    live: &Value,
    schema: &Schema,
) -> FieldSet {
    let dropped = own.difference(&FieldSet::of_object(desired, schema));
    if operation == Operation::Apply || dropped.is_empty() {
        return dropped;
    }
    let mut defaulted = desired.clone();
    defaults::deployment(&mut defaulted);
    let mut out = FieldSet::default();
    let views = Views { live, desired: Some(desired), defaulted: Some(&defaulted) };
    collect(&dropped, views, schema.root(), &mut Path::default(), &mut out);
    out
}

/// The fields that `desired` names and `own`, our entry, has not: the next apply must take them.
///
/// An `Update` entry has only what the server stored: what it drops (nulls, `false` where the API stores
/// none) is not missed, nor are empty maps, which name nothing.
pub fn unowned_fields(own: &FieldSet, operation: Operation, desired: &Value, schema: &Schema) -> FieldSet {
    match operation {
        Operation::Apply => FieldSet::of_object(desired, schema).difference(own),
        Operation::Update => {
            let mut stored = desired.clone();
            defaults::without_zero_values(&mut stored, schema);
            drop_empty_maps(&mut stored);
            FieldSet::of_object(&stored, schema).difference(own)
        }
    }
}

fn drop_empty_maps(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.values_mut().for_each(drop_empty_maps);
            map.retain(|_, value| !value.as_object().is_some_and(Map::is_empty));
        }
        Value::Array(items) => items.iter_mut().for_each(drop_empty_maps),
        _ => {}
    }
}

/// What stands at one path.
#[derive(Clone, Copy)]
struct Views<'a> {
    live: &'a Value,
    desired: Option<&'a Value>,
    defaulted: Option<&'a Value>,
}

impl Views<'_> {
    fn is_dropped(&self, node: &Node) -> bool {
        match (self.desired, self.defaulted) {
            (Some(_), _) => false,
            (None, None) => true,
            // Its fields are in the set on their own.
            (None, Some(Value::Object(map))) if !map.is_empty() && !matches!(node, Node::MapAtomic(_)) => {
                false
            }
            (None, Some(defaulted)) => !equivalent(self.live, defaulted, node),
        }
    }
}

fn collect(set: &FieldSet, views: Views<'_>, node: &Node, at: &mut Path, out: &mut FieldSet) {
    let live = Children::of(views.live, node);
    let desired = views.desired.map(|value| Children::of(value, node));
    let defaulted = views.defaulted.map(|value| Children::of(value, node));
    for (element, below) in set.nodes() {
        // What is gone already need not be dropped.
        let Some(live) = live.get(element) else { continue };
        let desired = desired.as_ref().and_then(|children| children.get(element));
        let defaulted = defaulted.as_ref().and_then(|children| children.get(element));
        let views = Views { live, desired, defaulted };
        let node = if let PathElement::Field(name) = element { node.child(name) } else { node.element() };
        at.0.push(element.clone());
        if below.member && views.is_dropped(node) {
            out.insert(at);
        }
        collect(&below.children, views, node, at, out);
        at.0.pop();
    }
}

/// The parts of a value by their path element.
enum Children<'a> {
    Value(&'a Value),
    Items(BTreeMap<PathElement, &'a Value>),
}

impl<'a> Children<'a> {
    fn of(value: &'a Value, node: &Node) -> Self {
        match (value, node) {
            (Value::Array(items), Node::ListMap { .. } | Node::ListSet { .. }) => {
                Self::Items(items.iter().filter_map(|item| Some((node.identity(item).ok()?, item))).collect())
            }
            _ => Self::Value(value),
        }
    }

    fn get(&self, element: &PathElement) -> Option<&'a Value> {
        match (self, element) {
            (Self::Items(items), element) => items.get(element).copied(),
            (Self::Value(value), PathElement::Field(name)) => value.get(name),
            (Self::Value(value), PathElement::Index(index)) => value.get(usize::try_from(*index).ok()?),
            (Self::Value(_), PathElement::Key(_) | PathElement::Value(_)) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Request, update};
    use serde_json::json;

    fn desired(replicas: Option<i64>, extra: Value) -> Value {
        let mut container = json!({"name": "nginx", "image": "nginx:latest"});
        if let (Value::Object(container), Value::Object(extra)) = (&mut container, extra) {
            container.extend(extra);
        }
        let labels = json!({"app": "nginx", "controller": "example"});
        let mut desired = json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {
                "name": "web",
                "namespace": "default",
                "ownerReferences": [{"apiVersion": "samplecontroller.k8s.io/v1alpha1", "kind": "Foo",
                    "name": "example", "uid": "1", "controller": true, "blockOwnerDeletion": true}],
            },
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            },
        });
        if let Some(replicas) = replicas {
            desired["spec"]["replicas"] = json!(replicas);
        }
        desired
    }

    /// The live object and our entry after a POST of `desired`.
    fn posted(desired: &Value) -> (Value, FieldSet) {
        let mut live = desired.clone();
        defaults::deployment(&mut live);
        let reset: FieldSet = [Path::fields(["status"])].into_iter().collect();
        let request = Request {
            manager: "sample-controller",
            api_version: "apps/v1",
            subresource: "",
            time: "2026-01-01T00:00:00Z",
            reset: &reset,
        };
        let managers = update(&Value::Null, &live, &[], Schema::deployment(), &request).unwrap();
        assert_eq!(managers.len(), 1);
        (live, managers[0].fields().unwrap())
    }

    fn dropped(own: &FieldSet, operation: Operation, desired: &Value, live: &Value) -> Vec<String> {
        let dropped = dropped_fields(own, operation, desired, live, Schema::deployment());
        dropped.paths().map(|path| path.to_string()).collect()
    }

    const NGINX: &str = r#".spec.template.spec.containers[name="nginx"]"#;

    #[test]
    fn nothing_is_dropped_right_after_a_post() {
        let all = json!({
            "resources": {"limits": {"cpu": "1000m"}},
            "ports": [{"containerPort": 80}],
            "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            "livenessProbe": {"httpGet": {"port": 80}},
            "stdin": false,
        });
        for desired in [desired(Some(3), json!({})), desired(None, all)] {
            let (live, own) = posted(&desired);
            assert_eq!(dropped(&own, Operation::Update, &desired, &live), Vec::<String>::new());
        }
    }

    #[test]
    fn a_field_that_is_no_longer_named_is_dropped_from_an_update_entry() {
        let (live, own) = posted(&desired(Some(3), json!({"args": ["a"], "imagePullPolicy": "Never"})));
        let desired = desired(Some(3), json!({}));
        assert_eq!(
            dropped(&own, Operation::Update, &desired, &live),
            [format!("{NGINX}.args"), format!("{NGINX}.imagePullPolicy")]
        );
    }

    #[test]
    fn a_field_that_has_its_default_is_not_dropped_from_an_update_entry() {
        let (live, own) = posted(&desired(Some(1), json!({"imagePullPolicy": "Always"})));
        let desired = desired(None, json!({}));
        assert_eq!(dropped(&own, Operation::Update, &desired, &live), Vec::<String>::new());
    }

    #[test]
    fn a_list_item_that_is_no_longer_named_is_dropped_with_its_fields() {
        let (live, own) =
            posted(&desired(None, json!({"ports": [{"containerPort": 80}, {"containerPort": 81}]})));
        let desired = desired(None, json!({"ports": [{"containerPort": 80}]}));
        let item = format!(r#"{NGINX}.ports[containerPort=81,protocol="TCP"]"#);
        assert_eq!(
            dropped(&own, Operation::Update, &desired, &live),
            [item.clone(), format!("{item}.containerPort"), format!("{item}.protocol")]
        );
    }

    #[test]
    fn a_field_that_is_already_gone_is_not_dropped_again() {
        let (_, own) = posted(&desired(None, json!({"args": ["a"]})));
        let desired = desired(None, json!({}));
        let (live, _) = posted(&desired);
        assert_eq!(dropped(&own, Operation::Update, &desired, &live), Vec::<String>::new());
    }

    #[test]
    fn an_apply_entry_drops_what_is_not_named() {
        let before = desired(Some(3), json!({"args": ["a"]}));
        let own = FieldSet::of_object(&before, Schema::deployment());
        assert_eq!(dropped(&own, Operation::Apply, &before, &before), Vec::<String>::new());
        assert_eq!(
            dropped(&own, Operation::Apply, &desired(None, json!({})), &before),
            [".spec.replicas".to_owned(), format!("{NGINX}.args")]
        );
    }

    #[test]
    fn right_after_a_post_all_that_is_named_is_owned() {
        let zero = json!({"args": [], "stdin": false, "workingDir": "", "command": null,
            "resources": {"limits": {}}, "ports": [{"containerPort": 80}]});
        let mut desired = desired(Some(3), zero);
        desired["spec"]["paused"] = json!(false);
        desired["spec"]["strategy"] = json!({});
        let (_, own) = posted(&desired);
        let schema = Schema::deployment();
        assert_eq!(unowned_fields(&own, Operation::Update, &desired, schema), FieldSet::default());
        let own = FieldSet::of_object(&desired, schema);
        assert_eq!(unowned_fields(&own, Operation::Apply, &desired, schema), FieldSet::default());
    }

    #[test]
    fn a_field_that_is_new_or_was_taken_is_not_owned() {
        let (_, mut own) = posted(&desired(Some(3), json!({})));
        own.remove(&Path::fields(["spec", "replicas"]));
        let desired = desired(Some(3), json!({"args": ["a"]}));
        let unowned = unowned_fields(&own, Operation::Update, &desired, Schema::deployment());
        let unowned: Vec<_> = unowned.paths().map(|path| path.to_string()).collect();
        assert_eq!(unowned, [".spec.replicas".to_owned(), format!("{NGINX}.args")]);
    }
}
