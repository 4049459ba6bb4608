//! The maps and indices behind [`super::Cache`], and what each change wakes.

use super::{ChildView, Origin, Seen, View, Wake};
use crate::key::Key;
use plan::{Kind, Object};
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// How many UIDs of deleted Deployments are remembered, for the answer to a POST that arrives after the
/// delete event of what it made. Workers are few, so a handful would do.
const DELETED_UIDS: usize = 256;

#[derive(Debug)]
struct Cached {
    object: Arc<Object>,
    /// It is the answer to a write of ours, and no list or watch has shown it yet.
    unseen_write: bool,
}

impl Cached {
    fn new(object: Arc<Object>, origin: Origin) -> Self {
        Self { object, unseen_write: origin == Origin::Write }
    }

    /// Whether `new` is news. A list is the truth even if its versions went back (a cluster restored from a
    /// backup), unless it may be older than a write of ours.
    fn takes(&mut self, new: &Object, origin: Origin) -> bool {
        let same = self.object.meta.resource_version == new.meta.resource_version;
        let news = match origin {
            Origin::List if !self.unseen_write => !same,
            _ => !stale(&self.object, new),
        };
        if !news && same && origin != Origin::Write {
            self.unseen_write = false;
        }
        news
    }
}

#[derive(Debug)]
struct Foo {
    cached: Cached,
    wants: Option<Arc<str>>,
    /// Deployments that it controlled and that went since it was last seen.
    lost: u32,
    /// It was found to be gone, though no event has said so. Whatever shows it again ends this.
    gone: bool,
}

#[derive(Debug, Default)]
pub(super) struct State {
    foos: HashMap<Key, Foo>,
    /// `namespace/deploymentName` to the Foos that name it.
    wanted: HashMap<Key, BTreeSet<Key>>,
    /// Deployments whose controller is some Foo.
    deployments: HashMap<Key, Cached>,
    /// UID of a Foo to the Deployments that it controls.
    by_owner: HashMap<String, BTreeSet<Key>>,
    /// Foreign Deployments under a name that some Foo wants.
    foreign: HashMap<Key, String>,
    /// Hashes of the keys of all foreign Deployments: 8 bytes each, so that no create is tried on a taken
    /// name, and no cluster's size shows in our memory. Two keys of one hash cost one extra read.
    taken: HashSet<u64>,
    deleted_uids: VecDeque<String>,
    /// What a list in progress has named, by kind and scope.
    lists: HashMap<(Kind, Option<String>), HashSet<u64>>,
}

/// So many Deployments lost, and the Foo is looked at before the next is made. One is often deleted by a person.
const DOUBTFUL: u32 = 2;

fn hash(key: &Key) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

fn key_of(object: &Object) -> Key {
    Key::new(&object.meta.namespace, &object.meta.name)
}

/// Whether `new` is a version of the same object that is not newer than `old`. Resource versions compare as
/// integers (KEP-5504); one that does not parse is taken as news.
fn stale(old: &Object, new: &Object) -> bool {
    if old.meta.uid != new.meta.uid {
        return false;
    }
    match (old.meta.resource_version.parse::<u64>(), new.meta.resource_version.parse::<u64>()) {
        (Ok(old), Ok(new)) => new <= old,
        _ => old.meta.resource_version == new.meta.resource_version,
    }
}

impl State {
    pub(super) fn apply_foo(
        &mut self,
        object: Arc<Object>,
        wants: Option<&str>,
        origin: Origin,
    ) -> Vec<Wake> {
        let key = key_of(&object);
        self.listed(Kind::Foo, &key, origin);
        let old = self.foos.get_mut(&key);
        let wake = match (old.as_ref().map(|old| &old.cached.object.meta), origin) {
            // Deleted, or made anew, while we wrote its status: no reason to bring the old one back.
            (None, Origin::Write) => return Vec::new(),
            (Some(old), Origin::Write) if old.uid != object.meta.uid => return Vec::new(),
            (_, Origin::Write) => None,
            (None, Origin::List) => Some(Wake::Start(key.clone())),
            (None, Origin::Watch) => Some(Wake::Now(key.clone())),
            (Some(old), _) if old.wake != object.meta.wake => Some(Wake::Now(key.clone())),
            (Some(old), _) if old.status_hash != object.meta.status_hash => Some(Wake::Drift(key.clone())),
            (Some(_), _) => None,
        };
        let (mut old_wants, mut lost, mut back) = (None, 0, false);
        if let Some(old) = old {
            let was_gone = old.gone && old.cached.object.meta.uid == object.meta.uid;
            if !old.cached.takes(&object, origin) {
                // What a list shows is there, also where nothing changed.
                if was_gone && origin == Origin::List {
                    old.gone = false;
                    return vec![Wake::Now(key)];
                }
                return Vec::new();
            }
            old_wants.clone_from(&old.wants);
            back = was_gone;
            // An event may be from before its end: it is served, after a look.
            if was_gone && origin == Origin::Watch {
                lost = DOUBTFUL;
            }
        }
        let wake = if back { Some(Wake::Now(key.clone())) } else { wake };
        if old_wants.as_deref() != wants {
            self.unwant(&key, old_wants.as_deref());
            if let Some(name) = wants {
                self.wanted.entry(Key::new(&key.namespace, name)).or_default().insert(key.clone());
            }
        }
        let foo =
            Foo { cached: Cached::new(object, origin), wants: wants.map(Into::into), lost, gone: false };
        self.foos.insert(key, foo);
        wake.into_iter().collect()
    }

