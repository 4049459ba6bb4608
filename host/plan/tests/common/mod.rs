//! Builders, and a world small enough to hold one Foo: it carries out plans as the API server would.
//!
//! Owns: fixtures. Must not know what a test is about.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unnecessary_wraps,
    reason = "each test binary uses its own part"
)]

use contract::{Action, Answer, Input, ReconcileError, StatusUpdate};
use plan::{
    Admission, Child, Conclusion, Failure, GuestIdentity, Kind, Object, Operation, Plan, Reason, Snapshot,
    StatusSchema, Verdict, Written, admit, conclude, plan, upgraded_managed_fields,
};
use serde_json::{Value, json};
use std::sync::Arc;
use structured_merge::{FieldSet, ManagedFields, Path, Request, Schema};

pub const NOW: i64 = 1_767_323_045;
pub const NOW_TEXT: &str = "2026-01-02T03:04:05Z";

/// A Foo as upstream's example has it.
pub fn foo() -> Value {
    json!({
        "apiVersion": "samplecontroller.k8s.io/v1alpha1",
        "kind": "Foo",
        "metadata": {
            "name": "example-foo", "namespace": "default", "uid": "foo-uid", "generation": 1,
            "resourceVersion": "10", "creationTimestamp": "2026-01-01T00:00:00Z",
            "managedFields": [{
                "manager": "kubectl-create", "operation": "Update",
                "apiVersion": "samplecontroller.k8s.io/v1alpha1", "time": "2026-01-01T00:00:00Z",
                "fieldsType": "FieldsV1",
                "fieldsV1": {"f:spec": {".": {}, "f:deploymentName": {}, "f:replicas": {}}},
            }],
        },
        "spec": {"deploymentName": "web", "replicas": 1},
    })
}

/// The manifest of the default guest.
pub fn manifest(replicas: Option<i32>) -> Value {
    let labels = json!({"app": "nginx", "controller": "example-foo"});
    let mut manifest = json!({"spec": {
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "nginx", "image": "nginx:latest"}]},
        },
    }});
    if let Some(replicas) = replicas {
        manifest["spec"]["replicas"] = json!(replicas);
    }
    manifest
}

/// What the default guest answers.
pub fn default_guest(input: &Input) -> Answer {
    let available_replicas = input.deployment.as_ref().map_or(0, |it| it.status.available_replicas);
    Ok(vec![
        Action::ApplyDeployment(manifest(input.foo.spec.replicas).to_string()),
        Action::SetStatus(StatusUpdate { available_replicas, conditions: Vec::new() }),
    ])
}

/// A guest that wants this manifest and says nothing else.
pub fn wants(manifest: &Value) -> impl Fn(&Input) -> Answer + use<> {
    let manifest = manifest.to_string();
    move |_| Ok(vec![Action::ApplyDeployment(manifest.clone())])
}

pub fn apply(manifest: &Value) -> Vec<Action> {
    vec![Action::ApplyDeployment(manifest.to_string())]
}

/// One Foo and the Deployments of its namespace.
#[derive(Debug)]
pub struct World {
    pub foo: Value,
    pub deployments: Vec<Value>,
    pub guest: GuestIdentity,
    pub schema: StatusSchema,
    pub failures: u32,
    pub now: i64,
    pub parameters: Vec<(String, String)>,
    /// Each write, in short.
    pub writes: Vec<String>,
    pub events: Vec<String>,
    counter: u64,
}

impl World {
    pub fn new(foo: Value) -> Self {
        let digest = format!("sha256:{}", "0".repeat(64));
        Self {
            foo,
            deployments: Vec::new(),
            guest: GuestIdentity { digest, version: Some("0.1.0".to_owned()), parameters_digest: None },
            schema: StatusSchema::full(),
            failures: 0,
            now: NOW,
            parameters: Vec::new(),
            writes: Vec::new(),
            events: Vec::new(),
            counter: 100,
        }
    }

    /// A world whose Deployment was made by the default guest and is available.
    pub fn converged() -> Self {
        let mut world = Self::new(foo());
        world.settle(default_guest);
        world.make_available("web");
        world.settle(default_guest);
        world.forget();
        world
    }

    pub fn forget(&mut self) {
        self.writes.clear();
        self.events.clear();
    }

    /// Runs until nothing is written any more.
    pub fn settle(&mut self, guest: impl Fn(&Input) -> Answer) {
        for _ in 0..6 {
            let before = self.writes.len();
            self.run(&guest);
            if self.writes.len() == before {
                return;
            }
        }
        panic!("never settles: {:?}", self.writes);
    }

    pub fn deployment(&self, name: &str) -> &Value {
        self.deployments.iter().find(|it| it["metadata"]["name"] == name).unwrap()
    }

