//! What the API checks of a Deployment.
//!
//! Source: `pkg/apis/apps/validation/validation.go` and `pkg/apis/core/validation/validation.go`, the rules
//! that a controller or its user meets: selector, template, containers, numbers. Volumes, probes, security
//! contexts and resources are taken as they come.
//! Must not know storage.

use crate::meta;
use crate::resource::text;
use crate::selector::LabelSelector;
use crate::status::{FieldError, FieldErrorKind};
use serde_json::{Value, json};

const NULL: &Value = &Value::Null;

/// Pointer, path in the error, Go type in the error, check.
type Shape = (&'static str, &'static str, &'static str, fn(&Value) -> bool);

/// Types of the fields that a typed server could not even decode. The answer is the text after
/// `cannot be handled as a Deployment: `.
pub(crate) fn wrong_type(object: &Value) -> Option<String> {
    let integers = ["replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"];
    let of = |name: &str| object.pointer(&format!("/spec/{name}"));
    let complain = |value: &Value, path: &str, wanted: &str| {
        format!(
            "json: cannot unmarshal {} into Go struct field {path} of type {wanted}",
            meta::go_kind(value)
        )
    };
    for name in integers {
        if let Some(value) =
            of(name).filter(|v| !v.is_null() && v.as_i64().is_none_or(|n| i32::try_from(n).is_err()))
        {
            return Some(complain(value, &format!("DeploymentSpec.spec.{name}"), "int32"));
        }
    }
    let counts = ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas"];
    for name in counts {
        let value = object.pointer(&format!("/status/{name}"));
        if let Some(value) = value.filter(|v| !v.is_null() && !v.is_i64()) {
            return Some(complain(value, &format!("DeploymentStatus.status.{name}"), "int32"));
        }
    }
    let shapes: [Shape; 8] = [
        ("/spec", "Deployment.spec", "v1.DeploymentSpec", Value::is_object),
        ("/spec/paused", "DeploymentSpec.spec.paused", "bool", Value::is_boolean),
        ("/spec/selector", "DeploymentSpec.spec.selector", "v1.LabelSelector", Value::is_object),
        (
            "/spec/selector/matchLabels",
            "LabelSelector.spec.selector.matchLabels",
            "map[string]string",
            is_string_map,
        ),
        ("/spec/template", "DeploymentSpec.spec.template", "v1.PodTemplateSpec", Value::is_object),
        (
            "/spec/template/metadata/labels",
            "ObjectMeta.spec.template.metadata.labels",
            "map[string]string",
            is_string_map,
        ),
        ("/spec/template/spec", "PodTemplateSpec.spec.template.spec", "v1.PodSpec", Value::is_object),
        (
            "/spec/template/spec/containers",
            "PodSpec.spec.template.spec.containers",
            "[]v1.Container",
            is_list_of_maps,
        ),
    ];
    for (pointer, path, wanted, right) in shapes {
        if let Some(value) = object.pointer(pointer).filter(|v| !v.is_null() && !right(v)) {
            return Some(complain(value, path, wanted));
        }
    }
    None
}

fn is_string_map(value: &Value) -> bool {
    value.as_object().is_some_and(|m| m.values().all(Value::is_string))
}

fn is_list_of_maps(value: &Value) -> bool {
    value.as_array().is_some_and(|a| a.iter().all(Value::is_object))
}

/// What is wrong with a Deployment that is to be stored; defaults are already in it.
pub(crate) fn validate(object: &Value, errors: &mut Vec<FieldError>) {
    let spec = object.get("spec").unwrap_or(NULL);
    non_negative(spec, "replicas", errors);
    non_negative(spec, "minReadySeconds", errors);
    non_negative(spec, "revisionHistoryLimit", errors);
    non_negative(spec, "progressDeadlineSeconds", errors);
    let number = |name: &str| spec.get(name).and_then(Value::as_i64);
    if let (Some(deadline), ready) =
        (number("progressDeadlineSeconds"), number("minReadySeconds").unwrap_or(0))
        && deadline <= ready
    {
        errors.push(FieldError::invalid(
            "spec.progressDeadlineSeconds",
            &deadline.into(),
            "must be greater than minReadySeconds",
        ));
    }
    let selector = spec.get("selector").unwrap_or(NULL);
    let parsed = LabelSelector::from_object(selector);
    let labels = spec.pointer("/template/metadata/labels").unwrap_or(NULL);
    let mismatch = |errors: &mut Vec<FieldError>| {
        let shown = if labels.is_null() { NULL } else { labels };
        let detail = "`selector` does not match template `labels`";
        errors.push(FieldError::invalid("spec.template.metadata.labels", shown, detail));
    };
    if selector.is_null() {
        errors.push(FieldError::required("spec.selector", ""));
        // No selector selects nothing.
        mismatch(errors);
    } else {
        meta::labels(selector.get("matchLabels").unwrap_or(NULL), "spec.selector.matchLabels", errors);
        if parsed.is_empty() {
            errors.push(FieldError::invalid(
                "spec.selector",
                selector,
                "empty selector is invalid for deployment",
            ));
        } else if !parsed.matches(labels) {
            mismatch(errors);
        }
    }
    meta::labels(labels, "spec.template.labels", errors);
    strategy(spec, errors);
    pod(spec.pointer("/template/spec").unwrap_or(NULL), errors);
}

/// What is wrong with a status that is to be stored.
pub(crate) fn validate_status(object: &Value, errors: &mut Vec<FieldError>) {
    let status = object.get("status").unwrap_or(NULL);
    let number = |name: &str| status.get(name).and_then(Value::as_i64).unwrap_or(0);
    let names = ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas"];
    for name in names.into_iter().filter(|name| number(name) < 0) {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(format!("status.{name}"), &number(name).into(), detail));
    }
    for (name, limit, detail) in [
        ("updatedReplicas", "replicas", "cannot be greater than status.replicas"),
        ("readyReplicas", "replicas", "cannot be greater than status.replicas"),
        ("availableReplicas", "replicas", "cannot be greater than status.replicas"),
        ("availableReplicas", "readyReplicas", "cannot be greater than readyReplicas"),
    ] {
        if number(name) > number(limit) {
            errors.push(FieldError::invalid(format!("status.{name}"), &number(name).into(), detail));
        }
    }
}

