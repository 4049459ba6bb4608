//! Create, replace and patch: from a body to a stored object.
//!
//! Source: `apiserver/pkg/endpoints/handlers/{create,update,patch}.go` and
//! `apiserver/pkg/registry/generic/registry/store.go`. Must not know HTTP.

use crate::admit::{self, Endpoint};
use crate::cluster::{Cluster, new_uid};
use crate::identity::{check_name, check_patched_kind, invalid_patch, recognise, to_stored};
use crate::meta;
use crate::patch::PatchKind;
use crate::resource::{Behaviour, Resource, text};
use crate::status::{ApiError, FieldError, Qualified};
use crate::store::{Key, Object};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::sync::Arc;
use structured_merge::{ManagedFields, Path, Request, update};

/// `fieldValidation`: what becomes of fields that nobody knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

/// The options of a write, and the warnings that its answer carries.
#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) manager: String,
    /// Version in which the request speaks; empty for that in which objects are stored.
    pub(crate) api_version: String,
    pub(crate) endpoint: Endpoint,
    pub(crate) dry_run: bool,
    pub(crate) force: bool,
    pub(crate) validation: FieldValidation,
    pub(crate) warnings: Vec<String>,
}

/// What a write left behind.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) object: Arc<Object>,
    pub(crate) created: bool,
}

/// Who owns the fields of a new state.
pub(crate) enum Ownership {
    /// What changed is the manager's.
    Changed,
    /// An apply has worked it out.
    Applied(Vec<ManagedFields>),
}

impl Write {
    /// A controller's own write.
    pub(crate) fn internal(manager: &str, endpoint: Endpoint) -> Self {
        Self {
            manager: manager.to_owned(),
            api_version: String::new(),
            endpoint,
            dry_run: false,
            force: false,
            validation: FieldValidation::Ignore,
            warnings: Vec::new(),
        }
    }

    /// What to do with unknown fields: an error, warnings or nothing.
    fn unknown(&mut self, fields: &[String]) -> Result<(), String> {
        if fields.is_empty() {
            return Ok(());
        }
        let faults: Vec<_> = fields.iter().map(|f| format!("unknown field {f:?}")).collect();
        match self.validation {
            FieldValidation::Ignore => {}
            FieldValidation::Warn => self.warnings.extend(faults),
            FieldValidation::Strict => return Err(format!("strict decoding error: {}", faults.join(", "))),
        }
        Ok(())
    }
}

impl Cluster {
    /// Creates an object. An empty name in it is generated from `generateName`.
    pub(crate) fn create(
        &mut self,
        resource: &Resource,
        namespace: &str,
        mut object: Value,
        write: &mut Write,
    ) -> Result<Written, ApiError> {
        recognise(resource, &mut object)?;
        Self::decode(resource, &mut object, write)?;
        self.insert(resource, namespace, object, write, Ownership::Changed)
    }

    /// Creates an object of any kind that is served.
    pub(crate) fn seed(&mut self, object: Value) -> Result<(), ApiError> {
        let version = text(&object, "/apiVersion");
        let group = version.split_once('/').map_or("", |(group, _)| group);
        let found = self
            .registry
            .all()
            .iter()
            .find(|r| r.group == group && r.kind == text(&object, "/kind") && r.api_version() == version);
        let resource = found.cloned().ok_or_else(ApiError::no_such_path)?;
        let namespace = text(&object, "/metadata/namespace").to_owned();
        self.create(&resource, &namespace, object, &mut Write::internal("seed", Endpoint::Main)).map(|_| ())
    }

    fn decode(resource: &Resource, object: &mut Value, write: &mut Write) -> Result<(), ApiError> {
        let handled = admit::decode(resource, object, false).and_then(|unknown| write.unknown(&unknown));
        handled.map_err(|fault| {
            let (kind, version) = (&resource.kind, &resource.version);
            ApiError::bad_request(format!(
                "{kind} in version {version:?} cannot be handled as a {kind}: {fault}"
            ))
        })
    }