    pub(super) fn delete_foo(&mut self, key: &Key) -> Vec<Wake> {
        let Some(foo) = self.foos.remove(key) else { return Vec::new() };
        self.unwant(key, foo.wants.as_deref());
        // The run finds nothing and forgets the key's failures.
        vec![Wake::Now(key.clone())]
    }

    pub(super) fn mark_gone(&mut self, key: &Key, uid: &str) {
        if let Some(foo) = self.foos.get_mut(key)
            && foo.cached.object.meta.uid == uid
        {
            foo.gone = true;
        }
    }

    fn unwant(&mut self, foo: &Key, name: Option<&str>) {
        let Some(name) = name else { return };
        let wanted = Key::new(&foo.namespace, name);
        if let Some(foos) = self.wanted.get_mut(&wanted) {
            foos.remove(foo);
            if foos.is_empty() {
                self.wanted.remove(&wanted);
                self.foreign.remove(&wanted);
            }
        }
    }

    pub(super) fn apply_deployment(&mut self, seen: Seen, origin: Origin) -> Vec<Wake> {
        match seen {
            Seen::OfFoo(object) => self.apply_owned(&object, origin),
            Seen::Foreign { key, uid } => self.apply_foreign(&key, uid, origin),
        }
    }

    fn apply_owned(&mut self, object: &Arc<Object>, origin: Origin) -> Vec<Wake> {
        let key = key_of(object);
        self.listed(Kind::Deployment, &key, origin);
        if origin == Origin::Write && self.deleted_uids.contains(&object.meta.uid) {
            return Vec::new();
        }
        if let Some(old) = self.deployments.get_mut(&key)
            && !old.takes(object, origin)
        {
            return Vec::new();
        }
        self.taken.remove(&hash(&key));
        self.foreign.remove(&key);
        let old = self.deployments.insert(key.clone(), Cached::new(object.clone(), origin));
        if let Some(old) = &old {
            self.disown(&key, &old.object);
        }
        let Some(owner) = &object.meta.owner else { return Vec::new() };
        self.by_owner.entry(owner.uid.clone()).or_default().insert(key.clone());
        if origin == Origin::Write {
            return Vec::new();
        }
        let owner_key = Key::new(&key.namespace, &owner.name);
        match old {
            Some(old) if old.object.meta.wake == object.meta.wake => vec![Wake::Drift(owner_key)],
            Some(old) => {
                let mut wakes = vec![Wake::Now(owner_key)];
                if let Some(old_owner) = &old.object.meta.owner
                    && (&old_owner.name, &old_owner.uid) != (&owner.name, &owner.uid)
                {
                    wakes.push(Wake::Now(Key::new(&key.namespace, &old_owner.name)));
                    self.wake_wanting(&key, &mut wakes);
                }
                wakes
            }
            None => vec![Wake::Now(owner_key)],
        }
    }

    fn apply_foreign(&mut self, key: &Key, uid: String, origin: Origin) -> Vec<Wake> {
        self.listed(Kind::Deployment, key, origin);
        let mut wakes = Vec::new();
        // An answer that comes after the delete event of what it is about.
        if origin == Origin::Write && self.deleted_uids.contains(&uid) {
            return wakes;
        }
        // An event about one that was gone before ours was created.
        let late = |ours: &Cached| ours.unseen_write && ours.object.meta.uid != uid;
        if origin == Origin::Watch && self.deployments.get(key).is_some_and(late) {
            return wakes;
        }
        if let Some(old) = self.deployments.remove(key) {
            // Ownership ended: for the Foo that had it, it is as good as deleted.
            self.disown(key, &old.object);
            if let Some(owner) = &old.object.meta.owner {
                wakes.push(Wake::Now(Key::new(&key.namespace, &owner.name)));
            }
        }
        self.taken.insert(hash(key));
        if self.wanted.contains_key(key) && self.foreign.insert(key.clone(), uid.clone()) != Some(uid) {
            self.wake_wanting(key, &mut wakes);
        }
        if origin == Origin::Write { Vec::new() } else { wakes }
    }

    pub(super) fn delete_deployment(&mut self, key: &Key, uid: &str) -> Vec<Wake> {
        let mut wakes = Vec::new();
        match self.deployments.get(key) {
            // A late event about an object that had the name before.
            Some(old) if old.object.meta.uid != uid => return wakes,
            Some(_) => {
                if let Some(old) = self.deployments.remove(key) {
                    self.disown(key, &old.object);
                    if let Some(owner) = &old.object.meta.owner {
                        let owner_key = Key::new(&key.namespace, &owner.name);
                        if let Some(foo) = self.foos.get_mut(&owner_key)
                            && foo.cached.object.meta.uid == owner.uid
                        {
                            foo.lost = foo.lost.saturating_add(1);
                        }
                        wakes.push(Wake::Now(owner_key));
                    }
                }
            }
            None => {
                self.taken.remove(&hash(key));
                self.foreign.remove(key);
            }
        }
        if self.deleted_uids.len() == DELETED_UIDS {
            self.deleted_uids.pop_front();
        }
        self.deleted_uids.push_back(uid.to_owned());
        self.wake_wanting(key, &mut wakes);
        wakes
    }

