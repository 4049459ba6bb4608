//! What is in a namespace: read, asked whether it has come to rest, and brought into the form in which two
//! controllers are compared.

use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use tests::Api;
use tests::objects::{at, condition, ready};

/// The objects of one namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct State {
    pub(crate) foos: BTreeMap<String, Value>,
    pub(crate) deployments: BTreeMap<String, Value>,
    pub(crate) replica_sets: Vec<Value>,
    pub(crate) pods: Vec<Value>,
    pub(crate) events: Vec<Value>,
}

/// All namespaces whose name begins with `prefix`, which is cut off. Namespaces without an object are missing.
pub(crate) async fn look(api: &Api, prefix: &str) -> BTreeMap<String, State> {
    let mut states: BTreeMap<String, State> = BTreeMap::new();
    for collection in [
        "/apis/samplecontroller.k8s.io/v1alpha1/foos",
        "/apis/apps/v1/deployments",
        "/apis/apps/v1/replicasets",
        "/api/v1/pods",
        "/api/v1/events",
    ] {
        for object in api.list(collection).await {
            let Some(namespace) = text(&object, "/metadata/namespace").strip_prefix(prefix) else { continue };
            let state = states.entry(namespace.to_owned()).or_default();
            let name = text(&object, "/metadata/name").to_owned();
            match collection.rsplit('/').next() {
                Some("foos") => drop(state.foos.insert(name, object)),
                Some("deployments") => drop(state.deployments.insert(name, object)),
                Some("replicasets") => state.replica_sets.push(object),
                Some("pods") => state.pods.push(object),
                _ => state.events.push(object),
            }
        }
    }
    states
}

impl State {
    /// Why it is still moving, if it is.
    pub(crate) fn unsettled(&self) -> Option<String> {
        let deployments = self.deployments.iter().find_map(|(name, deployment)| {
            let why = self.deployment_moves(deployment)?;
            Some(format!("Deployment {name} {why}"))
        });
        let foos = || {
            let moves = |(name, foo)| self.foo_moves(foo).map(|why| format!("Foo {name} {why}"));
            self.foos.iter().find_map(moves)
        };
        let pods = || {
            let wanted: i64 = self.deployments.values().map(|one| number(one, "/spec/replicas")).sum();
            let fine = |pod: &&Value| {
                text(pod, "/status/phase") == "Running" && at(pod, "/metadata/deletionTimestamp").is_null()
            };
            let running = self.pods.iter().filter(fine).count();
            (running as i64 != wanted || self.pods.len() != running)
                .then(|| format!("{} pods, {running} of them Running, of {wanted}", self.pods.len()))
        };
        let sets = || {
            let orphan = |set: &&Value| !self.has_owner(set);
            self.replica_sets.iter().find(orphan).map(|_| "a ReplicaSet without its Deployment".to_owned())
        };
        deployments.or_else(foos).or_else(pods).or_else(sets)
    }

    /// How many Foos control the Deployment that they name.
    pub(crate) fn served(&self) -> usize {
        self.foos.values().filter(|foo| self.deployment_of(foo).is_some()).count()
    }

    fn deployment_of(&self, foo: &Value) -> Option<&Value> {
        self.deployments.get(text(foo, "/spec/deploymentName")).filter(|one| owns(foo, one))
    }

    fn deployment_moves(&self, deployment: &Value) -> Option<String> {
        if !at(deployment, "/metadata/deletionTimestamp").is_null() {
            return Some("is being deleted".into());
        }
        if !self.has_owner(deployment) {
            return Some("has lost its Foo".into());
        }
        // The last two are written after the rest.
        let current = at(deployment, "/status/observedGeneration") == at(deployment, "/metadata/generation")
            && condition(deployment, "Progressing")["reason"] == "NewReplicaSetAvailable"
            && !at(deployment, "/metadata/annotations/deployment.kubernetes.io~1revision").is_null();
        let wanted = number(deployment, "/spec/replicas");
        let counts = ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"];
        let all = counts.iter().all(|count| number(deployment, &format!("/status/{count}")) == wanted);
        (!current || !all).then(|| format!("is {}", deployment["status"]))
    }

    /// Whether every owner is there.
    fn has_owner(&self, object: &Value) -> bool {
        let owners = at(object, "/metadata/ownerReferences").as_array().cloned().unwrap_or_default();
        owners.iter().all(|owner| {
            let objects = if owner["kind"] == "Foo" { &self.foos } else { &self.deployments };
            objects.get(text(owner, "/name")).is_some_and(|found| at(found, "/metadata/uid") == &owner["uid"])
        })
    }

