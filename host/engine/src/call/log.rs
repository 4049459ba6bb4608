//! What a guest writes: bounded, cleaned, on its way to `tracing` under the target `guest`.
//!
//! Guests' text goes into the message of a log event and nowhere else.

use crate::Limits;
use contract::{LogLevel, one_line};

/// How much of stderr is kept for the report of a trap: what other toolchains print when they panic.
const STDERR_TAIL_BYTES: usize = 4 << 10;

/// Where a line came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The contract's `log`.
    Log(LogLevel),
    /// WASI's standard output.
    Stdout,
    /// WASI's standard error.
    Stderr,
}

/// The log of one call.
#[derive(Debug)]
pub(crate) struct GuestLog {
    /// `namespace/name` of the Foo.
    foo: String,
    /// Digest of the guest, abbreviated.
    guest: String,
    line_bytes: usize,
    left_bytes: usize,
    dropped: u64,
    /// The last line of level `error`: a panic hook writes there before the trap.
    last_error: Option<String>,
    stderr_tail: Vec<u8>,
    /// Output not ended by a line feed yet, of stdout and of stderr.
    partial: [Vec<u8>; 2],
}

impl GuestLog {
    pub(crate) fn new(foo: &contract::Metadata, guest: String, limits: &Limits) -> Self {
        Self {
            foo: format!("{}/{}", foo.namespace, foo.name),
            guest,
            line_bytes: limits.log_line_bytes,
            left_bytes: limits.log_call_bytes,
            dropped: 0,
            last_error: None,
            stderr_tail: Vec::new(),
            partial: [Vec::new(), Vec::new()],
        }
    }

    /// Writes one line.
    pub(crate) fn line(&mut self, source: Source, text: &str) {
        let error = source == Source::Log(LogLevel::Error);
        if text.trim_start().is_empty() {
            return;
        }
        // The share is used up: not even cleaned.
        if self.left_bytes == 0 && !error {
            self.dropped += 1;
            return;
        }
        let line = one_line(text, self.line_bytes);
        if line.is_empty() {
            return;
        }
        if error {
            self.last_error = Some(line.clone());
        }
        let Some(left) = self.left_bytes.checked_sub(line.len()) else {
            self.left_bytes = 0;
            self.dropped += 1;
            return;
        };
        self.left_bytes = left;
        let (foo, guest) = (self.foo.as_str(), self.guest.as_str());
        match source {
            Source::Log(LogLevel::Debug) => tracing::debug!(target: "guest", foo, guest, "{line}"),
            Source::Log(LogLevel::Info) => tracing::info!(target: "guest", foo, guest, "{line}"),
            Source::Log(LogLevel::Warn) => tracing::warn!(target: "guest", foo, guest, "{line}"),
            Source::Log(LogLevel::Error) => tracing::error!(target: "guest", foo, guest, "{line}"),
            Source::Stdout => tracing::info!(target: "guest", foo, guest, stream = "stdout", "{line}"),
            Source::Stderr => tracing::warn!(target: "guest", foo, guest, stream = "stderr", "{line}"),
        }
    }

