//! Strategic merge patches, directive by directive.

use serde_json::{Value, json};
use structured_merge::{Error, Schema, strategic};

fn pod(pod: &Value) -> Value {
    json!({"spec": {"template": {"spec": pod}}})
}

fn merge(live: &Value, patch: &Value) -> Result<Value, Error> {
    strategic::merge(live, patch, Schema::deployment())
}

/// A patch of the pod template's spec.
fn merged(live: &Value, patch: &Value) -> Value {
    merge(&pod(live), &pod(patch)).expect("a valid patch")["spec"]["template"]["spec"].clone()
}

fn refused(live: &Value, patch: &Value) -> Error {
    merge(&pod(live), &pod(patch)).expect_err("an invalid patch")
}

#[test]
fn list_items_are_merged_by_their_key() {
    let live =
        json!({"containers": [{"name": "a", "image": "a:1", "args": ["x"]}, {"name": "b", "image": "b:1"}]});
    let patch = json!({"containers": [{"name": "a", "image": "a:2"}]});
    let expected =
        json!({"containers": [{"name": "a", "image": "a:2", "args": ["x"]}, {"name": "b", "image": "b:1"}]});
    assert_eq!(merged(&live, &patch), expected);
}

#[test]
fn atomic_lists_are_replaced_and_null_deletes() {
    let live = json!({"tolerations": [{"key": "a"}], "nodeSelector": {"a": "b"}, "hostname": "h"});
    let patch =
        json!({"tolerations": [{"key": "b"}], "nodeSelector": {"a": null, "c": "d"}, "hostname": null});
    assert_eq!(merged(&live, &patch), json!({"tolerations": [{"key": "b"}], "nodeSelector": {"c": "d"}}));
}

#[test]
fn the_delete_directive_removes_an_item_or_empties_a_map() {
    let live = json!({"containers": [{"name": "a"}, {"name": "b"}], "securityContext": {"runAsUser": 1}});
    let patch =
        json!({"containers": [{"name": "a", "$patch": "delete"}], "securityContext": {"$patch": "delete"}});
    assert_eq!(merged(&live, &patch), json!({"containers": [{"name": "b"}], "securityContext": {}}));
}

#[test]
fn the_replace_directive_drops_what_is_not_in_the_patch() {
    let live = json!({"containers": [{"name": "a"}, {"name": "b"}], "securityContext": {"runAsUser": 1}});
    let patch = json!({
        "containers": [{"name": "c"}, {"$patch": "replace"}],
        "securityContext": {"$patch": "replace", "fsGroup": 2},
    });
    assert_eq!(
        merged(&live, &patch),
        json!({"containers": [{"name": "c"}], "securityContext": {"fsGroup": 2}})
    );
}

#[test]
fn the_element_order_is_the_patches_with_live_items_in_their_places() {
    let names = |names: &[&str]| json!({"containers": names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>()});
    let mut patch = names(&["new"]);
    patch["$setElementOrder/containers"] = json!([{"name": "b"}, {"name": "new"}, {"name": "a"}]);
    assert_eq!(merged(&names(&["a", "server", "b"]), &patch), names(&["server", "b", "new", "a"]));
}

#[test]
fn items_of_a_primitive_list_are_added_and_deleted() {
    let finalizers = |names: &[&str]| json!({"metadata": {"finalizers": names}});
    let patch = json!({"metadata": {
        "$setElementOrder/finalizers": ["c", "a"],
        "$deleteFromPrimitiveList/finalizers": ["b"],
        "finalizers": ["c"],
    }});
    let merged = merge(&finalizers(&["a", "b"]), &patch).expect("a valid patch");
    assert_eq!(merged, finalizers(&["c", "a"]));
}

#[test]
fn retained_keys_are_all_that_stays() {
    let live = json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}});
    let patch = json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}});
    assert_eq!(
        merge(&live, &patch).expect("a valid patch"),
        json!({"spec": {"strategy": {"type": "Recreate"}}})
    );
    let patch = json!({"spec": {"strategy": {"$retainKeys": ["type"], "rollingUpdate": {}}}});
    let error = merge(&live, &patch).expect_err("a field that is not retained");
    assert_eq!(error, Error::BadRequest("invalid patch format of retainKeys".to_owned()));
}

#[test]
fn a_patch_that_makes_no_sense_is_refused_in_the_servers_words() {
    let live = json!({"containers": [{"name": "a"}]});
    let text = |patch: Value| refused(&live, &patch).to_string();
    assert_eq!(
        text(json!({"containers": [{"image": "x"}]})),
        "map: map[image:x] does not contain declared merge key: name"
    );
    assert_eq!(
        text(json!({"containers": [{"name": "a", "$patch": "drop"}]})),
        "unknown patch type: drop in map: map[$patch:drop name:a]"
    );
    assert_eq!(
        text(json!({"containers": [{"name": "a", "$patch": "merge"}]})),
        "merging lists cannot yet be specified in the patch"
    );
    assert_eq!(
        text(json!({"$setElementOrder/containers": [{"name": "b"}], "containers": [{"name": "a"}]})),
        "The order in patch list:\n[map[name:a]]\n doesn't match $setElementOrder list:\n[map[name:b]]\n"
    );
    assert_eq!(
        text(json!({"$setElementOrder/containers": "a"})),
        "expected a []interface {}, but received a string"
    );
    assert_eq!(
        text(json!({"$setElementOrder/other": []})),
        r#"unable to find api field in struct PodSpec for the json field "other""#
    );
    assert_eq!(merge(&live, &json!([])), Err(Error::BadRequest("invalid JSON document".to_owned())));
}
