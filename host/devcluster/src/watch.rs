//! A watch: initial events, changes, bookmarks, the ends it can have.
//!
//! A cursor into a table's log under a thin async shell: it holds the lock only to copy references.
//! Source: `apiserver/pkg/endpoints/handlers/watch.go`, `apiserver/pkg/storage/cacher`.

use crate::read::{Renderer, Selection};
use crate::resource::Resource;
use crate::route::{Form, Query};
use crate::server::Shared;
use crate::status::{ApiError, FieldError, Qualified};
use crate::store::{Change, Object, Read, watch_line};
use bytes::Bytes;
use futures::Stream;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch::Receiver;
use tokio::time::Instant;

/// Changes that are taken from the log at once, so that the lock is short.
const BATCH: usize = 256;
/// How often an idle watch gets a bookmark, as the server's watch cache does.
const BOOKMARK_EVERY: Duration = Duration::from_mins(1);
/// How long a watch lasts that names no limit (the server's `--min-request-timeout` is 30 minutes).
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(30);

/// An open watch.
pub(crate) struct Watcher {
    shared: Arc<Shared>,
    selection: Selection,
    renderer: Renderer,
    /// Next entry of the log.
    place: u64,
    /// Lines that are ready to go.
    lines: VecDeque<Bytes>,
    end: Receiver<u64>,
    shutdown: Receiver<bool>,
    expiries: u64,
    bookmarks: bool,
    next_bookmark: Instant,
    deadline: Instant,
    /// A Table names its columns once.
    headers: bool,
    over: bool,
}

fn check_options(query: &Query) -> Result<(), ApiError> {
    let field = "resourceVersionMatch";
    let initial = query.has("sendInitialEvents");
    let matching = query.get(field);
    let mut errors = Vec::new();
    if initial && matching != "NotOlderThan" {
        let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        errors.push(FieldError::forbidden(field, detail));
        if !matching.is_empty() {
            errors.push(FieldError::not_supported(field, &matching.into(), "\"NotOlderThan\""));
        }
    } else if !initial && !matching.is_empty() {
        errors.push(FieldError::forbidden(
            field,
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        ));
    }
    if !query.get("continue").is_empty() {
        let detail = "resourceVersionMatch is forbidden when continue is provided";
        errors.push(FieldError::forbidden(field, detail));
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid(Qualified { group: "meta.k8s.io", name: "ListOptions" }, "", &errors))
}

impl Watcher {
    /// Opens a watch as the query asks for it.
    pub(crate) fn open(
        shared: &Arc<Shared>,
        resource: &Arc<Resource>,
        form: Form,
        selection: Selection,
        query: &Query,
    ) -> Result<Self, ApiError> {
        check_options(query)?;
        let timeout = query.number("timeoutSeconds")?.filter(|n| *n > 0);
        let version = query.version("resourceVersion")?.unwrap_or(0);
        // From nothing or from any version a watch begins with what there is, and says when that is over.
        let initial =
            if query.has("sendInitialEvents") { query.flag("sendInitialEvents") } else { version == 0 };
        let cluster = shared.lock();
        let (table, now) = (resource.table, Instant::now());
        let mut watcher = Self {
            renderer: Renderer { resource: resource.clone(), form, now: cluster.timestamp() },
            place: 0,
            lines: VecDeque::new(),
            end: cluster.store.end(table),
            shutdown: shared.shutdown(),
            expiries: cluster.store.expiries(table),
            bookmarks: query.flag("allowWatchBookmarks"),
            next_bookmark: now + BOOKMARK_EVERY,
            deadline: now + timeout.map_or(DEFAULT_TIMEOUT, Duration::from_secs),
            headers: true,
            over: false,
            shared: shared.clone(),
            selection,
        };
        let current = cluster.store.version();
        if initial && version > current {
            drop(cluster);
            watcher.fail(&ApiError::too_large_version(version, current));
        } else if initial {
            watcher.place = cluster.store.place_after(table, current).unwrap_or(0);
            let namespace = Some(watcher.selection.namespace.clone()).filter(|n| !n.is_empty());
            let range = cluster.store.range(table, namespace.as_deref(), None);
            let found: Vec<_> = range
                .filter(|(key, o)| watcher.selection.matches(key, &o.value))
                .map(|(_, o)| o.clone())
                .collect();
            drop(cluster);
            for object in found {
                watcher.push("ADDED", &object);
            }
            if watcher.bookmarks {
                watcher.push_bookmark(current, true);
            }
        } else if let Some(place) =
            cluster.store.place_after(table, if version == 0 { current } else { version })
        {
            watcher.place = place;
        } else {
            let oldest = cluster.store.forgotten(table);
            drop(cluster);
            watcher.expire(&format!("too old resource version: {version} ({oldest})"));
        }
        Ok(watcher)
    }

    /// The lines, until the watch is over.
    pub(crate) fn into_stream(self) -> impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static {
        futures::stream::unfold(self, |mut watcher| async move {
            let line = watcher.next().await?;
            Some((Ok(line), watcher))
        })
    }