/// What may not change.
pub(crate) fn validate_update(old: &Value, new: &Value, errors: &mut Vec<FieldError>) {
    let selector = |object: &Value| object.pointer("/spec/selector").cloned().unwrap_or_default();
    if selector(old) != selector(new) {
        errors.push(FieldError::invalid("spec.selector", &selector(new), "field is immutable"));
    }
}

fn non_negative(spec: &Value, name: &str, errors: &mut Vec<FieldError>) {
    if let Some(value) = spec.get(name).filter(|v| v.as_i64().is_some_and(|n| n < 0)) {
        errors.push(FieldError::invalid(format!("spec.{name}"), value, "must be greater than or equal to 0"));
    }
}

fn strategy(spec: &Value, errors: &mut Vec<FieldError>) {
    let kind = text(spec, "/strategy/type");
    let rolling = spec.pointer("/strategy/rollingUpdate").unwrap_or(NULL);
    match kind {
        "Recreate" if !rolling.is_null() => errors.push(FieldError::forbidden(
            "spec.strategy.rollingUpdate",
            "may not be specified when strategy `type` is 'Recreate'",
        )),
        "RollingUpdate" => {
            let zero = |name: &str| rolling.get(name).is_some_and(|v| *v == 0 || *v == "0%" || *v == "0");
            if zero("maxSurge") && zero("maxUnavailable") {
                errors.push(FieldError::invalid(
                    "spec.strategy.rollingUpdate.maxUnavailable",
                    rolling.get("maxUnavailable").unwrap_or(NULL),
                    "may not be 0 when `maxSurge` is 0",
                ));
            }
        }
        "Recreate" | "" => {}
        _ => errors.push(FieldError::with(
            FieldErrorKind::NotSupported,
            "spec.strategy",
            spec.get("strategy").unwrap_or(NULL),
            "supported values: \"Recreate\", \"RollingUpdate\"",
        )),
    }
}

