//! What the host knows of the cluster: the Foos, the Deployments that a Foo controls, and of foreign
//! Deployments no more than is needed to leave them alone.
//!
//! A synchronous state machine: watch events, lists and the answers to our own writes go in, wake-ups
//! come out. Only the informers and the workers touch it; it sends nothing and waits for nothing.

mod state;
#[cfg(test)]
mod tests;

use crate::key::Key;
use plan::Object;
use state::State;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where an object comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The first or a later list.
    List,
    /// An event of a watch.
    Watch,
    /// The answer to our own write: laid over the cache until the watch catches up, so that no
    /// second run plans from before it.
    Write,
}

/// Why a Foo should run (design.md, *Wake*).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Its own change, its child's deletion or change of spec, labels or owner: past any backoff.
    Now(Key),
    /// Found by the first list: with the rest, behind what users change meanwhile.
    Start(Key),
    /// A status moved, its own or its child's: respects the backoff of a failing Foo.
    Drift(Key),
}

/// A Deployment as an informer hands it over.
#[derive(Debug)]
pub enum Seen {
    /// Its controller is some Foo (by group and kind).
    OfFoo(Arc<Object>),
    /// Anything else.
    Foreign {
        /// Its key.
        key: Key,
        /// `metadata.uid`.
        uid: String,
    },
}

/// What the cache knows of the Deployment that a Foo names.
#[derive(Clone, Debug)]
pub enum ChildView {
    /// There is none.
    Absent,
    /// Controlled by this Foo.
    Owned(Arc<Object>),
    /// Controlled by this Foo, and on its way out.
    Terminating(Arc<Object>),
    /// Somebody else's.
    Foreign {
        /// `metadata.uid`.
        uid: String,
    },
    /// One of that name exists, but it was never of interest before: read it.
    Unread,
}

/// One Foo and what belongs to it, taken at one moment.
#[derive(Clone, Debug)]
pub struct View {
    /// The Foo.
    pub foo: Arc<Object>,
    /// The Deployment of the name in its spec.
    pub child: ChildView,
    /// Other Deployments that it controls: what a rename leaves behind.
    pub others: Vec<Arc<Object>>,
    /// Its Deployments go as soon as they are made, and it was not seen meanwhile: perhaps it is gone, its event late,
    /// and the garbage collector at work.
    pub doubtful: bool,
}

/// The cache, shared by informers and workers.
#[derive(Debug, Default)]
pub struct Cache {
    state: Mutex<State>,
}

impl Cache {
    fn state(&self) -> MutexGuard<'_, State> {
        // A panic while the lock was held cannot leave the maps half-changed in a way that a relist
        // would not mend; going on beats taking every worker down.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A Foo was listed, seen or written. `wants` is its `spec.deploymentName`, if that is a string.
    pub fn apply_foo(&self, object: Arc<Object>, wants: Option<&str>, origin: Origin) -> Vec<Wake> {
        self.state().apply_foo(object, wants, origin)
    }

    /// A Foo is gone.
    pub fn delete_foo(&self, key: &Key) -> Vec<Wake> {
        self.state().delete_foo(key)
    }

    /// This Foo was found to be gone: it is served no more, though its delete event is still to come.
    pub fn mark_gone(&self, key: &Key, uid: &str) {
        self.state().mark_gone(key, uid);
    }

    /// A Deployment was listed, seen or written.
    pub fn apply_deployment(&self, seen: Seen, origin: Origin) -> Vec<Wake> {
        self.state().apply_deployment(seen, origin)
    }

    /// A Deployment is gone.
    pub fn delete_deployment(&self, key: &Key, uid: &str) -> Vec<Wake> {
        self.state().delete_deployment(key, uid)
    }

    /// Our delete of this Deployment was accepted: it counts as terminating until its delete event.
    pub fn mark_deleting(&self, key: &Key, uid: &str) {
        self.state().mark_deleting(key, uid);
    }

    /// A list begins, of `namespace` or of all.
    pub fn begin_list(&self, kind: plan::Kind, namespace: Option<&str>) {
        self.state().begin_list(kind, namespace);
    }

    /// The list is complete: what it did not name is gone, though no event said so.
    pub fn end_list(&self, kind: plan::Kind, namespace: Option<&str>) -> Vec<Wake> {
        self.state().end_list(kind, namespace)
    }

    /// One Foo and what belongs to it; none if there is no such Foo.
    pub fn view(&self, key: &Key) -> Option<View> {
        self.state().view(key)
    }

    /// The keys of all Foos, for the resync.
    pub fn foo_keys(&self) -> Vec<Key> {
        self.state().foo_keys()
    }

    /// How many Foos and how many of their Deployments are cached.
    pub fn len(&self) -> (usize, usize) {
        self.state().len()
    }

    /// Whether there is no Foo.
    pub fn is_empty(&self) -> bool {
        self.len().0 == 0
    }
}
