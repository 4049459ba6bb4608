//! Custom resource definitions: checks, life, versions.

use crate::objects::{DEFINITIONS, definition};
use crate::session::{APPLY, Call, JSON, MERGE, Session};
use crate::table::Intended;
use serde_json::{Value, json};

pub(crate) const INTENDED: &[Intended] = &[
    Intended {
        step: "faulty: no kind",
        at: "*",
        why: "definitions are checked as far as the schemas of their resources are used",
    },
    Intended {
        step: "faulty: a plural in capitals",
        at: "*",
        why: "definitions are checked as far as the schemas of their resources are used",
    },
    Intended {
        step: "faulty: no versions",
        at: "*",
        why: "definitions are checked as far as the schemas of their resources are used",
    },
    Intended {
        step: "faulty: no storage version",
        at: "*",
        why: "definitions are checked as far as the schemas of their resources are used",
    },
    Intended {
        step: "faulty: two storage versions",
        at: "*",
        why: "definitions are checked as far as the schemas of their resources are used",
    },
    Intended {
        step: "faulty: one version twice",
        at: "*",
        why: "definitions are checked as far as the schemas of their resources are used",
    },
    Intended {
        step: "faulty: a bad version",
        at: "*",
        why: "definitions are checked as far as the schemas of their resources are used",
    },
    Intended {
        step: "faulty: a schema *",
        at: "*",
        why: "definitions are checked as far as the schemas of their resources are used",
    },
    Intended {
        step: "faulty: a field without a type",
        at: "*",
        why: "definitions are checked as far as the schemas of their resources are used",
    },
    Intended {
        step: "faulty: a list without items",
        at: "*",
        why: "definitions are checked as far as the schemas of their resources are used",
    },
    Intended {
        step: "faulty: a map list without keys",
        at: "*",
        why: "definitions are checked as far as the schemas of their resources are used",
    },
    Intended {
        step: "faulty: a bad *",
        at: "*",
        why: "definitions are checked as far as the schemas of their resources are used",
    },
    Intended {
        step: "faulty: a type that is none",
        at: "*",
        why: "definitions are checked as far as the schemas of their resources are used",
    },
    Intended {
        step: "faulty: a column *",
        at: "*",
        why: "definitions are checked as far as the schemas of their resources are used",
    },
    Intended {
        step: "life: its version",
        at: "body.resources[0].storageVersionHash",
        why: "the hash serves storage migration, which there is none of",
    },
];

const GROUP: &str = "crds.conformance.test";

fn schema() -> Value {
    json!({ "type": "object", "properties": { "spec": { "type": "object", "properties": { "a": { "type": "string" } } } } })
}

/// Its names are accepted and it is served.
fn established(_: u16, object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions.is_some_and(|c| c.iter().any(|c| c["type"] == "Established" && c["status"] == "True"))
}

pub(crate) async fn scenario(s: &mut Session) {
    faults(s).await;
    life(s).await;
    versions(s).await;
    ours(s).await;
}

