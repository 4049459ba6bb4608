//! Deletion: propagation, finalizers, preconditions, garbage collection.

use crate::objects::{DEPLOYMENTS, FOOS, config_map, deployment, foo, owner};
use crate::session::{Call, MERGE, Session};
use crate::table::Intended;
use serde_json::{Value, json};

pub(crate) const INTENDED: &[Intended] = &[
    Intended {
        step: "*: options that are no JSON",
        at: "body.message",
        why: "the texts of syntax errors are those of this parser, not of Go's",
    },
    Intended {
        step: "two controllers",
        at: "*message",
        why: "an object inside a text has its fields in alphabetical order",
    },
];

const MAPS: &str = "v1/configmaps";

pub(crate) async fn scenario(s: &mut Session) {
    simple(s).await;
    preconditions(s).await;
    finalizers(s).await;
    collections(s).await;
    for policy in ["", "Background", "Foreground", "Orphan"] {
        dependents(s, policy).await;
    }
    strays(s).await;
}

async fn create(s: &Session, resource: &str, object: &Value) -> Value {
    s.quietly(Call::with("POST", &s.path(resource), object)).await
}

async fn simple(s: &mut Session) {
    for (resource, object) in [(MAPS, config_map("x")), (DEPLOYMENTS, deployment("x")), (FOOS, foo("x"))] {
        let (one, kind) =
            (s.path(&format!("{resource}/x")), object["kind"].as_str().unwrap_or_default().to_owned());
        for (what, options) in [
            ("without options", None),
            ("in the background", Some(json!({ "propagationPolicy": "Background" }))),
            ("with a grace period", Some(json!({ "gracePeriodSeconds": 30 }))),
            ("with no grace period", Some(json!({ "gracePeriodSeconds": 0 }))),
            ("with the old orphan option", Some(json!({ "orphanDependents": false }))),
            ("with typed options", Some(json!({ "kind": "DeleteOptions", "apiVersion": "v1" }))),
            (
                "with options of another group",
                Some(json!({ "kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1" })),
            ),
            ("with empty options", Some(json!({}))),
        ] {
            create(s, resource, &object).await;
            s.delete(&format!("{kind}: {what}"), &one, options.as_ref()).await;
            s.get(&format!("{kind}: {what}, after"), &one).await;
        }
        s.delete(&format!("{kind}: what is not there"), &one, None).await;
        create(s, resource, &object).await;
        for (what, options) in [
            ("a policy that is none", json!({ "propagationPolicy": "Sideways" })),
            ("two policies", json!({ "propagationPolicy": "Orphan", "orphanDependents": true })),
            ("options of another kind", json!({ "kind": "Other", "apiVersion": "v1" })),
            ("a wrong type", json!({ "gracePeriodSeconds": "x" })),
            ("a negative grace period", json!({ "gracePeriodSeconds": -5, "dryRun": ["All"] })),
            ("a dry run", json!({ "dryRun": ["All"] })),
            ("a dry run that is none", json!({ "dryRun": ["Some"] })),
            ("a foreground dry run", json!({ "dryRun": ["All"], "propagationPolicy": "Foreground" })),
        ] {
            s.delete(&format!("{kind}: {what}"), &one, Some(&options)).await;
        }
        s.delete(&format!("{kind}: a dry run by query"), &format!("{one}?dryRun=All"), None).await;
        s.delete(
            &format!("{kind}: a policy by query that is none"),
            &format!("{one}?propagationPolicy=Sideways"),
            None,
        )
        .await;
        let bad = Call { body: b"{nonsense".to_vec(), ..Call::with("DELETE", &one, &json!({})) };
        s.call(&format!("{kind}: options that are no JSON"), bad).await;
        s.delete(
            &format!("{kind}: by query"),
            &format!("{one}?propagationPolicy=Background&gracePeriodSeconds=0"),
            None,
        )
        .await;
    }
}

