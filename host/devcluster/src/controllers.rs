//! The controllers that a cluster has: garbage collector, namespaces, definitions.
//!
//! Each piece of work is a synchronous step under the lock; the shell in `server` runs them in the background.
//! Source: `pkg/controller/garbagecollector`, `pkg/controller/namespace`,
//! `apiextensions-apiserver/pkg/controller/finalizer`. Must not know HTTP.

use crate::admit::Endpoint;
use crate::cluster::{Cluster, Work, owners};
use crate::kubelet::Kubelet;
use crate::remove::{DeleteOptions, FOREGROUND, ORPHAN, Propagation};
use crate::resource::{Resource, text};
use crate::store::{Key, Object, Place};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

fn has_finalizer(object: &Object, finalizer: &str) -> bool {
    let finalizers = object.value.pointer("/metadata/finalizers").and_then(Value::as_array);
    finalizers.is_some_and(|list| list.iter().any(|f| f == finalizer))
}

/// How an owner reference stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    There,
    /// There, in foreground deletion, and this dependent is one it waits for.
    Waiting,
    Absent,
}

impl Cluster {
    /// Does the next piece of work; false when there is none.
    pub(crate) fn work_once(&mut self, kubelet: &mut Kubelet) -> bool {
        let Some(work) = self.work.pop_front() else { return false };
        match work {
            Work::OwnerGone(uid) => {
                for place in self.store.dependents(&uid) {
                    self.collect(&place, Some(&uid));
                }
            }
            Work::Dependent(place) => self.collect(&place, None),
            Work::Finalize(place) if self.settings.garbage_collector => self.finalize(&place),
            Work::Finalize(_) => {}
            Work::Namespace(name) => self.empty_namespace(&name),
            Work::Definition(key) => self.empty_definition(&key),
            Work::Deployment(key) => kubelet.look(self, &key),
        }
        true
    }

    fn at(&self, place: &Place) -> Option<(Arc<Resource>, Arc<Object>)> {
        Some((self.registry.of_table(place.0)?, self.store.get(place.0, &place.1)?))
    }

    fn owner(&self, reference: &Value, dependent: &Key, gone: Option<&str>) -> Owner {
        if gone == Some(text(reference, "/uid")) {
            return Owner::Absent;
        }
        let (group, kind) = match text(reference, "/apiVersion").split_once('/') {
            Some((group, _)) => (group, text(reference, "/kind")),
            None => ("", text(reference, "/kind")),
        };
        // The real collector cannot look up a kind that nobody serves, and keeps trying.
        let Some(resource) = self.registry.by_kind(group, kind) else { return Owner::There };
        let Some(place) = self.store.by_uid(text(reference, "/uid")) else { return Owner::Absent };
        let Some(owner) = self.store.get(place.0, &place.1) else { return Owner::Absent };
        let same = place.0 == resource.table
            && place.1.name == text(reference, "/name")
            && (place.1.namespace.is_empty() || place.1.namespace == dependent.namespace);
        match same {
            false => Owner::Absent,
            true if owner.deleting() && has_finalizer(&owner, FOREGROUND) && blocks(reference) => {
                Owner::Waiting
            }
            true => Owner::There,
        }
    }

    /// Deletes an object all of whose owners are gone or wait for it; `gone` is the uid of one that surely is,
    /// even if nobody serves its kind any more.
    fn collect(&mut self, place: &Place, gone: Option<&str>) {
        let Some((resource, object)) = self.at(place) else { return };
        let standing: Vec<_> =
            owners(&object.value).map(|r| (r.clone(), self.owner(r, &place.1, gone))).collect();
        if standing.is_empty() || object.deleting() {
            return;
        }
        if standing.iter().any(|(_, owner)| *owner == Owner::There) {
            if standing.iter().any(|(_, owner)| *owner != Owner::There) {
                let kept = standing
                    .into_iter()
                    .filter(|(_, owner)| *owner == Owner::There)
                    .map(|(r, _)| r)
                    .collect();
                self.set_owners(&resource, place, &object, kept);
            }
            return;
        }
        let waited_for = standing.iter().any(|(_, owner)| *owner == Owner::Waiting);
        let uid = object.meta("uid");
        let propagation = if has_finalizer(&object, ORPHAN) {
            Propagation::Orphan
        } else if has_finalizer(&object, FOREGROUND) || (waited_for && !self.store.dependents(uid).is_empty())
        {
            Propagation::Foreground
        } else {
            Propagation::Background
        };
        if let Err(error) = self.delete(&resource, &place.1, &DeleteOptions::of_uid(uid, propagation)) {
            tracing::debug!(%error, "garbage collection met another change");
        }
    }

