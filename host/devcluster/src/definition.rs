//! Custom resource definitions: their defaults and checks, and the resources that they define.
//!
//! Source: `apiextensions-apiserver/pkg/apis/apiextensions/{v1/defaults.go,validation/validation.go}` and
//! `pkg/controller/{establish,status,apiapproval}`. Conversion between versions is `None` only.
//! Must not know storage or HTTP.

use crate::columns;
use crate::meta;
use crate::resource::{Behaviour, Resets, Resource, ScalePaths, field_set, pointer, text};
use crate::status::FieldError;
use crate::store::TableId;
use crate::structural::Structural;
use serde_json::{Value, json};
use std::sync::Arc;
use structured_merge::Schema;

/// Keeps a definition until its objects are gone.
pub(crate) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";
const APPROVAL: &str = "api-approved.kubernetes.io";

/// Fills in the names that follow from others, the conversion and `storedVersions`.
pub(crate) fn default(object: &mut Value) {
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return };
    spec.entry("conversion").or_insert_with(|| json!({ "strategy": "None" }));
    let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) else { return };
    let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
    names.entry("singular").or_insert_with(|| kind.to_lowercase().into());
    names.entry("listKind").or_insert_with(|| format!("{kind}List").into());
}

/// What is wrong with a definition.
pub(crate) fn validate(object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let name = text(object, "/metadata/name");
    let (group, plural) = (text(object, "/spec/group"), text(object, "/spec/names/plural"));
    match old {
        Some(old) => immutable(old, object, errors),
        None if name != format!("{plural}.{group}") => {
            let detail = "must be spec.names.plural+\".\"+spec.group";
            errors.push(FieldError::invalid("metadata.name", &name.into(), detail));
        }
        None => {}
    }
    let scope = text(object, "/spec/scope");
    if !["", "Cluster", "Namespaced"].contains(&scope) {
        errors.push(FieldError::not_supported("spec.scope", &scope.into(), "\"Cluster\", \"Namespaced\""));
    }
    for (pointer, field) in [
        ("/spec/group", "spec.group"),
        ("/spec/scope", "spec.scope"),
        ("/spec/names/plural", "spec.names.plural"),
        ("/spec/names/kind", "spec.names.kind"),
    ] {
        if text(object, pointer).is_empty() {
            errors.push(FieldError::required(field, ""));
        }
    }
    if protected(group) && text(object, &approval_pointer()).is_empty() {
        errors.push(FieldError::required(
            format!("metadata.annotations[{APPROVAL}]"),
            "protected groups must have approval annotation \"api-approved.kubernetes.io\", see https://github.com/kubernetes/enhancements/pull/1111",
        ));
    }
    let versions = versions(object);
    if versions.iter().filter(|v| v.get("storage") == Some(&Value::Bool(true))).count() != 1 {
        let all = object.pointer("/spec/versions").unwrap_or(&Value::Null);
        let detail = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid("spec.versions", all, detail));
    }
    for (index, version) in versions.iter().enumerate() {
        let at = format!("spec.versions[{index}]");
        let faults = meta::dns_label(text(version, "/name")).into_iter();
        errors.extend(faults.map(|f| {
            FieldError::invalid(format!("{at}.name"), version.get("name").unwrap_or(&Value::Null), f)
        }));
        let at = format!("{at}.schema.openAPIV3Schema");
        let Some(schema) = version.pointer("/schema/openAPIV3Schema") else {
            errors.push(FieldError::required(at, ""));
            continue;
        };
        if text(schema, "/type") != "object" {
            let found = schema.get("type").cloned().unwrap_or_else(|| "".into());
            errors.push(FieldError::invalid(format!("{at}.type"), &found, "must be object at the root"));
        }
        if let Err(fault) = Structural::new(schema, None) {
            errors.push(FieldError::invalid(at.clone(), &"".into(), fault));
        }
        if let Err(fault) = Schema::from_openapi(schema) {
            errors.push(FieldError::invalid(at, &"".into(), fault.to_string()));
        }
    }
}

/// What may not change once it is served.
fn immutable(old: &Value, new: &Value, errors: &mut Vec<FieldError>) {
    for (pointer, field) in [
        ("/spec/group", "spec.group"),
        ("/spec/scope", "spec.scope"),
        ("/spec/names/kind", "spec.names.kind"),
        ("/spec/names/plural", "spec.names.plural"),
    ] {
        let value = new.pointer(pointer).unwrap_or(&Value::Null);
        if value != old.pointer(pointer).unwrap_or(&Value::Null) {
            errors.push(FieldError::invalid(field, value, "field is immutable"));
        }
    }
}

