//! Discovery: which groups, versions and resources there are.
//!
//! Source: `apimachinery/pkg/apis/meta/v1/types.go`, `k8s.io/api/apidiscovery/v2`. Must not know HTTP.

use crate::resource::{Behaviour, Registry, Resource};
use crate::route::Accepted;
use serde_json::{Value, json};

/// Version that `/version` and clients see.
pub(crate) const GIT_VERSION: &str = "v1.36.3";

pub(crate) fn version() -> Value {
    json!({
        "major": "1",
        "minor": "36",
        "gitVersion": format!("{GIT_VERSION}+devcluster"),
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "",
    })
}

/// Groups in the order in which they are first served, without the core group.
fn groups(registry: &Registry) -> Vec<&str> {
    let mut groups: Vec<&str> = Vec::new();
    for resource in registry.all() {
        if !resource.group.is_empty() && !groups.contains(&resource.group.as_str()) {
            groups.push(&resource.group);
        }
    }
    groups.push("authorization.k8s.io");
    groups
}

fn versions<'a>(registry: &'a Registry, group: &str) -> Vec<&'a str> {
    let mut versions: Vec<&str> = Vec::new();
    for resource in registry.all().iter().filter(|r| r.group == group) {
        if !versions.contains(&resource.version.as_str()) {
            versions.push(&resource.version);
        }
    }
    if versions.is_empty() && group == "authorization.k8s.io" {
        versions.push("v1");
    }
    versions
}

fn api_group(registry: &Registry, group: &str) -> Option<Value> {
    let versions: Vec<_> = versions(registry, group)
        .iter()
        .map(|v| json!({ "groupVersion": format!("{group}/{v}"), "version": v }))
        .collect();
    let preferred = versions.first()?.clone();
    Some(json!({ "name": group, "versions": versions, "preferredVersion": preferred }))
}

/// `/api` and `/apis`, aggregated when the client asks for that.
pub(crate) fn roots(registry: &Registry, core: bool, accepted: &Accepted, host: &str) -> Value {
    if accepted.profile == "APIGroupDiscoveryList" {
        return aggregated(registry, core);
    }
    if core {
        return json!({
            "kind": "APIVersions",
            "versions": ["v1"],
            "serverAddressByClientCIDRs": [{ "clientCIDR": "0.0.0.0/0", "serverAddress": host }],
        });
    }
    let groups: Vec<_> = groups(registry).iter().filter_map(|g| api_group(registry, g)).collect();
    json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups })
}

/// `/apis/GROUP`.
pub(crate) fn group(registry: &Registry, group: &str) -> Option<Value> {
    let mut value = api_group(registry, group)?;
    value["kind"] = "APIGroup".into();
    value["apiVersion"] = "v1".into();
    Some(value)
}

/// Subresources of a resource with the kind that they speak: `(name, group, version, kind)`.
fn subresources(resource: &Resource) -> Vec<(&'static str, String, String, String)> {
    let mut found = Vec::new();
    if resource.status {
        found.push(("status", resource.group.clone(), resource.version.clone(), resource.kind.clone()));
    }
    if resource.scale.is_some() {
        found.push(("scale", "autoscaling".to_owned(), "v1".to_owned(), "Scale".to_owned()));
    }
    // Built-in ones in the order of their names.
    if resource.behaviour != Behaviour::Custom {
        found.sort();
    }
    found
}

const SUBRESOURCE_VERBS: [&str; 3] = ["get", "patch", "update"];

/// `/api/v1` and `/apis/GROUP/VERSION`.
pub(crate) fn resources(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let mut list = Vec::new();
    for resource in registry.all().iter().filter(|r| r.group == group && r.version == version) {
        let mut entry = json!({
            "name": resource.plural,
            "singularName": resource.singular,
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": resource.verbs(),
        });
        if !resource.short_names.is_empty() {
            entry["shortNames"] = json!(resource.short_names);
        }
        if !resource.categories.is_empty() {
            entry["categories"] = json!(resource.categories);
        }
        list.push(entry);
        for (name, group, version, kind) in subresources(resource) {
            let mut entry = json!({
                "name": format!("{}/{name}", resource.plural),
                "singularName": "",
                "namespaced": resource.namespaced,
                "kind": kind,
                "verbs": SUBRESOURCE_VERBS,
            });
            if group != resource.group {
                entry["group"] = group.into();
                entry["version"] = version.into();
            }
            list.push(entry);
        }
    }
    if (group, version) == ("authorization.k8s.io", "v1") {
        list.push(json!({ "name": "selfsubjectaccessreviews", "singularName": "selfsubjectaccessreview",
            "namespaced": false, "kind": "SelfSubjectAccessReview", "verbs": ["create"] }));
    }
    if list.is_empty() {
        return None;
    }
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let mut found = json!({ "kind": "APIResourceList", "groupVersion": group_version, "resources": list });
    // The list of the oldest group says no version of its own.
    if !group.is_empty() {
        found["apiVersion"] = "v1".into();
    }
    Some(found)
}

