//! How long a failed key waits. client-go's `TypedItemExponentialFailureRateLimiter` and
//! `golang.org/x/time/rate.Limiter.Reserve`, on logical time. Knows no key.

use crate::Config;
use std::time::Duration;

/// The delay after one more failure, the key having failed `failures` times before.
pub(crate) fn backoff(config: &Config, failures: u32) -> Duration {
    let factor = 1u128.checked_shl(failures).unwrap_or(u128::MAX);
    let nanos = config.base_delay.as_nanos().saturating_mul(factor);
    if nanos >= config.max_delay.as_nanos() {
        return config.max_delay;
    }
    // Below `max_delay`, so it fits; a `Duration` counts more nanoseconds than a `u64`.
    Duration::new((nanos / 1_000_000_000) as u64, (nanos % 1_000_000_000) as u32)
}

/// A token bucket that lets its users go into debt: each waits until its own token is there.
pub(crate) struct Bucket {
    per_second: f64,
    burst: f64,
    tokens: f64,
    updated: Duration,
}

impl Bucket {
    /// A full bucket.
    pub(crate) fn new(config: &Config) -> Self {
        let burst = f64::from(config.failure_burst.get());
        Self {
            per_second: f64::from(config.failures_per_second.get()),
            burst,
            tokens: burst,
            updated: Duration::ZERO,
        }
    }

    /// Takes one token and says how long to wait for it.
    pub(crate) fn reserve(&mut self, now: Duration) -> Duration {
        let passed = now.saturating_sub(self.updated).as_secs_f64();
        self.updated = self.updated.max(now);
        self.tokens = (self.tokens + passed * self.per_second).min(self.burst) - 1.0;
        if self.tokens >= 0.0 {
            return Duration::ZERO;
        }
        Duration::try_from_secs_f64(-self.tokens / self.per_second).unwrap_or(Duration::MAX)
    }
}
