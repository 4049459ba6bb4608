//! Deletion: finalizers, preconditions, propagation, garbage collection, namespaces.

use crate::client::{
    Api, CONFIG_MAPS, DEFINITIONS, FOOS, api, api_with, config_map, foo, upstream_definition,
};
use devcluster::Options;
use serde_json::{Value, json};

fn path(name: &str) -> String {
    format!("{CONFIG_MAPS}/{name}")
}

/// A config map that belongs to another.
fn owned(name: &str, owner: &Value) -> Value {
    let mut object = config_map(name);
    object["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
    }]);
    object
}

async fn owner_and_dependent(api: &Api) -> Value {
    let owner = api.post(CONFIG_MAPS, &config_map("owner")).await.ok();
    api.post(CONFIG_MAPS, &owned("dependent", &owner)).await.ok();
    owner
}

#[tokio::test]
async fn a_deletion_waits_for_finalizers() {
    let api = api().await;
    let mut object = config_map("c");
    object["metadata"]["finalizers"] = json!(["a.b/c"]);
    api.post(CONFIG_MAPS, &object).await.ok();
    let pending = api.delete(&path("c"), &Value::Null).await.ok();
    assert!(pending["metadata"]["deletionTimestamp"].is_string());
    let again = api.post(CONFIG_MAPS, &config_map("c")).await;
    again.fails(409, "object is being deleted: configmaps \"c\" already exists");
    let more = api.merge(&path("c"), &json!({ "metadata": { "finalizers": ["a.b/c", "d.e/f"] } })).await;
    more.fails(
        422,
        "ConfigMap \"c\" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is \
         being deleted, found new finalizers []string{\"d.e/f\"}",
    );
    api.merge(&path("c"), &json!({ "metadata": { "finalizers": null } })).await.ok();
    api.get(&path("c")).await.fails(404, "configmaps \"c\" not found");
}

#[tokio::test]
async fn a_deletion_with_preconditions_meets_only_its_object() {
    let api = api().await;
    let live = api.post(CONFIG_MAPS, &config_map("c")).await.ok();
    let (uid, version) = (&live["metadata"]["uid"], &live["metadata"]["resourceVersion"]);
    let answer = api.delete(&path("c"), &json!({ "preconditions": { "uid": "wrong" } })).await;
    answer.fails(
        409,
        &format!(
            "Operation cannot be fulfilled on ConfigMap \"c\": the UID in the precondition (wrong) does not match the \
             UID in record ({}). The object might have been deleted and then recreated",
            uid.as_str().unwrap()
        ),
    );
    let answer = api.delete(&path("c"), &json!({ "preconditions": { "resourceVersion": "1" } })).await;
    assert_eq!(answer.status, 409);
    let gone = api
        .delete(&path("c"), &json!({ "preconditions": { "uid": uid, "resourceVersion": version } }))
        .await
        .ok();
    assert_eq!((&gone["status"], &gone["details"]["uid"]), (&json!("Success"), uid));
}

#[tokio::test]
async fn dependents_go_after_their_owner() {
    let api = api().await;
    owner_and_dependent(&api).await;
    api.delete(&path("owner"), &json!({ "propagationPolicy": "Background" })).await.ok();
    api.until_gone(CONFIG_MAPS, "dependent").await;
}

#[tokio::test]
async fn a_foreground_deletion_waits_for_the_dependents() {
    let api = api().await;
    owner_and_dependent(&api).await;
    api.merge(&path("dependent"), &json!({ "metadata": { "finalizers": ["a.b/c"] } })).await.ok();
    let pending = api.delete(&path("owner"), &json!({ "propagationPolicy": "Foreground" })).await.ok();
    assert_eq!(pending["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    api.until(&format!("{CONFIG_MAPS}?watch=true"), |e| {
        e["object"]["metadata"]["name"] == "dependent"
            && e["object"]["metadata"].get("deletionTimestamp").is_some()
    })
    .await;
    assert_eq!(api.get(&path("owner")).await.status, 200);
    api.merge(&path("dependent"), &json!({ "metadata": { "finalizers": null } })).await.ok();
    api.until_gone(CONFIG_MAPS, "owner").await;
}