async fn preconditions(s: &mut Session) {
    for (resource, object) in
        [(MAPS, config_map("pre")), (DEPLOYMENTS, deployment("pre")), (FOOS, foo("pre"))]
    {
        let (one, kind) =
            (s.path(&format!("{resource}/pre")), object["kind"].as_str().unwrap_or_default().to_owned());
        let made = create(s, resource, &object).await;
        let with = |uid: &Value, version: &Value| {
            let mut conditions = json!({});
            if !uid.is_null() {
                conditions["uid"] = uid.clone();
            }
            if !version.is_null() {
                conditions["resourceVersion"] = version.clone();
            }
            json!({ "preconditions": conditions })
        };
        let (uid, version) = (&made["metadata"]["uid"], &made["metadata"]["resourceVersion"]);
        let other = json!("6f3d7b8e-0c51-4a7c-8b3e-3f1a2f1f9a10");
        s.get(&format!("{kind}: with preconditions, before"), &one).await;
        s.delete(&format!("{kind}: another uid"), &one, Some(&with(&other, &Value::Null))).await;
        s.delete(&format!("{kind}: another version"), &one, Some(&with(&Value::Null, &json!("1")))).await;
        s.delete(&format!("{kind}: right uid, another version"), &one, Some(&with(uid, &json!("1")))).await;
        s.delete(&format!("{kind}: right uid and version"), &one, Some(&with(uid, version))).await;
        s.delete(&format!("{kind}: right uid of what is gone"), &one, Some(&with(uid, &Value::Null))).await;
    }
}

async fn finalizers(s: &mut Session) {
    for (resource, mut object) in
        [(MAPS, config_map("held")), (DEPLOYMENTS, deployment("held")), (FOOS, foo("held"))]
    {
        let (one, kind) =
            (s.path(&format!("{resource}/held")), object["kind"].as_str().unwrap_or_default().to_owned());
        object["metadata"]["finalizers"] = json!(["example.com/a", "example.com/b"]);
        s.post(&format!("{kind}: create with finalizers"), &s.path(resource), &object).await;
        s.delete(&format!("{kind}: delete with finalizers"), &one, None).await;
        s.get(&format!("{kind}: being deleted"), &one).await;
        s.delete(&format!("{kind}: delete again"), &one, None).await;
        s.delete(
            &format!("{kind}: delete again, foreground"),
            &one,
            Some(&json!({ "propagationPolicy": "Background" })),
        )
        .await;
        s.post(&format!("{kind}: create what is being deleted"), &s.path(resource), &object).await;
        for (what, patch) in [
            ("a label", json!({ "metadata": { "labels": { "a": "b" } } })),
            (
                "a new finalizer",
                json!({ "metadata": { "finalizers": ["example.com/a", "example.com/b", "example.com/c"] } }),
            ),
            ("no deletion time", json!({ "metadata": { "deletionTimestamp": null } })),
            ("one finalizer less", json!({ "metadata": { "finalizers": ["example.com/b"] } })),
        ] {
            s.patch(&format!("{kind}: being deleted, {what}"), MERGE, &one, &patch).await;
        }
        s.patch(
            &format!("{kind}: being deleted, a dry run of the last finalizer"),
            MERGE,
            &format!("{one}?dryRun=All"),
            &json!({ "metadata": { "finalizers": null } }),
        )
        .await;
        s.patch(
            &format!("{kind}: being deleted, no finalizer"),
            MERGE,
            &one,
            &json!({ "metadata": { "finalizers": null } }),
        )
        .await;
        s.get(&format!("{kind}: gone"), &one).await;
        object["metadata"]["finalizers"] = json!(["nonsense"]);
        s.post(
            &format!("{kind}: a finalizer without a domain"),
            &format!("{}?dryRun=All", s.path(resource)),
            &object,
        )
        .await;
        object["metadata"]["finalizers"] = json!(["a b/c"]);
        s.post(&format!("{kind}: a finalizer that is no name"), &s.path(resource), &object).await;
        object["metadata"]["finalizers"] = json!(["orphan", "foregroundDeletion"]);
        s.post(&format!("{kind}: two of the collector's finalizers"), &s.path(resource), &object).await;
    }
}

