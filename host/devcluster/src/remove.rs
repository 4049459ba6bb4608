//! Deletion: preconditions, finalizers, propagation.
//!
//! Source: `apiserver/pkg/registry/rest/delete.go` and `apiserver/pkg/registry/generic/registry/store.go`.
//! Must not know HTTP.

use crate::cluster::Cluster;
use crate::definition;
use crate::resource::{Behaviour, Resource, text};
use crate::status::{ApiError, FieldError, Qualified};
use crate::store::{Key, Object};
use serde_json::{Value, json};
use std::sync::Arc;

/// Finalizer of a foreground deletion, the garbage collector's.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// Finalizer of a deletion that leaves the dependents, the garbage collector's.
pub(crate) const ORPHAN: &str = "orphan";

/// Namespaces that cannot be deleted (`plugin/namespace/lifecycle`).
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// What becomes of the dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// `metav1.DeleteOptions`.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) propagation: Option<Propagation>,
    pub(crate) uid: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) dry_run: bool,
}

/// What a deletion led to.
#[derive(Debug)]
pub(crate) enum Deleted {
    /// It is gone; its last state.
    Gone(Arc<Object>),
    /// It has a deletion time and waits for its finalizers.
    Pending(Arc<Object>),
}

impl DeleteOptions {
    /// From the body (`Null` when there is none).
    pub(crate) fn parse(body: &Value) -> Result<Self, ApiError> {
        let (version, kind) = (text(body, "/apiVersion"), text(body, "/kind"));
        if !matches!(kind, "" | "DeleteOptions") {
            return Err(ApiError::bad_request(format!(
                "no kind {kind:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:111\""
            )));
        }
        if let Some(wrong) = body.get("gracePeriodSeconds").filter(|v| !v.is_null() && !v.is_i64()) {
            let what = crate::meta::go_kind(wrong);
            return Err(ApiError::bad_request(format!(
                "json: cannot unmarshal {what} into Go struct field DeleteOptions.gracePeriodSeconds of type int64"
            )));
        }
        let word = |pointer: &str| Some(text(body, pointer).to_owned()).filter(|t| !t.is_empty());
        let policy = text(body, "/propagationPolicy");
        let orphan = body.get("orphanDependents").filter(|v| !v.is_null());
        let mut errors = Vec::new();
        if orphan.is_some() && !policy.is_empty() {
            let detail = "orphanDependents and deletionPropagation cannot be both set";
            errors.push(FieldError::invalid("propagationPolicy", &policy.into(), detail));
        }
        let propagation = match (policy, orphan) {
            ("", None) => None,
            ("", Some(orphan)) => {
                Some(if *orphan == true { Propagation::Orphan } else { Propagation::Background })
            }
            ("Background", _) => Some(Propagation::Background),
            ("Foreground", _) => Some(Propagation::Foreground),
            ("Orphan", _) => Some(Propagation::Orphan),
            (other, _) => {
                let values = "\"Foreground\", \"Background\", \"Orphan\", \"nil\"";
                errors.push(FieldError::not_supported("propagationPolicy", &other.into(), values));
                None
            }
        };
        let dry_run = body.get("dryRun").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        if dry_run.iter().any(|value| value != "All") {
            errors.push(FieldError::not_supported("dryRun", &json!(dry_run), "\"All\""));
        }
        if !errors.is_empty() {
            let kind = Qualified { group: "meta.k8s.io", name: "DeleteOptions" };
            return Err(ApiError::invalid(kind, "", &errors));
        }
        Ok(Self {
            propagation,
            uid: word("/preconditions/uid"),
            version: word("/preconditions/resourceVersion"),
            dry_run: !dry_run.is_empty(),
        })
    }

    /// A deletion that must meet this very object.
    pub(crate) fn of_uid(uid: &str, propagation: Propagation) -> Self {
        Self { propagation: Some(propagation), uid: Some(uid.to_owned()), ..Self::default() }
    }
}