fn aggregated(registry: &Registry, core: bool) -> Value {
    let groups = if core { vec![""] } else { groups(registry) };
    let items: Vec<_> = groups
        .into_iter()
        .map(|group| {
            let versions: Vec<_> = versions(registry, group)
                .into_iter()
                .map(|version| {
                    let found = registry.all().iter().filter(|r| r.group == group && r.version == version);
                    let resources: Vec<_> = found.map(|r| aggregated_resource(r)).collect();
                    json!({ "version": version, "freshness": "Current", "resources": resources })
                })
                .collect();
            let metadata = if group.is_empty() { json!({}) } else { json!({ "name": group }) };
            json!({ "metadata": metadata, "versions": versions })
        })
        .collect();
    json!({ "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items })
}

fn aggregated_resource(resource: &Resource) -> Value {
    // Of built-in kinds the group and version are left out where they are those of the list.
    let kind = |group: &str, version: &str, kind: &str| match resource.behaviour {
        Behaviour::Custom => json!({ "group": group, "version": version, "kind": kind }),
        _ if group == resource.group => json!({ "group": "", "version": "", "kind": kind }),
        _ => json!({ "group": group, "version": version, "kind": kind }),
    };
    let below: Vec<_> = subresources(resource)
        .iter()
        .map(|(name, g, v, k)| {
            json!({ "subresource": name, "responseKind": kind(g, v, k), "verbs": SUBRESOURCE_VERBS })
        })
        .collect();
    let mut found = json!({
        "resource": resource.plural,
        "singularResource": resource.singular,
        "responseKind": kind(&resource.group, &resource.version, &resource.kind),
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "verbs": resource.verbs(),
    });
    for (name, list) in [
        ("shortNames", json!(resource.short_names)),
        ("categories", json!(resource.categories)),
        ("subresources", below.into()),
    ] {
        if list.as_array().is_some_and(|l| !l.is_empty()) {
            found[name] = list;
        }
    }
    found
}

/// `/openapi/v2` as a protobuf message: a document that has its version (field 1, "2.0") and describes nothing.
pub(crate) const EMPTY_OPENAPI_V2: &[u8] = b"\x0a\x032.0";

/// `/openapi/v3`: where the document of each version is.
pub(crate) fn openapi_index(registry: &Registry) -> Value {
    let mut paths = serde_json::Map::new();
    for resource in registry.all() {
        let path = openapi_path(&resource.group, &resource.version);
        paths.insert(path.clone(), json!({ "serverRelativeURL": format!("/openapi/v3/{path}") }));
    }
    json!({ "paths": paths })
}

const API_VERSION: &str = "APIVersion defines the versioned schema of this representation of an object. Servers should convert recognized schemas to the latest internal value, and may reject unrecognized values. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";
const KIND: &str = "Kind is a string value representing the REST resource this object represents. Servers may infer this from the endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const METADATA: &str = "Standard object's metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

fn openapi_path(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

/// The OpenAPI document of one version: schemas of custom resources in full, of built-in ones by name, and of
/// each resource the parameters that kubectl looks for before it relies on server-side checks.
pub(crate) fn openapi(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let found: Vec<_> = registry.all().iter().filter(|r| r.group == group && r.version == version).collect();
    if found.is_empty() {
        return None;
    }
    let (mut schemas, mut paths) = (serde_json::Map::new(), serde_json::Map::new());
    for resource in found {
        let gvk = json!({ "group": group, "version": version, "kind": resource.kind });
        let mut schema = match &resource.structural {
            Some(structural) => structural.schema.clone(),
            None => json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true }),
        };
        schema["x-kubernetes-group-version-kind"] = json!([gvk]);
        for (field, description) in [("apiVersion", API_VERSION), ("kind", KIND)] {
            if schema["properties"].get(field).is_none() {
                schema["properties"][field] = json!({ "type": "string", "description": description });
            }
        }
        if schema["properties"].get("metadata").is_none_or(|m| *m == json!({ "type": "object" })) {
            schema["properties"]["metadata"] = json!({ "type": "object", "description": METADATA });
        }
        // Names of custom resources in OpenAPI turn the group around: io.k8s.samplecontroller.v1alpha1.Foo.
        let mut reversed: Vec<_> = group.split('.').collect();
        reversed.reverse();
        let name = match resource.behaviour {
            Behaviour::Custom => format!("{}.{version}.{}", reversed.join("."), resource.kind),
            _ => format!(
                "io.k8s.api.{}.{version}.{}",
                if group.is_empty() { "core" } else { group },
                resource.kind
            ),
        };
        schemas.insert(name, schema);
        let scope = if resource.namespaced { "/namespaces/{namespace}" } else { "" };
        let path = format!("/{}{scope}/{}/{{name}}", openapi_path(group, version), resource.plural);
        let parameters: Vec<_> = ["dryRun", "fieldManager", "fieldValidation", "force"]
            .iter()
            .map(|name| json!({ "name": name, "in": "query", "schema": { "type": "string", "uniqueItems": true } }))
            .collect();
        let operation = |action: &str| json!({ "parameters": parameters, "x-kubernetes-action": action, "x-kubernetes-group-version-kind": gvk });
        let operations = json!({ "patch": operation("patch"), "put": operation("put") });
        for (subresource, ..) in subresources(resource) {
            paths.insert(format!("{path}/{subresource}"), operations.clone());
        }
        paths.insert(path, operations);
    }
    Some(json!({
        "openapi": "3.0.0",
        "info": { "title": "Kubernetes", "version": GIT_VERSION },
        "paths": paths,
        "components": { "schemas": schemas },
    }))
}
