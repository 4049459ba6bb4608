//! Watches: what they see, where they begin, how they end.

use crate::client::{Api, CONFIG_MAPS, accept, api, config_map};
use serde_json::{Value, json};

async fn version(api: &Api) -> String {
    api.get(CONFIG_MAPS).await.ok()["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_watch_sees_every_change_after_its_version() {
    let api = api().await;
    api.post(CONFIG_MAPS, &config_map("before")).await.ok();
    let mut watch =
        api.watch(&format!("{CONFIG_MAPS}?watch=true&resourceVersion={}", version(&api).await)).await;
    api.post(CONFIG_MAPS, &config_map("c")).await.ok();
    api.merge(&format!("{CONFIG_MAPS}/c"), &json!({ "data": { "a": "2" } })).await.ok();
    api.delete(&format!("{CONFIG_MAPS}/c"), &Value::Null).await.ok();
    for expected in ["ADDED c", "MODIFIED c", "DELETED c"] {
        assert_eq!(watch.short().await, expected);
    }
}

#[tokio::test]
async fn an_object_that_leaves_the_selection_is_deleted_for_its_watch() {
    let api = api().await;
    let path =
        format!("{CONFIG_MAPS}?watch=true&labelSelector=a%3Db&resourceVersion={}", version(&api).await);
    let mut watch = api.watch(&path).await;
    api.post(CONFIG_MAPS, &config_map("c")).await.ok();
    let label = |value: Value| json!({ "metadata": { "labels": { "a": value } } });
    for value in [json!("b"), json!("c"), json!("b")] {
        api.merge(&format!("{CONFIG_MAPS}/c"), &label(value)).await.ok();
    }
    for expected in ["ADDED c", "DELETED c", "ADDED c"] {
        assert_eq!(watch.short().await, expected);
    }
}

#[tokio::test]
async fn initial_events_end_with_a_bookmark() {
    let api = api().await;
    api.post(CONFIG_MAPS, &config_map("c")).await.ok();
    let path = format!(
        "{CONFIG_MAPS}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    );
    let mut watch = api.watch(&path).await;
    assert_eq!(watch.short().await, "ADDED c");
    let end = watch.next().await.unwrap();
    assert_eq!(end["type"], "BOOKMARK");
    assert_eq!(end["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    assert_eq!(end["object"]["metadata"]["resourceVersion"], version(&api).await);
    let answer = api.get(&format!("{CONFIG_MAPS}?watch=true&sendInitialEvents=true")).await;
    assert_eq!(answer.status, 422);
}

#[tokio::test]
async fn case_10_a_version_from_before_a_compaction_is_410_in_the_stream() {
    let api = api().await;
    let old = version(&api).await;
    api.post(CONFIG_MAPS, &config_map("c")).await.ok();
    api.cluster.compact();
    let mut watch = api.watch(&format!("{CONFIG_MAPS}?watch=true&resourceVersion={old}")).await;
    let event = watch.next().await.unwrap();
    assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(410)));
    let message = event["object"]["message"].as_str().unwrap();
    assert!(message.starts_with(&format!("too old resource version: {old} (")), "{message}");
    assert!(watch.next().await.is_none());
}

#[tokio::test]
async fn open_watches_can_be_expired() {
    let api = api().await;
    let mut watch =
        api.watch(&format!("{CONFIG_MAPS}?watch=true&resourceVersion={}", version(&api).await)).await;
    api.cluster.expire_watches();
    assert_eq!(watch.next().await.unwrap()["object"]["code"], 410);
    assert!(watch.next().await.is_none());
}

#[tokio::test]
async fn a_watch_ends_at_its_timeout() {
    let api = api().await;
    let mut watch = api.watch(&format!("{CONFIG_MAPS}?watch=true&resourceVersion=1&timeoutSeconds=1")).await;
    assert!(watch.next().await.is_none());
}

#[tokio::test]
async fn a_shutdown_ends_all_watches() {
    let api = api().await;
    let mut watch =
        api.watch(&format!("{CONFIG_MAPS}?watch=true&resourceVersion={}", version(&api).await)).await;
    let Api { cluster } = api;
    cluster.shutdown().await;
    assert!(watch.next().await.is_none());
}

#[tokio::test]
async fn a_watched_table_names_its_columns_once() {
    let api = api().await;
    for name in ["a", "b"] {
        api.post(CONFIG_MAPS, &config_map(name)).await.ok();
    }
    let media = accept("application/json;as=Table;v=v1;g=meta.k8s.io");
    let mut watch = api.watch_as(&format!("{CONFIG_MAPS}?watch=true"), media).await;
    for columns in [Some(3), None] {
        let event = watch.next().await.unwrap();
        assert_eq!(event["object"]["columnDefinitions"].as_array().map(Vec::len), columns);
        assert_eq!(event["object"]["rows"][0]["cells"][1], 1);
    }
}
