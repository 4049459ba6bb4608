//! What `/readyz` and `/livez` answer from: each part says itself how it is.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

#[derive(Clone, Debug, PartialEq, Eq)]
enum Check {
    Waiting(String),
    Failing(String),
    Good,
}

/// The state of the parts, by name.
#[derive(Debug, Default)]
pub struct Health {
    checks: Mutex<BTreeMap<String, Check>>,
    changed: tokio::sync::Notify,
}

impl Health {
    fn set(&self, name: &str, check: Check) {
        self.checks.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), check);
        self.changed.notify_waiters();
    }

    /// A part that is not ready yet.
    pub fn expect(&self, name: &str, why: &str) {
        self.set(name, Check::Waiting(why.to_owned()));
    }

    /// A part is as it should be.
    pub fn good(&self, name: &str) {
        self.set(name, Check::Good);
    }

    /// A part that must be good does not work.
    pub fn bad(&self, name: &str, why: &str) {
        self.set(name, Check::Failing(why.to_owned()));
    }

    /// Whether every part is good.
    pub fn ready(&self) -> bool {
        self.checks.lock().unwrap_or_else(PoisonError::into_inner).values().all(|check| *check == Check::Good)
    }

    /// Waits until every part of `names` is good.
    pub async fn wait_for(&self, names: &[String]) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            {
                let checks = self.checks.lock().unwrap_or_else(PoisonError::into_inner);
                if names.iter().all(|name| checks.get(name) == Some(&Check::Good)) {
                    return;
                }
            }
            changed.await;
        }
    }

    /// As the API server words `/readyz?verbose`.
    pub fn report(&self) -> String {
        use std::fmt::Write as _;
        let mut text = String::new();
        for (name, check) in &*self.checks.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = match check {
                Check::Good => writeln!(text, "[+]{name} ok"),
                Check::Waiting(why) => writeln!(text, "[-]{name} waiting: {why}"),
                Check::Failing(why) => writeln!(text, "[-]{name} failed: {why}"),
            };
        }
        text.push_str(if self.ready() { "readyz check passed\n" } else { "readyz check failed\n" });
        text
    }
}