fn pod(pod: &Value, errors: &mut Vec<FieldError>) {
    let at = "spec.template.spec";
    let mut names: Vec<&str> = Vec::new();
    for (list, needed) in [("initContainers", false), ("containers", true)] {
        let containers = pod.get(list).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        if needed && containers.is_empty() {
            errors.push(FieldError::required(format!("{at}.{list}"), ""));
        }
        for (index, one) in containers.iter().enumerate() {
            let at = format!("{at}.{list}[{index}]");
            container(one, &at, errors);
            let name = text(one, "/name");
            if !name.is_empty() && names.contains(&name) {
                errors.push(FieldError::with(
                    FieldErrorKind::Duplicate,
                    format!("{at}.name"),
                    &name.into(),
                    "",
                ));
            }
            names.push(name);
        }
    }
    let restart = text(pod, "/restartPolicy");
    if !restart.is_empty() && restart != "Always" {
        errors.push(FieldError::with(
            FieldErrorKind::NotSupported,
            format!("{at}.restartPolicy"),
            &restart.into(),
            "supported values: \"Always\"",
        ));
    }
}

fn container(container: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let name = text(container, "/name");
    if name.is_empty() {
        errors.push(FieldError::required(format!("{at}.name"), ""));
    } else {
        let faults = meta::dns_label(name).into_iter();
        errors.extend(faults.map(|f| FieldError::invalid(format!("{at}.name"), &name.into(), f)));
    }
    if text(container, "/image").is_empty() {
        errors.push(FieldError::required(format!("{at}.image"), ""));
    }
    let policy = text(container, "/imagePullPolicy");
    if !["", "Always", "IfNotPresent", "Never"].contains(&policy) {
        errors.push(FieldError::with(
            FieldErrorKind::NotSupported,
            format!("{at}.imagePullPolicy"),
            &policy.into(),
            "supported values: \"Always\", \"IfNotPresent\", \"Never\"",
        ));
    }
    for (index, port) in container.get("ports").and_then(Value::as_array).into_iter().flatten().enumerate() {
        match port.get("containerPort").and_then(Value::as_i64).unwrap_or(0) {
            0 => errors.push(FieldError::required(format!("{at}.ports[{index}].containerPort"), "")),
            1..=65_535 => {}
            other => errors.push(FieldError::invalid(
                format!("{at}.ports[{index}].containerPort"),
                &json!(other),
                "must be between 1 and 65535, inclusive",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::{ApiError, Qualified};

    fn good() -> Value {
        json!({ "spec": {
            "replicas": 1,
            "selector": { "matchLabels": { "app": "a" } },
            "template": {
                "metadata": { "labels": { "app": "a" } },
                "spec": { "containers": [{ "name": "c", "image": "i" }] },
            },
        } })
    }

    fn fault(pointer: &str, value: Value) -> String {
        let mut object = good();
        *object.pointer_mut(pointer).unwrap() = value;
        let mut errors = Vec::new();
        validate(&object, &mut errors);
        let kind = Qualified { group: "apps", name: "Deployment" };
        ApiError::invalid(kind, "d", &errors).message.replace("Deployment.apps \"d\" is invalid: ", "")
    }

    #[test]
    fn each_fault_of_a_deployment_is_worded_as_the_server_words_it() {
        let mut errors = Vec::new();
        validate(&good(), &mut errors);
        assert!(errors.is_empty());
        assert_eq!(
            fault("/spec/replicas", json!(-1)),
            "spec.replicas: Invalid value: -1: must be greater than or equal to 0"
        );
        assert_eq!(
            fault("/spec/selector/matchLabels/app", json!("b")),
            "spec.template.metadata.labels: Invalid value: {\"app\":\"a\"}: `selector` does not match template `labels`"
        );
        assert_eq!(
            fault("/spec/template/spec/containers", json!([])),
            "spec.template.spec.containers: Required value"
        );
        assert_eq!(
            fault("/spec/template/spec/containers/0/image", json!("")),
            "spec.template.spec.containers[0].image: Required value"
        );
    }

    #[test]
    fn a_number_in_quotes_cannot_be_decoded() {
        let text = wrong_type(&json!({ "spec": { "replicas": "1" } })).unwrap();
        assert_eq!(
            text,
            "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32"
        );
        assert!(wrong_type(&good()).is_none());
    }
}