    /// The live object, changed by somebody: `change` runs on it, its manager is `manager`.
    pub fn edit(&mut self, name: &str, manager: &str, change: impl FnOnce(&mut Value)) {
        let index = self.deployments.iter().position(|it| it["metadata"]["name"] == name).unwrap();
        let before = self.deployments[index].clone();
        let mut after = before.clone();
        change(&mut after);
        let managers = ManagedFields::of_object(&before).unwrap();
        let managers =
            structured_merge::update(&before, &after, &managers, Schema::deployment(), &request(manager, ""))
                .unwrap();
        after["metadata"]["managedFields"] = serde_json::to_value(managers).unwrap();
        self.store(index, after);
    }

    pub fn make_available(&mut self, name: &str) {
        let live = self.deployment(name);
        let generation = live["metadata"]["generation"].clone();
        let replicas = live["spec"]["replicas"].clone();
        let index = self.deployments.iter().position(|it| it["metadata"]["name"] == name).unwrap();
        let mut after = self.deployments[index].clone();
        after["status"] = json!({
            "observedGeneration": generation, "replicas": replicas, "updatedReplicas": replicas,
            "readyReplicas": replicas, "availableReplicas": replicas,
            "conditions": [
                {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable",
                 "message": "", "lastTransitionTime": NOW_TEXT},
                {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable",
                 "message": "", "lastTransitionTime": NOW_TEXT},
            ],
        });
        self.store(index, after);
    }

    fn tick(&mut self) -> String {
        self.counter += 1;
        self.counter.to_string()
    }

    fn store(&mut self, index: usize, mut after: Value) {
        let before = self.deployments[index].clone();
        if before["spec"] != after["spec"] {
            let generation = before["metadata"]["generation"].as_i64().unwrap();
            after["metadata"]["generation"] = json!(generation + 1);
        }
        if before != after {
            after["metadata"]["resourceVersion"] = json!(self.tick());
        }
        self.deployments[index] = after;
    }

