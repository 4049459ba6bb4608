//! Our entries of `managedFields`.
//!
//! Owns: the edit that turns our `Update` entry into `Apply`. Must not know clients.

use serde::Deserialize as _;
use serde_json::Value;
use structured_merge::{FieldSet, ManagedFields, Operation, Path};

/// `managedFields` after our `Update` entry became `Apply`, and gave up `spec.replicas` if
/// `release_replicas`; none if nothing changes, or if the entries cannot be read.
///
/// As client-go's `csaupgrade` does it (`util/csaupgrade/upgrade.go`): an `Apply` entry takes up the
/// fields of the first `Update` entry of the same API version; without one the first `Update` entry
/// becomes it; the other `Update` entries go. The writer reads the live object, sends a JSON patch
/// that replaces `/metadata/managedFields` and `/metadata/resourceVersion` (with the one it read, so
/// that a change in between answers 409).
pub fn upgraded_managed_fields(live_managed_fields: &Value, release_replicas: bool) -> Option<Value> {
    let before = Vec::<ManagedFields>::deserialize(live_managed_fields).ok()?;
    let ours = |entry: &ManagedFields, operation| {
        entry.manager == foo_api::FIELD_MANAGER
            && entry.subresource.is_empty()
            && entry.operation == operation
    };
    let applied = before.iter().position(|entry| ours(entry, Operation::Apply));
    let index = applied.or_else(|| before.iter().position(|entry| ours(entry, Operation::Update)))?;

    let mut entry = before.get(index)?.clone();
    let updated = before
        .iter()
        .find(|other| ours(other, Operation::Update) && other.api_version == entry.api_version)
        .map(ManagedFields::fields)
        .transpose()
        .ok()?;
    let mut fields: FieldSet = entry.fields().ok()?.union(&updated.unwrap_or_default());
    if release_replicas {
        fields.remove(&Path::fields(["spec", "replicas"]));
    }
    entry.operation = Operation::Apply;
    entry.fields_v1 = fields.to_fields_v1();

    let after: Vec<_> = before
        .iter()
        .enumerate()
        .filter(|(at, other)| *at == index || !ours(other, Operation::Update))
        .map(|(at, other)| if at == index { &entry } else { other })
        .cloned()
        .collect();
    if after == before { None } else { serde_json::to_value(after).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn entry(manager: &str, operation: &str, subresource: &str, fields: &Value) -> Value {
        let mut entry = json!({
            "manager": manager, "operation": operation, "apiVersion": "apps/v1",
            "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": fields,
        });
        if !subresource.is_empty() {
            entry["subresource"] = json!(subresource);
        }
        entry
    }

    fn spec() -> Value {
        json!({"f:spec": {"f:replicas": {}, "f:template": {"f:spec": {"f:dnsPolicy": {}}}}})
    }

    #[test]
    fn definition_writing_our_update_entry_becomes_apply_and_the_others_stay() {
        let status = entry("kube-controller-manager", "Update", "status", &json!({"f:status": {}}));
        let kubectl = entry("kubectl", "Update", "", &json!({"f:spec": {"f:paused": {}}}));
        let before = json!([status, entry("sample-controller", "Update", "", &spec()), kubectl]);
        let after = upgraded_managed_fields(&before, false).unwrap();
        assert_eq!(after, json!([status, entry("sample-controller", "Apply", "", &spec()), kubectl]));
    }

    #[test]
    fn definition_writing_the_edit_drops_replicas_when_the_guest_names_none() {
        let before = json!([entry("sample-controller", "Update", "", &spec())]);
        let after = upgraded_managed_fields(&before, true).unwrap();
        let fields = json!({"f:spec": {"f:template": {"f:spec": {"f:dnsPolicy": {}}}}});
        assert_eq!(after, json!([entry("sample-controller", "Apply", "", &fields)]));
    }

    #[test]
    fn an_apply_entry_takes_up_the_update_entry_beside_it() {
        let applied = entry("sample-controller", "Apply", "", &json!({"f:spec": {"f:paused": {}}}));
        let before = json!([applied, entry("sample-controller", "Update", "", &spec())]);
        let after = upgraded_managed_fields(&before, false).unwrap();
        assert_eq!(after.as_array().unwrap().len(), 1);
        assert_eq!(after[0]["operation"], "Apply");
        assert!(after.pointer("/0/fieldsV1/f:spec/f:paused").is_some());
        assert!(after.pointer("/0/fieldsV1/f:spec/f:replicas").is_some());
    }

    #[test]
    fn an_apply_entry_alone_only_gives_up_replicas() {
        let before = json!([entry("sample-controller", "Apply", "", &spec())]);
        assert_eq!(upgraded_managed_fields(&before, false), None);
        let after = upgraded_managed_fields(&before, true).unwrap();
        assert!(after.pointer("/0/fieldsV1/f:spec/f:replicas").is_none());
        assert_eq!(upgraded_managed_fields(&after, true), None);
    }

    #[test]
    fn entries_of_others_and_of_subresources_are_never_touched() {
        let before = json!([
            entry("kubectl", "Update", "", &spec()),
            entry("sample-controller", "Update", "status", &spec()),
        ]);
        assert_eq!(upgraded_managed_fields(&before, true), None);
        for odd in [json!(null), json!({}), json!([1]), json!([])] {
            assert_eq!(upgraded_managed_fields(&odd, true), None);
        }
    }
}