    fn foo_moves(&self, foo: &Value) -> Option<String> {
        let being_deleted = !at(foo, "/metadata/deletionTimestamp").is_null();
        if being_deleted {
            return at(foo, "/metadata/finalizers").is_null().then(|| "is being deleted".into());
        }
        if let Some(deployment) = self.deployment_of(foo)
            && number(foo, "/status/availableReplicas") != number(deployment, "/status/availableReplicas")
        {
            return Some(format!("says {}", foo["status"]));
        }
        // Under our CRD the host says how it stands.
        let says = condition(foo, "Ready");
        let blocked = ["ErrResourceExists", "InvalidSpec"].iter().any(|reason| says["reason"] == *reason);
        (!says.is_null() && !ready(foo) && !blocked).then(|| format!("says {says}"))
    }

    /// The form in which it is compared: without uids, times and versions.
    pub(crate) fn snapshot(&self) -> Value {
        let foos = self.foos.iter().map(|(name, foo)| (name.clone(), shown_foo(foo)));
        let deployments =
            self.deployments.iter().map(|(name, one)| (name.clone(), self.shown_deployment(one)));
        json!({
            "foos": foos.collect::<Map<_, _>>(),
            "deployments": deployments.collect::<Map<_, _>>(),
            "events": self.shown_events(),
            "replicaSets": self.replica_sets.len(),
            "pods": self.pods.len(),
        })
    }

    fn shown_deployment(&self, deployment: &Value) -> Value {
        let mut shown = shown_meta(deployment);
        let mut owners = at(deployment, "/metadata/ownerReferences").clone();
        for owner in owners.as_array_mut().into_iter().flatten() {
            let foo = self.foos.get(text(owner, "/name"));
            let its = foo.is_some_and(|foo| at(foo, "/metadata/uid") == &owner["uid"]);
            owner["uid"] = if its { "that Foo's" } else { "another's" }.into();
        }
        shown["ownerReferences"] = owners;
        shown["spec"] = deployment["spec"].clone();
        let mut status = deployment["status"].clone();
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        let shown_condition = |one: &Value| {
            (text(one, "/type").to_owned(), json!({"status": one["status"], "reason": one["reason"]}))
        };
        status["conditions"] = Value::Object(conditions.iter().map(shown_condition).collect());
        // The pace of others: pods on their way out, and a ReplicaSet that the garbage collector had not yet taken
        // when a Deployment of the same name was made again.
        for field in ["terminatingReplicas", "collisionCount"] {
            status.as_object_mut().map(|status| status.remove(field));
        }
        shown["status"] = status;
        shown
    }

    /// By Foo and by what is told, however many Event objects that took.
    fn shown_events(&self) -> Value {
        let mut events = json!({});
        for event in self.events.iter().filter(|event| at(event, "/involvedObject/kind") == "Foo") {
            let key = format!("{} {}", text(event, "/type"), text(event, "/reason"));
            let shown = &mut events[text(event, "/involvedObject/name")][key];
            let count = event["count"].as_i64().unwrap_or(1) + shown["count"].as_i64().unwrap_or(0);
            *shown = json!({
                "message": event["message"],
                "component": at(event, "/source/component"),
                "count": count,
            });
        }
        events
    }
}

fn shown_foo(foo: &Value) -> Value {
    let mut shown = shown_meta(foo);
    shown["spec"] = foo["spec"].clone();
    let mut status = foo["status"].clone();
    if let Some(digest) = status.pointer_mut("/guest/digest") {
        *digest = "sha256:…".into();
    }
    for condition in status.pointer_mut("/conditions").and_then(Value::as_array_mut).into_iter().flatten() {
        condition.as_object_mut().map(|condition| condition.remove("lastTransitionTime"));
    }
    shown["status"] = status;
    shown
}

fn shown_meta(object: &Value) -> Value {
    let managers = at(object, "/metadata/managedFields").as_array().cloned().unwrap_or_default();
    let ours = managers.iter().filter(|entry| entry["manager"] == "sample-controller");
    let operation = |entry: &Value| {
        format!("{} {}", text(entry, "/operation"), text(entry, "/subresource")).trim().to_owned()
    };
    let mut operations: Vec<_> = ours.map(operation).collect();
    operations.sort_unstable();
    let mut shown = json!({
        "generation": at(object, "/metadata/generation"),
        "labels": at(object, "/metadata/labels"),
        "annotations": at(object, "/metadata/annotations"),
        "finalizers": at(object, "/metadata/finalizers"),
        "sample-controller writes by": operations.join(", "),
    });
    if !at(object, "/metadata/deletionTimestamp").is_null() {
        shown["being deleted"] = true.into();
    }
    shown
}

/// Whether the Deployment's controller is this Foo.
pub(crate) fn owns(foo: &Value, deployment: &Value) -> bool {
    let owners =
        at(deployment, "/metadata/ownerReferences").as_array().map(Vec::as_slice).unwrap_or_default();
    owners.iter().any(|owner| owner["controller"] == true && &owner["uid"] == at(foo, "/metadata/uid"))
}

fn number(object: &Value, pointer: &str) -> i64 {
    at(object, pointer).as_i64().unwrap_or_default()
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    at(object, pointer).as_str().unwrap_or_default()
}
