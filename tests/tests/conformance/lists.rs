//! Lists: pages, selectors, versions.

use crate::objects::{DEPLOYMENTS, FOOS, config_map, deployment, foo};
use crate::session::{Call, Session};
use crate::table::Intended;
use serde_json::{Value, json};

pub(crate) const INTENDED: &[Intended] = &[
    Intended { step: "*: an invalid token", at: "body.message", why: "tokens have another form inside" },
    Intended {
        step: "*: a token with a version",
        at: "body.message",
        why: "tokens are read after the options are checked",
    },
];

pub(crate) async fn scenario(s: &mut Session) {
    let maps = s.path("v1/configmaps");
    s.get("an empty list", &maps).await;
    s.get("an empty list of Foos", &s.path(FOOS)).await;
    for (name, labels) in [
        ("a", json!({ "app": "x", "tier": "1" })),
        ("b", json!({ "app": "y" })),
        ("c", json!({ "app": "x" })),
        ("d", Value::Null),
    ] {
        for (resource, mut object) in
            [("v1/configmaps", config_map(name)), (FOOS, foo(name)), (DEPLOYMENTS, deployment(name))]
        {
            object["metadata"]["labels"] = labels.clone();
            s.quietly(Call::with("POST", &s.path(resource), &object)).await;
        }
    }
    for (name, all) in
        [("config maps", maps.clone()), ("foos", s.path(FOOS)), ("deployments", s.path(DEPLOYMENTS))]
    {
        s.get(&format!("{name}: all"), &all).await;
        for selector in [
            "app=x",
            "app==x",
            "app!=x",
            "app in (x,y)",
            "app notin (x)",
            "app",
            "!app",
            "app=x,tier=1",
            "tier>0",
            "tier<1",
            "app in ()",
            "app in",
            "=x",
            "app=",
            "app=x,",
            "a b",
            "app=x y",
            "-a=b",
            "app in (x",
            "app=(x)",
        ] {
            let path = format!("{all}?labelSelector={}", encode(selector));
            s.get(&format!("{name}: labels {selector:?}"), &path).await;
        }
        for selector in [
            "metadata.name=a",
            "metadata.name!=a",
            "metadata.name=none",
            "metadata.namespace=default",
            "metadata.name=a,metadata.namespace=default",
            "spec.replicas=1",
            "status.phase=x",
            "nonsense",
            "metadata.labels.app=x",
            "metadata.uid=x",
            "=",
            "metadata.name==a",
        ] {
            let path = format!("{all}?fieldSelector={}", encode(selector));
            s.get(&format!("{name}: fields {selector:?}"), &path).await;
        }
        pages(s, name, &all).await;
        for (what, query) in [
            ("any version", "resourceVersion=0"),
            ("not older than 1", "resourceVersion=1&resourceVersionMatch=NotOlderThan"),
            ("a match without a version", "resourceVersionMatch=Exact"),
            ("exactly version 0", "resourceVersion=0&resourceVersionMatch=Exact"),
            ("an unknown match", "resourceVersion=1&resourceVersionMatch=Nonsense"),
            ("a version that is no number", "resourceVersion=abc"),
            ("a negative limit", "limit=-1"),
            ("a limit that is no number", "limit=abc"),
            ("an invalid token", "limit=2&continue=nonsense"),
            ("a token with a version", "continue=nonsense&resourceVersion=5"),
            ("a timeout that is no number", "timeoutSeconds=abc"),
            ("initial events without a watch", "sendInitialEvents=true"),
            ("a list with bookmarks", "allowWatchBookmarks=true"),
        ] {
            s.get(&format!("{name}: {what}"), &format!("{all}?{query}")).await;
        }
    }
    let namespaces = "/api/v1/namespaces?fieldSelector=metadata.name%3Ddefault";
    s.get("namespaces by name", namespaces).await;
    s.get(
        "namespaces by phase",
        &format!("/api/v1/namespaces?fieldSelector=status.phase%3DActive,metadata.name%3D{}", s.namespace),
    )
    .await;
    s.get(
        "namespaces by a label",
        &format!("/api/v1/namespaces?labelSelector=kubernetes.io/metadata.name%3D{}", s.namespace),
    )
    .await;
    s.get("all namespaces by label", "/apis/apps/v1/deployments?labelSelector=tier%3D1,app%3Dx").await;
    s.get("the future", &format!("{maps}?resourceVersion=9000000000")).await;
    s.get("one object of the future", &format!("{maps}/a?resourceVersion=9000000000")).await;
    s.get("one object of any version", &format!("{maps}/a?resourceVersion=0")).await;
}

fn encode(text: &str) -> String {
    text.bytes()
        .map(|b| if b.is_ascii_alphanumeric() { char::from(b).to_string() } else { format!("%{b:02X}") })
        .collect()
}

async fn pages(s: &mut Session, name: &str, all: &str) {
    let first = s.get(&format!("{name}: first page"), &format!("{all}?limit=3")).await;
    let token = first["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
    let version = first["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
    // What changes meanwhile is not seen.
    s.delete(&format!("{name}: delete between pages"), &format!("{all}/d"), None).await;
    s.get(&format!("{name}: second page"), &format!("{all}?limit=3&continue={token}")).await;
    s.get(
        &format!("{name}: second page with a version"),
        &format!("{all}?limit=3&continue={token}&resourceVersion={version}"),
    )
    .await;
    s.get(
        &format!("{name}: as of the first page"),
        &format!("{all}?resourceVersion={version}&resourceVersionMatch=Exact"),
    )
    .await;
    s.get(
        &format!("{name}: as of the first page, in pages"),
        &format!("{all}?limit=1&resourceVersion={version}&resourceVersionMatch=Exact"),
    )
    .await;
    s.get(
        &format!("{name}: not older than the first page"),
        &format!("{all}?resourceVersion={version}&resourceVersionMatch=NotOlderThan"),
    )
    .await;
    s.get(&format!("{name}: a page by label"), &format!("{all}?limit=1&labelSelector=app%3Dx")).await;
    s.get(&format!("{name}: a page as large as the list"), &format!("{all}?limit=3")).await;
    s.get(&format!("{name}: a page of any version"), &format!("{all}?limit=1&resourceVersion=0")).await;
}
