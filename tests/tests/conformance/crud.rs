//! Create, read, replace: built-in and custom kinds.

use crate::objects::{DEPLOYMENTS, FOOS, config_map, deployment, foo};
use crate::session::{Call, Session};
use crate::table::Intended;
use serde_json::json;

pub(crate) const INTENDED: &[Intended] = &[];

pub(crate) async fn scenario(s: &mut Session) {
    for (resource, object) in
        [("v1/configmaps", config_map("one")), (DEPLOYMENTS, deployment("one")), (FOOS, foo("one"))]
    {
        let plural = resource.rsplit('/').next().unwrap_or_default();
        let (all, one) = (s.path(resource), s.path(&format!("{resource}/one")));
        let made = s.post(&format!("{plural}: create"), &all, &object).await;
        s.post(&format!("{plural}: create again"), &all, &object).await;
        s.get(&format!("{plural}: get"), &one).await;
        s.get(&format!("{plural}: get what is not there"), &s.path(&format!("{resource}/none"))).await;
        s.get(&format!("{plural}: list"), &all).await;
        s.put(&format!("{plural}: replace by itself"), &one, &made).await;
        let mut changed = made.clone();
        changed["metadata"]["labels"] = json!({ "a": "b" });
        let replaced = s.put(&format!("{plural}: replace with a label"), &one, &changed).await;
        changed["metadata"]["labels"] = json!({ "a": "c" });
        s.put(&format!("{plural}: replace an old version"), &one, &changed).await;
        changed["metadata"]["resourceVersion"] = replaced["metadata"]["resourceVersion"].clone();
        changed["metadata"]["uid"] = "6f3d7b8e-0c51-4a7c-8b3e-3f1a2f1f9a10".into();
        s.put(&format!("{plural}: replace another uid"), &one, &changed).await;
        changed["metadata"]["uid"] = made["metadata"]["uid"].clone();
        changed["metadata"]["name"] = "two".into();
        s.put(&format!("{plural}: replace under another name"), &one, &changed).await;
        s.put(&format!("{plural}: replace what is not there"), &s.path(&format!("{resource}/two")), &changed)
            .await;
        let mut unversioned = object.clone();
        unversioned["metadata"]["annotations"] = json!({ "x": "y" });
        s.put(&format!("{plural}: replace without a version"), &one, &unversioned).await;
        // What a client may not set.
        let mut bold = object.clone();
        bold["metadata"] = json!({ "name": "bold", "uid": "mine", "generation": 7, "selfLink": "/me",
            "creationTimestamp": "2001-01-01T00:00:00Z", "deletionTimestamp": "2001-01-01T00:00:00Z",
            "deletionGracePeriodSeconds": 3, "ownerReferences": [], "finalizers": [], "labels": {}, "annotations": {} });
        bold["status"] = json!({ "observedGeneration": 9 });
        s.post(&format!("{plural}: create with what only the server sets"), &all, &bold).await;
        let mut versioned = object.clone();
        versioned["metadata"] = json!({ "name": "versioned", "resourceVersion": "5" });
        s.post(&format!("{plural}: create with a version"), &all, &versioned).await;
        let mut elsewhere = object.clone();
        elsewhere["metadata"] = json!({ "name": "elsewhere", "namespace": "default" });
        s.post(&format!("{plural}: create with another namespace"), &all, &elsewhere).await;
        let mut generated = object.clone();
        generated["metadata"] = json!({ "generateName": "some-" });
        let named = s.quietly(Call::with("POST", &all, &generated)).await;
        let name = named["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        s.mask(&name, "generated name");
        s.get(&format!("{plural}: get by the generated name"), &format!("{all}/{name}")).await;
    }
    s.get("a namespace", &format!("/api/v1/namespaces/{}", s.namespace)).await;
    let missing = s.path(DEPLOYMENTS).replace(&s.namespace, "no-such-namespace");
    s.post("create in a namespace that is not there", &missing, &deployment("x")).await;
    s.post(
        "create a Foo in a namespace that is not there",
        &s.path(FOOS).replace(&s.namespace, "no-such-namespace"),
        &foo("x"),
    )
    .await;
    s.get("list in a namespace that is not there", &missing).await;
    let lease = json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": { "name": "one" },
        "spec": { "holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z",
            "leaseTransitions": 0 } });
    let leases = "coordination.k8s.io/v1/leases";
    let made = s.post("leases: create", &s.path(leases), &lease).await;
    s.put("leases: replace without a version", &s.path(&format!("{leases}/one")), &lease).await;
    let mut other = made;
    other["spec"]["holderIdentity"] = "you".into();
    s.put("leases: replace", &s.path(&format!("{leases}/one")), &other).await;
    let mut new = lease;
    new["metadata"]["name"] = "two".into();
    s.put("leases: create by a replace", &s.path(&format!("{leases}/two")), &new).await;
}