fn versions(object: &Value) -> &[Value] {
    object.pointer("/spec/versions").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn protected(group: &str) -> bool {
    ["k8s.io", "kubernetes.io"].iter().any(|p| group == *p || group.ends_with(&format!(".{p}")))
}

fn approval_pointer() -> String {
    format!("/metadata/annotations/{APPROVAL}")
}

fn storage_version(object: &Value) -> Option<&str> {
    let storage = versions(object).iter().find(|v| v.get("storage") == Some(&Value::Bool(true)));
    storage.map(|v| text(v, "/name"))
}

/// The status before any controller has seen it.
pub(crate) fn fresh_status(object: &Value) -> Value {
    json!({
        "acceptedNames": { "kind": "", "plural": "" },
        "conditions": null,
        "storedVersions": [storage_version(object)],
    })
}

/// The status once its names are accepted; the fresh conditions carry `time`.
pub(crate) fn established(object: &Value, time: &str) -> Value {
    let condition = |kind: &str, status: &str, reason: &str, message: String| json!({ "type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": time });
    let mut conditions = Vec::new();
    conditions.push(condition("NamesAccepted", "True", "NoConflicts", "no conflicts found".to_owned()));
    let message = "the initial names have been accepted".to_owned();
    conditions.push(condition("Established", "True", "InitialNamesAccepted", message));
    if protected(text(object, "/spec/group")) {
        let approval = text(object, &approval_pointer());
        conditions.push(if approval.starts_with("unapproved") {
            let message = format!("not approved: {approval:?}");
            condition("KubernetesAPIApprovalPolicyConformant", "False", "UnapprovedAnnotation", message)
        } else {
            let message = format!("approved in {approval}");
            condition("KubernetesAPIApprovalPolicyConformant", "True", "ApprovedAnnotation", message)
        });
    }
    json!({
        "acceptedNames": object.pointer("/spec/names"),
        "conditions": conditions,
        "storedVersions": [storage_version(object)],
    })
}

/// Reason and message when the deletion was asked for.
pub(crate) const PENDING: (&str, &str) = (
    "InstanceDeletionPending",
    "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
);
/// Reason and message while its objects are deleted.
pub(crate) const IN_PROGRESS: (&str, &str) =
    ("InstanceDeletionInProgress", "CustomResource deletion is in progress");

/// Adds or replaces the condition that the definition is going away.
pub(crate) fn set_terminating(object: &mut Value, (reason, message): (&str, &str), time: &str) {
    let condition = json!({
        "type": "Terminating",
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": time,
    });
    if let Some(conditions) = object.pointer_mut("/status/conditions").and_then(Value::as_array_mut) {
        conditions.retain(|c| text(c, "/type") != "Terminating");
        conditions.push(condition);
    }
}

/// The resources of a valid definition, one for each served version.
pub(crate) fn resources(object: &Value, table: TableId) -> Vec<Resource> {
    let (group, names) = (text(object, "/spec/group"), object.pointer("/spec/names").unwrap_or(&Value::Null));
    let list = |field: &str| -> Vec<String> {
        let entries = names.get(field).and_then(Value::as_array).into_iter().flatten();
        entries.filter_map(|v| v.as_str().map(str::to_owned)).collect()
    };
    let name = |field: &str| names.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let stored_as = format!("{group}/{}", storage_version(object).unwrap_or_default());
    let mut served: Vec<_> =
        versions(object).iter().filter(|v| v.get("served") == Some(&Value::Bool(true))).collect();
    // As clients prefer them: released ones first, then betas, then alphas, the newest first.
    served.sort_by_key(|v| std::cmp::Reverse(priority(text(v, "/name"))));
    let preferred = served.first().map(|v| text(v, "/name").to_owned()).unwrap_or_default();
    served
        .into_iter()
        .filter_map(|version| {
            let schema = version.pointer("/schema/openAPIV3Schema")?;
            let status = version.pointer("/subresources/status").is_some();
            let scale = version.pointer("/subresources/scale").map(|scale| ScalePaths {
                spec: pointer(text(scale, "/specReplicasPath")),
                status: pointer(text(scale, "/statusReplicasPath")),
                selector: pointer(text(scale, "/labelSelectorPath")),
            });
            Some(Resource {
                group: group.to_owned(),
                version: text(version, "/name").to_owned(),
                kind: name("kind"),
                list_kind: name("listKind"),
                plural: name("plural"),
                singular: name("singular"),
                short_names: list("shortNames"),
                categories: list("categories"),
                namespaced: text(object, "/spec/scope") == "Namespaced",
                status,
                scale,
                table,
                behaviour: Behaviour::Custom,
                stored_as: stored_as.clone(),
                deprecation: deprecation(group, &name("kind"), version, &preferred),
                structural: Some(Arc::new(
                    Structural::new(schema, version.pointer("/subresources/scale")).ok()?,
                )),
                columns: columns::custom(version.get("additionalPrinterColumns").and_then(Value::as_array)),
                merge: Schema::from_openapi(schema).ok()?,
                resets: Resets {
                    main: if status { field_set(&[&["status"]]) } else { field_set(&[]) },
                    status: field_set(&[&["spec"], &["metadata"]]),
                },
            })
        })
        .collect()
}

/// How far a version is: `v2` before `v1` before `v1beta1` before `v1alpha1` before all other names.
fn priority(version: &str) -> (u8, u64, u64) {
    let parse = || {
        let rest = version.strip_prefix('v')?;
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (major, stage) = rest.split_at(digits);
        let major = major.parse().ok()?;
        if stage.is_empty() {
            return Some((3, major, 0));
        }
        let (rank, minor) = match (stage.strip_prefix("beta"), stage.strip_prefix("alpha")) {
            (Some(minor), _) => (2, minor),
            (_, Some(minor)) => (1, minor),
            _ => return None,
        };
        Some((rank, major, minor.parse().ok()?))
    };
    parse().unwrap_or((0, 0, 0))
}

/// The warning that a deprecated version's answers carry.
fn deprecation(group: &str, kind: &str, version: &Value, preferred: &str) -> Option<String> {
    if version.get("deprecated") != Some(&Value::Bool(true)) {
        return None;
    }
    let own = text(version, "/deprecationWarning");
    if !own.is_empty() {
        return Some(own.to_owned());
    }
    let name = text(version, "/name");
    Some(format!("{group}/{name} {kind} is deprecated; use {group}/{preferred} {kind}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_released_version_is_preferred() {
        let mut versions = ["foo", "v1alpha1", "v1beta2", "v1", "v2alpha1", "v1beta10", "v11", "v2"];
        versions.sort_by_key(|v| std::cmp::Reverse(priority(v)));
        assert_eq!(versions, ["v11", "v2", "v1", "v1beta10", "v1beta2", "v2alpha1", "v1alpha1", "foo"]);
    }
}
