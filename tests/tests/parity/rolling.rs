//! A Deployment that others edit while the host keeps it: a person, an autoscaler, another field manager. What the
//! guest names comes back, the rest stays as they left it; with `replicas` named by the Foo and not.

use crate::lab::{Lab, Side, Site};
use serde_json::{Value, json};
use tests::objects::{at, deployment_path, foo, foo_path, ready};

const IMAGE: &str = "/spec/template/spec/containers/0/image";

#[cfg_attr(not(control_plane), ignore = "there is no Go to build a control plane with")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rolling_owned_fields_come_back_and_the_others_stay_whoever_edits() {
    let mut lab = Lab::start(Site::Second, foo_api::crd()).await;
    lab.namespace("rolling").await;
    lab.run(Side::Host, &["--resync", "1h"]).await;
    let mut free = foo("free", "free");
    free["spec"]["replicas"] = Value::Null;
    let mut named = foo("named", "named");
    named["spec"]["replicas"] = 2.into();
    for foo in [&named, &free] {
        lab.api.create(&foo_path("rolling", ""), foo).await;
    }
    tokio::join!(edits(&lab, "named", Some(2)), edits(&lab, "free", None));
}

/// All edits of one Deployment, whose Foo names so many replicas or none.
async fn edits(lab: &Lab, name: &str, replicas: Option<i64>) {
    let path = deployment_path("rolling", name);
    ready_with(lab, name, replicas.unwrap_or(1)).await;

    // A person.
    let person = json!({
        "metadata": {"labels": {"team": "x"}, "annotations": {"note": "x"}},
        "spec": {
            "replicas": 4, "minReadySeconds": 1,
            "template": {"spec": {"containers": [{"name": "nginx", "image": "nginx:edited"}]}},
        },
    });
    lab.api.merge(&path, &person).await;
    let live = mended(lab, name, replicas.unwrap_or(4)).await;
    assert_eq!(at(&live, "/spec/minReadySeconds"), 1);
    assert_eq!(
        (at(&live, "/metadata/labels/team"), at(&live, "/metadata/annotations/note")),
        (&"x".into(), &"x".into())
    );
    ready_with(lab, name, replicas.unwrap_or(4)).await;

    // An autoscaler.
    lab.api.merge(&format!("{path}/scale"), &json!({"spec": {"replicas": 5}})).await;
    let before = mended(lab, name, replicas.unwrap_or(5)).await;
    ready_with(lab, name, replicas.unwrap_or(5)).await;

    // Another field manager, by force.
    let other = |label: &str| {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": name, "labels": {label: "y"}},
            "spec": {
                "replicas": 6, "revisionHistoryLimit": 3,
                "template": {"spec": {"containers": [{"name": "nginx", "image": "nginx:other"}]}},
            },
        })
    };
    lab.api.apply(&path, "other", &other("first")).await;
    let live = mended(lab, name, replicas.unwrap_or(6)).await;
    assert_eq!(
        (at(&live, "/metadata/labels/first"), at(&live, "/spec/revisionHistoryLimit")),
        (&"y".into(), &3.into())
    );
    assert_eq!(at(&live, "/metadata/labels/team"), at(&before, "/metadata/labels/team"));
    // Taken back is taken away: of these fields there is one owner.
    for field in ["/f:template/f:spec/f:containers/k:{\"name\":\"nginx\"}/f:image", "/f:replicas"] {
        let field = format!("/f:spec{field}");
        let ours = field.ends_with("image") || replicas.is_some();
        assert_eq!(
            (owned(&live, "sample-controller", &field), owned(&live, "other", &field)),
            (ours, !ours),
            "{field}"
        );
    }

    // It goes on with what is its own.
    let second = {
        let mut second = other("second");
        second["spec"] = json!({"revisionHistoryLimit": 4});
        second
    };
    let replicas_of_other = at(&live, "/spec/replicas").clone();
    lab.api.apply(&path, "other", &second).await;
    let live = lab.api.until(&path, "the other's", |live| at(live, "/spec/revisionHistoryLimit") == 4).await;
    assert_eq!(
        (at(&live, "/metadata/labels/first"), at(&live, "/metadata/labels/second")),
        (&Value::Null, &"y".into())
    );
    assert_eq!(at(&live, IMAGE), "nginx:latest");
    // Kubernetes' rule for what its last owner gives up: `replicas` goes back to its default.
    let expected = if replicas.is_some() { replicas_of_other } else { 1.into() };
    assert_eq!(at(&live, "/spec/replicas"), &expected);
}

/// Waits until the guest's fields are what they should be, with so many replicas, all of them available.
async fn mended(lab: &Lab, name: &str, replicas: i64) -> Value {
    lab.api
        .until(&deployment_path("rolling", name), "mended", |live| {
            at(live, IMAGE) == "nginx:latest"
                && at(live, "/spec/replicas") == replicas
                && at(live, "/status/observedGeneration") == at(live, "/metadata/generation")
                && at(live, "/status/updatedReplicas") == replicas
                && at(live, "/status/availableReplicas") == replicas
        })
        .await
}

async fn ready_with(lab: &Lab, name: &str, replicas: i64) {
    let good = |foo: &Value| ready(foo) && at(foo, "/status/availableReplicas") == replicas;
    lab.api.until(&foo_path("rolling", name), "ready", good).await;
}

/// Whether a manager owns a field of the object itself.
fn owned(object: &Value, manager: &str, field: &str) -> bool {
    let entries = at(object, "/metadata/managedFields").as_array().cloned().unwrap_or_default();
    let of_manager = |entry: &&Value| entry["manager"] == manager && entry["subresource"].is_null();
    entries.iter().filter(of_manager).any(|entry| entry["fieldsV1"].pointer(field).is_some())
}
