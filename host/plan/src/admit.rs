//! Whether a guest is called, and with what.
//!
//! Owns: what the host answers for itself, and the guest's input. Must not know the engine.

use crate::failure::{Failure, Reason};
use crate::object::Object;
use crate::snapshot::{Child, Snapshot};
use crate::{spec, time};
use contract::{Condition, ConditionStatus, Context, Deployment, DeploymentStatus, Foo, FooStatus, Metadata};
use serde_json::Value;

/// What happens to a key before any guest sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Nothing to do: the Foo is being deleted, and the garbage collector has the rest.
    Ignore,
    /// The host answers for itself: [`crate::Verdict::Refused`].
    Refuse(Failure),
    /// The guest is called with this input.
    Call(Box<contract::Input>),
}

/// Decides whether the guest is called.
///
/// Not for a Foo with a deletion timestamp (Go goes on and creates the Deployment again), not for a
/// spec that Kubernetes would refuse (Go drops the key without a word), not for a Deployment that
/// somebody else controls. A Deployment that is being deleted counts as absent.
pub fn admit(snapshot: &Snapshot<'_>) -> Admission {
    if snapshot.foo.meta.deleted {
        return Admission::Ignore;
    }
    let mut foo = snapshot.foo.value();
    let spec = match spec::read(&foo) {
        Ok(spec) => spec,
        Err(failure) => return Admission::Refuse(failure),
    };
    let deployment = match snapshot.child() {
        Child::Foreign { .. } => return Admission::Refuse(foreign(&spec.deployment_name)),
        Child::Owned(object) => Some(deployment(object)),
        Child::Absent | Child::Terminating(_) => None,
    };
    let status = foo.get("status").unwrap_or(&Value::Null);
    let status = FooStatus {
        available_replicas: int32(status, "availableReplicas"),
        observed_generation: status.get("observedGeneration").and_then(Value::as_i64),
        conditions: conditions(status),
    };
    let foo = Foo {
        metadata: metadata(&foo),
        spec,
        status,
        context: Context { observed_at: snapshot.now, parameters: snapshot.parameters.to_vec() },
        json: json_for_guests(&mut foo),
    };
    Admission::Call(Box::new(contract::Input { foo, deployment }))
}

/// The failure of a Foo whose Deployment `name` is somebody else's.
pub(crate) fn foreign(name: &str) -> Failure {
    Failure::new(Reason::ErrResourceExists, &foo_api::message_resource_exists(name))
}

fn deployment(object: &Object) -> Deployment {
    let mut value = object.value();
    let spec = value.get("spec").unwrap_or(&Value::Null);
    let status = value.get("status").unwrap_or(&Value::Null);
    Deployment {
        metadata: metadata(&value),
        // The API defaults it to 1.
        replicas: spec.get("replicas").and_then(Value::as_i64).map_or(1, clamped),
        paused: spec.get("paused").and_then(Value::as_bool).unwrap_or(false),
        status: DeploymentStatus {
            observed_generation: status.get("observedGeneration").and_then(Value::as_i64).unwrap_or(0),
            replicas: int32(status, "replicas"),
            updated_replicas: int32(status, "updatedReplicas"),
            ready_replicas: int32(status, "readyReplicas"),
            available_replicas: int32(status, "availableReplicas"),
            unavailable_replicas: int32(status, "unavailableReplicas"),
            conditions: conditions(status),
        },
        json: json_for_guests(&mut value),
    }
}

/// A guest must not decide by the resource version: it changes with each write of anybody.
fn json_for_guests(value: &mut Value) -> String {
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("resourceVersion");
    }
    contract::canonical_json(value)
}

fn metadata(object: &Value) -> Metadata {
    let metadata = object.get("metadata").unwrap_or(&Value::Null);
    let text = |field: &str| metadata.get(field).and_then(Value::as_str).unwrap_or_default();
    let seconds = |field: &str| metadata.get(field).and_then(Value::as_str).and_then(time::parse);
    let finalizers = metadata.get("finalizers").and_then(Value::as_array).map(Vec::as_slice);
    Metadata {
        name: text("name").to_owned(),
        namespace: text("namespace").to_owned(),
        uid: text("uid").to_owned(),
        generation: metadata.get("generation").and_then(Value::as_i64).unwrap_or(0),
        labels: pairs(metadata.get("labels")),
        annotations: pairs(metadata.get("annotations")),
        finalizers: finalizers
            .unwrap_or_default()
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect(),
        created: seconds("creationTimestamp").unwrap_or(0),
        deleted: seconds("deletionTimestamp"),
    }
}

/// Sorted by key; what is not a string is none of the API's.
fn pairs(map: Option<&Value>) -> contract::Pairs {
    let entries = map.and_then(Value::as_object).into_iter().flatten();
    let mut pairs: contract::Pairs =
        entries.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect();
    pairs.sort_unstable();
    pairs
}

/// `conditions` of a status, sorted by type.
fn conditions(status: &Value) -> Vec<Condition> {
    let listed = status.get("conditions").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut conditions: Vec<_> = listed
        .iter()
        .filter_map(|condition| {
            let text = |field: &str| condition.get(field).and_then(Value::as_str).unwrap_or_default();
            Some(Condition {
                r#type: condition.get("type")?.as_str()?.to_owned(),
                status: match text("status") {
                    "True" => ConditionStatus::True,
                    "False" => ConditionStatus::False,
                    _ => ConditionStatus::Unknown,
                },
                reason: text("reason").to_owned(),
                message: text("message").to_owned(),
                last_transition: time::parse(text("lastTransitionTime")).unwrap_or(0),
                observed_generation: condition.get("observedGeneration").and_then(Value::as_i64),
            })
        })
        .collect();
    conditions.sort_by(|a, b| a.r#type.cmp(&b.r#type));
    conditions
}

fn int32(status: &Value, field: &str) -> i32 {
    status.get(field).and_then(Value::as_i64).map_or(0, clamped)
}

fn clamped(number: i64) -> i32 {
    number.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32
}