    fn set_owners(&mut self, resource: &Resource, place: &Place, object: &Object, owners: Vec<Value>) {
        let mut value = object.value.clone();
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            if owners.is_empty() {
                metadata.remove("ownerReferences");
            } else {
                metadata.insert("ownerReferences".to_owned(), owners.into());
            }
        }
        // As the collector's patch is: who owned the references owns them no more.
        let mut write = crate::write::Write::internal("kube-controller-manager", Endpoint::Main);
        if let Err(error) = self.rewrite(
            resource,
            &place.1,
            &Arc::new(Object::new(object.value.clone(), object.version)),
            value,
            &mut write,
        ) {
            tracing::debug!(%error, "garbage collection met another change");
        }
    }

    /// The collector's part of a deletion: wait for dependents, or let them go.
    fn finalize(&mut self, place: &Place) {
        let Some((resource, object)) = self.at(place) else { return };
        if !object.deleting() {
            return;
        }
        let uid = object.meta("uid").to_owned();
        if has_finalizer(&object, ORPHAN) {
            for dependent in self.store.dependents(&uid) {
                if let Some((resource, object)) = self.at(&dependent) {
                    let kept = owners(&object.value).filter(|r| text(r, "/uid") != uid).cloned().collect();
                    self.set_owners(&resource, &dependent, &object, kept);
                }
            }
            self.remove_finalizer(&resource, &place.1, ORPHAN);
        } else if has_finalizer(&object, FOREGROUND) {
            let mut blocked = false;
            for dependent in self.store.dependents(&uid) {
                self.collect(&dependent, None);
                let left = self.store.get(dependent.0, &dependent.1);
                blocked |=
                    left.is_some_and(|o| owners(&o.value).any(|r| text(r, "/uid") == uid && blocks(r)));
            }
            if !blocked {
                self.remove_finalizer(&resource, &place.1, FOREGROUND);
            }
        }
    }

    /// Deletes everything in a namespace that is going away, and then the namespace.
    fn empty_namespace(&mut self, name: &str) {
        if !self.namespace(name).is_some_and(|n| n.deleting()) {
            return;
        }
        let mut left = 0;
        let tables: BTreeSet<_> =
            self.registry.all().iter().filter(|r| r.namespaced).map(|r| r.table).collect();
        for table in tables {
            let Some(resource) = self.registry.of_table(table) else { continue };
            let found: Vec<_> =
                self.store.range(table, Some(name), None).map(|(k, o)| (k.clone(), o.deleting())).collect();
            for (key, deleting) in found {
                if !deleting {
                    let options =
                        DeleteOptions { propagation: Some(Propagation::Background), ..Default::default() };
                    if let Err(error) = self.delete(&resource, &key, &options) {
                        tracing::debug!(%error, "emptying a namespace met another change");
                    }
                }
                left += usize::from(self.store.get(table, &key).is_some());
            }
        }
        if left == 0
            && let Some(namespaces) = self.registry.of_table(self.registry.tables.namespaces)
        {
            let key = Key::new("", name);
            let held = self.namespace(name).is_some_and(|n| {
                n.value
                    .pointer("/metadata/finalizers")
                    .and_then(Value::as_array)
                    .is_some_and(|f| !f.is_empty())
            });
            if !held {
                self.remove(&namespaces, &key);
            }
        }
    }

    /// Deletes the objects of a definition that is going away, and then the definition.
    fn empty_definition(&mut self, key: &Key) {
        let definitions = self.registry.tables.definitions;
        let Some(definition) = self.store.get(definitions, key).filter(|d| d.deleting()) else { return };
        let status = text(&definition.value, "/status/conditions/0/type");
        if !status.is_empty() && !definition.value.to_string().contains(crate::definition::IN_PROGRESS.0) {
            let mut value = definition.value.clone();
            crate::definition::set_terminating(&mut value, crate::definition::IN_PROGRESS, &self.now());
            if let Some(resource) = self.registry.of_table(definitions) {
                self.write_status_as("kube-apiserver", &resource, key, value);
            }
            return;
        }
        if let Some(table) = self.defined_table(&definition.value) {
            let found: Vec<_> =
                self.store.range(table, None, None).map(|(k, o)| (k.clone(), o.deleting())).collect();
            if let Some(resource) = self.registry.of_table(table) {
                for (key, deleting) in found {
                    if !deleting && let Err(error) = self.delete(&resource, &key, &DeleteOptions::default()) {
                        tracing::debug!(%error, "emptying a definition met another change");
                    }
                }
            }
            if self.store.len(table) > 0 {
                return;
            }
        }
        if let Some(resource) = self.registry.of_table(definitions) {
            self.remove_finalizer(&resource, key, crate::definition::CLEANUP);
        }
    }

    /// A write of a controller, which yields to any other change.
    pub(crate) fn write_status(&mut self, resource: &Resource, key: &Key, value: Value) {
        self.write_status_as("kube-controller-manager", resource, key, value);
    }

    fn write_status_as(&mut self, manager: &str, resource: &Resource, key: &Key, value: Value) {
        let mut write = crate::write::Write::internal(manager, Endpoint::Status);
        let Some(old) = self.store.get(resource.table, key) else { return };
        if let Err(error) = self.rewrite(resource, key, &old, value, &mut write) {
            tracing::debug!(%error, "a controller's status write was refused");
        }
    }
}

fn blocks(reference: &Value) -> bool {
    reference.get("blockOwnerDeletion") == Some(&Value::Bool(true))
}