    /// Stores an object that was not there.
    pub(crate) fn insert(
        &mut self,
        resource: &Resource,
        namespace: &str,
        mut object: Value,
        write: &mut Write,
        ownership: Ownership,
    ) -> Result<Written, ApiError> {
        let own = text(&object, "/metadata/namespace");
        if resource.namespaced {
            if !own.is_empty() && own != namespace {
                return Err(ApiError::other_namespace());
            }
            object["metadata"]["namespace"] = namespace.into();
        } else if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("namespace");
        }
        let prefix = text(&object, "/metadata/generateName").to_owned();
        if text(&object, "/metadata/name").is_empty() && !prefix.is_empty() {
            object["metadata"]["name"] = meta::generated_name(&prefix).into();
        }
        let name = text(&object, "/metadata/name").to_owned();
        if resource.namespaced {
            match self.namespace(namespace) {
                None => {
                    let namespaces = Qualified { group: "", name: "namespaces" };
                    return Err(ApiError::not_found(namespaces, namespace));
                }
                Some(found) if found.deleting() => {
                    return Err(ApiError::namespace_terminating(resource.qualified(), &name, namespace));
                }
                Some(_) => {}
            }
        }
        if resource.behaviour == Behaviour::Custom && self.definition_terminating(resource) {
            let why = "create not allowed while custom resource definition is terminating";
            return Err(ApiError::forbidden(resource.qualified(), &name, why));
        }
        let given_version = text(&object, "/metadata/resourceVersion");
        if !given_version.is_empty() && given_version != "0" {
            return Err(ApiError::internal("resourceVersion should not be set on objects to be created"));
        }
        admit::prepare_create(resource, &mut object);
        object["metadata"]["uid"] = new_uid().into();
        object["metadata"]["creationTimestamp"] = self.now().into();
        admit::validate(resource, write.endpoint, None, &object)?;
        if resource.behaviour == Behaviour::Custom {
            write.warnings.extend(meta::finalizer_warnings(&object["metadata"]));
        }
        let managers = match ownership {
            Ownership::Applied(managers) => managers,
            Ownership::Changed => self.changed(resource, &Value::Null, &object, &[], write)?,
        };
        set_managers(&mut object, &managers);
        let key = Key::new(if resource.namespaced { namespace } else { "" }, &name);
        if let Some(found) = self.store.get(resource.table, &key) {
            return Err(ApiError::already_exists(resource.qualified(), &name, found.deleting()));
        }
        if resource.behaviour == Behaviour::Definition {
            object["status"] = crate::definition::fresh_status(&object);
        }
        if write.dry_run {
            return Ok(Written { object: Arc::new(Object::new(object, 0)), created: true });
        }
        let object = self.put(resource, key.clone(), object);
        if resource.behaviour == Behaviour::Definition {
            self.establish(resource, &key);
        }
        Ok(Written { object, created: true })
    }

    fn definition_terminating(&self, resource: &Resource) -> bool {
        let key = Key::new("", &format!("{}.{}", resource.plural, resource.group));
        self.store.get(self.registry.tables.definitions, &key).is_some_and(|d| d.deleting())
    }

    /// The managed fields after a write that is no apply.
    fn changed(
        &self,
        resource: &Resource,
        before: &Value,
        after: &Value,
        managers: &[ManagedFields],
        write: &Write,
    ) -> Result<Vec<ManagedFields>, ApiError> {
        let time = self.now();
        let request = merge_request(resource, write, &time);
        let event = matches!(resource.behaviour, Behaviour::CoreEvent | Behaviour::NewEvent);
        let new = resource.behaviour == Behaviour::NewEvent;
        let (before, after) = if event {
            (Cow::Owned(as_event(before, new)), Cow::Owned(as_event(after, new)))
        } else {
            (Cow::Borrowed(before), Cow::Borrowed(after))
        };
        let (before, after) = (&*before, &*after);
        update(before, after, managers, &resource.merge, &request)
            .map_err(|e| ApiError::internal(e.to_string()))
    }

    /// What the apiserver's own controllers make of a definition: its names are accepted, it is served.
    fn establish(&mut self, resource: &Resource, key: &Key) {
        let Some(old) = self.store.get(resource.table, key) else { return };
        let mut value = old.value.clone();
        if text(&value, "/status/acceptedNames/kind").is_empty() {
            value["status"] = crate::definition::established(&value, &self.now());
        } else {
            value["status"]["acceptedNames"] = value["spec"]["names"].clone();
        }
        let mut write = Write::internal("kube-apiserver", Endpoint::Status);
        if let Err(error) = self.rewrite(resource, key, &old, value, &mut write) {
            tracing::debug!(%error, "a definition could not be established");
        }
    }

    /// Replaces an object by a body (PUT).
    pub(crate) fn replace(
        &mut self,
        resource: &Resource,
        key: &Key,
        mut object: Value,
        write: &mut Write,
    ) -> Result<Written, ApiError> {
        recognise(resource, &mut object)?;
        Self::decode(resource, &mut object, write)?;
        check_name(&object, key)?;
        let Some(old) = self.store.get(resource.table, key) else {
            // Kinds that a PUT may create (`AllowCreateOnUpdate`).
            if matches!(resource.behaviour, Behaviour::Lease | Behaviour::CoreEvent | Behaviour::NewEvent) {
                return self.insert(resource, &key.namespace, object, write, Ownership::Changed);
            }
            return Err(ApiError::not_found(resource.qualified(), &key.name));
        };
        let uid = text(&object, "/metadata/uid");
        if !uid.is_empty() && uid != old.meta("uid") {
            return Err(uid_mismatch(resource, key, uid, old.meta("uid")));
        }
        // Kinds that may be replaced without a version (`AllowUnconditionalUpdate`).
        let unconditional =
            !matches!(resource.behaviour, Behaviour::Custom | Behaviour::Definition | Behaviour::Lease);
        let version = text(&object, "/metadata/resourceVersion");
        if !unconditional && (version.is_empty() || version == "0") {
            let detail = "must be specified for an update";
            let error = FieldError::invalid("metadata.resourceVersion", &json!(0), detail);
            return Err(ApiError::invalid(resource.qualified(), &key.name, &[error]));
        }
        self.succeed(resource, key, &old, object, write, Ownership::Changed)
    }

    /// Patches an object; only an apply creates one that is not there.
    pub(crate) fn patch(
        &mut self,
        resource: &Resource,
        key: &Key,
        kind: PatchKind,
        patch: &Value,
        write: &mut Write,
    ) -> Result<Written, ApiError> {
        let old = self.store.get(resource.table, key);
        if kind == PatchKind::Apply {
            return self.apply(resource, key, old, patch, write);
        }
        let Some(old) = old else { return Err(ApiError::not_found(resource.qualified(), &key.name)) };
        let mut live = old.value.clone();
        crate::read::present(resource, &mut live);
        let mut patched = kind.apply(&live, patch, &resource.merge)?;
        if !patched.is_object() {
            return Err(invalid_patch(&patched, "json: cannot unmarshal into Go value"));
        }
        check_patched_kind(resource, &patched)?;
        if patched.get("metadata").is_none_or(Value::is_null) {
            return Err(ApiError::unnamed(&key.name));
        }
        to_stored(resource, &mut patched);
        let handled =
            admit::decode(resource, &mut patched, false).and_then(|unknown| write.unknown(&unknown));
        handled.map_err(|fault| invalid_patch(&patched, &fault))?;
        check_name(&patched, key)?;
        self.succeed(resource, key, &old, patched, write, Ownership::Changed)
    }

    /// Replaces an object by a state that was made from it.
    pub(crate) fn rewrite(
        &mut self,
        resource: &Resource,
        key: &Key,
        old: &Arc<Object>,
        new: Value,
        write: &mut Write,
    ) -> Result<Written, ApiError> {
        self.succeed(resource, key, old, new, write, Ownership::Changed)
    }

    /// Makes `new` the successor of `old`.
    pub(crate) fn succeed(
        &mut self,
        resource: &Resource,
        key: &Key,
        old: &Arc<Object>,
        mut new: Value,
        write: &mut Write,
        ownership: Ownership,
    ) -> Result<Written, ApiError> {
        let version = text(&new, "/metadata/resourceVersion");
        if !version.is_empty() && version != "0" && version != old.version.to_string() {
            return Err(ApiError::modified(resource.qualified(), &key.name));
        }
        new["metadata"]["resourceVersion"] = old.version.to_string().into();
        admit::prepare_update(resource, write.endpoint, &old.value, &mut new);
        admit::validate(resource, write.endpoint, Some(&old.value), &new)?;
        let managers = match ownership {
            Ownership::Applied(managers) => managers,
            Ownership::Changed => {
                let given = new.pointer("/metadata/managedFields").and_then(Value::as_array);
                match given.map(Vec::as_slice) {
                    // A list of one empty entry resets all of it.
                    Some([only]) if only.as_object().is_some_and(serde_json::Map::is_empty) => Vec::new(),
                    given => {
                        let base = if given.is_some_and(|g| !g.is_empty()) { &new } else { &old.value };
                        let managers = managers_of(base)?;
                        // A scale carries only the entries that own the replicas; without one it is as an object
                        // that nobody manages.
                        if write.endpoint == Endpoint::Scale && !owns_replicas(resource, &managers) {
                            managers
                        } else {
                            self.changed(resource, &old.value, &new, &managers, write)?
                        }
                    }
                }
            }
        };
        set_managers(&mut new, &managers);
        let finalizers = new.pointer("/metadata/finalizers").and_then(Value::as_array);
        if old.deleting() && finalizers.is_none_or(Vec::is_empty) && !namespace_busy(resource, &new) {
            if !write.dry_run {
                self.remove(resource, key);
            }
            return Ok(Written { object: Arc::new(Object::new(new, old.version)), created: false });
        }
        if same_but_for_times(&old.value, &new) {
            return Ok(Written { object: old.clone(), created: false });
        }
        if write.dry_run {
            return Ok(Written { object: Arc::new(Object::new(new, old.version)), created: false });
        }
        let object = self.put(resource, key.clone(), new);
        if resource.behaviour == Behaviour::Definition
            && write.endpoint == Endpoint::Main
            && object.value.pointer("/spec/names") != object.value.pointer("/status/acceptedNames")
        {
            self.establish(resource, key);
        }
        Ok(Written { object, created: false })
    }
}