    pub fn snapshot<R>(&self, with: impl FnOnce(&Snapshot<'_>) -> R) -> R {
        let foo = Object::from_value(self.foo.clone(), Kind::Foo).unwrap();
        let objects: Vec<_> = self
            .deployments
            .iter()
            .map(|it| Arc::new(Object::from_value(it.clone(), Kind::Deployment).unwrap()))
            .collect();
        let owned =
            |it: &Object| it.meta.owner.as_ref().is_some_and(|owner| owner.uid == foo.meta.uid.as_str());
        let wanted = self.foo["spec"]["deploymentName"].as_str();
        let child = match objects.iter().find(|it| Some(it.meta.name.as_str()) == wanted) {
            None => Child::Absent,
            Some(it) if !owned(it) => Child::Foreign { uid: &it.meta.uid },
            Some(it) if it.meta.deleted => Child::Terminating(it),
            Some(it) => Child::Owned(it),
        };
        let others: Vec<_> =
            objects.iter().filter(|it| owned(it) && Some(it.meta.name.as_str()) != wanted).cloned().collect();
        with(&Snapshot {
            foo: &foo,
            child,
            others: &others,
            guest: &self.guest,
            parameters: &self.parameters,
            schema: self.schema,
            now: self.now,
            failures: self.failures,
        })
    }

    pub fn admit(&self) -> Admission {
        self.snapshot(admit)
    }

    pub fn plan(&self, actions: Vec<Action>) -> Plan {
        self.snapshot(|snapshot| plan(snapshot, Verdict::Answered(actions)))
    }

    /// One run: snapshot, guest, plan, writes, status.
    pub fn run(&mut self, guest: impl Fn(&Input) -> Answer) -> Conclusion {
        let verdict = match self.admit() {
            Admission::Ignore => return self.finish(&Plan::default(), None, false),
            Admission::Refuse(failure) => Verdict::Refused(failure),
            Admission::Call(input) => match guest(&input) {
                Ok(actions) => Verdict::Answered(actions),
                Err(ReconcileError::Retry(text)) => Verdict::Failed(Failure::new(Reason::GuestRetry, &text)),
                Err(ReconcileError::Permanent(text)) => {
                    Verdict::Failed(Failure::new(Reason::GuestPermanent, &text))
                }
            },
        };
        let plan = self.snapshot(|snapshot| plan(snapshot, verdict));
        let versions = self.deployments.clone();
        for operation in &plan.operations {
            self.carry_out(operation);
        }
        let changed = versions != self.deployments;
        self.finish(&plan, None, changed)
    }

    pub fn finish(&mut self, plan: &Plan, failure: Option<Failure>, changed: bool) -> Conclusion {
        let wanted = self.foo["spec"]["deploymentName"].clone();
        let deployment = self
            .deployments
            .iter()
            .find(|it| {
                it["metadata"]["name"] == wanted && it["metadata"]["ownerReferences"][0]["uid"] == "foo-uid"
            })
            .map(|it| Object::from_value(it.clone(), Kind::Deployment).unwrap());
        let conclusion = self.snapshot(|snapshot| {
            conclude(snapshot, plan, Written { failure, changed, deployment: deployment.as_ref() })
        });
        if let Some(patch) = &conclusion.status {
            self.patch_status(patch);
        }
        let events = conclusion.events.iter();
        self.events.extend(events.map(|it| format!("{} {} {}", it.r#type.as_str(), it.reason, it.message)));
        self.failures = if conclusion.failure.is_some() { self.failures + 1 } else { 0 };
        conclusion
    }

    fn patch_status(&mut self, patch: &Value) {
        assert_eq!(patch["metadata"]["uid"], self.foo["metadata"]["uid"]);
        assert_eq!(patch["metadata"]["resourceVersion"], self.foo["metadata"]["resourceVersion"]);
        let before = self.foo.clone();
        let mut after = before.clone();
        merge(&mut after["status"], &patch["status"]);
        let crd = foo_api::crd();
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let schema = Schema::from_openapi(schema).unwrap();
        let managers = ManagedFields::of_object(&before).unwrap();
        let request = request(foo_api::FIELD_MANAGER, "status");
        let managers = structured_merge::update(&before, &after, &managers, &schema, &request).unwrap();
        after["metadata"]["managedFields"] = serde_json::to_value(managers).unwrap();
        after["metadata"]["resourceVersion"] = json!(self.tick());
        self.foo = after;
        self.writes.push("status".to_owned());
    }

    pub fn carry_out(&mut self, operation: &Operation) {
        match operation {
            Operation::Create { manifest } => {
                let mut object = manifest.clone();
                assert!(
                    self.deployments.iter().all(|it| it["metadata"]["name"] != object["metadata"]["name"])
                );
                object["metadata"]["uid"] = json!(format!("uid-{}", self.tick()));
                object["metadata"]["generation"] = json!(1);
                object["metadata"]["creationTimestamp"] = json!(NOW_TEXT);
                structured_merge::defaults::deployment(&mut object);
                let request = request(foo_api::FIELD_MANAGER, "");
                let managers =
                    structured_merge::update(&Value::Null, &object, &[], Schema::deployment(), &request);
                object["metadata"]["managedFields"] = serde_json::to_value(managers.unwrap()).unwrap();
                object["metadata"]["resourceVersion"] = json!(self.tick());
                self.deployments.push(object);
                self.writes.push(format!("create {}", operation.name()));
            }
            Operation::Apply { name, uid, resource_version, manifest, adopt } => {
                let index = self.deployments.iter().position(|it| it["metadata"]["name"] == **name).unwrap();
                let live = &self.deployments[index]["metadata"];
                assert_eq!((&live["uid"], &live["resourceVersion"]), (&json!(uid), &json!(resource_version)));
                let mut config = manifest.clone();
                if let Some(adopt) = adopt {
                    let mut after = self.deployments[index].clone();
                    let fields =
                        upgraded_managed_fields(&after["metadata"]["managedFields"], adopt.release_replicas);
                    after["metadata"]["managedFields"] = fields.expect("an edit that changes something");
                    self.store(index, after);
                    config["metadata"]["resourceVersion"] =
                        self.deployments[index]["metadata"]["resourceVersion"].clone();
                    self.writes.push(format!("adopt {name}"));
                }
                let live = self.deployments[index].clone();
                let managers = ManagedFields::of_object(&live).unwrap();
                let request = request(foo_api::FIELD_MANAGER, "");
                let applied =
                    structured_merge::apply(&live, &managers, &config, true, Schema::deployment(), &request)
                        .unwrap();
                let mut after = applied.object;
                structured_merge::defaults::deployment(&mut after);
                after["metadata"]["managedFields"] = serde_json::to_value(applied.managers).unwrap();
                self.store(index, after);
                self.writes.push(format!("apply {name}"));
            }
            Operation::Delete { name, uid, resource_version } => {
                let index = self.deployments.iter().position(|it| it["metadata"]["name"] == **name).unwrap();
                let live = &self.deployments[index]["metadata"];
                assert_eq!((&live["uid"], &live["resourceVersion"]), (&json!(uid), &json!(resource_version)));
                self.deployments.remove(index);
                self.writes.push(format!("delete {name}"));
            }
        }
    }

    /// `status` of a condition of the Foo; none where absent.
    pub fn condition(&self, r#type: &str) -> Option<&Value> {
        self.foo["status"]["conditions"].as_array()?.iter().find(|it| it["type"] == r#type)
    }

    /// Type, status and reason of each of the Foo's conditions.
    pub fn conditions(&self) -> Vec<String> {
        let listed = self.foo["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        listed
            .iter()
            .map(|it| format!("{}={} {}", text(&it["type"]), text(&it["status"]), text(&it["reason"])))
            .collect()
    }
}

fn request<'a>(manager: &'a str, subresource: &'a str) -> Request<'a> {
    let reset = if subresource.is_empty() { "status" } else { "spec" };
    let reset: FieldSet = std::iter::once(Path::fields([reset])).collect();
    Request {
        manager,
        api_version: if subresource.is_empty() { "apps/v1" } else { "samplecontroller.k8s.io/v1alpha1" },
        subresource,
        time: NOW_TEXT,
        reset: Box::leak(Box::new(reset)),
    }
}

/// RFC 7396.
pub fn merge(target: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let target = target.as_object_mut().unwrap();
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            merge(target.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}
