//! Definitions and the resources that they define, upstream's two CRDs among them.

use crate::client::{DEFINITIONS, FOOS, Media, api, foo, upstream_definition};
use serde_json::{Value, json};

fn x() -> String {
    format!("{FOOS}/x")
}

#[tokio::test]
async fn a_resource_is_served_while_its_definition_is_there() {
    let api = api().await;
    let answer = api.get(FOOS).await;
    assert_eq!((answer.status, answer.body), (404, "404 page not found".into()));
    api.install(&upstream_definition(true)).await;
    let live = api.get(&format!("{DEFINITIONS}/foos.samplecontroller.k8s.io")).await.ok();
    let conditions = live["status"]["conditions"].as_array().unwrap();
    assert!(conditions.iter().any(|c| c["type"] == "Established" && c["status"] == "True"));
    assert_eq!(live["spec"]["names"]["listKind"], "FooList");
    api.post(FOOS, &foo("x")).await.ok();
    let groups = api.get("/apis").await.ok();
    assert!(groups["groups"].as_array().unwrap().iter().any(|g| g["name"] == "samplecontroller.k8s.io"));
    api.delete(&format!("{DEFINITIONS}/foos.samplecontroller.k8s.io"), &Value::Null).await.ok();
    api.until_gone(DEFINITIONS, "foos.samplecontroller.k8s.io").await;
    assert_eq!(api.get(FOOS).await.status, 404);
    api.install(&upstream_definition(true)).await;
    assert_eq!(api.get(FOOS).await.ok()["items"], json!([]));
}

#[tokio::test]
async fn a_schema_validates_as_the_server_words_it() {
    let api = api().await;
    api.install(&upstream_definition(true)).await;
    let mut object = foo("x");
    object["spec"]["replicas"] = 11.into();
    api.post(FOOS, &object).await.fails(
        422,
        "Foo.samplecontroller.k8s.io \"x\" is invalid: spec.replicas: Invalid value: 11: spec.replicas in body \
         should be less than or equal to 10",
    );
}

#[tokio::test]
async fn case_01_without_the_status_subresource_status_is_part_of_the_object() {
    let api = api().await;
    api.install(&upstream_definition(false)).await;
    api.post(FOOS, &foo("x")).await.ok();
    let status = json!({ "status": { "availableReplicas": 1 } });
    let text = "foos.samplecontroller.k8s.io \"x\" not found";
    api.merge(&format!("{}/status", x()), &status).await.fails(404, text);
    let live = api.merge(&x(), &status).await.ok();
    assert_eq!(
        (&live["status"]["availableReplicas"], &live["metadata"]["generation"]),
        (&json!(1), &json!(2))
    );
}

#[tokio::test]
async fn with_the_status_subresource_each_endpoint_writes_its_own_part() {
    let api = api().await;
    api.install(&upstream_definition(true)).await;
    let mut object = foo("x");
    object["status"] = json!({ "availableReplicas": 9 });
    let created = api.post(FOOS, &object).await.ok();
    assert_eq!(created.get("status"), None);
    let patch = json!({ "status": { "availableReplicas": 1 }, "spec": { "replicas": 5 }, "metadata": { "labels": { "a": "b" } } });
    let live = api.merge(&format!("{}/status", x()), &patch).await.ok();
    assert_eq!((&live["status"]["availableReplicas"], &live["spec"]["replicas"]), (&json!(1), &json!(1)));
    assert_eq!((&live["metadata"]["generation"], live["metadata"].get("labels")), (&json!(1), None));
    let live = api.merge(&x(), &patch).await.ok();
    assert_eq!((&live["spec"]["replicas"], &live["metadata"]["generation"]), (&json!(5), &json!(2)));
}