    /// Takes output as it comes and writes it line by line. Longer lines are broken where the limit
    /// falls; what is not UTF-8 is replaced.
    pub(crate) fn output(&mut self, source: Source, bytes: &[u8]) {
        let index = usize::from(source == Source::Stderr);
        if source == Source::Stderr {
            keep_tail(&mut self.stderr_tail, bytes);
        }
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            for chunk in piece.chunks(self.line_bytes) {
                let mut partial = std::mem::take(&mut self.partial[index]);
                partial.extend_from_slice(chunk);
                if partial.ends_with(b"\n") || partial.len() >= self.line_bytes {
                    self.line(source, &String::from_utf8_lossy(&partial));
                    partial.clear();
                }
                self.partial[index] = partial;
            }
        }
    }

    /// Writes what has no line feed yet, and how much was dropped. Call it once, when the guest ended.
    pub(crate) fn finish(&mut self) {
        for source in [Source::Stdout, Source::Stderr] {
            let partial = std::mem::take(&mut self.partial[usize::from(source == Source::Stderr)]);
            self.line(source, &String::from_utf8_lossy(&partial));
        }
        if self.dropped > 0 {
            tracing::warn!(
                target: "guest",
                foo = self.foo,
                guest = self.guest,
                dropped = self.dropped,
                "the guest wrote more than a call may log; the rest was dropped",
            );
        }
    }

    /// Lines dropped so far.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// What the guest said before it trapped, on one line: its last error, or the end of its stderr.
    pub(crate) fn last_words(&self, max: usize) -> Option<String> {
        if let Some(line) = &self.last_error {
            return Some(one_line(line, max));
        }
        let tail = String::from_utf8_lossy(&self.stderr_tail);
        let tail = tail.trim_end();
        let start =
            tail.char_indices().rev().map(|(at, _)| at).find(|at| tail.len() - at >= max).unwrap_or(0);
        let line = one_line(&tail[start..], max);
        (!line.is_empty()).then_some(line)
    }

    /// Reports a trap with its backtrace, which is for the log only. At `debug`, because a call that traps is
    /// tried again and again, and who made it says so once.
    pub(crate) fn trap(&self, message: &str, backtrace: &str) {
        tracing::debug!(target: "guest", foo = self.foo, guest = self.guest, backtrace, "the guest trapped: {message}");
    }
}

/// Appends to a buffer that keeps its last [`STDERR_TAIL_BYTES`].
fn keep_tail(tail: &mut Vec<u8>, bytes: &[u8]) {
    let bytes = &bytes[bytes.len().saturating_sub(STDERR_TAIL_BYTES)..];
    let excess = (tail.len() + bytes.len()).saturating_sub(STDERR_TAIL_BYTES);
    tail.drain(..excess.min(tail.len()));
    tail.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(limits: &Limits) -> GuestLog {
        GuestLog::new(&contract::Metadata::default(), String::new(), limits)
    }

    #[test]
    fn lines_within_the_limit_of_a_call_are_written_and_those_beyond_are_counted() {
        let limits = Limits { log_line_bytes: 16, log_call_bytes: 32, ..Limits::default() };
        let mut log = log(&limits);
        log.line(Source::Stdout, &"x".repeat(100));
        log.line(Source::Stdout, "0123456789abcdef");
        assert_eq!(log.dropped(), 0);
        log.line(Source::Stdout, "y");
        log.line(Source::Stdout, "z");
        assert_eq!(log.dropped(), 2);
    }

    #[test]
    fn output_without_a_line_feed_is_bounded() {
        let limits = Limits { log_line_bytes: 16, ..Limits::default() };
        let mut log = log(&limits);
        log.output(Source::Stdout, &[b'x'; 100]);
        assert!(log.partial[0].len() < 16);
        log.output(Source::Stderr, b"half ");
        log.output(Source::Stderr, b"a line\nrest");
        assert_eq!(log.partial[1], b"rest");
    }

    #[test]
    fn last_words_are_the_last_error_or_else_the_end_of_stderr() {
        let mut log = log(&Limits::default());
        assert_eq!(log.last_words(100), None);
        log.output(Source::Stderr, &[b'.'; 10_000]);
        log.output(Source::Stderr, "\nTypeError: é\n".as_bytes());
        assert_eq!(log.last_words(13).as_deref(), Some("TypeError: é"));
        log.line(Source::Log(LogLevel::Error), "panicked at src/lib.rs");
        assert_eq!(log.last_words(100).as_deref(), Some("panicked at src/lib.rs"));
    }

    #[test]
    fn the_tail_keeps_the_end() {
        let mut tail = Vec::new();
        keep_tail(&mut tail, &[b'a'; 5_000]);
        keep_tail(&mut tail, b"bc");
        assert_eq!(tail.len(), STDERR_TAIL_BYTES);
        assert!(tail.ends_with(b"abc"));
    }
}
