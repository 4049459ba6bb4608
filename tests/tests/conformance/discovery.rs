//! Discovery, OpenAPI and the paths that are no resources.

use crate::objects::FOOS;
use crate::session::{Call, Session};
use crate::table::Intended;
use serde_json::{Value, json};

pub(crate) const INTENDED: &[Intended] = &[
    Intended {
        step: "*",
        at: "body.resources[*].storageVersionHash",
        why: "the hash serves storage migration, which there is none of",
    },
    Intended { step: "aggregated *", at: "cache-control", why: "answers are not cached" },
    Intended {
        step: "aggregated core",
        at: "*subresources*",
        why: "namespaces have no subresource finalize: their finalizers go by themselves",
    },
    Intended {
        step: "api/v1",
        at: "body.resources[*",
        why: "namespaces have no subresource finalize: their finalizers go by themselves",
    },
    Intended {
        step: "POST /apis/samplecontroller*/x",
        at: "*",
        why: "what is no request of any client is 405",
    },
    Intended {
        step: "P* /apis/samplecontroller*/foos",
        at: "*",
        why: "what is no request of any client is 405",
    },
    Intended { step: "POST /apis", at: "*", why: "what is no request of any client is 405" },
    Intended { step: "HEAD *", at: "status", why: "HEAD is answered as GET is" },
    Intended { step: "GET *x/y/z", at: "*", why: "a path that is too long is nobody's" },
    Intended { step: "may I?", at: "body.metadata", why: "a review has no metadata" },
    Intended { step: "OpenAPI v3: the index", at: "content-type", why: "JSON is called JSON" },
    Intended {
        step: "OpenAPI v3: the schema of Foo",
        at: "body.Foo.properties.metadata.*",
        why: "metadata are described, not referred to",
    },
    Intended {
        step: "OpenAPI v3: a group that is none",
        at: "*",
        why: "the usual text of a path that is none",
    },
];

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
/// Groups that devcluster serves; the real server has some twenty more.
const GROUPS: [&str; 6] =
    ["", "apps", "events.k8s.io", "coordination.k8s.io", "apiextensions.k8s.io", "samplecontroller.k8s.io"];
/// Resources that devcluster serves.
const RESOURCES: [&str; 8] = [
    "namespaces",
    "configmaps",
    "events",
    "deployments",
    "leases",
    "customresourcedefinitions",
    "foos",
    "selfsubjectaccessreviews",
];

