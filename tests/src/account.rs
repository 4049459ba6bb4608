//! Service accounts with chosen rights in one namespace of a control plane, and the rules to choose from.

use crate::World;
use crate::api::{Api, until};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces";

/// One verb of one rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    /// API group; empty for the core group.
    pub group: String,
    /// Plural, with the subresource where there is one: `foos/status`.
    pub resource: String,
    /// `get`, `create`, …
    pub verb: String,
}

impl Right {
    /// A right.
    pub fn new(group: &str, resource: &str, verb: &str) -> Self {
        Self { group: group.into(), resource: resource.into(), verb: verb.into() }
    }
}

/// The rules of the `ClusterRole` in `artifacts/rbac.yaml`, verb by verb.
pub fn rights() -> BTreeSet<Right> {
    let objects = crate::backend::rbac("anybody");
    let role = objects.iter().find(|object| object["kind"] == "ClusterRole").expect("a role");
    let texts = |value: &Value| -> Vec<String> {
        let texts = value.as_array().into_iter().flatten();
        texts.map(|text| text.as_str().expect("a string").to_owned()).collect()
    };
    let mut rights = BTreeSet::new();
    for rule in role["rules"].as_array().into_iter().flatten() {
        for group in texts(&rule["apiGroups"]) {
            for resource in texts(&rule["resources"]) {
                rights.extend(
                    texts(&rule["verbs"]).into_iter().map(|verb| Right::new(&group, &resource, &verb)),
                );
            }
        }
    }
    rights
}

/// A service account of a world's namespace, bound to a Role there.
pub struct Account {
    api: Api,
    namespace: String,
}

impl Account {
    /// Makes one with these rights, and waits until they are in force.
    pub async fn new(world: &World, rights: &BTreeSet<Right>) -> Self {
        let account = Self { api: world.api.clone(), namespace: world.namespace.clone() };
        let namespace = &account.namespace;
        let metadata = json!({"name": "foo-host", "namespace": namespace});
        account.api.create(&account.path(""), &json!({"metadata": metadata})).await;
        account.api.create(&format!("{RBAC}/{namespace}/roles"), &account.role(rights)).await;
        let binding = json!({
            "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "foo-host"},
            "subjects": [{"kind": "ServiceAccount", "name": "foo-host", "namespace": namespace}],
        });
        account.api.create(&format!("{RBAC}/{namespace}/rolebindings"), &binding).await;
        account.until_in_force(rights).await;
        account
    }

    /// A new bearer token.
    pub async fn token(&self) -> String {
        let token = self.api.create(&self.path("/foo-host/token"), &json!({"spec": {}})).await;
        token["status"]["token"].as_str().expect("a token").to_owned()
    }

    /// Gives it these rights and no others.
    pub async fn grant(&self, rights: &BTreeSet<Right>) {
        self.api.replace(&format!("{RBAC}/{}/roles/foo-host", self.namespace), &self.role(rights)).await;
        self.until_in_force(rights).await;
    }

    fn path(&self, rest: &str) -> String {
        format!("/api/v1/namespaces/{}/serviceaccounts{rest}", self.namespace)
    }

    fn role(&self, rights: &BTreeSet<Right>) -> Value {
        let rule = |right: &Right| json!({"apiGroups": [right.group], "resources": [right.resource], "verbs": [right.verb]});
        let metadata = json!({"name": "foo-host", "namespace": self.namespace});
        json!({"metadata": metadata, "rules": rights.iter().map(rule).collect::<Vec<_>>()})
    }

    /// The authorizer learns of a Role by a watch, so all of its rules come at once.
    async fn until_in_force(&self, rights: &BTreeSet<Right>) {
        let user = format!("system:serviceaccount:{}:foo-host", self.namespace);
        until("the role is in force", async || {
            for right in crate::account::rights() {
                let (resource, subresource) =
                    right.resource.split_once('/').unwrap_or((right.resource.as_str(), ""));
                let review = json!({"spec": {"user": user, "resourceAttributes": {
                    "namespace": self.namespace, "group": right.group, "resource": resource,
                    "subresource": subresource, "verb": right.verb,
                }}});
                let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
                let allowed = self.api.create(path, &review).await["status"]["allowed"] == true;
                if allowed != rights.contains(&right) {
                    return false;
                }
            }
            true
        })
        .await;
    }
}
