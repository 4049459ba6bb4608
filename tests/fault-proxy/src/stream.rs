//! A watch on its way to the client: taken apart into events, held back, limited, ended by the test.

use crate::dam::{Outcome, Queue};
use crate::events::{EventFate, EventRecord, Lines};
use crate::fault::Portion;
use crate::log::locked;
use crate::matching::Match;
use crate::proxy::{Ending, Shared};
use crate::record::{Fate, Record};
use crate::rules::RuleState;
use crate::wire::Piece;
use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc;

/// The watches that are open.
#[derive(Default)]
pub(crate) struct Streams {
    open: Mutex<Vec<(Record, mpsc::UnboundedSender<Ending>)>>,
}

impl Streams {
    fn register(&self, record: &Record) -> mpsc::UnboundedReceiver<Ending> {
        let (sender, orders) = mpsc::unbounded_channel();
        locked(&self.open).push((record.clone(), sender));
        orders
    }

    /// Ends those that fit.
    pub(crate) fn end(&self, matching: &Match, ending: &Ending) -> usize {
        let mut open = locked(&self.open);
        open.retain(|(_, orders)| !orders.is_closed());
        let (fitting, rest): (Vec<_>, Vec<_>) = open.drain(..).partition(|(record, _)| matching.fits(record));
        *open = rest;
        fitting.iter().filter(|(_, orders)| orders.send(ending.clone()).is_ok()).count()
    }
}

/// How far an answer goes, and what then.
pub(crate) struct Limit {
    pub(crate) portion: Portion,
    pub(crate) ending: Ending,
    pub(crate) rule: Arc<RuleState>,
}

impl Limit {
    /// How much it lets through of an answer that is no stream.
    pub(crate) fn bytes_of_a_whole_answer(&self) -> usize {
        match self.portion {
            Portion::Bytes(bytes) => bytes,
            Portion::Events(_) => 0,
        }
    }
}

pub(crate) struct Pump {
    shared: Arc<Shared>,
    record: Record,
    /// None where the stream is no JSON, and is passed on in bytes.
    lines: Option<Lines>,
    out: mpsc::Sender<Piece>,
    limit: Option<Limit>,
    queue: Queue,
    bytes: usize,
    events: usize,
}

impl Pump {
    pub(crate) fn new(
        shared: Arc<Shared>,
        record: Record,
        is_json: bool,
        out: mpsc::Sender<Piece>,
        limit: Option<Limit>,
    ) -> Self {
        let (lines, queue) = (is_json.then(Lines::default), Queue::default());
        Self { shared, record, lines, out, limit, queue, bytes: 0, events: 0 }
    }

    /// Passes the stream on until it ends, and says how it did.
    pub(crate) async fn run(mut self, body: Incoming) -> Fate {
        let fate = self.flow(body).await;
        for number in self.queue.numbers() {
            self.shared.log.event_ended(number, EventFate::Lost);
        }
        fate
    }

    async fn flow(&mut self, mut body: Incoming) -> Fate {
        let mut orders = self.shared.streams.register(&self.record);
        let mut dams = self.shared.dams.changes();
        let mut server_is_done = false;
        if let Some(fate) = self.end_at_limit().await {
            return fate;
        }
        loop {
            if server_is_done && self.queue.is_empty() {
                return self.end_with_the_server().await;
            }
            let ended = tokio::select! {
                biased;
                () = self.out.closed() => Some(Fate::Passed),
                Some(ending) = orders.recv() => Some(self.end(&ending).await),
                Ok(()) = dams.changed() => self.settle().await,
                frame = body.frame(), if !server_is_done => match frame {
                    None => {
                        server_is_done = true;
                        None
                    }
                    Some(Ok(frame)) => match frame.into_data() {
                        Ok(data) => self.take(data).await,
                        Err(_trailers) => None,
                    },
                    Some(Err(_)) => {
                        let _ = self.out.send(Piece::Cut).await;
                        Some(Fate::Unreachable)
                    }
                },
            };
            if let Some(fate) = ended {
                return fate;
            }
        }
    }

    /// Takes what the server sent.
    async fn take(&mut self, data: Bytes) -> Option<Fate> {
        let Some(lines) = &mut self.lines else {
            return self.send(data).await;
        };
        lines.push(&data);
        while let Some(line) = self.lines.as_mut().and_then(Lines::next_line) {
            let mut event = EventRecord::read(&self.record, &line);
            self.shared.log.arrive_event(&mut event);
            let number = event.number;
            if let Some(line) = self.queue.push(&self.shared.dams, event, line)
                && let Some(fate) = self.send_event(number, line).await
            {
                return Some(fate);
            }
        }
        None
    }

    /// Sends what a dam let go.
    async fn settle(&mut self) -> Option<Fate> {
        for outcome in self.queue.settle() {
            match outcome {
                Outcome::Lose(number) => self.shared.log.event_ended(number, EventFate::Lost),
                Outcome::Pass(number, line) => {
                    if let Some(fate) = self.send_event(number, line).await {
                        return Some(fate);
                    }
                }
            }
        }
        None
    }

    async fn send_event(&mut self, number: usize, line: Bytes) -> Option<Fate> {
        self.events += 1;
        let fate = self.send(line).await;
        self.shared.log.event_ended(number, EventFate::Passed);
        fate
    }

    /// Sends as much as the limit allows; says how the stream ended if it did.
    async fn send(&mut self, mut data: Bytes) -> Option<Fate> {
        if let Some(Limit { portion: Portion::Bytes(bytes), .. }) = self.limit {
            data.truncate(bytes.saturating_sub(self.bytes));
        }
        self.bytes += data.len();
        if self.out.send(Piece::Data(data)).await.is_err() {
            return Some(Fate::Passed);
        }
        self.end_at_limit().await
    }

    async fn end_at_limit(&mut self) -> Option<Fate> {
        let limit = self.limit.as_ref()?;
        let is_reached = match limit.portion {
            Portion::Bytes(bytes) => self.bytes >= bytes,
            Portion::Events(events) => self.events >= events || self.lines.is_none(),
        };
        if !is_reached {
            return None;
        }
        let limit = self.limit.take()?;
        let rule = limit.rule.clone();
        rule.hit();
        Some(self.end(&limit.ending).await)
    }

    async fn end(&mut self, ending: &Ending) -> Fate {
        let (pieces, fate) = match ending {
            Ending::Close => (vec![Piece::End], Fate::Passed),
            Ending::ErrorEvent(answer) if self.lines.is_some() => {
                (vec![Piece::Data(answer.error_event()), Piece::End], Fate::ErrorEvent)
            }
            Ending::Cut | Ending::ErrorEvent(_) => (vec![Piece::Cut], Fate::Cut),
            Ending::Stall => {
                self.shared.log.ended(self.record.number, Fate::Stalled);
                self.out.closed().await;
                return Fate::Stalled;
            }
        };
        for piece in pieces {
            // A client that left needs no end.
            let _ = self.out.send(piece).await;
        }
        fate
    }

    async fn end_with_the_server(&mut self) -> Fate {
        if let Some(lines) = self.lines.take() {
            let _ = self.out.send(Piece::Data(lines.remainder())).await;
        }
        let _ = self.out.send(Piece::End).await;
        Fate::Passed
    }
}
