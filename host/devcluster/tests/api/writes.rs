//! Creates, replaces and patches of Deployments and other built-in kinds.

use crate::client::{CONFIG_MAPS, DEPLOYMENTS, api, api_with, config_map, content, deployment};
use devcluster::Options;
use serde_json::{Value, json};

fn web() -> String {
    format!("{DEPLOYMENTS}/web")
}

#[tokio::test]
async fn a_new_deployment_gets_its_defaults_and_becomes_available() {
    let api = api().await;
    let created = api.post(DEPLOYMENTS, &deployment("web")).await;
    assert_eq!(created.status, 201);
    let created = created.ok();
    assert_eq!(created["metadata"]["generation"], 1);
    assert_eq!(created["spec"]["strategy"]["rollingUpdate"]["maxSurge"], "25%");
    assert_eq!(created["metadata"]["managedFields"][0]["manager"], "tester");
    let watched = format!("{DEPLOYMENTS}?watch=true");
    let live = api.until(&watched, |e| e["object"]["status"]["availableReplicas"] == 1).await;
    assert_eq!(live["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "1");
    assert_eq!(live["metadata"]["generation"], 1);
    let managers = live["metadata"]["managedFields"].as_array().unwrap();
    assert!(
        managers.iter().any(|m| m["manager"] == "kube-controller-manager" && m["subresource"] == "status")
    );
}

#[tokio::test]
async fn a_write_from_an_old_version_is_a_conflict() {
    let api = api().await;
    let old = api.post(CONFIG_MAPS, &config_map("c")).await.ok();
    let path = format!("{CONFIG_MAPS}/c");
    api.merge(&path, &json!({ "data": { "a": "2" } })).await.ok();
    let text = "Operation cannot be fulfilled on configmaps \"c\": the object has been modified; please apply your \
                changes to the latest version and try again";
    api.put(&path, &old).await.fails(409, text);
    let stale = json!({ "metadata": { "resourceVersion": old["metadata"]["resourceVersion"] }, "data": { "a": "3" } });
    api.merge(&path, &stale).await.fails(409, text);
}

#[tokio::test]
async fn a_write_of_another_uid_is_409_for_a_put_and_422_for_a_patch() {
    let api = api_with(Options { fake_kubelet: false, ..Options::default() }).await;
    let live = api.post(DEPLOYMENTS, &deployment("web")).await.ok();
    let uid = live["metadata"]["uid"].as_str().unwrap();
    let mut other = live.clone();
    other["metadata"]["uid"] = "wrong".into();
    api.put(&web(), &other).await.fails(
        409,
        &format!(
            "Operation cannot be fulfilled on deployments.apps \"web\": StorageError: invalid object, Code: 4, \
             Key: /registry/deployments/default/web, ResourceVersion: 0, AdditionalErrorMsg: Precondition \
             failed: UID in precondition: wrong, UID in object meta: {uid}"
        ),
    );
    let text =
        "Deployment.apps \"web\" is invalid: metadata.uid: Invalid value: \"wrong\": field is immutable";
    api.merge(&web(), &json!({ "metadata": { "uid": "wrong" } })).await.fails(422, text);
    let mut config = deployment("web");
    config["metadata"]["uid"] = "wrong".into();
    api.apply(&format!("{}?fieldManager=m&force=true", web()), &config).await.fails(422, text);
    config["metadata"] = json!({ "name": "web", "uid": uid, "resourceVersion": "1" });
    let answer = api.apply(&format!("{}?fieldManager=m&force=true", web()), &config).await;
    assert_eq!((answer.status, answer.body["reason"].as_str()), (409, Some("Conflict")));
    config["metadata"] = json!({ "name": "gone", "uid": uid });
    api.apply(&format!("{DEPLOYMENTS}/gone?fieldManager=m"), &config).await.fails(
        409,
        &format!(
            "Operation cannot be fulfilled on deployments.apps \"gone\": uid mismatch: the provided object \
             specified uid {uid}, and no existing object was found"
        ),
    );
}

#[tokio::test]
async fn a_write_that_changes_nothing_changes_no_version() {
    let api = api_with(Options { fake_kubelet: false, ..Options::default() }).await;
    let live = api.post(DEPLOYMENTS, &deployment("web")).await.ok();
    let version = live["metadata"]["resourceVersion"].clone();
    let put = api.put(&web(), &live).await.ok();
    assert_eq!(put["metadata"]["resourceVersion"], version);
    let patched = api.merge(&web(), &json!({ "spec": { "replicas": 1 } })).await.ok();
    assert_eq!(patched["metadata"]["resourceVersion"], version);
    let first = api.apply(&format!("{}?fieldManager=m", web()), &deployment("web")).await.ok();
    let second = api.apply(&format!("{}?fieldManager=m", web()), &deployment("web")).await.ok();
    assert_eq!(first["metadata"]["resourceVersion"], second["metadata"]["resourceVersion"]);
    assert_eq!(second["metadata"]["generation"], 1);
}

#[tokio::test]
async fn the_generation_counts_the_spec_and_annotations_and_nothing_else() {
    let api = api_with(Options { fake_kubelet: false, ..Options::default() }).await;
    api.post(DEPLOYMENTS, &deployment("web")).await.ok();
    for (patch, path, generation) in [
        (json!({ "metadata": { "labels": { "a": "b" } } }), web(), 1),
        (json!({ "spec": { "replicas": 2 } }), web(), 2),
        (json!({ "metadata": { "annotations": { "a": "b" } } }), web(), 3),
        (json!({ "status": { "replicas": 2 } }), format!("{}/status", web()), 3),
    ] {
        assert_eq!(api.merge(&path, &patch).await.ok()["metadata"]["generation"], generation, "{patch}");
    }
}

#[tokio::test]
async fn each_endpoint_writes_its_own_part() {
    let api = api_with(Options { fake_kubelet: false, ..Options::default() }).await;
    api.post(DEPLOYMENTS, &deployment("web")).await.ok();
    let main =
        api.merge(&web(), &json!({ "status": { "replicas": 7 }, "spec": { "replicas": 2 } })).await.ok();
    assert_eq!((&main["status"]["replicas"], &main["spec"]["replicas"]), (&Value::Null, &json!(2)));
    let path = format!("{}/status", web());
    let status =
        api.merge(&path, &json!({ "status": { "replicas": 7 }, "spec": { "replicas": 3 } })).await.ok();
    assert_eq!((&status["status"]["replicas"], &status["spec"]["replicas"]), (&json!(7), &json!(2)));
    let scale = format!("{}/scale", web());
    let found = api.get(&scale).await.ok();
    assert_eq!(found["kind"], "Scale");
    assert_eq!(found["status"], json!({ "replicas": 7, "selector": "app=nginx" }));
    api.merge(&scale, &json!({ "spec": { "replicas": 4 } })).await.ok();
    let live = api.get(&web()).await.ok();
    assert_eq!(live["spec"]["replicas"], 4);
    let managers = live["metadata"]["managedFields"].as_array().unwrap();
    assert!(managers.iter().any(|m| m["subresource"] == "scale"), "{managers:?}");
}

#[tokio::test]
async fn apply_conflicts_name_the_owner_and_force_takes_the_field() {
    let api = api_with(Options { fake_kubelet: false, ..Options::default() }).await;
    let path = format!("{}?fieldManager=one", web());
    assert_eq!(api.apply(&path, &deployment("web")).await.status, 201);
    let mut config = deployment("web");
    config["spec"]["replicas"] = 2.into();
    let path = format!("{}?fieldManager=two", web());
    let answer = api.apply(&path, &config).await;
    assert_eq!(answer.body["details"]["causes"][0]["field"], ".spec.replicas");
    answer.fails(409, "Apply failed with 1 conflict: conflict with \"one\": .spec.replicas");
    let forced = api.apply(&format!("{path}&force=true"), &config).await.ok();
    assert_eq!(forced["spec"]["replicas"], 2);
}

#[tokio::test]
async fn what_an_apply_no_longer_names_goes_or_falls_back_to_its_default() {
    let api = api_with(Options { fake_kubelet: false, ..Options::default() }).await;
    let path = format!("{}?fieldManager=one", web());
    let mut config = deployment("web");
    config["metadata"]["labels"] = json!({ "a": "b" });
    config["spec"]["replicas"] = 3.into();
    api.apply(&path, &config).await.ok();
    config["metadata"].as_object_mut().unwrap().remove("labels");
    config["spec"].as_object_mut().unwrap().remove("replicas");
    let live = api.apply(&path, &config).await.ok();
    assert_eq!((&live["metadata"]["labels"], &live["spec"]["replicas"]), (&Value::Null, &json!(1)));
}

#[tokio::test]
async fn options_are_checked() {
    let api = api().await;
    let required =
        "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch";
    api.apply(&web(), &deployment("web")).await.fails(422, required);
    let answer = api.post(&format!("{DEPLOYMENTS}?dryRun=Some"), &deployment("web")).await;
    assert_eq!(answer.status, 422);
}

#[tokio::test]
async fn a_dry_run_stores_nothing() {
    let api = api().await;
    api.post(&format!("{DEPLOYMENTS}?dryRun=All"), &deployment("web")).await.ok();
    assert_eq!(api.get(&web()).await.status, 404);
    api.post(DEPLOYMENTS, &deployment("web")).await.ok();
    let dry = api.merge(&format!("{}?dryRun=All", web()), &json!({ "spec": { "replicas": 9 } })).await.ok();
    assert_eq!(dry["spec"]["replicas"], 9);
    let path = format!("{}?dryRun=All", web());
    api.delete(&path, &Value::Null).await.ok();
    assert_eq!(api.get(&web()).await.ok()["spec"]["replicas"], 1);
}

#[tokio::test]
async fn a_strategic_merge_patch_merges_containers_by_name() {
    let api = api().await;
    api.post(DEPLOYMENTS, &deployment("web")).await.ok();
    let patch = json!({ "spec": { "template": { "spec": { "containers": [{ "name": "nginx", "image": "nginx:2" }] } } } });
    let media = content("application/strategic-merge-patch+json");
    let live = api.call("PATCH", &web(), media, &patch).await.ok();
    let container = &live["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(
        (&container["image"], &container["terminationMessagePolicy"]),
        (&json!("nginx:2"), &json!("File"))
    );
}

#[tokio::test]
async fn a_selector_is_immutable() {
    let api = api().await;
    api.post(DEPLOYMENTS, &deployment("web")).await.ok();
    let patch = json!({ "spec": { "selector": { "matchLabels": { "app": "b" } },
        "template": { "metadata": { "labels": { "app": "b" } } } } });
    api.merge(&web(), &patch).await.fails(
        422,
        "Deployment.apps \"web\" is invalid: spec.selector: Invalid value: {\"matchLabels\":{\"app\":\"b\"}}: \
         field is immutable",
    );
}

#[tokio::test]
async fn names_and_labels_are_checked_and_generated() {
    let api = api().await;
    let answer = api.post(DEPLOYMENTS, &deployment("A_b")).await;
    assert!(answer.message().starts_with("Deployment.apps \"A_b\" is invalid: metadata.name: Invalid value: \"A_b\": a lowercase RFC 1123 subdomain"));
    assert_eq!(answer.status, 422);
    for (length, status) in [(63, 201), (64, 422)] {
        let mut object = deployment(&format!("l{length}"));
        object["metadata"]["labels"] = json!({ "controller": "a".repeat(length) });
        assert_eq!(api.post(DEPLOYMENTS, &object).await.status, status);
    }
    let mut object = config_map("");
    object["metadata"] = json!({ "generateName": "made-" });
    let made = api.post(CONFIG_MAPS, &object).await.ok();
    assert_eq!(made["metadata"]["name"].as_str().unwrap().len(), 10);
}

#[tokio::test]
async fn unknown_fields_are_dropped_warned_about_or_refused() {
    let api = api().await;
    let mut object = deployment("web");
    object["spec"]["nonsense"] = 1.into();
    let strict = api.post(&format!("{DEPLOYMENTS}?fieldValidation=Strict"), &object).await;
    strict.fails(
        400,
        "Deployment in version \"v1\" cannot be handled as a Deployment: strict decoding error: unknown field \
         \"spec.nonsense\"",
    );
    let warned = api.post(&format!("{DEPLOYMENTS}?fieldValidation=Warn"), &object).await;
    assert_eq!(warned.warnings, [r#"299 - "unknown field \"spec.nonsense\"""#]);
    assert_eq!(warned.ok()["spec"].get("nonsense"), None);
}

#[tokio::test]
async fn a_create_needs_its_namespace() {
    let api = api().await;
    let path = DEPLOYMENTS.replace("default", "nope");
    api.post(&path, &deployment("web")).await.fails(404, "namespaces \"nope\" not found");
    let mut object = deployment("web");
    object["metadata"]["namespace"] = "other".into();
    let text = "the namespace of the provided object does not match the namespace sent on the request";
    api.post(DEPLOYMENTS, &object).await.fails(400, text);
    api.post(DEPLOYMENTS, &deployment("web")).await.ok();
    api.post(DEPLOYMENTS, &deployment("web")).await.fails(409, "deployments.apps \"web\" already exists");
}

#[tokio::test]
async fn requests_are_recorded() {
    let api = api().await;
    api.post(&format!("{DEPLOYMENTS}?dryRun=All"), &deployment("web")).await.ok();
    api.get(&format!("{}/status", web())).await;
    let records = api.cluster.requests();
    let [create, get] = records.as_slice() else { panic!("{records:?}") };
    assert_eq!(
        (create.verb.as_str(), create.status, create.dry_run, create.is_write()),
        ("create", 201, true, false)
    );
    assert_eq!(
        (get.verb.as_str(), get.name.as_str(), get.subresource.as_str(), get.status),
        ("get", "web", "status", 404)
    );
    assert_eq!(get.user_agent, "tester/v1 (linux)");
    assert_eq!(api.cluster.count(|r| r.resource == "deployments"), 2);
    api.cluster.clear_requests();
    assert!(api.cluster.requests().is_empty());
}
