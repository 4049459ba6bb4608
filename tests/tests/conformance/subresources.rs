//! The status and scale subresources.

use crate::objects::{DEPLOYMENTS, FOOS, config_map, deployment, foo};
use crate::session::{APPLY, Call, JSON_PATCH, MERGE, STRATEGIC, Session};
use crate::table::Intended;
use serde_json::json;

pub(crate) const INTENDED: &[Intended] = &[
    Intended {
        step: "Deployment: patch the status with a field that is unknown",
        at: "warning",
        why: "where a status is refused nothing is warned of",
    },
    Intended {
        step: "Deployment: patch the status with conditions",
        at: "*lastUpdateTime",
        why: "a time that is not set is left out, not null",
    },
    Intended {
        step: "Deployment: after the *",
        at: "*lastUpdateTime",
        why: "a time that is not set is left out, not null",
    },
    Intended {
        step: "*: after the scale",
        at: "body.metadata.managedFields[0].time",
        why: "an entry keeps its time when the scale is written",
    },
    Intended {
        step: "Deployment: patch the scale with null",
        at: "body.spec.replicas",
        why: "zero replicas are written",
    },
    Intended { step: "*: apply of the scale", at: "*", why: "an apply of a scale merges and owns nothing" },
    Intended {
        step: "*: forced apply of the scale",
        at: "*",
        why: "an apply of a scale merges and owns nothing",
    },
    Intended {
        step: "Foo: replace an old status",
        at: "warning",
        why: "where a write is refused nothing is warned of",
    },
    Intended {
        step: "Foo: patch the status with the wrong type",
        at: "*message",
        why: "paths in texts begin at the root of the object",
    },
    Intended { step: "Foo: post a status", at: "*", why: "the router's own text" },
    Intended { step: "Foo: delete a status", at: "*", why: "the router's own text" },
];