#[tokio::test]
async fn orphans_stay_without_their_owner() {
    let api = api().await;
    owner_and_dependent(&api).await;
    api.delete(&path("owner"), &json!({ "propagationPolicy": "Orphan" })).await.ok();
    api.until_gone(CONFIG_MAPS, "owner").await;
    assert_eq!(api.get(&path("dependent")).await.ok()["metadata"].get("ownerReferences"), None);
}

#[tokio::test]
async fn case_20_a_dependent_of_an_earlier_uid_is_collected() {
    let api = api().await;
    let mut owner = api.post(CONFIG_MAPS, &config_map("owner")).await.ok();
    owner["metadata"]["uid"] = "00000000-0000-0000-0000-000000000000".into();
    api.post(CONFIG_MAPS, &owned("late", &owner)).await.ok();
    api.until_gone(CONFIG_MAPS, "late").await;
    assert_eq!(api.get(&path("owner")).await.status, 200);
}

#[tokio::test]
async fn without_the_garbage_collector_dependents_stay() {
    let api = api_with(Options { garbage_collector: false, ..Options::default() }).await;
    owner_and_dependent(&api).await;
    api.delete(&path("owner"), &Value::Null).await.ok();
    // Namespaces are emptied by another controller, which works through the same queue.
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "n" } });
    api.post("/api/v1/namespaces", &namespace).await.ok();
    api.delete("/api/v1/namespaces/n", &Value::Null).await.ok();
    api.until_gone("/api/v1/namespaces", "n").await;
    assert_eq!(api.get(&path("dependent")).await.status, 200);
}

#[tokio::test]
async fn a_terminating_namespace_takes_nothing_new_and_goes_when_it_is_empty() {
    let api = api().await;
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "old" } });
    api.post("/api/v1/namespaces", &namespace).await.ok();
    let maps = CONFIG_MAPS.replace("default", "old");
    let mut object = config_map("held");
    object["metadata"]["finalizers"] = json!(["a.b/c"]);
    api.post(&maps, &object).await.ok();
    let pending = api.delete("/api/v1/namespaces/old", &Value::Null).await.ok();
    assert_eq!(pending["status"]["phase"], "Terminating");
    let refused = api.post(&maps, &config_map("new")).await;
    assert_eq!(refused.body["details"]["causes"][0]["reason"], "NamespaceTerminating");
    refused.fails(
        403,
        "configmaps \"new\" is forbidden: unable to create new content in namespace old because it is being terminated",
    );
    api.until(&format!("{maps}?watch=true"), |e| e["object"]["metadata"].get("deletionTimestamp").is_some())
        .await;
    api.merge(&format!("{maps}/held"), &json!({ "metadata": { "finalizers": null } })).await.ok();
    api.until_gone("/api/v1/namespaces", "old").await;
}

#[tokio::test]
async fn a_collection_can_be_deleted() {
    let api = api().await;
    api.install(&upstream_definition(true)).await;
    for name in ["a", "b"] {
        api.post(FOOS, &foo(name)).await.ok();
    }
    api.delete(&format!("{FOOS}?fieldSelector=metadata.name%3Da"), &Value::Null).await.ok();
    let left = api.get(FOOS).await.ok();
    assert_eq!(left["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn dependents_go_even_if_the_kind_of_their_owner_goes_as_well() {
    let api = api().await;
    api.install(&upstream_definition(true)).await;
    let owner = api.post(FOOS, &foo("x")).await.ok();
    let mut object = config_map("dependent");
    object["metadata"]["ownerReferences"] = json!([{ "apiVersion": owner["apiVersion"], "kind": "Foo", "name": "x",
        "uid": owner["metadata"]["uid"], "controller": true }]);
    api.post(CONFIG_MAPS, &object).await.ok();
    api.delete(&format!("{DEFINITIONS}/foos.samplecontroller.k8s.io"), &Value::Null).await.ok();
    api.until_gone(CONFIG_MAPS, "dependent").await;
}