impl Cluster {
    /// Deletes an object, or marks it as being deleted when finalizers hold it.
    pub(crate) fn delete(
        &mut self,
        resource: &Resource,
        key: &Key,
        options: &DeleteOptions,
    ) -> Result<Deleted, ApiError> {
        if resource.behaviour == Behaviour::Namespace && IMMORTAL.contains(&key.name.as_str()) {
            return Err(ApiError::forbidden(
                resource.qualified(),
                &key.name,
                "this namespace may not be deleted",
            ));
        }
        let old = self.existing(resource, key)?;
        check_preconditions(resource, key, &old, options)?;
        let mut finalizers =
            old.value.pointer("/metadata/finalizers").and_then(Value::as_array).cloned().unwrap_or_default();
        if !matches!(resource.behaviour, Behaviour::CoreEvent | Behaviour::NewEvent)
            && let Some(propagation) = options.propagation
        {
            finalizers.retain(|f| f != FOREGROUND && f != ORPHAN);
            match propagation {
                Propagation::Background => {}
                Propagation::Foreground => finalizers.push(FOREGROUND.into()),
                Propagation::Orphan => finalizers.push(ORPHAN.into()),
            }
        }
        // A definition is held until its objects are gone.
        if resource.behaviour == Behaviour::Definition && !old.deleting() {
            finalizers.push(definition::CLEANUP.into());
        }
        if finalizers.is_empty() && resource.behaviour != Behaviour::Namespace {
            if options.dry_run {
                return Ok(Deleted::Gone(old));
            }
            let gone = self.remove(resource, key);
            return gone
                .map(Deleted::Gone)
                .ok_or_else(|| ApiError::not_found(resource.qualified(), &key.name));
        }
        let mut value = old.value.clone();
        let time = self.now();
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            if !old.deleting() {
                if let Some(generation) = metadata.get("generation").and_then(Value::as_i64)
                    && resource.behaviour != Behaviour::Definition
                {
                    metadata.insert("generation".to_owned(), (generation + 1).into());
                }
                metadata.insert("deletionTimestamp".to_owned(), time.as_str().into());
                // Namespaces and definitions have no grace period.
                if !matches!(resource.behaviour, Behaviour::Namespace | Behaviour::Definition) {
                    metadata.insert("deletionGracePeriodSeconds".to_owned(), 0.into());
                }
            }
            if !finalizers.is_empty() {
                metadata.insert("finalizers".to_owned(), finalizers.into());
            }
        }
        match resource.behaviour {
            Behaviour::Namespace => value["status"]["phase"] = "Terminating".into(),
            Behaviour::Definition if !old.deleting() => {
                definition::set_terminating(&mut value, definition::PENDING, &time);
            }
            _ => {}
        }
        if options.dry_run {
            return Ok(Deleted::Pending(Arc::new(Object::new(value, old.version))));
        }
        if value == old.value {
            return Ok(Deleted::Pending(old));
        }
        Ok(Deleted::Pending(self.put(resource, key.clone(), value)))
    }

    /// Takes one finalizer away; the object goes when it was the last and a deletion waits for it.
    pub(crate) fn remove_finalizer(&mut self, resource: &Resource, key: &Key, finalizer: &str) {
        let Some(old) = self.store.get(resource.table, key) else { return };
        let mut value = old.value.clone();
        let Some(list) = value.pointer_mut("/metadata/finalizers").and_then(Value::as_array_mut) else {
            return;
        };
        list.retain(|f| f != finalizer);
        if list.is_empty() {
            if old.deleting() {
                self.remove(resource, key);
                return;
            }
            if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.remove("finalizers");
            }
        }
        self.put(resource, key.clone(), value);
    }
}

fn check_preconditions(
    resource: &Resource,
    key: &Key,
    old: &Object,
    options: &DeleteOptions,
) -> Result<(), ApiError> {
    // The server names the kind here where a resource belongs.
    let kind = resource.qualified_kind();
    if let Some(uid) = options.uid.as_deref().filter(|uid| *uid != old.meta("uid")) {
        let found = old.meta("uid");
        let why = format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({found}). \
             The object might have been deleted and then recreated"
        );
        return Err(ApiError::conflict(kind, &key.name, &why));
    }
    if let Some(version) = options.version.as_deref().filter(|v| *v != old.version.to_string()) {
        let why = format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({}). \
             The object might have been modified",
            old.version
        );
        return Err(ApiError::conflict(kind, &key.name, &why));
    }
    Ok(())
}

/// The answer to a deletion that is done.
pub(crate) fn success(resource: &Resource, object: &Object) -> Value {
    let mut details =
        json!({ "name": object.meta("name"), "kind": resource.plural, "uid": object.meta("uid") });
    if !resource.group.is_empty() {
        details["group"] = resource.group.as_str().into();
    }
    json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details })
}
