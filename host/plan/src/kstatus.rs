//! Whether a Deployment is Current, by the rules of kstatus.
//!
//! Owns: the rules of `deploymentConditions` in `sigs.k8s.io/cli-utils/pkg/kstatus/status/core.go`, and
//! of the generic check before it. Must not know the Foo.

use serde_json::Value;

/// The status that kstatus computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    /// The spec is carried out and available.
    Current,
    /// On its way.
    InProgress,
    /// The progress deadline passed.
    Failed,
    /// Being deleted.
    Terminating,
}

/// Computes the status of a whole Deployment.
pub(crate) fn health(deployment: &Value) -> Health {
    let number = |path: &str| deployment.pointer(path).and_then(Value::as_i64);
    if deployment.pointer("/metadata/deletionTimestamp").is_some_and(|time| !time.is_null()) {
        return Health::Terminating;
    }
    let observed = number("/status/observedGeneration");
    if observed.is_some() && observed != number("/metadata/generation") {
        return Health::InProgress;
    }

    // Without a deadline the deployment controller sets no Progressing condition.
    let no_deadline = i64::from(i32::MAX);
    let mut progressing = number("/spec/progressDeadlineSeconds").unwrap_or(no_deadline) == no_deadline;
    let mut available = false;
    let conditions = deployment.pointer("/status/conditions").and_then(Value::as_array);
    for condition in conditions.map(Vec::as_slice).unwrap_or_default() {
        let text = |field: &str| condition.get(field).and_then(Value::as_str).unwrap_or_default();
        match (text("type"), text("status"), text("reason")) {
            ("Progressing", _, "ProgressDeadlineExceeded") => return Health::Failed,
            ("Progressing", "True", "NewReplicaSetAvailable") => progressing = true,
            ("Available", "True", _) => available = true,
            _ => {}
        }
    }

    let wanted = number("/spec/replicas").unwrap_or(1);
    let status = |field: &str| number(&format!("/status/{field}")).unwrap_or(0);
    let (pods, updated) = (status("replicas"), status("updatedReplicas"));
    let settled = pods == wanted
        && updated >= wanted
        && status("availableReplicas") >= updated
        && status("readyReplicas") >= wanted;
    if settled && progressing && available { Health::Current } else { Health::InProgress }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn available() -> Value {
        json!({
            "metadata": {"generation": 2},
            "spec": {"replicas": 3, "progressDeadlineSeconds": 600},
            "status": {
                "observedGeneration": 2, "replicas": 3, "updatedReplicas": 3, "readyReplicas": 3,
                "availableReplicas": 3,
                "conditions": [
                    {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"},
                    {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
                ],
            },
        })
    }

    fn with(path: &str, value: Value) -> Health {
        let mut deployment = available();
        *deployment.pointer_mut(path).unwrap() = value;
        health(&deployment)
    }

    #[test]
    fn a_deployment_is_current_when_all_its_pods_are_new_and_available() {
        assert_eq!(health(&available()), Health::Current);
    }

    #[test]
    fn each_number_that_lags_keeps_it_in_progress() {
        for path in [
            "/status/observedGeneration",
            "/status/replicas",
            "/status/updatedReplicas",
            "/status/readyReplicas",
            "/status/availableReplicas",
        ] {
            assert_eq!(with(path, json!(1)), Health::InProgress, "{path}");
        }
        assert_eq!(with("/status/replicas", json!(4)), Health::InProgress);
        assert_eq!(with("/status/conditions/0/status", json!("False")), Health::InProgress);
        assert_eq!(with("/status/conditions/1/reason", json!("ReplicaSetUpdated")), Health::InProgress);
    }

    #[test]
    fn no_replicas_at_all_can_be_current() {
        let mut deployment = available();
        deployment["spec"]["replicas"] = json!(0);
        for field in ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"] {
            deployment["status"][field] = Value::Null;
        }
        assert_eq!(health(&deployment), Health::Current);
    }

    #[test]
    fn a_passed_progress_deadline_is_a_failure_of_the_observed_generation_only() {
        assert_eq!(with("/status/conditions/1/reason", json!("ProgressDeadlineExceeded")), Health::Failed);
        let mut older = available();
        older["status"]["conditions"][1]["reason"] = json!("ProgressDeadlineExceeded");
        older["metadata"]["generation"] = json!(3);
        assert_eq!(health(&older), Health::InProgress);
    }

    #[test]
    fn without_a_progress_deadline_availability_is_enough() {
        let mut deployment = available();
        deployment["spec"]["progressDeadlineSeconds"] = json!(i32::MAX);
        deployment["status"]["conditions"].as_array_mut().unwrap().pop();
        assert_eq!(health(&deployment), Health::Current);
    }

    #[test]
    fn a_new_or_odd_deployment_is_in_progress_and_a_deleted_one_terminating() {
        assert_eq!(health(&json!({"metadata": {"generation": 1}, "spec": {}})), Health::InProgress);
        assert_eq!(health(&json!([])), Health::InProgress);
        assert_eq!(health(&json!({"metadata": {"deletionTimestamp": "x"}})), Health::Terminating);
    }
}
