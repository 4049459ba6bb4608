//! `spec` and `status` of a Foo.
//!
//! Owns: the fields, their limits and the text that `kubectl explain` shows. Must not know what any
//! of it is used for.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the user wants.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FooSpec {
    /// Name of the Deployment that this Foo controls, in the namespace of the Foo. After a change the
    /// Deployment of the old name is deleted once that of the new name is available.
    #[schemars(regex(pattern = crate::name::SUBDOMAIN_PATTERN), length(min = 1, max = 253))]
    pub deployment_name: String,
    /// How many pods the Deployment should have. Left out: the Foo leaves the number to whoever sets it
    /// on the Deployment, such as an autoscaler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10))]
    pub replicas: Option<i32>,
}

/// What the controller saw and did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FooStatus {
    /// How many pods of the Deployment are available.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i32")]
    pub available_replicas: Option<i32>,
    /// How many pods the Deployment has; the scale subresource shows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i32")]
    pub replicas: Option<i32>,
    /// Label selector of the Deployment's pods, for autoscalers; the scale subresource shows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub selector: Option<String>,
    /// The generation of the Foo that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub observed_generation: Option<i64>,
    /// Ready is True when the Foo was carried out and its Deployment is available. Reconciling and
    /// Stalled are present only while True (kstatus conventions). Others are set by the reconcile logic.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<FooCondition>,
    /// The reconcile logic that produced this status.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "FooGuest")]
    pub guest: Option<FooGuest>,
}

/// One aspect of the current state (`metav1.Condition`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FooCondition {
    /// Type of the condition, in CamelCase or in foo.example.com/CamelCase.
    #[schemars(
        regex(
            pattern = "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
        ),
        length(max = 316)
    )]
    pub r#type: String,
    /// Status of the condition: True, False or Unknown.
    #[schemars(extend("enum" = ["True", "False", "Unknown"]))]
    pub status: String,
    /// The generation of the Foo that the condition was set for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64", range(min = 0))]
    pub observed_generation: Option<i64>,
    /// When the status changed last.
    #[schemars(extend("format" = "date-time"))]
    pub last_transition_time: String,
    /// One word in CamelCase that says why, for programs.
    #[schemars(regex(pattern = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"), length(min = 1, max = 1024))]
    pub reason: String,
    /// Why, for people.
    #[schemars(length(max = 32768))]
    pub message: String,
}

/// Which reconcile logic produced a status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FooGuest {
    /// sha256 of the WebAssembly file.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub digest: Option<String>,
    /// Version that the WebAssembly file says it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub version: Option<String>,
    /// sha256 of the parameters that the operator gave the logic; absent without parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub parameters_digest: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_upstream_example_is_a_valid_spec() {
        let spec: FooSpec =
            serde_json::from_value(json!({"deploymentName": "example-foo", "replicas": 1})).unwrap();
        assert_eq!(spec, FooSpec { deployment_name: "example-foo".to_owned(), replicas: Some(1) });
    }

    #[test]
    fn replicas_may_be_null_or_left_out() {
        for spec in [json!({"deploymentName": "a", "replicas": null}), json!({"deploymentName": "a"})] {
            assert_eq!(serde_json::from_value::<FooSpec>(spec).unwrap().replicas, None);
        }
    }
}
