//! What `kubectl get` asks for: Tables and metadata only.

use crate::objects::{DEFINITIONS, DEPLOYMENTS, FOOS, config_map, define, definition, deployment, foo};
use crate::session::{Call, MERGE, Session};
use crate::table::Intended;
use serde_json::json;

pub(crate) const INTENDED: &[Intended] = &[
    Intended {
        step: "*: an object's metadata as a list",
        at: "*",
        why: "no client asks for the list form of one object",
    },
    Intended {
        step: "*: a list's metadata as an object",
        at: "*",
        why: "no client asks for the object form of a list",
    },
    Intended { step: "a scale", at: "*", why: "a scale has one form only" },
    Intended { step: "accepting plain text", at: "*", why: "the router's own text" },
    Intended {
        step: "accepting anything of applications",
        at: "*",
        why: "the wildcard is taken, where the router of built-in kinds does not know it",
    },
];

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
/// As kubectl sends it.
const KUBECTL: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
const PARTIAL: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const PARTIAL_LIST: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

pub(crate) async fn scenario(s: &mut Session) {
    for (resource, object) in
        [("v1/configmaps", config_map("one")), (DEPLOYMENTS, deployment("one")), (FOOS, foo("one"))]
    {
        s.quietly(Call::with("POST", &s.path(resource), &object)).await;
    }
    s.quietly(Call::with("PATCH", &s.path(&format!("{FOOS}/one/status")), &json!({ "status": { "availableReplicas": 1,
        "guest": { "digest": "sha256:1" }, "conditions": [{ "type": "Ready", "status": "True", "reason": "R", "message": "m",
            "lastTransitionTime": "2026-01-01T00:00:00Z" }] } })).content_type(MERGE)).await;
    let lease = json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": { "name": "one" },
        "spec": { "holderIdentity": "me" } });
    s.quietly(Call::with("POST", &s.path("coordination.k8s.io/v1/leases"), &lease)).await;
    let about = json!({ "kind": "Foo", "apiVersion": "samplecontroller.k8s.io/v1alpha1", "name": "one", "namespace": s.namespace });
    s.quietly(Call::with("POST", &s.path("v1/events"), &json!({ "metadata": { "name": "one" }, "involvedObject": about,
        "reason": "Synced", "message": "done\n", "type": "Normal", "source": { "component": "c", "host": "h" }, "count": 3,
        "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-02T00:00:00Z" }))).await;
    for resource in [
        "v1/configmaps",
        DEPLOYMENTS,
        FOOS,
        "coordination.k8s.io/v1/leases",
        "v1/events",
        "events.k8s.io/v1/events",
    ] {
        let name = resource.rsplit('/').next().unwrap_or_default().to_owned()
            + if resource.starts_with("events") { " (new)" } else { "" };
        let (all, one) = (s.path(resource), s.path(&format!("{resource}/one")));
        for (what, path, accept) in [
            ("a list", all.clone(), TABLE),
            ("a list as kubectl asks", all.clone(), KUBECTL),
            ("an object", one.clone(), TABLE),
            ("a list without objects", format!("{all}?includeObject=None"), TABLE),
            ("a list with objects", format!("{all}?includeObject=Object"), TABLE),
            ("a list with what is none", format!("{all}?includeObject=Nonsense"), TABLE),
            ("a page", format!("{all}?limit=1"), TABLE),
            ("an empty list", format!("{all}?labelSelector=none"), TABLE),
            ("an object that is not there", format!("{one}-none"), TABLE),
            ("a list's metadata", all.clone(), PARTIAL_LIST),
            ("an object's metadata", one.clone(), PARTIAL),
            ("an object's metadata as a list", one.clone(), PARTIAL_LIST),
            ("a list's metadata as an object", all.clone(), PARTIAL),
        ] {
            s.call(&format!("{name}: {what}"), Call::get(&path).accept(accept)).await;
        }
    }
    s.call("the namespace", Call::get(&format!("/api/v1/namespaces/{}", s.namespace)).accept(TABLE)).await;
    s.call("a definition", Call::get(&format!("{DEFINITIONS}/foos.samplecontroller.k8s.io")).accept(TABLE))
        .await;
    s.call(
        "a definition's metadata",
        Call::get(&format!("{DEFINITIONS}/foos.samplecontroller.k8s.io")).accept(PARTIAL),
    )
    .await;
    let web = s.path(&format!("{DEPLOYMENTS}/one"));
    let patch = json!({ "metadata": { "labels": { "a": "b" } } });
    s.call("a patch", Call::with("PATCH", &web, &patch).content_type(MERGE).accept(PARTIAL)).await;
    s.call("a patch as a table", Call::with("PATCH", &web, &patch).content_type(MERGE).accept(TABLE)).await;
    s.call("a create", Call::with("POST", &s.path(FOOS), &foo("two")).accept(PARTIAL)).await;
    s.call(
        "a deletion",
        Call { method: "DELETE", ..Call::get(&s.path(&format!("{FOOS}/two"))) }.accept(PARTIAL),
    )
    .await;
    s.call("a scale", Call::get(&format!("{web}/scale")).accept(PARTIAL)).await;
    for (what, accept) in [
        ("a form that is none", "application/json;as=Nonsense;v=v1;g=meta.k8s.io"),
        ("a version that is none", "application/json;as=Table;v=v9;g=meta.k8s.io"),
        ("a group that is none", "application/json;as=Table;v=v1;g=nonsense"),
        ("a form, or JSON", "application/json;as=Nonsense;v=v1;g=meta.k8s.io,application/json"),
        ("plain text", "text/plain"),
        ("HTML or anything", "text/html,*/*;q=0.8"),
        ("anything", "*/*"),
        ("anything of applications", "application/*"),
    ] {
        s.call(&format!("accepting {what}"), Call::get(&web).accept(accept)).await;
        s.call(
            &format!("accepting {what}, a Foo"),
            Call::get(&s.path(&format!("{FOOS}/one"))).accept(accept),
        )
        .await;
    }
    columns(s).await;
}