/// Leaves of a list what devcluster serves too, in an order that does not depend on the rest.
fn narrow(value: &mut Value, list: &str, name: fn(&Value) -> &str, wanted: &[&str]) {
    if let Some(items) = value.get_mut(list).and_then(Value::as_array_mut) {
        items.retain(|item| wanted.contains(&name(item).split('/').next().unwrap_or_default()));
        items.sort_by_key(|item| name(item).to_owned());
    }
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

pub(crate) async fn scenario(s: &mut Session) {
    s.compare("the core versions", Call::get("/api"), |_| {}).await;
    s.compare("groups", Call::get("/apis"), |body| narrow(body, "groups", |g| text(g, "/name"), &GROUPS))
        .await;
    for (what, path) in [("core", "/api"), ("groups", "/apis")] {
        s.compare(&format!("aggregated {what}"), Call::get(path).accept(AGGREGATED), |body| {
            narrow(body, "items", |g| text(g, "/metadata/name"), &GROUPS);
            for group in body["items"].as_array_mut().into_iter().flatten() {
                for version in group["versions"].as_array_mut().into_iter().flatten() {
                    narrow(version, "resources", |r| text(r, "/resource"), &RESOURCES);
                }
            }
        })
        .await;
    }
    for group in &GROUPS[1..] {
        s.get(&format!("group {group}"), &format!("/apis/{group}")).await;
    }
    for version in [
        "api/v1",
        "apis/apps/v1",
        "apis/events.k8s.io/v1",
        "apis/coordination.k8s.io/v1",
        "apis/apiextensions.k8s.io/v1",
        "apis/samplecontroller.k8s.io/v1alpha1",
        "apis/authorization.k8s.io/v1",
    ] {
        s.compare(version, Call::get(&format!("/{version}")), |body| {
            narrow(body, "resources", |r| text(r, "/name"), &RESOURCES);
        })
        .await;
    }
    s.get("a group that is none", "/apis/nonsense").await;
    s.get("a version that is none", "/apis/apps/v9").await;
    s.get("a core version that is none", "/api/v9").await;
    s.get("a resource that is none", "/apis/apps/v1/nonsenses").await;
    s.get("an object of a resource that is none", &s.path("apps/v1/nonsenses/x")).await;
    s.get("a custom resource that is none", &s.path("samplecontroller.k8s.io/v1alpha1/nonsenses")).await;
    s.get("a version of our group that is none", &s.path("samplecontroller.k8s.io/v9/foos")).await;
    for path in [
        "/version",
        "/healthz",
        "/livez",
        "/readyz",
        "/readyz/ping",
        "/nonsense",
        "/openapi",
        "/metrics/nonsense",
    ] {
        s.compare(path, Call::get(path), |body| {
            // Who built it and when.
            if let Some(fields) = body.as_object_mut().filter(|f| f.contains_key("gitVersion")) {
                fields.retain(|name, _| ["major", "minor"].contains(&name.as_str()));
            }
        })
        .await;
    }
    methods(s).await;
    access(s).await;
    openapi(s).await;
}

async fn methods(s: &mut Session) {
    let (foos, maps) = (s.path(FOOS), s.path("v1/configmaps"));
    for (method, path) in [
        ("POST", format!("{maps}/x")),
        ("PUT", maps.clone()),
        ("PATCH", maps.clone()),
        ("POST", format!("{foos}/x")),
        ("PUT", foos.clone()),
        ("PATCH", foos.clone()),
        ("POST", "/api/v1/configmaps".to_owned()),
        ("POST", "/apis/samplecontroller.k8s.io/v1alpha1/foos".to_owned()),
        ("DELETE", "/api/v1/namespaces".to_owned()),
        ("DELETE", "/api/v1/configmaps".to_owned()),
        ("DELETE", "/apis/samplecontroller.k8s.io/v1alpha1/foos".to_owned()),
        ("GET", "/api/v1/configmaps/x".to_owned()),
        ("GET", "/apis/samplecontroller.k8s.io/v1alpha1/foos/x".to_owned()),
        ("POST", "/version".to_owned()),
        ("POST", "/apis".to_owned()),
        ("OPTIONS", maps.clone()),
        ("HEAD", format!("{maps}/x")),
        ("GET", format!("{maps}/x/y/z")),
        ("GET", format!("{foos}/x/y/z")),
        ("GET", format!("{maps}/")),
        ("GET", format!("{foos}/")),
        ("GET", "/api/v1/namespaces/default/".to_owned()),
        ("GET", "/api/v1/namespaces/default/namespaces".to_owned()),
        ("GET", "/apis/apiextensions.k8s.io/v1/namespaces/default/customresourcedefinitions".to_owned()),
    ] {
        s.call(&format!("{method} {path}"), Call { method, ..Call::with("GET", &path, &json!({})) }).await;
    }
}

async fn access(s: &mut Session) {
    let review = json!({ "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {
        "resourceAttributes": { "verb": "list", "group": "samplecontroller.k8s.io", "resource": "foos" } } });
    s.compare(
        "may I?",
        Call::with("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &review),
        |body| {
            body["status"].as_object_mut().map(|status| status.remove("reason"));
            body["metadata"].as_object_mut().map(|metadata| metadata.remove("managedFields"));
        },
    )
    .await;
}

async fn openapi(s: &mut Session) {
    let paths = [
        "api/v1",
        "apis/apps/v1",
        "apis/samplecontroller.k8s.io/v1alpha1",
        "apis/apiextensions.k8s.io/v1",
        "apis/events.k8s.io/v1",
    ];
    s.wait("/openapi/v3", |_, index| !index["paths"]["apis/samplecontroller.k8s.io/v1alpha1"].is_null())
        .await;
    s.compare("OpenAPI v3: the index", Call::get("/openapi/v3"), |body| {
        if let Some(found) = body["paths"].as_object_mut() {
            found.retain(|path, _| paths.contains(&path.as_str()));
            for entry in found.values_mut() {
                // With a hash for caches on the real one.
                let url = text(entry, "/serverRelativeURL").split('?').next().unwrap_or_default().to_owned();
                entry["serverRelativeURL"] = url.into();
            }
        }
    })
    .await;
    s.compare(
        "OpenAPI v3: the schema of Foo",
        Call::get("/openapi/v3/apis/samplecontroller.k8s.io/v1alpha1"),
        |body| {
            let schemas = body["components"]["schemas"].as_object_mut();
            let foo = schemas.and_then(|s| s.remove("io.k8s.samplecontroller.v1alpha1.Foo"));
            *body = json!({ "openapi": body["openapi"], "Foo": foo });
        },
    )
    .await;
    // What kubectl looks for before it relies on the server's checks.
    for (what, document, path) in [
        (
            "Foo",
            "apis/samplecontroller.k8s.io/v1alpha1",
            "/apis/samplecontroller.k8s.io/v1alpha1/namespaces/{namespace}/foos/{name}",
        ),
        ("Deployment", "apis/apps/v1", "/apis/apps/v1/namespaces/{namespace}/deployments/{name}"),
    ] {
        s.compare(&format!("OpenAPI v3: options of a patch of {what}"), Call::get(&format!("/openapi/v3/{document}")), |body| {
            let patch = body["paths"][path]["patch"].clone();
            let mut names: Vec<_> = patch["parameters"].as_array().into_iter().flatten().map(|p| text(p, "/name").to_owned()).collect();
            names.retain(|name| ["dryRun", "fieldManager", "fieldValidation", "force"].contains(&name.as_str()));
            names.sort_unstable();
            *body = json!({ "parameters": names, "gvk": patch["x-kubernetes-group-version-kind"], "action": patch["x-kubernetes-action"] });
        }).await;
    }
    s.get("OpenAPI v3: a group that is none", "/openapi/v3/apis/nonsense/v1").await;
}
