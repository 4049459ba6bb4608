//! JSON, merge and strategic merge patches.

use crate::objects::{DEPLOYMENTS, FOOS, config_map, deployment, foo};
use crate::session::{APPLY, Call, JSON, JSON_PATCH, MERGE, STRATEGIC, Session};
use crate::table::Intended;
use serde_json::json;

pub(crate) const INTENDED: &[Intended] = &[
    Intended {
        step: "*: merge patch that is no JSON",
        at: "body.message",
        why: "the texts of syntax errors are those of this parser, not of Go's",
    },
    Intended {
        step: "*: JSON patch that is no JSON",
        at: "body.message",
        why: "the texts of syntax errors are those of this parser, not of Go's",
    },
    Intended {
        step: "deployment: strategic merge patch, containers that are a map",
        at: "*message",
        why: "a patch is applied first and decoded then, in one text",
    },
];

pub(crate) async fn scenario(s: &mut Session) {
    let (foo_path, web, map) =
        (s.path(&format!("{FOOS}/one")), s.path(&format!("{DEPLOYMENTS}/web")), s.path("v1/configmaps/map"));
    s.quietly(Call::with("POST", &s.path(FOOS), &foo("one"))).await;
    s.quietly(Call::with("POST", &s.path(DEPLOYMENTS), &deployment("web"))).await;
    s.quietly(Call::with("POST", &s.path("v1/configmaps"), &config_map("map"))).await;

    // JSON patches.
    for (name, path) in [("foo", &foo_path), ("deployment", &web), ("config map", &map)] {
        for (what, patch) in [
            ("add a label", json!([{ "op": "add", "path": "/metadata/labels", "value": { "a": "b" } }])),
            (
                "a test that holds",
                json!([{ "op": "test", "path": "/metadata/labels/a", "value": "b" },
                { "op": "replace", "path": "/metadata/labels/a", "value": "c" }]),
            ),
            ("a test that fails", json!([{ "op": "test", "path": "/metadata/labels/a", "value": "x" }])),
            ("remove what is not there", json!([{ "op": "remove", "path": "/metadata/labels/none" }])),
            (
                "replace what is not there",
                json!([{ "op": "replace", "path": "/metadata/labels/none", "value": "x" }]),
            ),
            (
                "add below what is not there",
                json!([{ "op": "add", "path": "/metadata/none/x", "value": "x" }]),
            ),
            ("copy", json!([{ "op": "copy", "from": "/metadata/labels/a", "path": "/metadata/labels/b" }])),
            ("move", json!([{ "op": "move", "from": "/metadata/labels/b", "path": "/metadata/labels/d" }])),
            ("an unknown operation", json!([{ "op": "turn", "path": "/metadata/labels/b" }])),
            ("of one operation, no list", json!({ "op": "remove", "path": "/metadata/labels/a" })),
            ("of nothing", json!([])),
            ("a label that is a number", json!([{ "op": "add", "path": "/metadata/labels/n", "value": 1 }])),
            ("the name", json!([{ "op": "replace", "path": "/metadata/name", "value": "other" }])),
            ("the uid", json!([{ "op": "replace", "path": "/metadata/uid", "value": "other" }])),
            ("the kind", json!([{ "op": "replace", "path": "/kind", "value": "Other" }])),
            ("all of it", json!([{ "op": "replace", "path": "", "value": {} }])),
        ] {
            s.patch(&format!("{name}: JSON patch, {what}"), JSON_PATCH, path, &patch).await;
        }
        // Merge patches.
        for (what, patch) in [
            ("add", json!({ "metadata": { "annotations": { "x": "y" } } })),
            ("change nothing", json!({ "metadata": { "annotations": { "x": "y" } } })),
            ("remove with null", json!({ "metadata": { "annotations": { "x": null }, "labels": null } })),
            ("of nothing", json!({})),
            ("a stale version", json!({ "metadata": { "resourceVersion": "1", "labels": { "v": "1" } } })),
            ("another uid", json!({ "metadata": { "uid": "6f3d7b8e-0c51-4a7c-8b3e-3f1a2f1f9a10" } })),
            ("another name", json!({ "metadata": { "name": "other" } })),
            ("another namespace", json!({ "metadata": { "namespace": "other" } })),
            ("a list", json!([1])),
            ("annotations that are a list", json!({ "metadata": { "annotations": [] } })),
            ("an annotation that is a number", json!({ "metadata": { "annotations": { "n": 1 } } })),
            ("metadata that is null", json!({ "metadata": null })),
            (
                "creation time and generation",
                json!({ "metadata": { "creationTimestamp": null, "generation": 9 } }),
            ),
            ("deletion time", json!({ "metadata": { "deletionTimestamp": "2020-01-01T00:00:00Z" } })),
            ("the apiVersion", json!({ "apiVersion": "other/v1" })),
        ] {
            s.patch(&format!("{name}: merge patch, {what}"), MERGE, path, &patch).await;
        }
        s.patch(&format!("{name}: patch of an unknown type"), JSON, path, &json!({})).await;
        s.patch(&format!("{name}: patch what is not there"), MERGE, &format!("{path}-none"), &json!({}))
            .await;
        s.patch(
            &format!("{name}: JSON patch what is not there"),
            JSON_PATCH,
            &format!("{path}-none"),
            &json!([]),
        )
        .await;
        let with_force = format!("{path}?force=true");
        s.patch(&format!("{name}: merge patch with force"), MERGE, &with_force, &json!({})).await;
        let bad = Call { body: b"{not json".to_vec(), ..Call::with("PATCH", path, &json!({})) };
        s.call(&format!("{name}: merge patch that is no JSON"), bad.content_type(MERGE)).await;
        let bad = Call { body: b"[not json".to_vec(), ..Call::with("PATCH", path, &json!({})) };
        s.call(&format!("{name}: JSON patch that is no JSON"), bad.content_type(JSON_PATCH)).await;
    }
    for (what, patch) in [
        ("replicas", json!({ "spec": { "replicas": 3 } })),
        ("replicas to null", json!({ "spec": { "replicas": null } })),
        ("replicas of the wrong type", json!({ "spec": { "replicas": "three" } })),
        ("replicas out of range", json!({ "spec": { "replicas": 11 } })),
        ("an unknown field", json!({ "spec": { "unknown": 1 } })),
        ("the whole spec to null", json!({ "spec": null })),
        ("status on the main path", json!({ "status": { "availableReplicas": 5 } })),
    ] {
        s.patch(&format!("foo: merge patch, {what}"), MERGE, &foo_path, &patch).await;
        s.patch(&format!("deployment: merge patch, {what}"), MERGE, &web, &patch).await;
    }
    s.patch("foo: strategic merge patch", STRATEGIC, &foo_path, &json!({ "spec": { "replicas": 2 } })).await;

    // Strategic merge patches.
    let container = |patch| json!({ "spec": { "template": { "spec": { "containers": patch } } } });
    for (what, patch) in [
        ("an image by the container's name", container(json!([{ "name": "nginx", "image": "nginx:2" }]))),
        ("a second container", container(json!([{ "name": "side", "image": "side" }]))),
        ("delete a container", container(json!([{ "$patch": "delete", "name": "side" }]))),
        (
            "environment by name",
            container(json!([{ "name": "nginx", "env": [{ "name": "A", "value": "1" },
            { "name": "B", "value": "2" }] }])),
        ),
        (
            "environment in an order",
            container(json!([{ "name": "nginx", "$setElementOrder/env": [{ "name": "B" },
            { "name": "A" }], "env": [{ "name": "C", "value": "3" }] }])),
        ),
        (
            "environment in a good order",
            container(json!([{ "name": "nginx", "$setElementOrder/env": [{ "name": "C" },
            { "name": "B" }, { "name": "A" }], "env": [{ "name": "C", "value": "3" }] }])),
        ),
        ("ports by number", container(json!([{ "name": "nginx", "ports": [{ "containerPort": 80 }] }]))),
        ("a container without a name", container(json!([{ "image": "x" }]))),
        (
            "containers replaced",
            container(json!([{ "$patch": "replace" }, { "name": "only", "image": "only:1" }])),
        ),
        ("an unknown field", json!({ "spec": { "unknown": 1 } })),
        ("an unknown directive", json!({ "spec": { "$patch": "turn" } })),
        (
            "a strategy that keeps no other keys",
            json!({ "spec": { "strategy": { "$retainKeys": ["type"],
            "type": "Recreate" } } }),
        ),
        ("a map replaced", json!({ "metadata": { "annotations": { "$patch": "replace", "only": "this" } } })),
        ("finalizers", json!({ "metadata": { "finalizers": ["example.com/one"] } })),
        ("a finalizer more", json!({ "metadata": { "finalizers": ["example.com/two"] } })),
        (
            "a finalizer less",
            json!({ "metadata": { "$deleteFromPrimitiveList/finalizers": ["example.com/one"] } }),
        ),
        ("no finalizer", json!({ "metadata": { "finalizers": null } })),
        ("of nothing", json!({})),
        ("containers that are a map", container(json!({ "name": "x" }))),
        (
            "template labels that do not match",
            json!({ "spec": { "template": { "metadata": { "labels": {
            "app": "other" } } } } }),
        ),
        (
            "a null in a map",
            json!({ "spec": { "template": { "spec": { "nodeSelector": { "a": null, "b": "c" } } } } }),
        ),
    ] {
        s.patch(&format!("deployment: strategic merge patch, {what}"), STRATEGIC, &web, &patch).await;
    }
    s.patch(
        "config map: strategic merge patch",
        STRATEGIC,
        &map,
        &json!({ "data": { "a": null, "b": "2" } }),
    )
    .await;
    s.patch("config map: strategic merge patch, unknown field", STRATEGIC, &map, &json!({ "dada": {} }))
        .await;
    let owners = |uid| {
        json!({ "metadata": { "ownerReferences": [{ "apiVersion": "v1", "kind": "ConfigMap",
        "name": format!("owner-{uid}"), "uid": format!("6f3d7b8e-0c51-4a7c-8b3e-3f1a2f1f9a1{uid}") }] } })
    };
    s.patch(
        "config map: strategic merge patch, an owner",
        STRATEGIC,
        &s.path("v1/configmaps/map?dryRun=All"),
        &owners(1),
    )
    .await;
    s.patch("apply without a manager", APPLY, &map, &config_map("map")).await;
}