/// Columns of all types.
async fn columns(s: &mut Session) {
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let mut printed = definition("tables.conformance.test", "Print", &schema);
    let column = |name: &str, kind: &str, path: &str| json!({ "name": name, "type": kind, "jsonPath": path });
    printed["spec"]["versions"][0]["additionalPrinterColumns"] = json!([
        column("Text", "string", ".spec.text"), column("Integer", "integer", ".spec.integer"),
        column("Number", "number", ".spec.number"), column("Flag", "boolean", ".spec.flag"),
        column("Date", "date", ".spec.date"), column("List", "string", ".spec.list"),
        column("Items", "string", ".spec.list[*]"), column("First", "string", ".spec.list[0]"),
        column("Map", "string", ".spec.map"), column("Where", "string", ".spec.items[?(@.type==\"b\")].value"),
        column("Dotted", "string", ".metadata.labels['app.kubernetes.io/name']"), column("Last", "string", ".spec.list[-1]"),
        { "name": "Wide", "type": "string", "format": "byte", "description": "Only wide.", "priority": 2, "jsonPath": ".spec.text" },
    ]);
    define(s, &printed).await;
    let all = s.path("tables.conformance.test/v1/prints");
    let print = |name: &str, spec| {
        json!({ "apiVersion": "tables.conformance.test/v1", "kind": "Print",
        "metadata": { "name": name, "labels": { "app.kubernetes.io/name": "x" } }, "spec": spec })
    };
    for (name, spec) in [
        (
            "full",
            json!({ "text": "t", "integer": 3, "number": 1.5, "flag": true, "date": "2020-01-01T00:00:00Z",
            "list": ["a", "b"], "map": { "k": "v" }, "items": [{ "type": "a", "value": "1" }, { "type": "b", "value": "2" }] }),
        ),
        ("empty", json!({})),
        (
            "wrong",
            json!({ "text": 1, "integer": "three", "number": "x", "flag": "yes", "date": "yesterday", "list": "a", "map": [1] }),
        ),
        ("null", json!({ "text": null, "integer": null, "date": null })),
        (
            "odd",
            json!({ "text": true, "integer": 1.7, "number": 2, "flag": 1, "date": 5, "list": [1, { "a": null }], "map": 1.5 }),
        ),
    ] {
        s.quietly(Call::with("POST", &all, &print(name, spec))).await;
        s.call(&format!("columns: {name}"), Call::get(&format!("{all}/{name}")).accept(TABLE)).await;
    }
    s.call("columns: all", Call::get(&all).accept(TABLE)).await;
}