    pub(super) fn mark_deleting(&mut self, key: &Key, uid: &str) {
        if let Some(deployment) = self.deployments.get_mut(key)
            && deployment.object.meta.uid == uid
        {
            let mut object = (*deployment.object).clone();
            object.meta.deleted = true;
            deployment.object = Arc::new(object);
        }
    }

    fn disown(&mut self, key: &Key, object: &Object) {
        if let Some(owner) = &object.meta.owner
            && let Some(keys) = self.by_owner.get_mut(&owner.uid)
        {
            keys.remove(key);
            if keys.is_empty() {
                self.by_owner.remove(&owner.uid);
            }
        }
    }

    fn wake_wanting(&self, deployment: &Key, wakes: &mut Vec<Wake>) {
        for foo in self.wanted.get(deployment).into_iter().flatten() {
            let wake = Wake::Now(foo.clone());
            if !wakes.contains(&wake) {
                wakes.push(wake);
            }
        }
    }

    fn listed(&mut self, kind: Kind, key: &Key, origin: Origin) {
        // A write of ours may be newer than the list in progress, so it counts as named.
        for ((list_kind, scope), names) in &mut self.lists {
            let in_scope = scope.as_deref().is_none_or(|namespace| namespace == &*key.namespace);
            if *list_kind == kind && in_scope && origin != Origin::Watch {
                names.insert(hash(key));
            }
        }
    }

    pub(super) fn begin_list(&mut self, kind: Kind, namespace: Option<&str>) {
        self.lists.insert((kind, namespace.map(str::to_owned)), HashSet::new());
    }

    pub(super) fn end_list(&mut self, kind: Kind, namespace: Option<&str>) -> Vec<Wake> {
        let Some(named) = self.lists.remove(&(kind, namespace.map(str::to_owned))) else { return Vec::new() };
        let gone = |key: &Key| namespace.is_none_or(|n| n == &*key.namespace) && !named.contains(&hash(key));
        let mut wakes = Vec::new();
        match kind {
            Kind::Foo => {
                let gone: Vec<_> = self.foos.keys().filter(|key| gone(key)).cloned().collect();
                for key in gone {
                    wakes.extend(self.delete_foo(&key));
                }
            }
            Kind::Deployment => {
                let owned = self.deployments.iter().map(|(key, d)| (key.clone(), d.object.meta.uid.clone()));
                let foreign = self.foreign.iter().map(|(key, uid)| (key.clone(), uid.clone()));
                let gone: Vec<_> = owned.chain(foreign).filter(|(key, _)| gone(key)).collect();
                for (key, uid) in gone {
                    wakes.extend(self.delete_deployment(&key, &uid));
                }
                if namespace.is_none() {
                    // The hashes carry no namespace, so only a list of all can drop those that are gone.
                    self.taken.retain(|taken| named.contains(taken));
                }
            }
        }
        wakes
    }

    pub(super) fn view(&self, key: &Key) -> Option<View> {
        let foo = self.foos.get(key).filter(|foo| !foo.gone)?;
        let wanted = foo.wants.as_deref().map(|name| Key::new(&key.namespace, name));
        let uid = &foo.cached.object.meta.uid;
        let child = wanted.as_ref().map_or(ChildView::Absent, |wanted| self.child(wanted, uid));
        let others = self.by_owner.get(uid).into_iter().flatten();
        let others = others
            .filter(|other| Some(*other) != wanted.as_ref() && other.namespace == key.namespace)
            .filter_map(|other| self.deployments.get(other))
            .filter(|other| !other.object.meta.deleted)
            .map(|other| other.object.clone())
            .collect();
        Some(View { foo: foo.cached.object.clone(), child, others, doubtful: foo.lost >= DOUBTFUL })
    }

    fn child(&self, wanted: &Key, foo_uid: &str) -> ChildView {
        if let Some(deployment) = self.deployments.get(wanted) {
            let object = deployment.object.clone();
            return match &object.meta.owner {
                Some(owner) if owner.uid == foo_uid && object.meta.deleted => ChildView::Terminating(object),
                Some(owner) if owner.uid == foo_uid => ChildView::Owned(object),
                _ => ChildView::Foreign { uid: object.meta.uid.clone() },
            };
        }
        if let Some(uid) = self.foreign.get(wanted) {
            return ChildView::Foreign { uid: uid.clone() };
        }
        if self.taken.contains(&hash(wanted)) { ChildView::Unread } else { ChildView::Absent }
    }

    pub(super) fn foo_keys(&self) -> Vec<Key> {
        self.foos.keys().cloned().collect()
    }

    pub(super) fn len(&self) -> (usize, usize) {
        (self.foos.len(), self.deployments.len())
    }
}