async fn collections(s: &mut Session) {
    for (resource, object) in [(MAPS, config_map("x")), (FOOS, foo("x")), (DEPLOYMENTS, deployment("x"))] {
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        for (name, label) in [("c1", "x"), ("c2", "x"), ("c3", "y")] {
            let mut object = object.clone();
            object["metadata"] = json!({ "name": name, "labels": { "collection": label } });
            create(s, resource, &object).await;
        }
        let all = s.path(resource);
        s.delete(
            &format!("{kind}: a collection, dry run"),
            &format!("{all}?labelSelector=collection%3Dx&dryRun=All"),
            None,
        )
        .await;
        s.delete(
            &format!("{kind}: a collection by label"),
            &format!("{all}?labelSelector=collection%3Dx"),
            None,
        )
        .await;
        s.delete(
            &format!("{kind}: a collection of nothing"),
            &format!("{all}?labelSelector=collection%3Dx"),
            None,
        )
        .await;
        s.delete(
            &format!("{kind}: a collection by name"),
            &format!("{all}?fieldSelector=metadata.name%3Dc3"),
            None,
        )
        .await;
        s.get(&format!("{kind}: what is left of the collection"), &format!("{all}?labelSelector=collection"))
            .await;
    }
    s.delete("a collection of all namespaces", "/apis/apps/v1/deployments", None).await;
}

/// An owner with dependents of all sorts goes.
async fn dependents(s: &mut Session, policy: &str) {
    let what = if policy.is_empty() { "no policy" } else { policy };
    let suffix = what.to_lowercase().replace(' ', "-");
    let owned = |name: &str, of: &Value, controller, blocks| {
        let mut map = config_map(name);
        map["metadata"]["ownerReferences"] = json!([owner(of, controller, blocks)]);
        map
    };
    for (resource, object) in [
        (FOOS, foo(&format!("owner-{suffix}"))),
        (DEPLOYMENTS, deployment(&format!("owner-{suffix}"))),
        (MAPS, config_map(&format!("owner-{suffix}"))),
    ] {
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        let at = format!("{kind}, {what}");
        let k = kind.to_lowercase();
        let first = create(s, resource, &object).await;
        let second = create(s, MAPS, &config_map(&format!("second-{k}-{suffix}"))).await;
        let names = ["child", "loose", "shared"].map(|n| format!("{n}-{k}-{suffix}"));
        let [child, loose, shared] = &names;
        let child_made = create(s, MAPS, &owned(child, &first, true, true)).await;
        create(s, MAPS, &owned(loose, &first, false, false)).await;
        create(s, MAPS, &owned(&format!("grand{child}"), &child_made, true, true)).await;
        let mut of_two = owned(shared, &first, false, true);
        of_two["metadata"]["ownerReferences"]
            .as_array_mut()
            .expect("a list")
            .push(owner(&second, false, false));
        create(s, MAPS, &of_two).await;
        let path = s.path(&format!("{resource}/owner-{suffix}"));
        let options = (!policy.is_empty()).then(|| json!({ "propagationPolicy": policy }));
        // The collector may be done before anybody looks: a finalizer holds the owner where the answer matters.
        s.delete(&format!("{at}: delete the owner"), &path, options.as_ref()).await;
        s.until_gone(&format!("{at}: the owner is gone"), &path).await;
        let map = |name: &str| s.path(&format!("{MAPS}/{name}"));
        let paths = [map(child), map(loose), map(shared), map(&format!("grand{child}"))];
        if policy == "Orphan" {
            for (name, path) in ["child", "loose", "shared", "grandchild"].iter().zip(&paths) {
                s.until(&format!("{at}: {name}"), path, |_, o| {
                    o["metadata"]["ownerReferences"]
                        .as_array()
                        .is_none_or(|r| r.iter().all(|r| r["uid"] != first["metadata"]["uid"]))
                })
                .await;
            }
        } else {
            s.until_gone(&format!("{at}: child"), &paths[0]).await;
            s.until_gone(&format!("{at}: loose"), &paths[1]).await;
            s.until_gone(&format!("{at}: grandchild"), &paths[3]).await;
            s.until(&format!("{at}: shared"), &paths[2], |_, o| {
                o["metadata"]["ownerReferences"].as_array().is_some_and(|r| r.len() == 1)
            })
            .await;
        }
    }
    if policy == "Foreground" {
        // A dependent that is held holds its owner.
        let first = create(s, FOOS, &foo("waits")).await;
        let mut child = owned("held-child", &first, true, true);
        child["metadata"]["finalizers"] = json!(["example.com/hold"]);
        create(s, MAPS, &child).await;
        let path = s.path(&format!("{FOOS}/waits"));
        s.delete(
            "a held dependent: delete the owner",
            &path,
            Some(&json!({ "propagationPolicy": "Foreground" })),
        )
        .await;
        let child = s.path(&format!("{MAPS}/held-child"));
        s.until("a held dependent: it is being deleted", &child, |_, o| {
            !o["metadata"]["deletionTimestamp"].is_null()
        })
        .await;
        s.get("a held dependent: the owner waits", &path).await;
        s.patch("a held dependent: let it go", MERGE, &child, &json!({ "metadata": { "finalizers": null } }))
            .await;
        s.until_gone("a held dependent: the owner goes", &path).await;
        // One that does not block is not waited for.
        let first = create(s, FOOS, &foo("does-not-wait")).await;
        let mut child = owned("held-loose", &first, true, false);
        child["metadata"]["finalizers"] = json!(["example.com/hold"]);
        create(s, MAPS, &child).await;
        let path = s.path(&format!("{FOOS}/does-not-wait"));
        s.delete(
            "a dependent that does not block: delete the owner",
            &path,
            Some(&json!({ "propagationPolicy": "Foreground" })),
        )
        .await;
        s.until_gone("a dependent that does not block: the owner goes", &path).await;
        let child = s.path(&format!("{MAPS}/held-loose"));
        s.until("a dependent that does not block: it is being deleted", &child, |_, o| {
            !o["metadata"]["deletionTimestamp"].is_null()
        })
        .await;
        s.patch(
            "a dependent that does not block: let it go",
            MERGE,
            &child,
            &json!({ "metadata": { "finalizers": null } }),
        )
        .await;
    }
}