/// An event as the managed fields of a request see it.
fn as_event(object: &Value, new: bool) -> Value {
    let mut object = crate::events::owned(object);
    if new && !object.is_null() {
        crate::events::to_new(&mut object);
    }
    object
}

/// Whether an entry owns the field that the scale subresource writes.
fn owns_replicas(resource: &Resource, managers: &[ManagedFields]) -> bool {
    let Some(scale) = &resource.scale else { return false };
    let path = Path::fields(scale.spec.split('/').filter(|step| !step.is_empty()));
    managers.iter().any(|entry| entry.fields().is_ok_and(|fields| fields.contains(&path)))
}

/// A namespace goes when its `spec.finalizers` are empty, which its controller sees to.
fn namespace_busy(resource: &Resource, namespace: &Value) -> bool {
    let finalizers = namespace.pointer("/spec/finalizers").and_then(Value::as_array);
    resource.behaviour == Behaviour::Namespace && finalizers.is_some_and(|f| !f.is_empty())
}

pub(crate) fn merge_request<'a>(resource: &'a Resource, write: &'a Write, time: &'a str) -> Request<'a> {
    let status = write.endpoint == Endpoint::Status;
    Request {
        manager: &write.manager,
        api_version: if write.api_version.is_empty() { &resource.stored_as } else { &write.api_version },
        subresource: write.endpoint.name(),
        time,
        reset: if status { &resource.resets.status } else { &resource.resets.main },
    }
}

