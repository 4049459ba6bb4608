//! The thread that moves wasmtime's epoch, without which no deadline would ever come.

use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;
use wasmtime::Engine;

/// How often a running guest lets others run, and the grain of its deadline. 5 ms is a delay that a
/// health probe does not notice; 200 wake-ups a second cost nothing that can be measured.
pub const TICK: Duration = Duration::from_millis(5);

/// Moves the epoch of an engine until dropped.
#[derive(Debug)]
pub(crate) struct Ticker {
    _stop: SyncSender<()>,
}

impl Ticker {
    pub(crate) fn start(engine: &Engine) -> std::io::Result<Self> {
        // Nothing is ever sent: the thread sees the sender go.
        let (stop, stopped) = sync_channel::<()>(0);
        let engine = engine.weak();
        thread::Builder::new().name("guest-ticker".to_owned()).spawn(move || {
            // A timer that comes late moves the epoch once, not once for each tick missed: a machine
            // that was suspended must not end all calls.
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(TICK) {
                match engine.upgrade() {
                    Some(engine) => engine.increment_epoch(),
                    None => return,
                }
            }
        })?;
        Ok(Self { _stop: stop })
    }
}

/// Ticks after which at least `deadline` has passed. The first one may come at once, so it does not
/// count.
pub(crate) fn ticks(deadline: Duration) -> u64 {
    (deadline.as_nanos().div_ceil(TICK.as_nanos()) as u64).saturating_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_never_shorter_than_asked_for() {
        assert_eq!(ticks(Duration::from_millis(5)), 2);
        assert_eq!(ticks(Duration::from_millis(6)), 3);
        assert_eq!(ticks(Duration::from_secs(1)), 201);
    }
}