async fn faults(s: &mut Session) {
    for (what, change) in [
        ("another name", json!({ "metadata": { "name": "wrong" } })),
        ("no group", json!({ "spec": { "group": "" } })),
        ("no scope", json!({ "spec": { "scope": "" } })),
        ("a scope that is none", json!({ "spec": { "scope": "Sideways" } })),
        ("no plural", json!({ "spec": { "names": { "plural": "" } } })),
        ("no kind", json!({ "spec": { "names": { "kind": "" } } })),
        (
            "a plural in capitals",
            json!({ "metadata": { "name": format!("Things.{GROUP}") }, "spec": { "names": { "plural": "Things" } } }),
        ),
        ("no versions", json!({ "spec": { "versions": [] } })),
        (
            "no storage version",
            json!({ "spec": { "versions": [{ "name": "v1", "served": true, "storage": false, "schema": { "openAPIV3Schema": schema() } }] } }),
        ),
        (
            "two storage versions",
            json!({ "spec": { "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema() } },
            { "name": "v2", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema() } }] } }),
        ),
        (
            "one version twice",
            json!({ "spec": { "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema() } },
            { "name": "v1", "served": true, "storage": false, "schema": { "openAPIV3Schema": schema() } }] } }),
        ),
        (
            "a bad version",
            json!({ "spec": { "versions": [{ "name": "V_1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema() } }] } }),
        ),
        ("no schema", json!({ "spec": { "versions": [{ "name": "v1", "served": true, "storage": true }] } })),
        (
            "a schema without a type",
            json!({ "spec": { "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": { "properties": {} } } }] } }),
        ),
        (
            "a schema of another type",
            json!({ "spec": { "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": { "type": "array" } } }] } }),
        ),
        (
            "a field without a type",
            json!({ "spec": { "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": {} } } } }] } }),
        ),
        (
            "a list without items",
            json!({ "spec": { "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": { "type": "object", "properties": { "a": { "type": "array" } } } } }] } }),
        ),
        (
            "a map list without keys",
            json!({ "spec": { "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": { "type": "object", "properties": {
            "a": { "type": "array", "x-kubernetes-list-type": "map", "items": { "type": "object", "properties": { "k": { "type": "string" } } } } } } } }] } }),
        ),
        (
            "a bad default",
            json!({ "spec": { "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": { "type": "object", "properties": {
            "a": { "type": "string", "default": 1 } } } } }] } }),
        ),
        (
            "a bad pattern",
            json!({ "spec": { "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": { "type": "object", "properties": {
            "a": { "type": "string", "pattern": "(" } } } } }] } }),
        ),
        (
            "a type that is none",
            json!({ "spec": { "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": { "type": "object", "properties": {
            "a": { "type": "nonsense" } } } } }] } }),
        ),
        ("an unknown field", json!({ "spec": { "unknown": 1 } })),
        (
            "a protected group",
            json!({ "metadata": { "name": "things.x.k8s.io" }, "spec": { "group": "x.k8s.io" } }),
        ),
        ("short names twice", json!({ "spec": { "names": { "shortNames": ["t", "t"] } } })),
        (
            "a bad scale path",
            json!({ "spec": { "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema() },
            "subresources": { "scale": { "specReplicasPath": "spec.x", "statusReplicasPath": ".status.x" } } }] } }),
        ),
        (
            "a column without a path",
            json!({ "spec": { "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema() },
            "additionalPrinterColumns": [{ "name": "A", "type": "string" }] }] } }),
        ),
        (
            "a column of a type that is none",
            json!({ "spec": { "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema() },
            "additionalPrinterColumns": [{ "name": "A", "type": "nonsense", "jsonPath": ".a" }] }] } }),
        ),
    ] {
        let mut object = definition(GROUP, "Thing", &schema());
        overlay(&mut object, &change);
        s.post(&format!("faulty: {what}"), &format!("{DEFINITIONS}?dryRun=All"), &object).await;
    }
}

fn overlay(into: &mut Value, change: &Value) {
    match (into, change) {
        (Value::Object(into), Value::Object(change)) => {
            for (name, value) in change {
                overlay(into.entry(name).or_insert(Value::Null), value);
            }
        }
        (into, change) => *into = change.clone(),
    }
}

async fn life(s: &mut Session) {
    let object = definition(GROUP, "Life", &schema());
    let path = format!("{DEFINITIONS}/lifes.{GROUP}");
    let (all, one) = (s.path(&format!("{GROUP}/v1/lifes")), s.path(&format!("{GROUP}/v1/lifes/one")));
    s.get("life: nothing is served yet", &all).await;
    s.get("life: no group yet", &format!("/apis/{GROUP}")).await;
    s.get("life: no version yet", &format!("/apis/{GROUP}/v1")).await;
    s.post("life: create", DEFINITIONS, &object).await;
    s.until("life: established", &path, established).await;
    s.until("life: served", &all, |status, _| status == 200).await;
    s.until("life: its group", &format!("/apis/{GROUP}"), |status, _| status == 200).await;
    s.until("life: its version", &format!("/apis/{GROUP}/v1"), |status, _| status == 200).await;
    let life = json!({ "apiVersion": format!("{GROUP}/v1"), "kind": "Life", "metadata": { "name": "one", "finalizers": ["example.com/hold"] },
        "spec": { "a": "b" } });
    s.post("life: an object", &all, &life).await;
    s.post("life: the definition again", DEFINITIONS, &object).await;
    s.patch("life: another kind", MERGE, &path, &json!({ "spec": { "names": { "kind": "Other" } } })).await;
    s.patch("life: another scope", MERGE, &path, &json!({ "spec": { "scope": "Cluster" } })).await;
    s.patch("life: another group", MERGE, &path, &json!({ "spec": { "group": "other.test" } })).await;
    s.patch("life: a short name", MERGE, &path, &json!({ "spec": { "names": { "shortNames": ["lf"] } } }))
        .await;
    s.until("life: the short name is accepted", &path, |_, o| {
        o["status"]["acceptedNames"]["shortNames"] == json!(["lf"])
    })
    .await;
    s.patch("life: an apply", APPLY, &format!("{path}?fieldManager=m"), &object).await;
    // While its handler is made anew the real server has no watches (429).
    let mut watch = s.watch(&format!("{all}?watch=true"), JSON).await;
    let start = std::time::Instant::now();
    while !watch.is_open() && start.elapsed() < tests::api::PATIENCE {
        tokio::time::sleep(tests::api::PAUSE).await;
        watch = s.watch(&format!("{all}?watch=true"), JSON).await;
    }
    s.delete("life: delete the definition", &path, None).await;
    s.until("life: it is going away", &path, |_, o| {
        o["status"]["conditions"].as_array().is_some_and(|c| {
            c.iter().any(|c| c["type"] == "Terminating" && c["reason"] == "InstanceDeletionInProgress")
        })
    })
    .await;
    s.until("life: its object is being deleted", &one, |_, o| !o["metadata"]["deletionTimestamp"].is_null())
        .await;
    s.post("life: create while it goes", &all, &{
        let mut life = life.clone();
        life["metadata"] = json!({ "name": "late" });
        life
    })
    .await;
    s.patch("life: let the object go", MERGE, &one, &json!({ "metadata": { "finalizers": null } })).await;
    s.until_gone("life: the definition is gone", &path).await;
    s.until_gone("life: nothing is served any more", &all).await;
    s.events("life: a watch until the end", watch, |_| false).await;
}

