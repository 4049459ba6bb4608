//! Carries out what a plan asks: writes to Deployments and to the status of Foos, each safe to send late, each
//! answer laid over the cache.

use crate::api::{ApiClient, ApiError, Patch, deployment_path, foo_path};
use crate::cache::{Cache, Origin, Seen};
use crate::informer::read;
use crate::key::Key;
use kube::core::Status;
use plan::{Adopt, Class, Failure, Kind, Object, Operation, Reason};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::sync::Arc;

/// What came of a plan's operations.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Of the first operation that failed.
    pub failure: Option<Failure>,
    /// A Deployment was created, changed or deleted.
    pub changed: bool,
    /// A create, apply or delete was sent, and no answer says whether it was done.
    pub unheard: bool,
    /// The Deployment that the Foo names, as the last answer has it.
    pub deployment: Option<Arc<Object>>,
}

/// What came of a status write.
#[derive(Debug)]
pub enum StatusOutcome {
    /// The answer.
    Written(Value),
    /// The Foo is there, and yet its status is not found: the CRD has no status subresource.
    NoSubresource,
    /// The Foo is gone.
    Gone,
    /// It failed.
    Failed(Failure),
}

/// Sends writes and keeps the cache in step.
#[derive(Clone)]
pub struct Writer {
    api: ApiClient,
    cache: Arc<Cache>,
}

impl Writer {
    /// Writes through `api` and lays the answers over `cache`.
    pub fn new(api: ApiClient, cache: Arc<Cache>) -> Self {
        Self { api, cache }
    }

    /// Carries out `operations` in their order; the first failure ends it. `child` is the Deployment that the
    /// Foo names, as the plan saw it.
    pub async fn execute(
        &self,
        namespace: &str,
        operations: &[Operation],
        child: Option<Arc<Object>>,
    ) -> Outcome {
        let mut outcome = Outcome { deployment: child, ..Outcome::default() };
        for operation in operations {
            let done = match operation {
                Operation::Create { manifest } => self.create(namespace, manifest, &mut outcome).await,
                Operation::Apply { name, uid, resource_version, manifest, adopt } => {
                    let version = Version { uid, resource_version };
                    self.apply(namespace, name, version, manifest, *adopt, &mut outcome).await
                }
                Operation::Delete { name, uid, resource_version } => {
                    self.delete(namespace, name, Version { uid, resource_version }, &mut outcome).await
                }
            };
            if let Err(failure) = done {
                outcome.failure = Some(failure);
                break;
            }
        }
        outcome
    }

    async fn create(&self, namespace: &str, manifest: &Value, outcome: &mut Outcome) -> Result<(), Failure> {
        let name = manifest.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        match self.api.create(&deployment_path(namespace, None), manifest).await {
            Ok(answer) => {
                tracing::info!(deployment = %format_args!("{namespace}/{name}"), "created the Deployment");
                outcome.changed = true;
                outcome.deployment = self.lay_over(answer);
                Ok(())
            }
            Err(error) => {
                outcome.unheard = error.leaves_open();
                let failure = failure(&error, &format!("create Deployment {name}"));
                if failure.reason == Reason::AlreadyExists {
                    // The cache is behind. What is there decides at the next run, which comes soon.
                    self.read_deployment(&Key::new(namespace, name)).await?;
                }
                Err(failure)
            }
        }
    }

    async fn apply(
        &self,
        namespace: &str,
        name: &str,
        version: Version<'_>,
        manifest: &Value,
        adopt: Option<Adopt>,
        outcome: &mut Outcome,
    ) -> Result<(), Failure> {
        let path = deployment_path(namespace, Some(name));
        let mut manifest = Cow::Borrowed(manifest);
        let mut sent = Value::from(version.resource_version);
        if let Some(adopt) = adopt
            && let Some(newer) = self.adopt(&path, name, version, adopt).await?
            && let Some(metadata) = manifest.to_mut().get_mut("metadata").and_then(Value::as_object_mut)
        {
            metadata.insert("resourceVersion".into(), newer.clone());
            sent = newer;
        }
        let answer = self.api.patch(&path, Patch::Apply, &manifest).await;
        let answer = answer.map_err(|error| {
            outcome.unheard = error.leaves_open();
            failure(&error, &format!("apply Deployment {name}"))
        })?;
        // An admission webhook may rewrite what was asked for into what was there: then nothing changed.
        if answer.pointer("/metadata/resourceVersion") != Some(&sent) {
            tracing::info!(deployment = %format_args!("{namespace}/{name}"), "applied the Deployment");
            outcome.changed = true;
        }
        outcome.deployment = self.lay_over(answer);
        Ok(())
    }

