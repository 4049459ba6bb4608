//! The rules that are set, the requests that they hold, and the test's handles on both.

use crate::fault::{Answer, Fault};
use crate::log::locked;
use crate::matching::Match;
use crate::proxy::Shared;
use crate::record::Record;
use futures::future::BoxFuture;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::{mpsc, oneshot, watch};

/// Something that runs before a request is forwarded, or before its answer is handed on.
pub(crate) type Hook = Arc<dyn Fn(Record) -> BoxFuture<'static, ()> + Send + Sync>;

pub(crate) enum Action {
    Fault(Fault),
    Hold(mpsc::UnboundedSender<Held>),
    Before(Hook),
    After(Hook),
}

pub(crate) struct RuleState {
    matching: Match,
    pub(crate) action: Action,
    /// How many requests fitted so far; changed under the table's lock only.
    seen: Mutex<usize>,
    hits: watch::Sender<usize>,
    lifted: AtomicBool,
}

impl RuleState {
    /// The rule did to a request what it is there for.
    pub(crate) fn hit(&self) {
        self.hits.send_modify(|hits| *hits += 1);
    }

    fn is_due(&self, record: &Record) -> bool {
        if !self.matching.fits(record) {
            return false;
        }
        let mut seen = locked(&self.seen);
        *seen += 1;
        self.matching.turn.includes(*seen)
    }
}

/// What is due for one request.
#[derive(Default)]
pub(crate) struct Due {
    pub(crate) before: Vec<Arc<RuleState>>,
    pub(crate) fault: Option<Arc<RuleState>>,
    pub(crate) after: Vec<Arc<RuleState>>,
}

/// All rules, in the order in which they were set.
#[derive(Default)]
pub(crate) struct Table {
    rules: Mutex<Vec<Arc<RuleState>>>,
}

impl Table {
    pub(crate) fn add(&self, matching: Match, action: Action) -> Arc<RuleState> {
        let rule = Arc::new(RuleState {
            matching,
            action,
            seen: Mutex::new(0),
            hits: watch::Sender::new(0),
            lifted: AtomicBool::new(false),
        });
        locked(&self.rules).push(rule.clone());
        rule
    }

    /// Every rule that fits counts the request, also where an earlier one decides what happens to it.
    pub(crate) fn due(&self, record: &Record) -> Due {
        let mut rules = locked(&self.rules);
        rules.retain(|rule| !rule.lifted.load(Ordering::SeqCst));
        let mut due = Due::default();
        for rule in rules.iter().filter(|rule| rule.is_due(record)) {
            match rule.action {
                Action::Before(_) => due.before.push(rule.clone()),
                Action::After(_) => due.after.push(rule.clone()),
                Action::Fault(_) | Action::Hold(_) => {
                    due.fault.get_or_insert_with(|| rule.clone());
                }
            }
        }
        due
    }
}

/// A rule that was set. It stays when this handle is dropped; [`Rule::lift`] ends it.
#[must_use = "a rule stays until it is lifted; `let _rule` where it stays to the end"]
pub struct Rule {
    pub(crate) state: Arc<RuleState>,
    pub(crate) shared: Arc<Shared>,
}

impl Rule {
    /// How many requests it was carried out on: answered, dropped, cut at the point that was said, swallowed, or its
    /// closure ended.
    pub fn hits(&self) -> usize {
        *self.state.hits.borrow()
    }

    /// Waits until it was carried out on `n` requests.
    ///
    /// # Panics
    ///
    /// After [`PATIENCE`](crate::PATIENCE), with the requests that came instead.
    pub async fn hit(&self, n: usize) {
        let mut hits = self.state.hits.subscribe();
        let what = || format!("{n} hits of the rule on {}; it has {}", self.state.matching, self.hits());
        self.shared.patiently(what, async { hits.wait_for(|hits| *hits >= n).await.is_ok() }).await;
    }

    /// Ends it for the requests to come. What it did to earlier ones stays.
    pub fn lift(&self) {
        self.state.lifted.store(true, Ordering::SeqCst);
    }
}

/// A rule that holds requests, each until the test decides about it.
#[must_use = "requests are held until the test takes them with `arrived`"]
pub struct Hold {
    pub(crate) rule: Rule,
    pub(crate) arrivals: tokio::sync::Mutex<mpsc::UnboundedReceiver<Held>>,
}

impl Hold {
    /// Waits for the next held request, in the order of arrival.
    ///
    /// # Panics
    ///
    /// After [`PATIENCE`](crate::PATIENCE), with the requests that came instead.
    pub async fn arrived(&self) -> Held {
        let mut arrivals = self.arrivals.lock().await;
        let mut next = None;
        let what = || format!("a request to hold: {}", self.rule.state.matching);
        let arrival = async {
            next = arrivals.recv().await;
            next.is_some()
        };
        self.rule.shared.patiently(what, arrival).await;
        next.expect("one arrived")
    }

    /// How many requests were held so far.
    pub fn hits(&self) -> usize {
        self.rule.hits()
    }

    /// Holds no further requests. Those that are held stay so.
    pub fn lift(&self) {
        self.rule.lift();
    }
}

pub(crate) enum Order {
    Apply(oneshot::Sender<Option<u16>>),
    Forward,
    Close,
    Answer(Answer),
}

/// A request that waits for the test's decision. Dropped, it is forwarded. It outlives its client: a request
/// of a process that was killed meanwhile can still reach the server.
#[must_use = "a held request that is dropped is forwarded"]
pub struct Held {
    pub(crate) request: Record,
    pub(crate) orders: mpsc::UnboundedSender<Order>,
}

impl Held {
    /// What is asked.
    pub fn request(&self) -> &Record {
        &self.request
    }

    /// Forwards it and waits for the server's status, none if the server could not be reached. The client still
    /// waits: for [`Held::forward`], [`Held::close`] or [`Held::answer`].
    pub async fn apply(&mut self) -> Option<u16> {
        let (done, status) = oneshot::channel();
        let _ = self.orders.send(Order::Apply(done));
        status.await.ok().flatten()
    }

    /// Lets it go on, as if it had not been held.
    pub fn forward(self) {
        let _ = self.orders.send(Order::Forward);
    }

    /// Closes it. The server sees it only where it was applied before.
    pub fn close(self) {
        let _ = self.orders.send(Order::Close);
    }

    /// Answers it in the server's place. The server sees it only where it was applied before.
    pub fn answer(self, answer: Answer) {
        let _ = self.orders.send(Order::Answer(answer));
    }
}
