//! Between the contract's values and the generated ones: inputs are borrowed, answers moved.

use crate::bindings::samplecontroller::reconciler::{log, types as wit};
use crate::{CallError, Limits};
use contract as c;
use contract::{MAX_ERROR_BYTES, one_line};

/// What `reconcile` returns, as generated.
pub(super) type Answer = Result<Vec<wit::Action>, wit::ReconcileError>;

/// The lists inside the arguments of `reconcile`, kept for the call: the generated types borrow them.
pub(super) struct Input<'a> {
    foo: &'a c::Foo,
    foo_metadata: Metadata<'a>,
    foo_conditions: Vec<wit::Condition<'a>>,
    parameters: Vec<(&'a str, &'a str)>,
    deployment: Option<Deployment<'a>>,
}

struct Deployment<'a> {
    value: &'a c::Deployment,
    metadata: Metadata<'a>,
    conditions: Vec<wit::Condition<'a>>,
}

struct Metadata<'a> {
    value: &'a c::Metadata,
    labels: Vec<(&'a str, &'a str)>,
    annotations: Vec<(&'a str, &'a str)>,
    finalizers: Vec<&'a str>,
}

impl<'a> Input<'a> {
    pub(super) fn new(foo: &'a c::Foo, deployment: Option<&'a c::Deployment>) -> Self {
        Self {
            foo,
            foo_metadata: Metadata::new(&foo.metadata),
            foo_conditions: conditions(&foo.status.conditions),
            parameters: pairs(&foo.context.parameters),
            deployment: deployment.map(|value| Deployment {
                value,
                metadata: Metadata::new(&value.metadata),
                conditions: conditions(&value.status.conditions),
            }),
        }
    }

    pub(super) fn foo(&self) -> wit::Foo<'_> {
        let c::Foo { metadata: _, spec, status, context, json } = self.foo;
        wit::Foo {
            metadata: self.foo_metadata.generated(),
            spec: wit::FooSpec { deployment_name: &spec.deployment_name, replicas: spec.replicas },
            status: wit::FooStatus {
                available_replicas: status.available_replicas,
                observed_generation: status.observed_generation,
                conditions: &self.foo_conditions,
            },
            context: wit::Context { observed_at: context.observed_at, parameters: &self.parameters },
            json,
        }
    }

    pub(super) fn deployment(&self) -> Option<wit::Deployment<'_>> {
        let Deployment { value, metadata, conditions } = self.deployment.as_ref()?;
        let c::Deployment { metadata: _, replicas, paused, status, json } = value;
        Some(wit::Deployment {
            metadata: metadata.generated(),
            replicas: *replicas,
            paused: *paused,
            status: wit::DeploymentStatus {
                observed_generation: status.observed_generation,
                replicas: status.replicas,
                updated_replicas: status.updated_replicas,
                ready_replicas: status.ready_replicas,
                available_replicas: status.available_replicas,
                unavailable_replicas: status.unavailable_replicas,
                conditions,
            },
            json,
        })
    }
}

impl<'a> Metadata<'a> {
    fn new(value: &'a c::Metadata) -> Self {
        Self {
            value,
            labels: pairs(&value.labels),
            annotations: pairs(&value.annotations),
            finalizers: value.finalizers.iter().map(String::as_str).collect(),
        }
    }

    fn generated(&self) -> wit::Metadata<'_> {
        let c::Metadata { name, namespace, uid, generation, created, deleted, .. } = self.value;
        wit::Metadata {
            name,
            namespace,
            uid,
            generation: *generation,
            labels: &self.labels,
            annotations: &self.annotations,
            finalizers: &self.finalizers,
            created: *created,
            deleted: *deleted,
        }
    }
}

fn pairs(pairs: &c::Pairs) -> Vec<(&str, &str)> {
    pairs.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect()
}

fn conditions(conditions: &[c::Condition]) -> Vec<wit::Condition<'_>> {
    conditions.iter().map(condition).collect()
}

