//! Fields that we set once and no longer name.
//!
//! Must not know how an entry of managed fields is kept.

use crate::differences::equivalent;
use crate::{FieldSet, Node, Operation, Path, PathElement, Schema, defaults};
use serde_json::Value;

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
    let named = FieldSet::of_object(desired, schema);
    let dropped = own.difference(&named);
    if operation == Operation::Apply || dropped.is_empty() {
        return dropped;
    }
    let mut defaulted = desired.clone();
    defaults::deployment(&mut defaulted);
    dropped
        .paths()
        .filter(|path| {
            let Some((live, node)) = find(live, schema.root(), path) else { return false };
            if find(desired, schema.root(), path).is_some() {
                return false;
            }
            match find(&defaulted, schema.root(), path) {
                None => true,
                // Its fields are in the set on their own.
                Some((Value::Object(map), _)) if !map.is_empty() && !matches!(node, Node::MapAtomic(_)) => {
                    false
                }
                Some((defaulted, _)) => !equivalent(live, defaulted, node),
            }
        })
        .collect()
}

/// What stands at `path`, and its shape.
fn find<'a>(object: &'a Value, root: &'a Node, path: &Path) -> Option<(&'a Value, &'a Node)> {
    path.0.iter().try_fold((object, root), |(value, node), element| match element {
        PathElement::Field(name) => Some((value.get(name)?, node.child(name))),
        PathElement::Index(index) => Some((value.get(usize::try_from(*index).ok()?)?, node.element())),
        PathElement::Key(_) | PathElement::Value(_) => {
            let mut items = value.as_array()?.iter();
            let item = items.find(|item| node.identity(item).is_ok_and(|identity| identity == *element))?;
            Some((item, node.element()))
        }
    })
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
}