async fn versions(s: &mut Session) {
    let mut object = definition(GROUP, "Version", &schema());
    let first = object["spec"]["versions"][0].clone();
    let version = |name: &str, storage: bool, served: bool| {
        let mut version = first.clone();
        version["name"] = name.into();
        version["storage"] = storage.into();
        version["served"] = served.into();
        version
    };
    let mut deprecated = version("v1beta1", false, true);
    deprecated["deprecated"] = true.into();
    let mut warned = version("v1alpha1", false, true);
    warned["deprecated"] = true.into();
    warned["deprecationWarning"] = "use v1".into();
    object["spec"]["versions"] = json!([
        deprecated,
        warned,
        version("v1", true, true),
        version("v2alpha1", false, false),
        version("v2", false, true)
    ]);
    let path = format!("{DEFINITIONS}/versions.{GROUP}");
    s.post("versions: create", DEFINITIONS, &object).await;
    s.until("versions: established", &path, established).await;
    let all = |version: &str| s.path(&format!("{GROUP}/{version}/versions"));
    let paths = ["v1beta1", "v1alpha1", "v1", "v2alpha1", "v2"].map(|v| (v, all(v)));
    for version in ["v1", "v2", "v1beta1", "v1alpha1"] {
        s.wait(&s.path(&format!("{GROUP}/{version}/versions")), |status, _| status == 200).await;
    }
    for (version, path) in &paths {
        s.get(&format!("versions: list {version}"), path).await;
    }
    let one = json!({ "apiVersion": format!("{GROUP}/v1beta1"), "kind": "Version", "metadata": { "name": "one" }, "spec": { "a": "b" } });
    s.post("versions: create in a deprecated one", &paths[0].1, &one).await;
    for (version, path) in &paths {
        s.get(&format!("versions: get {version}"), &format!("{path}/one")).await;
    }
    s.post("versions: create in the wrong one", &paths[2].1, &one).await;
    s.patch("versions: apply in v2", APPLY, &format!("{}/one?fieldManager=m&force=true", paths[4].1), &json!({
        "apiVersion": format!("{GROUP}/v2"), "kind": "Version", "metadata": { "name": "one" }, "spec": { "a": "c" } })).await;
    s.patch("versions: patch in v1", MERGE, &format!("{}/one", paths[2].1), &json!({ "spec": { "a": "d" } }))
        .await;
    s.until("versions: the group", &format!("/apis/{GROUP}"), |_, o| {
        o["versions"].as_array().is_some_and(|v| v.len() == 4)
    })
    .await;
    let watch = s.watch(&format!("{}?watch=true", paths[4].1), JSON).await;
    s.events("versions: watch v2", watch, |_| true).await;
    s.quietly(Call { method: "DELETE", ..Call::get(&path) }).await;
    s.wait(&path, |status, _| status == 404).await;
}

async fn ours(s: &mut Session) {
    let path = format!("{DEFINITIONS}/{}", foo_api::CRD_NAME);
    s.until("our definition", &path, established).await;
    s.post("our definition again", DEFINITIONS, &foo_api::crd()).await;
    s.post("our definition, strictly", &format!("{DEFINITIONS}?dryRun=All&fieldValidation=Strict"), &{
        let mut crd = foo_api::crd();
        crd["spec"]["unknown"] = 1.into();
        crd
    })
    .await;
}
