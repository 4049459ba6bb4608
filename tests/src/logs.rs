//! What the controller of one test logs. A world is a single-threaded runtime, so that the thread is the test.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::fmt::MakeWriter;

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
