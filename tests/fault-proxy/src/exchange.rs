//! One request from its arrival to its fate.

use crate::fault::{Answer, Fault, Portion};
use crate::forward::{Failure, end_to_end};
use crate::log::locked;
use crate::proxy::{Ending, Shared};
use crate::record::{Fate, Record, Verb};
use crate::rules::{Action, Due, Held, Order, RuleState};
use crate::stream::{Limit, Pump};
use crate::wire::{Dropped, Piece, Relay, Wire};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Request, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::AbortOnDropHandle;

/// Takes a request of a client; an error closes it.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    wire: Arc<Wire>,
    request: Request<Incoming>,
) -> Result<Response<Relay>, Dropped> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| Dropped)?.to_bytes();
    if wire.hole.is_cancelled() {
        // It came into the hole before its connection was told.
        return std::future::pending().await;
    }
    let mut record = Record::read(&parts, body);
    shared.log.arrive(&mut record);
    let due = shared.rules.due(&record);
    let (client, answer) = oneshot::channel();
    let ended = shared.ended.clone();
    let exchange = Exchange { shared, wire, parts, record, client };
    // A task of its own: a server goes on with a request whose client has left.
    tokio::spawn(ended.run_until_cancelled_owned(exchange.run(due)));
    answer.await.map_err(|_| Dropped)
}

struct Exchange {
    shared: Arc<Shared>,
    wire: Arc<Wire>,
    parts: Parts,
    record: Record,
    /// Dropped without an answer, it closes the request.
    client: oneshot::Sender<Response<Relay>>,
}

/// What the server answered.
struct Reply {
    code: StatusCode,
    headers: HeaderMap,
    body: ReplyBody,
}

enum ReplyBody {
    Whole(Bytes),
    /// A stream, and the connection that it comes on.
    Stream(Incoming, AbortOnDropHandle<()>),
}

impl Exchange {
    async fn run(self, due: Due) {
        if self.is_revoked() {
            return self.answer(&Answer::unauthorized());
        }
        for rule in &due.before {
            self.hook(rule).await;
        }
        let Some(rule) = due.fault else {
            return self.forward(&due.after, None).await;
        };
        match &rule.action {
            Action::Hold(arrivals) => self.hold(&rule, arrivals, &due.after).await,
            Action::Fault(fault) => self.fail(&rule, fault, &due.after).await,
            Action::Before(_) | Action::After(_) => {}
        }
    }

    async fn fail(mut self, rule: &Arc<RuleState>, fault: &Fault, after: &[Arc<RuleState>]) {
        let limit = |portion, ending| Some(Limit { portion, ending, rule: rule.clone() });
        match fault {
            Fault::Answer(answer) => {
                rule.hit();
                self.answer(answer);
            }
            Fault::DropBefore => {
                self.ended(Fate::DroppedBefore);
                rule.hit();
            }
            Fault::DropAfter => {
                if self.ask(after).await.is_some() {
                    self.ended(Fate::DroppedAfter);
                    rule.hit();
                }
            }
            Fault::BlackHole => {
                self.ended(Fate::BlackHoled);
                rule.hit();
                self.client.closed().await;
            }
            Fault::CutAfter(portion) => self.forward(after, limit(*portion, Ending::Cut)).await,
            Fault::StallAfter(portion) => self.forward(after, limit(*portion, Ending::Stall)).await,
            Fault::ErrorEventAfter(events, answer) => {
                let ending = Ending::ErrorEvent(answer.clone());
                self.forward(after, limit(Portion::Events(*events), ending)).await;
            }
        }
    }

    async fn hold(
        mut self,
        rule: &RuleState,
        arrivals: &mpsc::UnboundedSender<Held>,
        after: &[Arc<RuleState>],
    ) {
        let (sender, mut orders) = mpsc::unbounded_channel();
        let _ = arrivals.send(Held { request: self.record.clone(), orders: sender });
        rule.hit();
        // None: not asked. Some(None): asked, and the server could not be reached.
        let mut applied: Option<Option<Reply>> = None;
        loop {
            match orders.recv().await {
                Some(Order::Apply(done)) => {
                    if applied.is_none() {
                        applied = Some(self.ask(after).await);
                    }
                    let _ = done.send(self.record.status);
                }
                Some(Order::Forward) | None => {
                    return match applied {
                        None => self.forward(after, None).await,
                        Some(Some(reply)) => self.deliver(reply, None).await,
                        Some(None) => {}
                    };
                }
                Some(Order::Close) => {
                    return match applied {
                        None => self.ended(Fate::DroppedBefore),
                        Some(Some(_)) => self.ended(Fate::DroppedAfter),
                        Some(None) => {}
                    };
                }
                Some(Order::Answer(answer)) => return self.answer(&answer),
            }
        }
    }

    async fn forward(mut self, after: &[Arc<RuleState>], limit: Option<Limit>) {
        if let Some(reply) = self.ask(after).await {
            self.deliver(reply, limit).await;
        }
    }

