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

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn parity_queue_backoff_doubles_from_5_ms_to_1000_s() {
        let config = Config::default();
        let first: Vec<_> = (0..6).map(|failures| backoff(&config, failures)).collect();
        assert_eq!(first, [5, 10, 20, 40, 80, 160].map(millis));
        // 5 ms * 2^17 = 655.36 s is the last below the cap.
        assert_eq!(backoff(&config, 17), millis(655_360));
        assert_eq!(backoff(&config, 18), Duration::from_secs(1000));
    }

    #[test]
    fn backoff_overflows_at_no_number_of_failures() {
        let config = Config::default();
        for failures in [62, 63, 64, 127, 128, u32::MAX] {
            assert_eq!(backoff(&config, failures), Duration::from_secs(1000));
        }
        let unlimited = Config { max_delay: Duration::MAX, ..config };
        assert_eq!(backoff(&unlimited, 200), Duration::MAX);
    }

    #[test]
    fn parity_queue_bucket_lets_300_through_at_once_and_then_one_each_20_ms() {
        let mut bucket = Bucket::new(&Config::default());
        for _ in 0..300 {
            assert_eq!(bucket.reserve(Duration::ZERO), Duration::ZERO);
        }
        assert_eq!(bucket.reserve(Duration::ZERO), millis(20));
        assert_eq!(bucket.reserve(Duration::ZERO), millis(40));
        // The debt is paid off with time.
        assert_eq!(bucket.reserve(millis(30)), millis(30));
        assert_eq!(bucket.reserve(millis(80)), Duration::ZERO);
    }

    #[test]
    fn bucket_never_holds_more_than_its_burst() {
        let mut bucket = Bucket::new(&Config::default());
        let later = Duration::from_hours(1);
        let free = (0..400).filter(|_| bucket.reserve(later).is_zero()).count();
        assert_eq!(free, 300);
    }
}