pub(crate) fn managers_of(object: &Value) -> Result<Vec<ManagedFields>, ApiError> {
    ManagedFields::of_object(object).map_err(|e| ApiError::bad_request(e.to_string()))
}

fn set_managers(object: &mut Value, managers: &[ManagedFields]) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    if managers.is_empty() {
        metadata.remove("managedFields");
    } else if let Ok(managers) = serde_json::to_value(managers) {
        metadata.insert("managedFields".to_owned(), managers);
    }
}

/// Whether nothing changed but the times in `managedFields`.
fn same_but_for_times(old: &Value, new: &Value) -> bool {
    let timeless = |object: &Value| {
        let mut object = object.clone();
        let entries = object.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut);
        for entry in entries.into_iter().flatten().filter_map(Value::as_object_mut) {
            entry.remove("time");
        }
        object
    };
    old.get("spec") == new.get("spec")
        && old.get("status") == new.get("status")
        && timeless(old) == timeless(new)
}

fn uid_mismatch(resource: &Resource, key: &Key, wanted: &str, found: &str) -> ApiError {
    // Only what comes from definitions, and definitions themselves, are stored below their group.
    let grouped = matches!(resource.behaviour, Behaviour::Custom | Behaviour::Definition);
    let group = if grouped { format!("{}/", resource.group) } else { String::new() };
    let namespace = if resource.namespaced { format!("{}/", key.namespace) } else { String::new() };
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{group}{}/{namespace}{}, ResourceVersion: 0, \
         AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}",
        resource.plural, key.name
    );
    ApiError::conflict(resource.qualified(), &key.name, &why)
}
