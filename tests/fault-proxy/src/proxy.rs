//! The proxy as a test sees it, and the state that its parts share.

use crate::dam::{Dam, Dams};
use crate::events::EventRecord;
use crate::fault::{Answer, Fault};
use crate::forward::Connector;
use crate::log::{Log, locked};
use crate::matching::{Events, Match};
use crate::record::Record;
use crate::rules::{Action, Hold, Rule, Table};
use crate::serve::Door;
use crate::stream::Streams;
use crate::tls::Identity;
use crate::{Error, PATIENCE};
use base64::Engine as _;
use futures::FutureExt as _;
use serde_json::json;
use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use tokio_util::sync::CancellationToken;

/// The server behind the proxy.
#[derive(Clone, Debug)]
pub struct Upstream {
    /// `http://HOST:PORT` or `https://HOST:PORT`
    pub url: String,
    /// Who signed its certificate; needed for https.
    pub ca_pem: Option<String>,
}

impl Upstream {
    /// A plain server.
    pub fn new(url: &str) -> Self {
        Self { url: url.to_owned(), ca_pem: None }
    }

    /// A server with TLS.
    pub fn tls(url: &str, ca_pem: &str) -> Self {
        Self { url: url.to_owned(), ca_pem: Some(ca_pem.to_owned()) }
    }
}

/// How clients reach the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listen {
    /// http
    Plain,
    /// https, with a certificate of the proxy's own authority
    Tls,
}