    /// Asks the server and runs what is due after its answer. None if it could not be reached.
    async fn ask(&mut self, after: &[Arc<RuleState>]) -> Option<Reply> {
        let Ok(reply) = self.reply().await else {
            self.ended(Fate::Unreachable);
            return None;
        };
        let status = reply.code.as_u16();
        self.record.status = Some(status);
        self.shared.log.answered(self.record.number, status);
        for rule in after {
            self.hook(rule).await;
        }
        Some(reply)
    }

    async fn reply(&self) -> Result<Reply, Failure> {
        let answered = self.shared.connector.send(&self.parts, self.record.body.clone()).await?;
        let (head, body) = answered.response.into_parts();
        let follows = self.record.verb == Verb::Watch || self.record.param("follow").is_some();
        let body = if follows && head.status.is_success() {
            ReplyBody::Stream(body, answered.connection)
        } else {
            ReplyBody::Whole(body.collect().await?.to_bytes())
        };
        Ok(Reply { code: head.status, headers: end_to_end(&head.headers), body })
    }

    async fn deliver(self, reply: Reply, limit: Option<Limit>) {
        match reply.body {
            ReplyBody::Whole(ref body) => {
                let body = body.clone();
                self.deliver_whole(reply, &body, limit).await;
            }
            ReplyBody::Stream(body, connection) => {
                let is_json = reply
                    .headers
                    .get(header::CONTENT_TYPE)
                    .is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"))
                    && !reply.headers.contains_key(header::CONTENT_ENCODING);
                let (sender, relay) = Relay::fed(self.wire.clone());
                if self.client.send(response(reply.code, reply.headers, relay)).is_err() {
                    return self.shared.log.ended(self.record.number, Fate::DroppedAfter);
                }
                Pump::new(self.shared, self.record, is_json, sender, limit).run(body).await;
                drop(connection);
            }
        }
    }

    async fn deliver_whole(self, reply: Reply, body: &Bytes, limit: Option<Limit>) {
        let room = limit.as_ref().map_or(usize::MAX, Limit::bytes_of_a_whole_answer);
        let Some(limit) = limit.filter(|_| room < body.len()) else {
            let relay = Relay::of(self.wire.clone(), body.clone(), Piece::End);
            return self.hand_over(response(reply.code, reply.headers, relay), Fate::Passed);
        };
        let part = body.slice(..room);
        match limit.ending {
            Ending::Stall => {
                let (sender, relay) = Relay::fed(self.wire.clone());
                let _ = sender.try_send(Piece::Data(part));
                limit.rule.hit();
                self.hand_over(response(reply.code, reply.headers, relay), Fate::Stalled);
                sender.closed().await;
            }
            Ending::Cut | Ending::Close | Ending::ErrorEvent(_) => {
                let relay = Relay::of(self.wire.clone(), part, Piece::Cut);
                limit.rule.hit();
                self.hand_over(response(reply.code, reply.headers, relay), Fate::Cut);
            }
        }
    }

    /// Answers in the server's place.
    fn answer(self, answer: &Answer) {
        let relay = Relay::of(self.wire.clone(), answer.body.clone(), Piece::End);
        self.shared.log.answered(self.record.number, answer.code.as_u16());
        let mut headers = answer.headers.clone();
        headers.insert(header::CONTENT_LENGTH, answer.body.len().into());
        self.ended(Fate::Answered);
        // A client that left meanwhile does not hear it, as with a server.
        let _ = self.client.send(response(answer.code, headers, relay));
    }

    fn hand_over(self, response: Response<Relay>, fate: Fate) {
        let (shared, number) = (self.shared, self.record.number);
        let heard = !self.client.is_closed() && !self.wire.hole.is_cancelled();
        shared.log.ended(number, if heard { fate } else { Fate::DroppedAfter });
        let _ = self.client.send(response);
    }

    fn ended(&self, fate: Fate) {
        self.shared.log.ended(self.record.number, fate);
    }

    fn is_revoked(&self) -> bool {
        let token = self.parts.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = token.and_then(|value| value.strip_prefix("Bearer "));
        token.is_some_and(|token| locked(&self.shared.revoked).contains(token))
    }

    /// Runs a test's closure. Its panic is kept for the proxy's end, as nobody looks at this task.
    async fn hook(&self, rule: &RuleState) {
        let (Action::Before(hook) | Action::After(hook)) = &rule.action else { return };
        let (hook, record) = (hook.clone(), self.record.clone());
        if let Err(error) = tokio::spawn(async move { hook(record).await }).await
            && error.is_panic()
        {
            *locked(&self.shared.panicked) = Some(error.to_string());
        }
        rule.hit();
    }
}

fn response(code: StatusCode, headers: HeaderMap, body: Relay) -> Response<Relay> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    *response.headers_mut() = headers;
    response
}