    /// Makes our entry of `managedFields` one of `Apply`, as client-go's csaupgrade does; the resource version
    /// of the answer, if anything had to change.
    async fn adopt(
        &self,
        path: &str,
        name: &str,
        version: Version<'_>,
        adopt: Adopt,
    ) -> Result<Option<Value>, Failure> {
        let task = format!("adopt the fields of Deployment {name}");
        let live = self.api.get(path).await.map_err(|error| failure(&error, &task))?;
        let text = |pointer| live.pointer(pointer).and_then(Value::as_str);
        if text("/metadata/uid") != Some(version.uid)
            || text("/metadata/resourceVersion") != Some(version.resource_version)
        {
            return Err(Failure::new(
                Reason::Conflict,
                &format!("{task}: it changed since the plan was made"),
            ));
        }
        let managed_fields = live.pointer("/metadata/managedFields").unwrap_or(&Value::Null);
        let Some(edited) = plan::upgraded_managed_fields(managed_fields, adopt.release_replicas) else {
            return Ok(None);
        };
        let edit = json!([
            {"op": "replace", "path": "/metadata/managedFields", "value": edited},
            {"op": "replace", "path": "/metadata/resourceVersion", "value": version.resource_version},
        ]);
        let answer =
            self.api.patch(path, Patch::Json, &edit).await.map_err(|error| failure(&error, &task))?;
        let resource_version = answer.pointer("/metadata/resourceVersion").cloned();
        self.lay_over(answer);
        Ok(resource_version)
    }

    async fn delete(
        &self,
        namespace: &str,
        name: &str,
        version: Version<'_>,
        outcome: &mut Outcome,
    ) -> Result<(), Failure> {
        let options = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Background",
            "preconditions": {"uid": version.uid, "resourceVersion": version.resource_version},
        });
        match self.api.delete(&deployment_path(namespace, Some(name)), &options).await {
            Ok(_) => {
                tracing::info!(deployment = %format_args!("{namespace}/{name}"), "deleted the Deployment");
                outcome.changed = true;
            }
            Err(ApiError::Refused(status)) if status.code == 404 => {}
            Err(error) => {
                outcome.unheard = error.leaves_open();
                return Err(failure(&error, &format!("delete Deployment {name}")));
            }
        }
        self.cache.mark_deleting(&Key::new(namespace, name), version.uid);
        if outcome.deployment.as_ref().is_some_and(|deployment| deployment.meta.uid == version.uid) {
            outcome.deployment = None;
        }
        Ok(())
    }

    /// Writes the status of a Foo: a merge patch of the status subresource, as it takes what a schema lacks
    /// without an error (an apply answers 500).
    pub async fn write_status(&self, foo: &Key, patch: &Value) -> StatusOutcome {
        let subresource = format!("{}/status", foo_path(&foo.namespace, Some(&foo.name)));
        match self.api.patch(&subresource, Patch::Merge, patch).await {
            Ok(answer) => {
                if let Ok((object, wants)) = read(Kind::Foo, answer.clone()) {
                    self.cache.apply_foo(object, wants.as_deref(), Origin::Write);
                }
                StatusOutcome::Written(answer)
            }
            // The server answers the same for a Foo that is gone and for a CRD without the subresource
            // (apiextensions' customresource_handler.go), so the Foo itself has to tell.
            Err(ApiError::Refused(status)) if status.code == 404 => {
                match self.api.get(&foo_path(&foo.namespace, Some(&foo.name))).await {
                    Ok(live) if live.pointer("/metadata/uid") == patch.pointer("/metadata/uid") => {
                        StatusOutcome::NoSubresource
                    }
                    // Another Foo of that name: ours is gone.
                    Ok(_) => StatusOutcome::Gone,
                    Err(ApiError::Refused(status)) if is_about(&status, &foo.name) => StatusOutcome::Gone,
                    Err(error) => StatusOutcome::Failed(failure(&error, "write the status")),
                }
            }
            Err(error) => StatusOutcome::Failed(failure(&error, "write the status")),
        }
    }

    /// Whether this very Foo is there, and not on its way out.
    pub async fn foo_is_there(&self, foo: &Key, uid: &str) -> Result<bool, Failure> {
        match self.api.get(&foo_path(&foo.namespace, Some(&foo.name))).await {
            Ok(live) => {
                let deleted = live.pointer("/metadata/deletionTimestamp").is_some_and(|time| !time.is_null());
                Ok(!deleted && live.pointer("/metadata/uid").and_then(Value::as_str) == Some(uid))
            }
            Err(ApiError::Refused(status)) if is_about(&status, &foo.name) => Ok(false),
            Err(error) => Err(failure(&error, "read the Foo")),
        }
    }

    /// Reads a Deployment that the cache knows by name only, or not at all, and tells the cache what it is.
    pub async fn read_deployment(&self, key: &Key) -> Result<(), Failure> {
        match self.api.get(&deployment_path(&key.namespace, Some(&key.name))).await {
            Ok(live) => {
                self.lay_over(live);
                Ok(())
            }
            Err(ApiError::Refused(status)) if status.code == 404 => {
                self.cache.delete_deployment(key, "");
                Ok(())
            }
            Err(error) => Err(failure(&error, &format!("read Deployment {}", key.name))),
        }
    }

    /// Lays a Deployment from an answer over the cache; returns it if its controller is some Foo.
    fn lay_over(&self, live: Value) -> Option<Arc<Object>> {
        let object = read(Kind::Deployment, live).ok()?.0;
        let of_foo = object
            .meta
            .owner
            .as_ref()
            .is_some_and(|owner| owner.kind == foo_api::KIND && owner.api_group == foo_api::GROUP);
        let seen = if of_foo {
            Seen::OfFoo(object.clone())
        } else {
            let key = Key::new(&object.meta.namespace, &object.meta.name);
            Seen::Foreign { key, uid: object.meta.uid.clone() }
        };
        self.cache.apply_deployment(seen, Origin::Write);
        of_foo.then_some(object)
    }
}

