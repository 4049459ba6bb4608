//! Watches: initial events, changes, selectors, bookmarks, ends.

use crate::objects::{DEPLOYMENTS, FOOS, config_map, deployment, foo};
use crate::session::{Call, JSON, MERGE, Session};
use crate::table::Intended;
use serde_json::{Value, json};

pub(crate) const INTENDED: &[Intended] = &[
    Intended {
        step: "*: under the old path",
        at: "status",
        why: "paths with /watch/ are deprecated since 1.11 and not served",
    },
    Intended {
        step: "faulty*: a version that is no number",
        at: "status",
        why: "a client's fault is 400, as for lists",
    },
    Intended {
        step: "a bookmark *",
        at: "events[1]",
        why: "a watch gets a bookmark when its time is over, however short it was",
    },
];

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const PARTIAL: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";

/// The event that says that the scenario's changes are over.
fn last(event: &Value) -> bool {
    let object = if event["object"]["kind"] == "Table" {
        &event["object"]["rows"][0]["object"]
    } else {
        &event["object"]
    };
    object["metadata"]["name"] == "last"
}

fn any(_: &Value) -> bool {
    false
}

pub(crate) async fn scenario(s: &mut Session) {
    for (name, resource, object) in [
        ("config maps", "v1/configmaps", config_map("x")),
        ("foos", FOOS, foo("x")),
        ("deployments", DEPLOYMENTS, deployment("x")),
    ] {
        sequence(s, name, resource, &object).await;
    }
    faults(s).await;
    bookmarks(s).await;
}

/// The same changes seen by watches of all sorts.
async fn sequence(s: &mut Session, name: &str, resource: &str, object: &Value) {
    let all = s.path(resource);
    let named = |name: &str, labels: Value| {
        let mut object = object.clone();
        object["metadata"] = json!({ "name": name, "labels": labels });
        object
    };
    s.quietly(Call::with("POST", &all, &named("old", json!({ "app": "x" })))).await;
    s.quietly(Call::with("POST", &all, &named("older", json!({ "app": "y" })))).await;
    let list = s.quietly(Call::get(&all)).await;
    let from = list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
    let queries = [
        ("from a list", format!("resourceVersion={from}"), JSON),
        ("from a list, by label", format!("resourceVersion={from}&labelSelector=app%3Dx"), JSON),
        ("from a list, by name", format!("resourceVersion={from}&fieldSelector=metadata.name%3Dnew"), JSON),
        ("from a list, as tables", format!("resourceVersion={from}"), TABLE),
        ("from a list, metadata only", format!("resourceVersion={from}"), PARTIAL),
        ("from any version", "resourceVersion=0".to_owned(), JSON),
        ("from nothing", String::new(), JSON),
        ("from nothing, by label", "labelSelector=app%3Dx".to_owned(), JSON),
        ("with initial events", "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true".to_owned(), JSON),
        ("with initial events by label", "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&labelSelector=app%3Dx".to_owned(), JSON),
        ("with initial events, metadata only", "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true".to_owned(), PARTIAL),
        ("with initial events, as tables", "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true".to_owned(), TABLE),
        ("without initial events", "sendInitialEvents=false&resourceVersionMatch=NotOlderThan".to_owned(), JSON),
        ("with initial events, no bookmarks", "sendInitialEvents=true&resourceVersionMatch=NotOlderThan".to_owned(), JSON),
        ("with initial events, not older", format!("sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion={from}&allowWatchBookmarks=true"), JSON),
    ];
    let mut watches = Vec::new();
    for (what, query, accept) in &queries {
        let mut watch = s.watch(&format!("{all}?watch=true&{query}"), accept).await;
        // The real server says it when its cache has caught up, which may be some changes later.
        if query.contains("sendInitialEvents=true") && query.contains("allowWatchBookmarks") {
            watch.read_to(|event| event["type"] == "BOOKMARK").await;
        }
        watches.push((what, watch));
    }
    let one = format!("{all}/new");
    s.quietly(Call::with("POST", &all, &named("new", json!({ "app": "x" })))).await;
    for patch in [
        json!({ "metadata": { "annotations": { "a": "1" } } }),
        json!({ "metadata": { "annotations": { "a": "1" } } }),
        json!({ "metadata": { "labels": { "app": "y" } } }),
        json!({ "metadata": { "annotations": { "a": "2" } } }),
        json!({ "metadata": { "labels": { "app": "x" }, "finalizers": ["example.com/hold"] } }),
    ] {
        s.quietly(Call::with("PATCH", &one, &patch).content_type(MERGE)).await;
    }
    s.quietly(Call { method: "DELETE", ..Call::get(&one) }).await;
    s.quietly(Call::with("PATCH", &one, &json!({ "metadata": { "finalizers": null } })).content_type(MERGE))
        .await;
    s.quietly(Call { method: "DELETE", ..Call::get(&format!("{all}/old")) }).await;
    s.quietly(Call::with("POST", &all, &named("last", json!({ "app": "x" })))).await;
    // One by name never sees the last.
    for (what, watch) in watches {
        let ends: fn(&Value) -> bool =
            if what.contains("by name") { |event| event["type"] == "DELETED" } else { last };
        s.events(&format!("{name}: {what}"), watch, ends).await;
    }
    let watch = s.watch(&format!("{all}?watch=true&resourceVersion={from}&timeoutSeconds=1"), JSON).await;
    s.events(&format!("{name}: until its time is over"), watch, any).await;
    let watch = s.watch(&format!("{all}/last?watch=true"), JSON).await;
    s.events(&format!("{name}: of one object"), watch, last).await;
    let old = s.path(resource).replace("/namespaces/", "/watch/namespaces/");
    let watch = s.watch(&format!("{old}?resourceVersion=0&labelSelector=app%3Dx"), JSON).await;
    s.events(&format!("{name}: under the old path"), watch, last).await;
}