#[tokio::test]
async fn an_undeclared_field_is_an_error_in_an_apply_and_pruned_in_a_merge_patch() {
    let api = api().await;
    api.install(&upstream_definition(true)).await;
    api.post(FOOS, &foo("x")).await.ok();
    let path = format!("{}/status", x());
    let mut config = foo("x");
    config.as_object_mut().unwrap().remove("spec");
    config["status"] = json!({ "conditions": [] });
    api.apply(&format!("{path}?fieldManager=m"), &config).await.fails(
        500,
        "failed to create typed patch object (/x; samplecontroller.k8s.io/v1alpha1, Kind=Foo): \
         .status.conditions: field not declared in schema",
    );
    let merge = json!({ "status": { "conditions": [], "availableReplicas": 2 } });
    let answer = api.merge(&format!("{path}?fieldValidation=Warn"), &merge).await;
    assert_eq!(answer.warnings, [r#"299 - "unknown field \"status.conditions\"""#]);
    assert_eq!(answer.ok()["status"], json!({ "availableReplicas": 2 }));
}

#[tokio::test]
async fn a_strategic_merge_patch_is_no_media_type_for_a_custom_resource() {
    let api = api().await;
    api.install(&upstream_definition(true)).await;
    api.post(FOOS, &foo("x")).await.ok();
    let media = crate::client::content("application/strategic-merge-patch+json");
    api.call("PATCH", &x(), media, &json!({})).await.fails(
        415,
        "the body of the request was in an unknown format - accepted media types include: \
         application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
    );
}

#[tokio::test]
async fn a_replace_needs_a_version() {
    let api = api().await;
    api.install(&upstream_definition(true)).await;
    api.post(FOOS, &foo("x")).await.ok();
    api.put(&x(), &foo("x")).await.fails(
        422,
        "foos.samplecontroller.k8s.io \"x\" is invalid: metadata.resourceVersion: Invalid value: 0: must be \
         specified for an update",
    );
}

#[tokio::test]
async fn defaults_scale_and_columns_come_from_the_definition() {
    let api = api().await;
    let mut definition = upstream_definition(true);
    let version = &mut definition["spec"]["versions"][0];
    version["subresources"]["scale"] = json!({ "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.availableReplicas" });
    version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["replicas"]["default"] =
        3.into();
    version["additionalPrinterColumns"] =
        json!([{ "name": "Wanted", "type": "integer", "jsonPath": ".spec.replicas" }]);
    api.install(&definition).await;
    let mut object = foo("x");
    object["spec"].as_object_mut().unwrap().remove("replicas");
    assert_eq!(api.post(FOOS, &object).await.ok()["spec"]["replicas"], 3);
    assert_eq!(api.get(&format!("{}/scale", x())).await.ok()["spec"]["replicas"], 3);
    api.merge(&format!("{}/scale", x()), &json!({ "spec": { "replicas": 4 } })).await.ok();
    let table =
        Media { content: "", accept: "application/json;as=Table;v=v1;g=meta.k8s.io,application/json" };
    let table = api.call("GET", FOOS, table, &Value::Null).await.ok();
    assert_eq!(table["columnDefinitions"][1]["name"], "Wanted");
    assert_eq!(table["rows"][0]["cells"], json!(["x", 4]));
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
}

#[tokio::test]
async fn the_openapi_document_has_the_schema_of_the_definition() {
    let api = api().await;
    api.install(&upstream_definition(true)).await;
    let path = "apis/samplecontroller.k8s.io/v1alpha1";
    let index = api.get("/openapi/v3").await.ok();
    assert_eq!(index["paths"][path]["serverRelativeURL"], format!("/openapi/v3/{path}"));
    let document = api.get(&format!("/openapi/v3/{path}")).await.ok();
    let schema = &document["components"]["schemas"]["io.k8s.samplecontroller.v1alpha1.Foo"];
    assert_eq!(schema["properties"]["status"]["properties"]["availableReplicas"]["type"], "integer");
    let foo = format!("/{path}/namespaces/{{namespace}}/foos/{{name}}/status");
    assert!(document["paths"].get(foo).is_some());
}

#[tokio::test]
async fn a_definition_is_checked() {
    let api = api().await;
    let mut definition = upstream_definition(true);
    definition["metadata"] = json!({ "name": "wrong" });
    let answer = api.post(DEFINITIONS, &definition).await;
    assert_eq!(answer.status, 422);
    let fields: Vec<_> =
        answer.body["details"]["causes"].as_array().unwrap().iter().map(|c| c["field"].clone()).collect();
    assert_eq!(fields, ["metadata.name", "metadata.annotations[api-approved.kubernetes.io]"]);
}
