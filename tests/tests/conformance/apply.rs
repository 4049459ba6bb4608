//! Server-side apply: ownership, conflicts, force, what goes when it is no longer named.

use crate::objects::{DEPLOYMENTS, FOOS, config_map, deployment, foo};
use crate::session::{APPLY, Call, MERGE, Session};
use crate::table::Intended;
use serde_json::{Value, json};

pub(crate) const INTENDED: &[Intended] = &[Intended {
    step: "a key twice",
    at: "warning",
    why: "a key that occurs twice is not seen: the parser keeps the last",
}];

pub(crate) async fn scenario(s: &mut Session) {
    deployments(s).await;
    foos(s).await;
    faults(s).await;
    host_writes(s).await;
}

async fn deployments(s: &mut Session) {
    let web = s.path(&format!("{DEPLOYMENTS}/web"));
    let mut config = deployment("web");
    s.apply("create by an apply", &web, "one", &config).await;
    s.apply("the same again", &web, "one", &config).await;
    s.apply("the same by another manager", &web, "two", &config).await;
    config["spec"]["replicas"] = 3.into();
    s.apply("a change of what two own", &web, "one", &config).await;
    s.apply("a change of what two own, forced", &web, "one&force=true", &config).await;
    let mut less = deployment("web");
    less["spec"].as_object_mut().expect("a spec").remove("replicas");
    s.apply("a field dropped that another owns", &web, "one", &less).await;
    s.apply("a field dropped that nobody else owns", &web, "two&force=true", &less).await;
    let mut labelled = less.clone();
    labelled["metadata"]["labels"] = json!({ "x": "1", "y": "2" });
    labelled["spec"]["template"]["spec"]["containers"][0]["env"] =
        json!([{ "name": "A", "value": "1" }, { "name": "B", "value": "2" }]);
    labelled["spec"]["template"]["spec"]["nodeSelector"] = json!({ "disk": "fast" });
    s.apply("labels, environment, a selector", &web, "one&force=true", &labelled).await;
    labelled["metadata"]["labels"] = json!({ "x": "1" });
    labelled["spec"]["template"]["spec"]["containers"][0]["env"] = json!([{ "name": "B", "value": "2" }]);
    labelled["spec"]["template"]["spec"].as_object_mut().expect("a pod").remove("nodeSelector");
    s.apply("less of them", &web, "one", &labelled).await;
    s.apply(
        "a container more",
        &web,
        "sidecar",
        &json!({ "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "web" }, "spec": { "template": { "spec": { "containers": [
            { "name": "side", "image": "side:1" }] } } } }),
    )
    .await;
    s.apply(
        "the container no more",
        &web,
        "sidecar",
        &json!({ "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "web" } }),
    )
    .await;
    s.patch(
        "a person's image",
        MERGE,
        &web,
        &json!({ "spec": { "template": { "spec": { "containers": [
        { "name": "nginx", "image": "person:1" }] } } } }),
    )
    .await;
    s.apply("an image that a person set", &web, "one", &labelled).await;
    s.apply("an image that a person set, forced", &web, "one&force=true", &labelled).await;
    let scale = format!("{web}/scale");
    s.patch("a scale", MERGE, &scale, &json!({ "spec": { "replicas": 5 } })).await;
    config["spec"]["replicas"] = 2.into();
    s.apply("replicas of an autoscaler", &web, "one", &config).await;
    s.apply("replicas of an autoscaler, forced", &web, "one&force=true", &config).await;
    s.patch(
        "the selector removed by a person",
        MERGE,
        &web,
        &json!({ "spec": { "template": { "metadata": {
        "labels": { "extra": "label" } } } } }),
    )
    .await;
    s.get("who owns what", &web).await;
    let live = s.quietly(Call::get(&web)).await;
    let mut stale = config.clone();
    stale["metadata"]["resourceVersion"] = "1".into();
    s.apply("an old version", &web, "one&force=true", &stale).await;
    stale["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
    stale["metadata"]["uid"] = live["metadata"]["uid"].clone();
    s.apply("version and uid that are right", &web, "one&force=true", &stale).await;
    stale["metadata"]["uid"] = "6f3d7b8e-0c51-4a7c-8b3e-3f1a2f1f9a10".into();
    stale["metadata"].as_object_mut().expect("metadata").remove("resourceVersion");
    s.apply("another uid", &web, "one&force=true", &stale).await;
    stale["metadata"]["name"] = "none".into();
    s.apply("a uid of what is not there", &s.path(&format!("{DEPLOYMENTS}/none")), "one&force=true", &stale)
        .await;
    let mut versioned = deployment("none");
    versioned["metadata"]["resourceVersion"] = "5".into();
    s.apply("a version of what is not there", &s.path(&format!("{DEPLOYMENTS}/none")), "one", &versioned)
        .await;
    // What was never managed, and what loses its managers.
    s.patch("all managers forgotten", MERGE, &web, &json!({ "metadata": { "managedFields": [{}] } })).await;
    s.patch(
        "a change of what nobody manages",
        MERGE,
        &web,
        &json!({ "metadata": { "labels": { "z": "1" } } }),
    )
    .await;
    s.apply("an apply of what nobody manages", &web, "one", &deployment("web")).await;
    s.apply("an apply of what nobody manages, forced", &web, "one&force=true", &deployment("web")).await;
}

async fn foos(s: &mut Session) {
    let one = s.path(&format!("{FOOS}/one"));
    s.apply("a Foo created by an apply", &one, "one", &foo("one")).await;
    let mut config = foo("one");
    config["spec"]["replicas"] = 2.into();
    s.apply("a Foo in conflict", &one, "two", &config).await;
    s.apply("a Foo, forced", &one, "two&force=true", &config).await;
    s.apply(
        "a Foo's apply that names nothing",
        &one,
        "two",
        &json!({ "apiVersion": config["apiVersion"],
        "kind": "Foo", "metadata": { "name": "one" } }),
    )
    .await;
    config["spec"]["replicas"] = Value::Null;
    s.apply("a Foo's replicas as null", &one, "one", &config).await;
    config["spec"]["replicas"] = 99.into();
    s.apply("a Foo out of range", &one, "one", &config).await;
    config["spec"]["replicas"] = "two".into();
    s.apply("a Foo of the wrong type", &one, "one", &config).await;
    config["spec"] = json!({ "deploymentName": "one", "unknown": 1 });
    s.apply("a Foo with an unknown field", &one, "one", &config).await;
    s.apply("a Foo with an unknown field, strictly", &one, "one&fieldValidation=Strict", &config).await;
    let status = |conditions: Value| {
        json!({ "apiVersion": "samplecontroller.k8s.io/v1alpha1", "kind": "Foo",
        "metadata": { "name": "one" }, "status": { "availableReplicas": 1, "conditions": conditions } })
    };
    let condition = |kind: &str, status: &str| {
        json!({ "type": kind, "status": status, "reason": "Because",
        "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z" })
    };
    let path = format!("{one}/status");
    s.apply(
        "a status",
        &path,
        "ctl",
        &status(json!([condition("Ready", "True"), condition("Synced", "True")])),
    )
    .await;
    s.apply("a status of another manager", &path, "other", &status(json!([condition("Ready", "False")])))
        .await;
    s.apply(
        "a condition of another manager",
        &path,
        "other&force=true",
        &json!({
        "apiVersion": "samplecontroller.k8s.io/v1alpha1", "kind": "Foo", "metadata": { "name": "one" },
        "status": { "conditions": [condition("Mine", "True")] } }),
    )
    .await;
    s.apply("a condition less", &path, "ctl", &status(json!([condition("Ready", "True")]))).await;
    s.apply(
        "a condition twice",
        &path,
        "ctl",
        &status(json!([condition("Ready", "True"), condition("Ready", "False")])),
    )
    .await;
    s.apply("a condition without its key", &path, "ctl", &status(json!([{ "status": "True" }]))).await;
    let mut both = status(json!([condition("Ready", "True")]));
    both["spec"] = json!({ "deploymentName": "changed" });
    both["metadata"]["labels"] = json!({ "from": "status" });
    s.apply("a status with a spec", &path, "ctl", &both).await;
    s.apply("a spec with a status", &one, "one&force=true", &{
        let mut config = foo("one");
        config["status"] = json!({ "availableReplicas": 9 });
        config
    })
    .await;
    s.apply("a status of what is not there", &s.path(&format!("{FOOS}/none/status")), "ctl", &{
        let mut status = status(json!([]));
        status["metadata"]["name"] = "none".into();
        status
    })
    .await;
    s.get("who owns the Foo", &one).await;
}

async fn faults(s: &mut Session) {
    let (map, web) = (s.path("v1/configmaps/map"), s.path(&format!("{DEPLOYMENTS}/web")));
    s.apply("a config map", &map, "one", &config_map("map")).await;
    s.apply(
        "a config map less",
        &map,
        "one",
        &json!({ "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "map" }, "data": { "b": "2" } }),
    )
    .await;
    s.apply(
        "an unknown field of a config map",
        &map,
        "one",
        &json!({ "apiVersion": "v1", "kind": "ConfigMap",
        "dada": {} }),
    )
    .await;
    s.apply("an empty manager", &map, "", &config_map("map")).await;
    s.apply("a long manager", &map, &"m".repeat(129), &config_map("map")).await;
    s.apply("a manager that cannot be printed", &map, "a%07b", &config_map("map")).await;
    s.apply("another version", &web, "one", &json!({ "apiVersion": "apps/v1beta1", "kind": "Deployment" }))
        .await;
    s.apply("another kind", &web, "one", &json!({ "apiVersion": "apps/v1", "kind": "Other" })).await;
    s.apply("no kind", &web, "one", &json!({ "metadata": { "name": "web" } })).await;
    s.apply(
        "no name",
        &s.path("v1/configmaps/unnamed"),
        "one",
        &json!({ "apiVersion": "v1", "kind": "ConfigMap" }),
    )
    .await;
    s.apply("another name", &map, "one", &config_map("other")).await;
    s.apply(
        "managed fields",
        &map,
        "one",
        &json!({ "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "managedFields": [] } }),
    )
    .await;
    s.apply(
        "filled managed fields",
        &map,
        "one",
        &json!({ "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "managedFields": [{ "manager": "x" }] } }),
    )
    .await;
    let faulty = |spec: Value| {
        json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" },
        "spec": spec })
    };
    s.apply("an unknown field", &web, "one", &faulty(json!({ "unknown": 1 }))).await;
    s.apply(
        "an unknown field, ignored",
        &web,
        "one&fieldValidation=Ignore",
        &faulty(json!({ "unknown": 1 })),
    )
    .await;
    s.apply("a wrong type", &web, "one", &faulty(json!({ "replicas": "three" }))).await;
    s.apply(
        "two containers of one name",
        &web,
        "one",
        &faulty(json!({ "template": { "spec": { "containers": [
        { "name": "a", "image": "1" }, { "name": "a", "image": "2" }] } } })),
    )
    .await;
    s.apply(
        "a container without a name",
        &web,
        "one",
        &faulty(json!({ "template": { "spec": { "containers": [
        { "image": "1" }] } } })),
    )
    .await;
    s.apply("too many replicas for no one", &web, "one&force=true", &faulty(json!({ "replicas": -1 }))).await;
    let path = format!("{map}?fieldManager=one");
    let yaml = |body: &str| {
        Call { body: body.as_bytes().to_vec(), ..Call::with("PATCH", &path, &json!({})) }.content_type(APPLY)
    };
    s.call("YAML", yaml("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: map\ndata:\n  b: '3'\n")).await;
    s.call("no YAML", yaml("a: b: c")).await;
    s.call("a list", yaml("[1]")).await;
    s.call("nothing", yaml("")).await;
    s.call(
        "a key twice",
        yaml("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: map\ndata:\n  b: '3'\n  b: '4'\n"),
    )
    .await;
}

/// What the host sends, in its order, and what `managedFields` says of it.
async fn host_writes(s: &mut Session) {
    let web = s.path(&format!("{DEPLOYMENTS}/host"));
    let owner = s.quietly(Call::with("POST", &s.path(FOOS), &foo("host"))).await;
    let mut config = deployment("host");
    config["metadata"]["ownerReferences"] = json!([crate::objects::owner(&owner, true, true)]);
    let collection = format!("{}?fieldManager=sample-controller", s.path(DEPLOYMENTS));
    let made = s.post("the host creates", &collection, &config).await;
    config["spec"]["replicas"] = 2.into();
    config["metadata"]["uid"] = made["metadata"]["uid"].clone();
    config["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"].clone();
    s.apply("the host applies", &web, "sample-controller&force=true", &config).await;
    config["spec"].as_object_mut().expect("a spec").remove("replicas");
    config["metadata"].as_object_mut().expect("metadata").remove("resourceVersion");
    s.apply("the host applies less", &web, "sample-controller&force=true", &config).await;
    s.apply("the host applies nothing new", &web, "sample-controller&force=true", &config).await;
    let status = format!("{}/status?fieldManager=sample-controller", s.path(&format!("{FOOS}/host")));
    s.patch(
        "the host writes a status",
        MERGE,
        &status,
        &json!({ "metadata": { "uid": owner["metadata"]["uid"],
        "resourceVersion": owner["metadata"]["resourceVersion"] }, "status": { "availableReplicas": 1 } }),
    )
    .await;
    s.patch(
        "the host writes an old status",
        MERGE,
        &status,
        &json!({ "metadata": {
        "resourceVersion": owner["metadata"]["resourceVersion"] }, "status": { "availableReplicas": 2 } }),
    )
    .await;
}