/// Owner references that point nowhere.
async fn strays(s: &mut Session) {
    let stray = |name: &str, reference: Value| {
        let mut map = config_map(name);
        map["metadata"]["ownerReferences"] = json!([reference]);
        map
    };
    let real = create(s, FOOS, &foo("real-owner")).await;
    let mut reference = owner(&real, true, true);
    reference["uid"] = "6f3d7b8e-0c51-4a7c-8b3e-3f1a2f1f9a10".into();
    create(s, MAPS, &stray("other-uid", reference.clone())).await;
    s.until_gone("an owner of another uid", &s.path(&format!("{MAPS}/other-uid"))).await;
    reference["name"] = "nobody".into();
    create(s, MAPS, &stray("nobodys", reference.clone())).await;
    s.until_gone("an owner that is not there", &s.path(&format!("{MAPS}/nobodys"))).await;
    reference["kind"] = "Nonsense".into();
    create(s, MAPS, &stray("nonsense", reference.clone())).await;
    for (what, reference) in [
        ("no uid", json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "a" })),
        ("an empty uid", json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "" })),
        ("no version", json!({ "kind": "ConfigMap", "name": "a", "uid": "u" })),
        ("a forbidden kind", json!({ "apiVersion": "v1", "kind": "Event", "name": "a", "uid": "u" })),
        ("a bad version", json!({ "apiVersion": "a/b/c", "kind": "X", "name": "a", "uid": "u" })),
    ] {
        s.post(&format!("an owner with {what}"), &s.path(MAPS), &stray("bad", reference)).await;
    }
    let mut two = config_map("two");
    two["metadata"]["ownerReferences"] = json!([owner(&real, true, true), {
        "apiVersion": "v1", "kind": "ConfigMap", "name": "b", "uid": "u", "controller": true }]);
    s.post("two controllers", &s.path(MAPS), &two).await;
    // The collector cannot know the kind, so it leaves the object: asked last, when it has had time.
    s.get("an owner of an unknown kind", &s.path(&format!("{MAPS}/nonsense"))).await;
    s.quietly(Call { method: "DELETE", ..Call::get(&s.path(&format!("{MAPS}/nonsense"))) }).await;
}