/// Whether a 404 is about the object, and not about a path that is not served (yet, or by what stands in for the
/// server).
fn is_about(status: &Status, name: &str) -> bool {
    status.code == 404 && status.details.as_ref().is_some_and(|details| details.name == name)
}

/// What a write was planned from.
#[derive(Clone, Copy)]
struct Version<'a> {
    uid: &'a str,
    resource_version: &'a str,
}

/// What an API error means for the run.
pub fn failure(error: &ApiError, task: &str) -> Failure {
    let reason = match error {
        ApiError::Refused(status) => reason(status),
        ApiError::Timeout(_) | ApiError::Transport(_) => Reason::ApiUnavailable,
    };
    // The admission plugin OwnerReferencesPermissionEnforcement names neither the verb nor the resource.
    let remedy = match error {
        ApiError::Refused(status) if status.code == 403 && status.message.contains("blockOwnerDeletion") => {
            "; grant update on foos/finalizers to go on"
        }
        _ => "",
    };
    let failure = Failure::new(reason, &format!("{task}: {error}{remedy}"));
    debug_assert!(reason != Reason::Conflict || failure.class == Class::Quiet);
    failure
}

fn reason(status: &Status) -> Reason {
    let causes = || status.details.iter().flat_map(|details| &details.causes);
    match status.code {
        409 if status.reason == "AlreadyExists" => Reason::AlreadyExists,
        409 => Reason::Conflict,
        // An apply that carries the uid of an earlier object.
        422 if causes().any(|cause| cause.field == "metadata.uid") => Reason::Conflict,
        400 | 413 | 422 => Reason::ApiRejected,
        // What an apply that does not fit the schema is answered (structured-merge-diff's typed error).
        500 if status.message.contains("failed to create typed patch object") => Reason::ApiRejected,
        403 if causes().any(|cause| cause.reason == "NamespaceTerminating") => Reason::NamespaceTerminating,
        401 | 403 => Reason::Forbidden,
        404 => Reason::NotFound,
        429 => Reason::TooManyRequests,
        503 | 504 => Reason::ApiUnavailable,
        _ => Reason::ApiError,
    }
}