/// Who the client of a kubeconfig is.
#[derive(Clone, Copy, Debug)]
pub enum Login<'a> {
    /// Nobody.
    Anonymous,
    /// A bearer token.
    Token(&'a str),
    /// A file that holds a bearer token, read again by the client as it sees fit.
    TokenFile(&'a Path),
}

/// How the test ends a watch that is open.
#[derive(Clone, Debug)]
pub enum Ending {
    /// A proper end, as when the server's own timeout is over.
    Close,
    /// Broken off.
    Cut,
    /// An ERROR event with this answer's Status, then a proper end: `Answer::gone()` makes a client list anew. A
    /// watch that is no JSON is cut.
    ErrorEvent(Answer),
    /// Nothing more comes, and nothing is closed.
    Stall,
}

/// What the parts share.
pub(crate) struct Shared {
    pub(crate) connector: Connector,
    pub(crate) log: Log,
    pub(crate) rules: Table,
    pub(crate) dams: Dams,
    pub(crate) streams: Streams,
    pub(crate) revoked: Mutex<HashSet<String>>,
    /// The text of a closure's panic: a test must not pass over it.
    pub(crate) panicked: Mutex<Option<String>>,
    /// Cancelled when the proxy is dropped.
    pub(crate) ended: CancellationToken,
}

impl Shared {
    /// Waits for `good`, which says whether it came true, within [`PATIENCE`].
    pub(crate) async fn patiently(&self, what: impl Fn() -> String, good: impl Future<Output = bool>) {
        let came = tokio::time::timeout(PATIENCE, good).await;
        assert!(came == Ok(true), "it did not come to {}; what came:{}", what(), self.log.tail());
    }
}

/// A running proxy. Dropped, it ends and cuts every connection; it panics then if a closure of
/// [`Proxy::before`] or [`Proxy::after`] had.
pub struct Proxy {
    shared: Arc<Shared>,
    door: Door,
    address: SocketAddr,
    identity: Option<Identity>,
}

impl Proxy {
    /// Starts one on a free port of 127.0.0.1, on the runtime of the caller. It does not look for the server:
    /// that may come later, and its clients' connections are closed until then.
    #[expect(clippy::unused_async, reason = "async says that it needs the caller's runtime")]
    pub async fn start(upstream: Upstream, listen: Listen) -> Result<Self, Error> {
        let identity = match listen {
            Listen::Plain => None,
            Listen::Tls => Some(Identity::new()?),
        };
        let shared = Arc::new(Shared {
            connector: Connector::new(&upstream)?,
            log: Log::default(),
            rules: Table::default(),
            dams: Dams::default(),
            streams: Streams::default(),
            revoked: Mutex::default(),
            panicked: Mutex::default(),
            ended: CancellationToken::new(),
        });
        let acceptor = identity.as_ref().map(|identity| identity.acceptor.clone());
        let door = Door::open(shared.clone(), acceptor)?;
        let address = door.address();
        Ok(Self { shared, door, address, identity })
    }

    /// Where clients reach it.
    pub fn url(&self) -> String {
        let scheme = if self.identity.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// Who signed its certificate, PEM; none for [`Listen::Plain`].
    pub fn ca_pem(&self) -> Option<&str> {
        self.identity.as_ref().map(|identity| identity.ca_pem.as_str())
    }

    /// Its own certificate, a leaf, PEM; none for [`Listen::Plain`]. As a client's CA it is what people get wrong.
    pub fn server_pem(&self) -> Option<&str> {
        self.identity.as_ref().map(|identity| identity.server_pem.as_str())
    }

    /// A kubeconfig for a client of the proxy, with this bearer token.
    pub fn kubeconfig(&self, token: Option<&str>) -> String {
        self.kubeconfig_for(token.map_or(Login::Anonymous, Login::Token), self.ca_pem())
    }

    /// A kubeconfig with any login, and with any CA in place of the proxy's.
    pub fn kubeconfig_for(&self, login: Login<'_>, ca_pem: Option<&str>) -> String {
        let mut cluster = json!({ "server": self.url() });
        if let Some(ca) = ca_pem {
            cluster["certificate-authority-data"] =
                base64::engine::general_purpose::STANDARD.encode(ca).into();
        }
        let user = match login {
            Login::Anonymous => json!({}),
            Login::Token(token) => json!({ "token": token }),
            Login::TokenFile(path) => json!({ "tokenFile": path }),
        };
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "proxy",
            "clusters": [{ "name": "proxy", "cluster": cluster }],
            "users": [{ "name": "client", "user": user }],
            "contexts": [{ "name": "proxy", "context": { "cluster": "proxy", "user": "client" } }],
        });
        // JSON is YAML, and clients read it as such.
        format!("{config:#}\n")
    }

    /// All requests since the last [`Proxy::clear`], in the order of arrival.
    pub fn requests(&self) -> Vec<Record> {
        self.shared.log.look(<[Record]>::to_vec)
    }

    /// How many requests there were since the last [`Proxy::clear`] that fit; their turn does not matter.
    pub fn count(&self, matching: &Match) -> usize {
        self.shared.log.look(|requests| requests.iter().filter(|record| matching.fits(record)).count())
    }

    /// Those that asked for a change.
    pub fn writes(&self) -> Vec<Record> {
        self.shared.log.look(|requests| requests.iter().filter(|record| record.is_write()).cloned().collect())
    }

    /// All events that came in JSON watches since the last [`Proxy::clear`], in the order of arrival.
    pub fn events(&self) -> Vec<EventRecord> {
        self.shared.log.events()
    }

    /// Forgets requests and events. Numbers go on, and so do the counts of rules.
    pub fn clear(&self) {
        self.shared.log.clear();
    }

    /// Waits until there are `n` requests that fit, however they ended; their turn does not matter.
    ///
    /// # Panics
    ///
    /// After [`PATIENCE`], with the requests that came instead.
    pub async fn seen(&self, matching: Match, n: usize) -> Vec<Record> {
        self.until(&format!("{n} requests: {matching}"), |requests| {
            let fitting: Vec<Record> =
                requests.iter().filter(|record| matching.fits(record)).cloned().collect();
            (fitting.len() >= n).then_some(fitting)
        })
        .await
    }

    /// Waits until the requests are such that `good` makes something of them. While it looks no other request comes
    /// in, and the proxy cannot be asked.
    ///
    /// # Panics
    ///
    /// After [`PATIENCE`], with the requests that came instead.
    pub async fn until<T>(&self, what: &str, good: impl Fn(&[Record]) -> Option<T>) -> T {
        let mut changes = self.shared.log.changes();
        let mut found = None;
        let looking = async {
            loop {
                found = self.shared.log.look(&good);
                if found.is_some() || changes.changed().await.is_err() {
                    return found.is_some();
                }
            }
        };
        self.shared.patiently(|| what.to_owned(), looking).await;
        found.expect("it was found")
    }

    /// From now on this happens to the requests that fit.
    pub fn rule(&self, matching: Match, fault: Fault) -> Rule {
        self.add(matching, Action::Fault(fault))
    }

    /// From now on the requests that fit are held until the test decides about each.
    pub fn hold(&self, matching: Match) -> Hold {
        let (sender, arrivals) = tokio::sync::mpsc::unbounded_channel();
        Hold { rule: self.add(matching, Action::Hold(sender)), arrivals: tokio::sync::Mutex::new(arrivals) }
    }

    /// Runs `closure` to its end before a request that fits is forwarded, or meets its fault: somebody else's write
    /// between two of the client's. It goes on also where the client is gone meanwhile.
    pub fn before<F, C>(&self, matching: Match, closure: C) -> Rule
    where
        F: Future<Output = ()> + Send + 'static,
        C: Fn(Record) -> F + Send + Sync + 'static,
    {
        self.add(matching, Action::Before(Arc::new(move |record| closure(record).boxed())))
    }

    /// Runs `closure` to its end after the server has answered a request that fits, and before the client hears.
    /// The record has the server's status.
    pub fn after<F, C>(&self, matching: Match, closure: C) -> Rule
    where
        F: Future<Output = ()> + Send + 'static,
        C: Fn(Record) -> F + Send + Sync + 'static,
    {
        self.add(matching, Action::After(Arc::new(move |record| closure(record).boxed())))
    }

    fn add(&self, matching: Match, action: Action) -> Rule {
        Rule { state: self.shared.rules.add(matching, action), shared: self.shared.clone() }
    }

    /// From now on the events that fit are held back in their watches.
    pub fn hold_events(&self, events: Events) -> Dam {
        Dam { state: self.shared.dams.add(events), shared: self.shared.clone() }
    }

    /// Ends the open watches that fit, and says how many. Events that they hold are lost.
    pub fn end_watches(&self, matching: &Match, ending: &Ending) -> usize {
        self.shared.streams.end(matching, ending)
    }

    /// From now on this bearer token is answered 401. Watches that are open go on, as with a real server.
    pub fn revoke(&self, token: &str) {
        locked(&self.shared.revoked).insert(token.to_owned());
    }

    /// While it is on, nothing is answered and nothing is closed, on connections that are open and on new ones. When it
    /// is off again, new connections are served; those that fell into the hole stay in it. What had been forwarded
    /// before is done by the server.
    pub fn black_hole(&self, on: bool) {
        self.door.black_hole(on);
    }

    /// The server is away: the port refuses connections and those that were open are cut. The port stays reserved.
    pub async fn stop_listening(&self) -> Result<(), Error> {
        self.door.shut().await
    }

    /// The server is back on the same port.
    pub async fn resume_listening(&self) -> Result<(), Error> {
        self.door.reopen().await
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.ended.cancel();
        self.door.forget_buried();
        if let Some(text) = locked(&self.shared.panicked).take()
            && !std::thread::panicking()
        {
            panic!("a closure of the fault proxy panicked: {text}");
        }
    }
}
