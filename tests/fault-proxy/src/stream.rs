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
use std::ops::ControlFlow;
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

    /// Passes the stream on until it ends.
    pub(crate) async fn run(mut self, mut body: Incoming) {
        let mut orders = self.shared.streams.register(&self.record);
        let mut dams = self.shared.dams.changes();
        let mut server_is_done = false;
        let mut flow = self.end_at_limit().await;
        while flow.is_continue() {
            if server_is_done && self.queue.is_empty() {
                let rest = self.lines.take().map(Lines::remainder).unwrap_or_default();
                flow = self.finish(Fate::Passed, [Piece::Data(rest), Piece::End]).await;
                continue;
            }
            flow = tokio::select! {
                biased;
                () = self.out.closed() => self.finish(Fate::Passed, []).await,
                Some(ending) = orders.recv() => self.end(&ending).await,
                Ok(()) = dams.changed() => self.settle().await,
                frame = body.frame(), if !server_is_done => match frame {
                    None => {
                        server_is_done = true;
                        ControlFlow::Continue(())
                    }
                    // What is no data is a trailer, which the API does not use.
                    Some(Ok(frame)) => self.take(frame.into_data().unwrap_or_default()).await,
                    Some(Err(_)) => self.finish(Fate::Unreachable, [Piece::Cut]).await,
                },
            };
        }
    }

    /// Takes what the server sent.
    async fn take(&mut self, data: Bytes) -> ControlFlow<()> {
        let Some(lines) = &mut self.lines else {
            return self.send(data).await;
        };
        lines.push(&data);
        while let Some(line) = self.lines.as_mut().and_then(Lines::next_line) {
            let mut event = EventRecord::read(&self.record, &line);
            self.shared.log.arrive_event(&mut event);
            let number = event.number;
            if let Some(line) = self.queue.push(&self.shared.dams, event, line) {
                self.send_event(number, line).await?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Sends what a dam let go.
    async fn settle(&mut self) -> ControlFlow<()> {
        for outcome in self.queue.settle() {
            match outcome {
                Outcome::Lose(number) => self.shared.log.event_ended(number, EventFate::Lost),
                Outcome::Pass(number, line) => self.send_event(number, line).await?,
            }
        }
        ControlFlow::Continue(())
    }

    async fn send_event(&mut self, number: usize, line: Bytes) -> ControlFlow<()> {
        self.events += 1;
        self.shared.log.event_ended(number, EventFate::Passed);
        self.send(line).await
    }

    /// Sends as much as the limit allows, and ends the stream if it is reached.
    async fn send(&mut self, mut data: Bytes) -> ControlFlow<()> {
        if let Some(Limit { portion: Portion::Bytes(bytes), .. }) = self.limit {
            data.truncate(bytes.saturating_sub(self.bytes));
        }
        self.bytes += data.len();
        if self.out.send(Piece::Data(data)).await.is_err() {
            return self.finish(Fate::Passed, []).await;
        }
        self.end_at_limit().await
    }

    async fn end_at_limit(&mut self) -> ControlFlow<()> {
        let (bytes, events, is_json) = (self.bytes, self.events, self.lines.is_some());
        let is_reached = |limit: &mut Limit| match limit.portion {
            Portion::Bytes(portion) => bytes >= portion,
            Portion::Events(portion) => events >= portion || !is_json,
        };
        match self.limit.take_if(is_reached) {
            None => ControlFlow::Continue(()),
            Some(limit) => {
                limit.rule.hit();
                self.end(&limit.ending).await
            }
        }
    }

    async fn end(&mut self, ending: &Ending) -> ControlFlow<()> {
        match ending {
            Ending::Close => self.finish(Fate::Passed, [Piece::End]).await,
            Ending::ErrorEvent(answer) if self.lines.is_some() => {
                self.finish(Fate::ErrorEvent, [Piece::Data(answer.error_event()), Piece::End]).await
            }
            Ending::Cut | Ending::ErrorEvent(_) => self.finish(Fate::Cut, [Piece::Cut]).await,
            Ending::Stall => {
                let end = self.finish(Fate::Stalled, []).await;
                self.out.closed().await;
                end
            }
        }
    }

    /// Records the end and tells the client, in this order: who hears of the end finds it in the record.
    async fn finish<const N: usize>(&mut self, fate: Fate, last: [Piece; N]) -> ControlFlow<()> {
        for number in std::mem::take(&mut self.queue).numbers() {
            self.shared.log.event_ended(number, EventFate::Lost);
        }
        self.shared.log.ended(self.record.number, fate);
        for piece in last {
            // A client that left needs no end.
            let _ = self.out.send(piece).await;
        }
        ControlFlow::Break(())
    }
}
