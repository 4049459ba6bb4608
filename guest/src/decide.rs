//! From a Foo and its Deployment to the Deployment as it should be, and the Foo's status.
//!
//! Owns the whole policy. Must not know how arguments arrive or where answers go.

use crate::label::label_value;
use crate::skim::member;

/// What this policy reads of its arguments.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    /// `metadata.name` of the Foo.
    pub foo_name: &'a str,
    /// `spec.replicas` of the Foo. None leaves the number to whoever sets it on the Deployment.
    pub replicas: Option<i32>,
    /// The Deployment that the Foo controls, if there is one.
    pub live: Option<Live<'a>>,
}

/// What this policy reads of a live Deployment.
#[derive(Clone, Copy, Debug)]
pub struct Live<'a> {
    /// `status.availableReplicas`.
    pub available_replicas: i32,
    /// The whole object, as compact JSON.
    pub json: &'a str,
}

/// What should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Desired {
    /// The Deployment, as an apply configuration in JSON: compact, keys sorted.
    pub manifest: String,
    /// `status.availableReplicas` of the Foo.
    pub available_replicas: i32,
}

/// The policy: `newDeployment` and `updateFooStatus` of the Go sample-controller's `controller.go`.
///
/// The Deployment has no labels of its own and no name (the host fills in `spec.deploymentName`).
/// Selector and pod labels are `app: nginx` and `controller: FOO-NAME` (see [`label_value`]). The
/// selector of a Deployment cannot change, so one that is live keeps its selector whatever it is,
/// and the pods keep the labels that it selects.
pub fn desired(snapshot: &Snapshot<'_>) -> Desired {
    let Labels { selector, pods } = snapshot
        .live
        .and_then(|live| Labels::of_live(live.json))
        .unwrap_or_else(|| Labels::of_new(snapshot.foo_name));
    let replicas = snapshot.replicas.map(|n| format!(r#""replicas":{n},"#)).unwrap_or_default();
    Desired {
        manifest: [
            r#"{"spec":{"#,
            &replicas,
            r#""selector":"#,
            &selector,
            r#","template":{"metadata":{"labels":"#,
            &pods,
            r#"},"spec":{"containers":[{"image":"nginx:latest","name":"nginx"}]}}}}"#,
        ]
        .concat(),
        available_replicas: snapshot.live.map_or(0, |live| live.available_replicas),
    }
}

/// Which pods are the Deployment's, both as JSON objects.
struct Labels {
    /// `spec.selector`.
    selector: String,
    /// `spec.template.metadata.labels`.
    pods: String,
}

impl Labels {
    /// Those of a Deployment that is to be created.
    fn of_new(foo_name: &str) -> Self {
        let controller = label_value(foo_name);
        // A label value needs no escape in JSON.
        let pods = [r#"{"app":"nginx","controller":""#, &controller, r#""}"#].concat();
        Self { selector: [r#"{"matchLabels":"#, &pods, "}"].concat(), pods }
    }

    /// Those that a live Deployment must keep. None if its JSON has no selector: the API server has
    /// no such Deployment.
    fn of_live(json: &str) -> Option<Self> {
        let selector = member(json, &["spec", "selector"])?;
        // Only the labels that the selector names are ours to hold; others on the pods stay with
        // their owners. With expressions any label may count, so all are held as they are.
        let pods = if member(selector, &["matchExpressions"]).is_none() {
            member(selector, &["matchLabels"])?
        } else {
            member(json, &["spec", "template", "metadata", "labels"])?
        };
        Some(Self { selector: selector.to_owned(), pods: pods.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const NEW: Snapshot<'_> = Snapshot { foo_name: "example-foo", replicas: Some(3), live: None };

    fn manifest(snapshot: &Snapshot<'_>) -> Value {
        serde_json::from_str(&desired(snapshot).manifest).unwrap()
    }

    /// A live Deployment as the API server shows it, with this selector and these pod labels.
    fn live(selector: &Value, labels: &Value) -> String {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "annotations": {"spec": "{\"selector\":1}"}},
            "spec": {
                "progressDeadlineSeconds": 600, "replicas": 1, "selector": selector,
                "template": {"metadata": {"labels": labels}, "spec": {"containers": []}},
            },
            "status": {"availableReplicas": 2},
        })
        .to_string()
    }

    fn with_live(json: &str) -> Snapshot<'_> {
        Snapshot { live: Some(Live { available_replicas: 2, json }), ..NEW }
    }

    #[test]
    fn parity_deployment_a_new_one_is_as_the_go_controller_makes_it() {
        let labels = json!({"app": "nginx", "controller": "example-foo"});
        assert_eq!(
            manifest(&NEW),
            json!({"spec": {
                "replicas": 3,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "nginx", "image": "nginx:latest"}]},
                },
            }})
        );
    }

    #[test]
    fn parity_sync_5_a_foo_without_replicas_leaves_the_number_alone() {
        let without = manifest(&Snapshot { replicas: None, ..NEW });
        assert_eq!(without["spec"].get("replicas"), None);
        assert_eq!(without["spec"]["selector"], manifest(&NEW)["spec"]["selector"]);
    }

    #[test]
    fn parity_sync_6_the_status_is_what_the_deployment_has_available() {
        assert_eq!(desired(&NEW).available_replicas, 0);
        let labels = json!({"app": "nginx"});
        let json = live(&json!({"matchLabels": labels}), &labels);
        assert_eq!(desired(&with_live(&json)).available_replicas, 2);
    }

    #[test]
    fn parity_sync_5_a_live_deployment_of_ours_gets_the_same_manifest_as_a_new_one() {
        let labels = json!({"app": "nginx", "controller": "example-foo"});
        let json = live(&json!({"matchLabels": labels}), &labels);
        assert_eq!(desired(&with_live(&json)).manifest, desired(&NEW).manifest);
    }

    #[test]
    fn a_live_selector_is_kept_and_only_its_labels_are_held() {
        let selector = json!({"matchLabels": {"app": "web", "tier": "a\"},{\\"}});
        let json = live(&selector, &json!({"app": "web", "tier": "a\"},{\\", "team": "theirs"}));
        let manifest = manifest(&with_live(&json));
        assert_eq!(manifest["spec"]["selector"], selector);
        assert_eq!(manifest["spec"]["template"]["metadata"]["labels"], selector["matchLabels"]);
    }

    #[test]
    fn a_live_selector_with_expressions_keeps_all_pod_labels() {
        let selector = json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["a", "b"]}]});
        let labels = json!({"app": "b", "x": "y"});
        let json = live(&selector, &labels);
        let manifest = manifest(&with_live(&json));
        assert_eq!(manifest["spec"]["selector"], selector);
        assert_eq!(manifest["spec"]["template"]["metadata"]["labels"], labels);
    }

    #[test]
    fn json_that_is_no_deployment_gives_the_manifest_of_a_new_one() {
        for json in ["", "{", "null", r#"{"spec":{"selector"#, r#"{"spec":{"selector":{}}}"#] {
            assert_eq!(desired(&with_live(json)).manifest, desired(&NEW).manifest, "{json}");
        }
    }

    #[test]
    fn case_34_the_label_of_a_foo_name_of_64_bytes_is_hashed_and_of_63_is_the_name() {
        let controller = |name: &str| {
            manifest(&Snapshot { foo_name: name, ..NEW })["spec"]["selector"]["matchLabels"]["controller"]
                .clone()
        };
        let name = "n".repeat(63);
        assert_eq!(controller(&name), json!(name));
        let long = "n".repeat(64);
        assert_eq!(controller(&long), json!(label_value(&long)));
        assert_ne!(controller(&long), json!(long));
    }

    #[test]
    fn the_manifest_is_compact_with_sorted_keys() {
        let text = desired(&NEW).manifest;
        // `Value` keeps its keys sorted and prints compactly.
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap().to_string(), text);
    }
}
