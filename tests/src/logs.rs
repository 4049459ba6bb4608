//! What the controller of one test logs. A world is a single-threaded runtime, so that the thread is the test.

use std::io::{self, Write};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use tracing::Dispatch;
use tracing::subscriber::{DefaultGuard, NoSubscriber};
use tracing_subscriber::fmt::MakeWriter;

/// tracing-core asks a lone subscriber through whichever thread meets a callsite first; a thread that has none then
/// switches the callsite off for all (`callsite.rs`, `Rebuilder::JustOne`). With a second one that stays it asks both.
static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::default()));

/// The log of this thread from [`Logs::start`] until it is dropped, at the level `info`.
#[must_use]
pub struct Logs {
    text: Text,
    _guard: DefaultGuard,
}

#[derive(Clone, Default)]
struct Text(Arc<Mutex<Vec<u8>>>);

impl Logs {
    /// Logs from now on; start it before the world.
    pub fn start() -> Self {
        let text = Text::default();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(text.clone()).finish();
        LazyLock::force(&SECOND);
        Self { text, _guard: tracing::subscriber::set_default(subscriber) }
    }

    /// The lines with all of `parts`.
    pub fn lines(&self, parts: &[&str]) -> Vec<String> {
        let bytes = self.text.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&bytes);
        let fitting = text.lines().filter(|line| parts.iter().all(|part| line.contains(part)));
        fitting.map(str::to_owned).collect()
    }
}

impl Write for Text {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Text {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}