async fn faults(s: &mut Session) {
    let all = s.path("v1/configmaps");
    for (what, query) in [
        ("a version that is no number", "resourceVersion=abc"),
        ("a match without initial events", "resourceVersion=1&resourceVersionMatch=NotOlderThan"),
        ("initial events without a match", "sendInitialEvents=true"),
        ("initial events with another match", "sendInitialEvents=true&resourceVersionMatch=Exact"),
        ("a bad label selector", "labelSelector=a%20b"),
        ("a bad field selector", "fieldSelector=spec.x%3D1"),
        ("a token", "continue=abc"),
        ("a version of long ago", "resourceVersion=1"),
        ("a version of the future", "resourceVersion=9000000000&timeoutSeconds=1"),
        (
            "initial events of the future",
            "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=9000000000&timeoutSeconds=1",
        ),
    ] {
        // Of the built-in kinds the real server's cache holds everything since it started.
        if what != "a version of long ago" {
            let watch = s.watch(&format!("{all}?watch=true&timeoutSeconds=2&{query}"), JSON).await;
            s.events(&format!("faulty: {what}"), watch, any).await;
        }
        let watch = s.watch(&format!("{}?watch=true&timeoutSeconds=2&{query}", s.path(FOOS)), JSON).await;
        s.events(&format!("faulty, foos: {what}"), watch, any).await;
    }
    let watch = s.watch(&format!("{}?watch=true", s.path("apps/v1/nonsenses")), JSON).await;
    s.events("faulty: an unknown resource", watch, any).await;
    let watch =
        s.watch(&format!("{all}?watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3Dnone"), JSON).await;
    s.events("watch=1", watch, any).await;
}

async fn bookmarks(s: &mut Session) {
    let query = "watch=true&allowWatchBookmarks=true&timeoutSeconds=4&fieldSelector=metadata.name%3Dnone";
    let path = format!("{}?{query}", s.path("v1/configmaps"));
    let mut watches = Vec::new();
    for (what, accept) in [("before the end", JSON), ("as a table", TABLE), ("as metadata", PARTIAL)] {
        watches.push((what, s.watch(&path, accept).await));
    }
    for (what, watch) in watches {
        s.events(&format!("a bookmark {what}"), watch, any).await;
    }
}
