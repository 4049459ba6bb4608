//! The state behind the API: objects, resources, and the work that a change leaves to the controllers.
//!
//! Synchronous; one lock around it is held for one request or one piece of work at a time.
//! Must not know HTTP.

use crate::definition;
use crate::resource::{Behaviour, Registry, Resource};
use crate::status::ApiError;
use crate::store::{Key, Object, Place, Store, TableId};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Where the server's time comes from.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// What a change leaves to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// An owner is gone: look at those that named this uid.
    OwnerGone(String),
    /// An object has owners: do they exist?
    Dependent(Place),
    /// An object with a deletion time: is there something the garbage collector has to finalize?
    Finalize(Place),
    /// A namespace goes away.
    Namespace(String),
    /// A definition goes away.
    Definition(Key),
    /// A Deployment's spec or status is to be looked at by the fake kubelet.
    Deployment(Key),
}

/// Behaviour that the options chose.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) available_after: Duration,
    pub(crate) garbage_collector: bool,
    pub(crate) fake_kubelet: bool,
    pub(crate) clock: Clock,
}

/// Everything behind the API.
pub(crate) struct Cluster {
    pub(crate) store: Store,
    pub(crate) registry: Registry,
    pub(crate) settings: Settings,
    pub(crate) work: VecDeque<Work>,
}

impl Cluster {
    /// With the namespaces of a new cluster.
    pub(crate) fn new(settings: Settings, history: usize, first_version: u64) -> Self {
        let mut store = Store::new(history, first_version);
        let registry = Registry::new(&mut store);
        let mut cluster = Self { store, registry, settings, work: VecDeque::new() };
        for name in ["default", "kube-node-lease", "kube-public", "kube-system"] {
            let namespace = json!({
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {
                    "name": name,
                    "uid": new_uid(),
                    "creationTimestamp": cluster.now(),
                    "labels": { "kubernetes.io/metadata.name": name },
                    "managedFields": [{
                        "manager": "kube-apiserver",
                        "operation": "Update",
                        "apiVersion": "v1",
                        "time": cluster.now(),
                        "fieldsType": "FieldsV1",
                        "fieldsV1": { "f:metadata": { "f:labels": { ".": {}, "f:kubernetes.io/metadata.name": {} } } },
                    }],
                },
                "spec": { "finalizers": ["kubernetes"] },
                "status": { "phase": "Active" },
            });
            cluster.store.put(cluster.registry.tables.namespaces, Key::new("", name), namespace);
        }
        cluster
    }

    /// The time as metadata carries it.
    pub(crate) fn now(&self) -> String {
        (self.settings.clock)().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }

    pub(crate) fn timestamp(&self) -> Timestamp {
        (self.settings.clock)()
    }

    /// An object that must be there.
    pub(crate) fn existing(&self, resource: &Resource, key: &Key) -> Result<Arc<Object>, ApiError> {
        self.store
            .get(resource.table, key)
            .ok_or_else(|| ApiError::not_found(resource.qualified(), &key.name))
    }

    pub(crate) fn namespace(&self, name: &str) -> Option<Arc<Object>> {
        self.store.get(self.registry.tables.namespaces, &Key::new("", name))
    }

    /// Stores an object that was admitted, and leaves the work that follows from it.
    pub(crate) fn put(&mut self, resource: &Resource, key: Key, value: Value) -> Arc<Object> {
        let before = self.store.get(resource.table, &key);
        let object = self.store.put(resource.table, key.clone(), value);
        let place = (resource.table, key.clone());
        let references = |o: &Object| o.value.pointer("/metadata/ownerReferences").cloned();
        let owners = references(&object);
        if self.settings.garbage_collector
            && owners.is_some()
            && before.as_deref().and_then(references) != owners
        {
            self.work.push_back(Work::Dependent(place.clone()));
        }
        if object.deleting() {
            self.work.push_back(Work::Finalize(place));
        }
        match resource.behaviour {
            Behaviour::Namespace if object.deleting() => self.work.push_back(Work::Namespace(key.name)),
            Behaviour::Definition => {
                if object.deleting() {
                    self.work.push_back(Work::Definition(key));
                } else if before.is_none_or(|b| b.value.get("spec") != object.value.get("spec")) {
                    self.define(&object.value);
                }
            }
            Behaviour::Deployment if self.settings.fake_kubelet && !object.deleting() => {
                self.work.push_back(Work::Deployment(key));
            }
            _ => {}
        }
        object
    }

    /// Removes an object, and leaves the work that follows from it.
    pub(crate) fn remove(&mut self, resource: &Resource, key: &Key) -> Option<Arc<Object>> {
        let object = self.store.remove(resource.table, key)?;
        if self.settings.garbage_collector {
            self.work.push_back(Work::OwnerGone(object.meta("uid").to_owned()));
            for owner in owners(&object.value) {
                if let Some(place) = self.store.by_uid(crate::resource::text(owner, "/uid")) {
                    self.work.push_back(Work::Finalize(place.clone()));
                }
            }
        }
        if self.namespace(&key.namespace).is_some_and(|n| n.deleting()) {
            self.work.push_back(Work::Namespace(key.namespace.clone()));
        }
        match resource.behaviour {
            Behaviour::Custom => {
                let name = format!("{}.{}", resource.plural, resource.group);
                self.work.push_back(Work::Definition(Key::new("", &name)));
            }
            Behaviour::Definition => self.undefine(&object.value),
            Behaviour::Deployment if self.settings.fake_kubelet => {
                self.work.push_back(Work::Deployment(key.clone()));
            }
            _ => {}
        }
        Some(object)
    }

    fn define(&mut self, definition: &Value) {
        let (group, plural) = group_and_plural(definition);
        let table = self.registry.table_of(&group, &plural).unwrap_or_else(|| self.store.add_table());
        self.registry.set(&group, &plural, definition::resources(definition, table));
        // What is stored gets new defaults when it is read.
        if let Some(structural) = self.registry.of_table(table).and_then(|r| r.structural.clone()) {
            self.store.rewrite(table, |value| structural.default(value));
        }
    }

    fn undefine(&mut self, definition: &Value) {
        let (group, plural) = group_and_plural(definition);
        if let Some(table) = self.registry.table_of(&group, &plural) {
            self.store.close(table);
        }
        self.registry.set(&group, &plural, Vec::new());
    }

    /// The table of a definition's objects, while it is served.
    pub(crate) fn defined_table(&self, definition: &Value) -> Option<TableId> {
        let (group, plural) = group_and_plural(definition);
        self.registry.table_of(&group, &plural)
    }
}

fn group_and_plural(definition: &Value) -> (String, String) {
    let text = |pointer| crate::resource::text(definition, pointer).to_owned();
    (text("/spec/group"), text("/spec/names/plural"))
}

pub(crate) fn owners(object: &Value) -> impl Iterator<Item = &Value> {
    object.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten()
}

pub(crate) fn new_uid() -> String {
    uuid::Uuid::new_v4().to_string()
}
