//! The events of a JSON watch: split out of the stream's bytes, and read as far as matching needs it.

use crate::record::Record;
use bytes::{Bytes, BytesMut};
use serde_json::Value;

/// The type of a watch event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// `ADDED`
    Added,
    /// `MODIFIED`
    Modified,
    /// `DELETED`
    Deleted,
    /// `BOOKMARK`
    Bookmark,
    /// `ERROR`
    Error,
    /// Anything else, such as a line that is no event.
    Other,
}

/// What became of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventFate {
    /// In the proxy's hands: held back, or about to be passed.
    Held,
    /// Sent to the client.
    Passed,
    /// Thrown away: its dam was discarded, or its watch ended while it was held.
    Lost,
}

/// One event that the server sent in a JSON watch.
#[derive(Clone, Debug)]
pub struct EventRecord {
    /// Its place in the order of arrival over all watches, from 1. Never used twice, also after `Proxy::clear`.
    pub number: usize,
    /// The `Record::number` of the watch that it came in.
    pub watch: usize,
    /// Its type.
    pub kind: EventType,
    /// Resource that is watched.
    pub resource: String,
    /// Namespace of the object.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// `metadata.resourceVersion` of the object.
    pub resource_version: String,
    /// User agent of the client that watches.
    pub user_agent: String,
    /// The object.
    pub object: Value,
    /// What became of it.
    pub fate: EventFate,
}

impl EventType {
    /// As the API writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
            Self::Bookmark => "BOOKMARK",
            Self::Error => "ERROR",
            Self::Other => "OTHER",
        }
    }

    pub(crate) fn is_about_an_object(self) -> bool {
        matches!(self, Self::Added | Self::Modified | Self::Deleted)
    }

    fn read(text: &str) -> Self {
        let types = [Self::Added, Self::Modified, Self::Deleted, Self::Bookmark, Self::Error];
        types.into_iter().find(|kind| kind.as_str() == text).unwrap_or(Self::Other)
    }
}

impl EventRecord {
    /// Reads one line of the stream of `watch`.
    pub(crate) fn read(watch: &Record, line: &[u8]) -> Self {
        let mut event: Value = serde_json::from_slice(line).unwrap_or_default();
        let object = event.get_mut("object").map(Value::take).unwrap_or_default();
        let text =
            |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        // A Table (kubectl) has its object inside a row.
        let meta = |field: &str| match text(&format!("/metadata/{field}")) {
            found if found.is_empty() => text(&format!("/rows/0/object/metadata/{field}")),
            found => found,
        };
        Self {
            number: 0,
            watch: watch.number,
            kind: EventType::read(event.get("type").and_then(Value::as_str).unwrap_or_default()),
            resource: watch.resource.clone(),
            namespace: meta("namespace"),
            name: meta("name"),
            resource_version: meta("resourceVersion"),
            user_agent: watch.user_agent.clone(),
            object,
            fate: EventFate::Held,
        }
    }
}

/// Cuts a stream of bytes into lines. Each line keeps its line feed, so that the lines are the stream.
#[derive(Default)]
pub(crate) struct Lines {
    rest: BytesMut,
    /// How much of `rest` is known to hold no line feed.
    searched: usize,
}

impl Lines {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
    }

    /// The next whole line.
    pub(crate) fn next_line(&mut self) -> Option<Bytes> {
        let Some(at) = self.rest[self.searched..].iter().position(|byte| *byte == b'\n') else {
            self.searched = self.rest.len();
            return None;
        };
        let line = self.rest.split_to(self.searched + at + 1).freeze();
        self.searched = 0;
        Some(line)
    }

    /// What came after the last line feed.
    pub(crate) fn remainder(self) -> Bytes {
        self.rest.freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_the_stream_wherever_it_is_cut() {
        let stream = b"{\"a\":1}\n\n{\"b\":2}\n{\"c\"";
        for size in 1..=stream.len() {
            let (mut lines, mut got) = (Lines::default(), Vec::new());
            for chunk in stream.chunks(size) {
                lines.push(chunk);
                got.extend(std::iter::from_fn(|| lines.next_line()));
            }
            assert_eq!(got, ["{\"a\":1}\n", "\n", "{\"b\":2}\n"], "in chunks of {size}");
            assert_eq!(lines.remainder(), "{\"c\"");
        }
    }
}