    fn push(&mut self, kind: &str, object: &Object) {
        let line = watch_line(kind, &self.renderer.object(object, self.headers));
        self.headers = false;
        self.lines.push_back(line);
    }

    fn push_bookmark(&mut self, version: u64, initial_end: bool) {
        let bookmark = self.renderer.bookmark(version, initial_end, self.headers).to_string();
        self.headers = false;
        self.lines.push_back(watch_line("BOOKMARK", bookmark.as_bytes()));
    }

    /// Ends the watch with an error in the stream.
    fn expire(&mut self, message: &str) {
        self.fail(&ApiError::expired(message));
    }

    fn fail(&mut self, error: &ApiError) {
        let status = error.to_status().to_string();
        self.lines.push_back(watch_line("ERROR", status.as_bytes()));
        self.over = true;
    }

    /// The line of a change, for a reader who sees what is selected and nothing else.
    fn push_change(&mut self, change: &Change) {
        let was_selected =
            change.before.as_ref().is_some_and(|o| self.selection.matches(&change.key, &o.value));
        let selected = !change.deleted && self.selection.matches(&change.key, &change.after.value);
        let kind = match (was_selected, selected) {
            (false, false) => return,
            (false, true) => "ADDED",
            (true, true) => "MODIFIED",
            (true, false) => "DELETED",
        };
        let as_stored = (kind == "DELETED") == change.deleted && (kind == "ADDED") == change.before.is_none();
        if as_stored && self.renderer.is_plain() {
            self.lines.push_back(change.line());
        } else if kind == "DELETED" && !change.deleted {
            // It left the selection: its last selected state, at the version of the change.
            if let Some(before) = &change.before {
                let mut value = before.value.clone();
                value["metadata"]["resourceVersion"] = change.version.to_string().into();
                self.push(kind, &Object::new(value, change.version));
            }
        } else {
            self.push(kind, &change.after);
        }
    }

    /// Takes what the log has; says up to which version everything is seen when there is nothing.
    fn pull(&mut self) -> Option<u64> {
        let table = self.renderer.resource.table;
        let shared = self.shared.clone();
        let cluster = shared.lock();
        if cluster.store.expiries(table) != self.expiries {
            drop(cluster);
            self.expire("The resourceVersion for the provided watch is too old.");
            return None;
        }
        let read = cluster.store.read(table, self.place, BATCH);
        let version = cluster.store.version();
        self.renderer.now = cluster.timestamp();
        drop(cluster);
        match read {
            Read::Changes(changes) if changes.is_empty() => return Some(version),
            Read::Changes(changes) => {
                self.place += changes.len() as u64;
                for change in &changes {
                    self.push_change(change);
                }
            }
            Read::TooOld => self.expire("The resourceVersion for the provided watch is too old."),
            Read::Closed => self.over = true,
        }
        None
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(line) = self.lines.pop_front() {
                return Some(line);
            }
            if self.over || *self.shutdown.borrow() {
                return None;
            }
            self.end.mark_unchanged();
            let Some(version) = self.pull() else { continue };
            let bookmark_at =
                if self.bookmarks { self.next_bookmark.min(self.deadline) } else { self.deadline };
            tokio::select! {
                changed = self.end.changed() => self.over |= changed.is_err(),
                changed = self.shutdown.changed() => self.over |= changed.is_err(),
                () = tokio::time::sleep_until(bookmark_at) => {
                    let now = Instant::now();
                    self.over |= now >= self.deadline;
                    self.next_bookmark = now + BOOKMARK_EVERY;
                    if self.bookmarks {
                        self.push_bookmark(version, false);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{Cluster, Settings};
    use crate::records::Records;
    use serde_json::Value;

    fn watcher(query: &str) -> Watcher {
        let settings = Settings {
            available_after: Duration::ZERO,
            garbage_collector: true,
            fake_kubelet: true,
            clock: Arc::new(|| jiff::Timestamp::UNIX_EPOCH),
        };
        let shared = Shared::new(Cluster::new(settings, 100, 1), Records::new(0));
        let resource = shared.lock().registry.find("", "v1", "configmaps").unwrap();
        let query = Query::parse(query);
        let selection = Selection::parse(&resource, "default", "", &query).unwrap();
        Watcher::open(&shared, &resource, Form::Whole, selection, &query).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_watch_gets_a_bookmark_every_minute() {
        let begun = Instant::now();
        let mut watcher = watcher("resourceVersion=1&allowWatchBookmarks=true");
        for minutes in 1..3 {
            let line: Value = serde_json::from_slice(&watcher.next().await.unwrap()).unwrap();
            assert_eq!(
                (&line["type"], line["object"]["metadata"]["resourceVersion"].as_str()),
                (&"BOOKMARK".into(), Some("5"))
            );
            assert_eq!(begun.elapsed().as_secs() / 60, minutes);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_without_bookmarks_is_silent_until_it_ends() {
        let begun = Instant::now();
        assert!(watcher("resourceVersion=1&timeoutSeconds=300").next().await.is_none());
        assert_eq!(begun.elapsed().as_secs(), 300);
    }
}