fn condition(condition: &c::Condition) -> wit::Condition<'_> {
    wit::Condition {
        type_: &condition.r#type,
        status: match condition.status {
            c::ConditionStatus::True => wit::ConditionStatus::True,
            c::ConditionStatus::False => wit::ConditionStatus::False,
            c::ConditionStatus::Unknown => wit::ConditionStatus::Unknown,
        },
        reason: &condition.reason,
        message: &condition.message,
        last_transition: condition.last_transition,
        observed_generation: condition.observed_generation,
    }
}

/// The answer as the contract's values. What the actions say is for the planner to judge; here only
/// their number is.
pub(super) fn answer(answer: Answer, limits: &Limits) -> Result<Vec<c::Action>, CallError> {
    match answer {
        Ok(actions) if size(&actions) > limits.result_bytes => {
            Err(CallError::ResultTooLarge { limit: limits.result_bytes })
        }
        Ok(actions) if actions.len() > limits.max_actions => {
            Err(CallError::TooManyActions { found: actions.len(), limit: limits.max_actions })
        }
        Ok(actions) => Ok(actions.into_iter().map(action).collect()),
        Err(wit::ReconcileError::Retry(text)) => Err(CallError::Retry(one_line(&text, MAX_ERROR_BYTES))),
        Err(wit::ReconcileError::Permanent(text)) => {
            Err(CallError::Permanent(one_line(&text, MAX_ERROR_BYTES)))
        }
    }
}

/// Bytes of an answer, as wasmtime counts them when it refuses what is far too large: each element of
/// a list and each string.
fn size(actions: &[wit::Action]) -> usize {
    let strings = |action: &wit::Action| match action {
        wit::Action::ApplyDeployment(manifest) => manifest.len(),
        wit::Action::SetStatus(status) => status
            .conditions
            .iter()
            .map(|condition| {
                size_of_val(condition)
                    + condition.type_.len()
                    + condition.reason.len()
                    + condition.message.len()
            })
            .sum(),
        wit::Action::RecordEvent(event) => event.reason.len() + event.message.len(),
        wit::Action::DeleteDeployment | wit::Action::RequeueAfter(_) => 0,
    };
    actions.iter().map(|action| size_of_val(action) + strings(action)).sum()
}

fn action(action: wit::Action) -> c::Action {
    match action {
        wit::Action::ApplyDeployment(manifest) => c::Action::ApplyDeployment(manifest),
        wit::Action::DeleteDeployment => c::Action::DeleteDeployment,
        wit::Action::SetStatus(status) => c::Action::SetStatus(c::StatusUpdate {
            available_replicas: status.available_replicas,
            conditions: status.conditions.into_iter().map(condition_update).collect(),
        }),
        wit::Action::RecordEvent(event) => c::Action::RecordEvent(c::Event {
            r#type: match event.type_ {
                wit::EventType::Normal => c::EventType::Normal,
                wit::EventType::Warning => c::EventType::Warning,
            },
            reason: event.reason,
            message: event.message,
        }),
        wit::Action::RequeueAfter(seconds) => c::Action::RequeueAfter(seconds),
    }
}

fn condition_update(update: wit::ConditionUpdate) -> c::ConditionUpdate {
    c::ConditionUpdate {
        r#type: update.type_,
        status: match update.status {
            wit::ConditionStatus::True => c::ConditionStatus::True,
            wit::ConditionStatus::False => c::ConditionStatus::False,
            wit::ConditionStatus::Unknown => c::ConditionStatus::Unknown,
        },
        reason: update.reason,
        message: update.message,
    }
}

pub(super) fn level(level: log::Level) -> c::LogLevel {
    match level {
        log::Level::Debug => c::LogLevel::Debug,
        log::Level::Info => c::LogLevel::Info,
        log::Level::Warn => c::LogLevel::Warn,
        log::Level::Error => c::LogLevel::Error,
    }
}
