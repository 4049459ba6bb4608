//! Lists, pages, selectors and forms.

use crate::client::{Api, CONFIG_MAPS, accept, api, config_map};
use serde_json::{Value, json};

async fn with_config_maps(count: usize) -> Api {
    let api = api().await;
    let objects = (0..count).map(|n| {
        let mut object = config_map(&format!("c{n:03}"));
        object["metadata"]["namespace"] = "default".into();
        object["metadata"]["labels"] = json!({ "parity": if n % 2 == 0 { "even" } else { "odd" } });
        object
    });
    api.cluster.seed(objects).unwrap();
    api
}

fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|o| o["metadata"]["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn pages_are_of_one_version_whatever_happens_between_them() {
    let api = with_config_maps(5).await;
    let first = api.get(&format!("{CONFIG_MAPS}?limit=2")).await.ok();
    assert_eq!((names(&first), &first["metadata"]["remainingItemCount"]), (vec!["c000", "c001"], &json!(3)));
    api.delete(&format!("{CONFIG_MAPS}/c002"), &Value::Null).await.ok();
    api.post(CONFIG_MAPS, &config_map("c0025")).await.ok();
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = api.get(&format!("{CONFIG_MAPS}?limit=2&continue={token}")).await.ok();
    assert_eq!(names(&second), ["c002", "c003"]);
    assert_eq!(second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
    let token = second["metadata"]["continue"].as_str().unwrap();
    let last = api.get(&format!("{CONFIG_MAPS}?limit=2&continue={token}")).await.ok();
    assert_eq!((names(&last), last["metadata"].get("continue")), (vec!["c004"], None));
}

#[tokio::test]
async fn a_page_token_from_before_a_compaction_is_gone() {
    let api = with_config_maps(3).await;
    let first = api.get(&format!("{CONFIG_MAPS}?limit=1")).await.ok();
    let token = first["metadata"]["continue"].as_str().unwrap();
    api.post(CONFIG_MAPS, &config_map("new")).await.ok();
    api.cluster.compact();
    let answer = api.get(&format!("{CONFIG_MAPS}?limit=1&continue={token}")).await;
    assert_eq!((answer.status, answer.body["reason"].as_str()), (410, Some("Expired")));
    let rest = answer.body["metadata"]["continue"].as_str().unwrap();
    let rest = api.get(&format!("{CONFIG_MAPS}?continue={rest}")).await.ok();
    assert_eq!(names(&rest), ["c001", "c002", "new"]);
    let version = first["metadata"]["resourceVersion"].as_str().unwrap();
    let exact = format!("{CONFIG_MAPS}?resourceVersion={version}&resourceVersionMatch=Exact");
    assert_eq!(api.get(&exact).await.status, 410);
}

#[tokio::test]
async fn a_version_from_the_future_is_a_timeout() {
    let api = api().await;
    let answer = api.get(&format!("{CONFIG_MAPS}?resourceVersion=999999")).await;
    assert_eq!(answer.status, 504);
    assert_eq!(answer.body["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
}

#[tokio::test]
async fn selectors_select() {
    let api = with_config_maps(4).await;
    let odd = api.get(&format!("{CONFIG_MAPS}?labelSelector=parity%3Dodd")).await.ok();
    assert_eq!(names(&odd), ["c001", "c003"]);
    let one = api.get("/api/v1/configmaps?fieldSelector=metadata.name%3Dc002").await.ok();
    assert_eq!(names(&one), ["c002"]);
    let unknown = api.get(&format!("{CONFIG_MAPS}?fieldSelector=data.a%3D1")).await;
    assert_eq!(unknown.status, 400);
}

#[tokio::test]
async fn metadata_alone_can_be_asked_for() {
    let api = with_config_maps(1).await;
    let media = accept("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1");
    let list = api.call("GET", CONFIG_MAPS, media, &Value::Null).await.ok();
    assert_eq!((&list["kind"], list["items"][0].get("data")), (&json!("PartialObjectMetadataList"), None));
    assert_eq!(list["items"][0]["kind"], "PartialObjectMetadata");
}

#[tokio::test]
async fn items_of_built_in_lists_do_not_repeat_their_kind() {
    let api = with_config_maps(1).await;
    let list = api.get(CONFIG_MAPS).await.ok();
    assert_eq!((&list["kind"], list["items"][0].get("kind")), (&json!("ConfigMapList"), None));
}

#[tokio::test]
async fn the_two_forms_of_events_are_one_object() {
    let api = api().await;
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": { "name": "e", "namespace": "default" },
        "involvedObject": { "kind": "Foo", "namespace": "default", "name": "x", "uid": "u" },
        "reason": "Synced", "message": "m", "type": "Normal", "count": 1,
    });
    let events = "/api/v1/namespaces/default/events";
    let created = api.post(events, &event).await.ok();
    assert_eq!((created.get("eventTime"), &created["reportingComponent"]), (Some(&Value::Null), &json!("")));
    let owned = created["metadata"]["managedFields"][0]["fieldsV1"].as_object().unwrap();
    assert!(!owned.contains_key("f:reportingComponent") && !owned.contains_key("f:eventTime"), "{owned:?}");
    assert_eq!(owned["f:involvedObject"], json!({}));
    let new = "/apis/events.k8s.io/v1/namespaces/default/events";
    let found = api.get(&format!("{new}?fieldSelector=regarding.name%3Dx")).await.ok();
    assert_eq!(
        (&found["items"][0]["note"], &found["items"][0]["regarding"]["uid"]),
        (&json!("m"), &json!("u"))
    );
    let text = "Event \"e\" is invalid: count: Invalid value: 2: field is immutable";
    api.merge(&format!("{new}/e"), &json!({ "deprecatedCount": 2 })).await.fails(422, text);
    api.merge(&format!("{events}/e"), &json!({ "count": 2 })).await.ok();
    let found = api.get(&format!("{events}?fieldSelector=involvedObject.uid%3Du")).await.ok();
    assert_eq!(found["items"][0]["count"], 2);
    let mut foreign = event.clone();
    foreign["metadata"]["name"] = "f".into();
    foreign["involvedObject"]["namespace"] = "other".into();
    api.post(events, &foreign).await.fails(
        422,
        "Event \"f\" is invalid: involvedObject.namespace: Invalid value: \"other\": does not match event.namespace",
    );
}

#[tokio::test]
async fn case_09_an_event_over_the_limits_of_its_new_form_is_refused() {
    let api = api().await;
    let event = |instance: usize, note: usize| {
        json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": { "generateName": "e", "namespace": "default" },
            "regarding": { "kind": "Foo", "namespace": "default", "name": "x" }, "action": "Sync",
            "eventTime": "2026-01-01T00:00:00.000000Z", "reason": "Synced", "note": "n".repeat(note), "type": "Normal",
            "reportingController": "sample-controller", "reportingInstance": "i".repeat(instance),
        })
    };
    let path = "/apis/events.k8s.io/v1/namespaces/default/events";
    for (instance, note, status) in [(128, 1024, 201), (129, 1024, 422), (128, 1025, 422)] {
        assert_eq!(api.post(path, &event(instance, note)).await.status, status, "{instance} {note}");
    }
}
