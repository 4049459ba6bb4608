//! What a queue is made with. Knows no key and no time.

use crate::observer::{NoObserver, Observer};
use std::{fmt, num::NonZeroU32, sync::Arc, time::Duration};

/// Which of two waiting keys goes first. Within one priority, keys go in the order in which they came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// Work that nobody waits for: the resync, the start-up list, the re-run after a guest swap.
    Background,
    /// Something changed.
    Change,
}

impl Priority {
    /// Both, the less urgent first.
    pub const ALL: [Self; 2] = [Self::Background, Self::Change];

    /// `background` or `change`, for logs and metric labels.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Background => "background",
            Self::Change => "change",
        }
    }

    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Numbers of a queue. The default is that of the Go sample-controller.
#[derive(Clone)]
pub struct Config {
    /// Delay after the first failure of a key; doubles with each further one. 5 ms.
    pub base_delay: Duration,
    /// The longest delay that the failures of one key amount to. 1000 s.
    pub max_delay: Duration,
    /// Failures a second, over all keys, that are not delayed further. 50.
    pub failures_per_second: NonZeroU32,
    /// Failures at once, over all keys, that are not delayed further. 300.
    pub failure_burst: NonZeroU32,
    /// Keys of [`Priority::Change`] handed out in a row while a key of [`Priority::Background`]
    /// waits; then comes one of the latter. 10: a change then waits for at most one background run
    /// in eleven, and background work keeps a twelfth of the workers at the worst.
    pub changes_in_a_row: NonZeroU32,
    /// Told what happens, for metrics. None by default.
    pub observer: Arc<dyn Observer>,
}

impl Default for Config {
    fn default() -> Self {
        const fn at_least_one(n: u32) -> NonZeroU32 {
            NonZeroU32::MIN.saturating_add(n - 1)
        }
        Self {
            base_delay: Duration::from_millis(5),
            max_delay: Duration::from_secs(1000),
            failures_per_second: const { at_least_one(50) },
            failure_burst: const { at_least_one(300) },
            changes_in_a_row: const { at_least_one(10) },
            observer: Arc::new(NoObserver),
        }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("base_delay", &self.base_delay)
            .field("max_delay", &self.max_delay)
            .field("failures_per_second", &self.failures_per_second)
            .field("failure_burst", &self.failure_burst)
            .field("changes_in_a_row", &self.changes_in_a_row)
            .finish_non_exhaustive()
    }
}
