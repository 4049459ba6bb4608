//! Objects by table, one resource version for all, and each table's log of changes.
//!
//! A synchronous state machine. A watch is a cursor into the log, so that a slow reader costs nothing
//! but its place, and a list "as of" an older version is the present one with the log undone.
//! Must not know kinds, HTTP or time.

use bytes::Bytes;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, OnceLock};
use tokio::sync::watch;

/// Namespace (empty for cluster-scoped kinds) and name, in the order in which lists come.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Key {
    pub(crate) fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

/// Which table: an index that is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TableId(usize);

/// A stored object; never changed, only replaced.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) value: Value,
    pub(crate) version: u64,
    bytes: OnceLock<Bytes>,
    item: OnceLock<Bytes>,
}

impl Object {
    pub(crate) fn new(value: Value, version: u64) -> Self {
        Self { value, version, bytes: OnceLock::new(), item: OnceLock::new() }
    }

    /// As JSON without `apiVersion` and `kind`: an item in a list of a built-in kind.
    pub(crate) fn item_bytes(&self) -> Bytes {
        let make = || {
            let fields = self.value.as_object().into_iter().flatten();
            let fields: BTreeMap<_, _> = fields.filter(|(k, _)| *k != "apiVersion" && *k != "kind").collect();
            Bytes::from(serde_json::to_vec(&fields).unwrap_or_default())
        };
        self.item.get_or_init(make).clone()
    }

    /// As JSON, serialised once for all readers.
    pub(crate) fn bytes(&self) -> Bytes {
        self.bytes.get_or_init(|| Bytes::from(self.value.to_string())).clone()
    }

    /// A string below `metadata`.
    pub(crate) fn meta(&self, field: &str) -> &str {
        self.value.get("metadata").and_then(|m| m.get(field)).and_then(Value::as_str).unwrap_or_default()
    }

    pub(crate) fn deleting(&self) -> bool {
        !self.meta("deletionTimestamp").is_empty()
    }
}

/// One change of one object.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) key: Key,
    pub(crate) version: u64,
    /// Before; `None` for a create.
    pub(crate) before: Option<Arc<Object>>,
    /// After; of a deletion the last state with the version of the deletion.
    pub(crate) after: Arc<Object>,
    pub(crate) deleted: bool,
    line: OnceLock<Bytes>,
}

impl Change {
    /// The watch line for readers that see the object as it is stored and saw it before.
    pub(crate) fn line(&self) -> Bytes {
        self.line
            .get_or_init(|| {
                let kind = match (self.deleted, &self.before) {
                    (true, _) => "DELETED",
                    (false, None) => "ADDED",
                    (false, Some(_)) => "MODIFIED",
                };
                watch_line(kind, &self.after.bytes())
            })
            .clone()
    }
}

