//! What was asked of the server: one record for each request, for tests that count.
//!
//! Must not know how requests are served.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// One request, as the API server's audit log has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestRecord {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`; empty for paths that
    /// are no resource.
    pub verb: String,
    /// HTTP method.
    pub method: String,
    /// Path without the query.
    pub path: String,
    /// Query, as it came.
    pub query: String,
    /// Plural of the resource, empty for other paths.
    pub resource: String,
    /// `status`, `scale` or empty.
    pub subresource: String,
    /// Namespace, empty where there is none.
    pub namespace: String,
    /// Name, empty for collections (a create's name is in its body).
    pub name: String,
    /// `User-Agent`.
    pub user_agent: String,
    /// HTTP status of the answer.
    pub status: u16,
    /// Whether it asked for `dryRun=All`.
    pub dry_run: bool,
}

impl RequestRecord {
    /// Whether it asked for a change: a verb that writes, and no dry run.
    pub fn is_write(&self) -> bool {
        let verbs = ["create", "update", "patch", "delete", "deletecollection"];
        !self.dry_run && verbs.contains(&self.verb.as_str())
    }
}

/// The latest requests.
#[derive(Debug)]
pub(crate) struct Records {
    limit: usize,
    records: Mutex<VecDeque<RequestRecord>>,
}

impl Records {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, records: Mutex::new(VecDeque::new()) }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<RequestRecord>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, record: RequestRecord) {
        let mut records = self.lock();
        while records.len() >= self.limit.max(1) {
            records.pop_front();
        }
        if self.limit > 0 {
            records.push_back(record);
        }
    }

    pub(crate) fn all(&self) -> Vec<RequestRecord> {
        self.lock().iter().cloned().collect()
    }

    pub(crate) fn count(&self, filter: impl Fn(&RequestRecord) -> bool) -> usize {
        self.lock().iter().filter(|r| filter(r)).count()
    }

    pub(crate) fn clear(&self) {
        self.lock().clear();
    }
}