pub(crate) async fn scenario(s: &mut Session) {
    for (resource, object) in [(DEPLOYMENTS, deployment("one")), (FOOS, foo("one"))] {
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        let one = s.path(&format!("{resource}/one"));
        let (status, scale) = (format!("{one}/status"), format!("{one}/scale"));
        s.quietly(Call::with("POST", &s.path(resource), &object)).await;
        let made = s.get(&format!("{kind}: get the status"), &status).await;
        let mut new = made.clone();
        new["status"] =
            json!({ "observedGeneration": 1, "replicas": 2, "availableReplicas": 2, "readyReplicas": 2 });
        new["spec"]["replicas"] = 7.into();
        new["metadata"]["labels"] = json!({ "by": "status" });
        new["metadata"]["annotations"] = json!({ "by": "status" });
        new["metadata"]["finalizers"] = json!(["example.com/status"]);
        let put = s.put(&format!("{kind}: replace the status and more"), &status, &new).await;
        s.put(&format!("{kind}: replace an old status"), &status, &new).await;
        let mut unversioned = put.clone();
        unversioned["metadata"].as_object_mut().expect("metadata").remove("resourceVersion");
        s.put(&format!("{kind}: replace the status without a version"), &status, &unversioned).await;
        for (what, patch) in [
            ("a number", json!({ "status": { "availableReplicas": 1 } })),
            ("nothing new", json!({ "status": { "availableReplicas": 1 } })),
            ("null", json!({ "status": null })),
            ("the wrong type", json!({ "status": { "availableReplicas": "x" } })),
            ("a field that is unknown", json!({ "status": { "unknown": 1, "availableReplicas": 1 } })),
            ("a spec", json!({ "spec": { "replicas": 4 } })),
            ("labels", json!({ "metadata": { "labels": { "l": "1" } } })),
            ("annotations", json!({ "metadata": { "annotations": { "a": "1" } } })),
            ("no finalizers", json!({ "metadata": { "finalizers": null } })),
            (
                "an old version",
                json!({ "metadata": { "resourceVersion": "1" }, "status": { "availableReplicas": 3 } }),
            ),
            (
                "conditions",
                json!({ "status": { "conditions": [{ "type": "Ready", "status": "True", "reason": "R",
                "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z" }] } }),
            ),
        ] {
            s.patch(&format!("{kind}: patch the status with {what}"), MERGE, &status, &patch).await;
        }
        s.patch(
            &format!("{kind}: JSON patch of the status"),
            JSON_PATCH,
            &status,
            &json!([{ "op": "add", "path": "/status/availableReplicas", "value": 6 }]),
        )
        .await;
        s.get(&format!("{kind}: after the status"), &one).await;
        s.post(&format!("{kind}: post a status"), &status, &object).await;
        s.delete(&format!("{kind}: delete a status"), &status, None).await;
        s.get(&format!("{kind}: a status of what is not there"), &s.path(&format!("{resource}/none/status")))
            .await;
        s.patch(
            &format!("{kind}: patch a status of what is not there"),
            MERGE,
            &s.path(&format!("{resource}/none/status")),
            &json!({}),
        )
        .await;
        s.get(&format!("{kind}: a subresource that is none"), &format!("{one}/nonsense")).await;

        let live = s.get(&format!("{kind}: get the scale"), &scale).await;
        let mut wanted = live.clone();
        wanted["spec"]["replicas"] = 3.into();
        s.put(&format!("{kind}: replace the scale"), &scale, &wanted).await;
        s.put(&format!("{kind}: replace an old scale"), &scale, &wanted).await;
        s.put(&format!("{kind}: replace a scale by no scale"), &scale, &object).await;
        let bare = json!({ "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": { "name": "one" },
            "spec": { "replicas": 2 } });
        s.put(&format!("{kind}: replace a scale without a version"), &scale, &bare).await;
        for (what, patch) in [
            ("replicas", json!({ "spec": { "replicas": 4 } })),
            ("nothing new", json!({ "spec": { "replicas": 4 } })),
            ("minus one", json!({ "spec": { "replicas": -1 } })),
            ("a text", json!({ "spec": { "replicas": "4" } })),
            ("more than the schema lets", json!({ "spec": { "replicas": 1000 } })),
            ("a status", json!({ "status": { "replicas": 9 } })),
            ("an old version", json!({ "metadata": { "resourceVersion": "1" }, "spec": { "replicas": 1 } })),
        ] {
            s.patch(&format!("{kind}: patch the scale with {what}"), MERGE, &scale, &patch).await;
        }
        s.patch(
            &format!("{kind}: JSON patch of the scale"),
            JSON_PATCH,
            &scale,
            &json!([{ "op": "replace", "path": "/spec/replicas", "value": 2 }]),
        )
        .await;
        s.patch(
            &format!("{kind}: strategic merge patch of the scale"),
            STRATEGIC,
            &scale,
            &json!({ "spec": { "replicas": 3 } }),
        )
        .await;
        s.get(&format!("{kind}: after the scale"), &one).await;
        s.get(&format!("{kind}: a scale of what is not there"), &s.path(&format!("{resource}/none/scale")))
            .await;
        s.patch(
            &format!("{kind}: dry run of a scale"),
            MERGE,
            &format!("{scale}?dryRun=All"),
            &json!({ "spec": { "replicas": 6 } }),
        )
        .await;
        s.patch(
            &format!("{kind}: patch the scale with null"),
            MERGE,
            &scale,
            &json!({ "spec": { "replicas": null } }),
        )
        .await;
        s.patch(
            &format!("{kind}: apply of the scale"),
            APPLY,
            &format!("{scale}?fieldManager=scaler"),
            &bare,
        )
        .await;
        s.patch(
            &format!("{kind}: forced apply of the scale"),
            APPLY,
            &format!("{scale}?fieldManager=scaler&force=true"),
            &bare,
        )
        .await;
    }
    s.quietly(Call::with("POST", &s.path("v1/configmaps"), &config_map("one"))).await;
    s.get("a status of a kind without", &s.path("v1/configmaps/one/status")).await;
    s.get("a scale of a kind without", &s.path("v1/configmaps/one/scale")).await;
    s.get("a namespace's status", &format!("/api/v1/namespaces/{}/status", s.namespace)).await;
    s.get(
        "a definition's status",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/foos.samplecontroller.k8s.io/status",
    )
    .await;
}