/// `{"type":KIND,"object":OBJECT}` and a newline.
pub(crate) fn watch_line(kind: &str, object: &[u8]) -> Bytes {
    let mut line = Vec::with_capacity(object.len() + 40);
    line.extend_from_slice(br#"{"type":""#);
    line.extend_from_slice(kind.as_bytes());
    line.extend_from_slice(br#"","object":"#);
    line.extend_from_slice(object);
    line.extend_from_slice(b"}\n");
    Bytes::from(line)
}

#[derive(Debug)]
struct Table {
    objects: BTreeMap<Key, Arc<Object>>,
    log: VecDeque<Arc<Change>>,
    /// Position of the log's first entry.
    first: u64,
    /// The newest version that the log no longer holds: readers from before it are too late.
    forgotten: u64,
    /// Position after the log's last entry; readers wait on it.
    end: watch::Sender<u64>,
    /// Counts demands to end all watches.
    expiries: u64,
    /// The resource is gone, watches end.
    closed: bool,
}

/// What a reader of a log finds at its place.
pub(crate) enum Read {
    /// Changes from there, at most as many as asked for.
    Changes(Vec<Arc<Change>>),
    /// The log has forgotten that place.
    TooOld,
    /// The resource is gone.
    Closed,
}

/// Where a reference of an owner's dependent stands.
pub(crate) type Place = (TableId, Key);

/// All objects.
#[derive(Debug)]
pub(crate) struct Store {
    /// The version that the store began with.
    first: u64,
    version: u64,
    tables: Vec<Table>,
    /// Entries that a log keeps before it forgets the oldest.
    history: usize,
    by_uid: HashMap<String, Place>,
    by_owner: HashMap<String, BTreeSet<Place>>,
}

fn owners(object: &Object) -> impl Iterator<Item = &str> {
    let references = object.value.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    references.into_iter().flatten().filter_map(|r| r.get("uid").and_then(Value::as_str))
}

impl Store {
    /// Versions before `first` are forgotten from the start. 0 has a meaning of its own in requests, so that is at
    /// least 1: an empty list says it, and the first object gets the next.
    pub(crate) fn new(history: usize, first: u64) -> Self {
        let first = first.max(1);
        Self {
            first,
            version: first,
            tables: Vec::new(),
            history,
            by_uid: HashMap::new(),
            by_owner: HashMap::new(),
        }
    }

    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn add_table(&mut self) -> TableId {
        self.tables.push(Table {
            objects: BTreeMap::new(),
            log: VecDeque::new(),
            first: 0,
            forgotten: if self.first > 1 { self.first } else { 0 },
            end: watch::channel(0).0,
            expiries: 0,
            closed: false,
        });
        TableId(self.tables.len() - 1)
    }

    /// A `TableId` comes from `add_table`, and tables are never removed.
    fn table(&self, id: TableId) -> &Table {
        &self.tables[id.0]
    }

    fn table_mut(&mut self, id: TableId) -> &mut Table {
        &mut self.tables[id.0]
    }

    /// Ends the watches of a table whose resource is gone.
    pub(crate) fn close(&mut self, id: TableId) {
        let table = self.table_mut(id);
        table.closed = true;
        table.end.send_modify(|_| {});
    }

    pub(crate) fn get(&self, id: TableId, key: &Key) -> Option<Arc<Object>> {
        self.table(id).objects.get(key).cloned()
    }

    pub(crate) fn len(&self, id: TableId) -> usize {
        self.table(id).objects.len()
    }

    pub(crate) fn by_uid(&self, uid: &str) -> Option<&Place> {
        self.by_uid.get(uid)
    }

    pub(crate) fn dependents(&self, uid: &str) -> Vec<Place> {
        self.by_owner.get(uid).into_iter().flatten().cloned().collect()
    }

    /// Objects of a namespace (or of all) in order, those after `after`.
    pub(crate) fn range(
        &self,
        id: TableId,
        namespace: Option<&str>,
        after: Option<&Key>,
    ) -> impl Iterator<Item = (&Key, &Arc<Object>)> {
        let start = match (after, namespace) {
            (Some(key), _) => Bound::Excluded(key.clone()),
            (None, Some(namespace)) => Bound::Included(Key::new(namespace, "")),
            (None, None) => Bound::Unbounded,
        };
        let wanted = namespace.map(str::to_owned);
        let objects = self.table(id).objects.range((start, Bound::Unbounded));
        objects.take_while(move |(key, _)| wanted.as_ref().is_none_or(|n| *n == key.namespace))
    }

    /// All objects of a table as they were at `version`; `None` when the log has forgotten.
    pub(crate) fn as_of(&self, id: TableId, version: u64) -> Option<BTreeMap<Key, Arc<Object>>> {
        let table = self.table(id);
        if version < table.forgotten {
            return None;
        }
        let mut objects = table.objects.clone();
        for change in table.log.iter().rev().take_while(|c| c.version > version) {
            match &change.before {
                Some(before) => objects.insert(change.key.clone(), before.clone()),
                None => objects.remove(&change.key),
            };
        }
        Some(objects)
    }

    /// Whether nothing in the table changed after `version`.
    pub(crate) fn unchanged_since(&self, id: TableId, version: u64) -> bool {
        let table = self.table(id);
        version >= table.forgotten && table.log.back().is_none_or(|change| change.version <= version)
    }

    /// Stores an object under the next version and returns it. The caller has checked it.
    pub(crate) fn put(&mut self, id: TableId, key: Key, mut value: Value) -> Arc<Object> {
        self.version += 1;
        set_version(&mut value, self.version);
        let object = Arc::new(Object::new(value, self.version));
        let before = self.table_mut(id).objects.insert(key.clone(), object.clone());
        if let Some(before) = &before {
            self.unindex(id, &key, before);
        }
        self.by_uid.insert(object.meta("uid").to_owned(), (id, key.clone()));
        for owner in owners(&object) {
            self.by_owner.entry(owner.to_owned()).or_default().insert((id, key.clone()));
        }
        self.record(id, key, before, object.clone(), false);
        object
    }

    /// Rewrites the objects of a table where they are, as if they had always been so.
    pub(crate) fn rewrite(&mut self, id: TableId, change: impl Fn(&mut Value)) {
        for object in self.table_mut(id).objects.values_mut() {
            let mut value = object.value.clone();
            change(&mut value);
            if value != object.value {
                *object = Arc::new(Object::new(value, object.version));
            }
        }
    }

    /// Removes an object; the answer carries the version of the deletion.
    pub(crate) fn remove(&mut self, id: TableId, key: &Key) -> Option<Arc<Object>> {
        let before = self.table_mut(id).objects.remove(key)?;
        self.unindex(id, key, &before);
        self.version += 1;
        let mut value = before.value.clone();
        set_version(&mut value, self.version);
        let object = Arc::new(Object::new(value, self.version));
        self.record(id, key.clone(), Some(before), object.clone(), true);
        Some(object)
    }

    fn unindex(&mut self, id: TableId, key: &Key, object: &Object) {
        self.by_uid.remove(object.meta("uid"));
        let place = (id, key.clone());
        for owner in owners(object) {
            if let Some(places) = self.by_owner.get_mut(owner) {
                places.remove(&place);
                if places.is_empty() {
                    self.by_owner.remove(owner);
                }
            }
        }
    }

    fn record(
        &mut self,
        id: TableId,
        key: Key,
        before: Option<Arc<Object>>,
        after: Arc<Object>,
        deleted: bool,
    ) {
        let (version, history) = (self.version, self.history);
        let table = self.table_mut(id);
        table.log.push_back(Arc::new(Change { key, version, before, after, deleted, line: OnceLock::new() }));
        while table.log.len() > history {
            forget_one(table);
        }
        table.end.send_modify(|end| *end += 1);
    }

    /// Forgets all logs, as etcd's compaction does.
    pub(crate) fn compact(&mut self) {
        let version = self.version;
        for table in &mut self.tables {
            while forget_one(table) {}
            table.forgotten = version;
        }
    }

    /// Lets every open watch see that its place is too old.
    pub(crate) fn expire_watches(&mut self) {
        for table in &mut self.tables {
            table.expiries += 1;
            table.end.send_modify(|_| {});
        }
    }

    pub(crate) fn forgotten(&self, id: TableId) -> u64 {
        self.table(id).forgotten
    }

    pub(crate) fn expiries(&self, id: TableId) -> u64 {
        self.table(id).expiries
    }

    pub(crate) fn end(&self, id: TableId) -> watch::Receiver<u64> {
        self.table(id).end.subscribe()
    }

    /// The log's place after `version`; `None` when it has forgotten.
    pub(crate) fn place_after(&self, id: TableId, version: u64) -> Option<u64> {
        let table = self.table(id);
        if version < table.forgotten {
            return None;
        }
        Some(table.first + table.log.partition_point(|change| change.version <= version) as u64)
    }

    /// Up to `limit` changes from `place` on.
    pub(crate) fn read(&self, id: TableId, place: u64, limit: usize) -> Read {
        let table = self.table(id);
        if place < table.first {
            return Read::TooOld;
        }
        let skip = (place - table.first) as usize;
        let changes: Vec<_> = table.log.iter().skip(skip).take(limit).cloned().collect();
        if changes.is_empty() && table.closed { Read::Closed } else { Read::Changes(changes) }
    }
}

fn forget_one(table: &mut Table) -> bool {
    let Some(change) = table.log.pop_front() else { return false };
    table.first += 1;
    table.forgotten = change.version;
    true
}

fn set_version(value: &mut Value, version: u64) {
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("resourceVersion".to_owned(), version.to_string().into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(name: &str, owner: &str) -> Value {
        json!({ "metadata": { "name": name, "uid": format!("uid-{name}"), "ownerReferences": [{ "uid": owner }] } })
    }

    #[test]
    fn a_list_as_of_an_older_version_undoes_the_log() {
        let mut store = Store::new(100, 1);
        let table = store.add_table();
        store.put(table, Key::new("n", "a"), object("a", "o"));
        store.put(table, Key::new("n", "b"), object("b", "o"));
        let version = store.version();
        store.remove(table, &Key::new("n", "a"));
        store.put(table, Key::new("n", "c"), object("c", "o"));
        let names: Vec<_> = store.as_of(table, version).unwrap().into_keys().map(|k| k.name).collect();
        assert_eq!(names, ["a", "b"]);
        store.compact();
        assert!(store.as_of(table, version).is_none());
        assert!(store.place_after(table, version).is_none());
    }

    #[test]
    fn a_reader_whose_place_was_forgotten_is_told_so() {
        let mut store = Store::new(2, 1);
        let table = store.add_table();
        let place = store.place_after(table, store.version()).unwrap();
        for name in ["a", "b"] {
            store.put(table, Key::new("n", name), object(name, "o"));
        }
        assert!(matches!(store.read(table, place, 9), Read::Changes(c) if c.len() == 2));
        store.put(table, Key::new("n", "c"), object("c", "o"));
        assert!(matches!(store.read(table, place, 9), Read::TooOld));
    }

    #[test]
    fn dependents_follow_changes_of_the_owner_references() {
        let mut store = Store::new(10, 1);
        let table = store.add_table();
        store.put(table, Key::new("n", "a"), object("a", "one"));
        assert_eq!(store.dependents("one").len(), 1);
        store.put(table, Key::new("n", "a"), object("a", "two"));
        assert!(store.dependents("one").is_empty());
        store.remove(table, &Key::new("n", "a"));
        assert!(store.dependents("two").is_empty());
        assert!(store.by_uid("uid-a").is_none());
    }
}
