//! A proxy between a Kubernetes client and an API server that a test steers: it records every request, and fails,
//! drops, holds, cuts and swallows those that the test names.
//!
//! ```no_run
//! use fault_proxy::{Answer, EventType, Events, Fault, Fate, Listen, Match, Proxy, Upstream, Verb};
//!
//! # async fn example() -> Result<(), fault_proxy::Error> {
//! let proxy = Proxy::start(Upstream::new("http://127.0.0.1:8001"), Listen::Plain).await?;
//! std::fs::write("kubeconfig", proxy.kubeconfig(None)).expect("written"); // for the client under test
//!
//! // The first PATCH of Deployment `web` meets a conflict; the server does the second and the client never hears.
//! let web = || Match::verb(Verb::Patch).resource("deployments").name("web");
//! let _conflict = proxy.rule(web().nth(1), Fault::Answer(Answer::conflict()));
//! let lost = proxy.rule(web().nth(2), Fault::DropAfter);
//! lost.hit(1).await;
//!
//! // A create waits for the test's decision.
//! let creates = proxy.hold(Match::verb(Verb::Create).resource("deployments"));
//! let mut held = creates.arrived().await;
//! assert_eq!(held.request().name, "web");
//! held.apply().await; // the server has it …
//! held.close(); // … and the client never hears
//!
//! // A stale cache: changes of Deployments come later.
//! let dam = proxy.hold_events(Events::of("deployments").types([EventType::Modified]));
//! dam.held_at_least(1).await;
//! dam.release();
//!
//! // Somebody else writes between two of our writes.
//! let _other = proxy.before(Match::writes().resource("foos/status").nth(1), |request| async move {
//!     println!("{request} is about to be forwarded");
//! });
//!
//! assert!(proxy.writes().iter().all(|write| write.fate != Fate::Unreachable));
//! # Ok(())
//! # }
//! ```
//!
//! # Order
//!
//! A request is recorded when all of it has arrived. Then, in this order: revoked tokens, closures set by
//! [`Proxy::before`], the first fault or hold that is due, the server, closures set by [`Proxy::after`], the client. Of
//! rules that fit the same request the first that was set decides; each counts it for its `nth`, `from` and `times`.
//! Nothing depends on time: what waits, waits for the test. A wait of the test itself panics after [`PATIENCE`] and
//! names what came instead.
//!
//! # What clients speak
//!
//! The proxy speaks HTTP/1.1 and HTTP/2 to clients: with [`Listen::Tls`] as ALPN agrees, with [`Listen::Plain`] HTTP/1.1
//! or HTTP/2 with prior knowledge.
//! - kube 5.0 speaks HTTP/1.1 always: its connector is built with `enable_http1` alone and offers no ALPN. Each watch
//!   is a connection of its own, and a dropped request costs that connection alone.
//! - client-go speaks HTTP/2 over TLS (one connection for everything) and HTTP/1.1 over plain http, where it sends no
//!   token: give it [`Listen::Tls`]. Over HTTP/2 a dropped request resets its stream; [`Proxy::stop_listening`] ends the
//!   connection. It asks for built-in types as protobuf where told to, as sample-controller does: bodies pass unread, a
//!   create's `name` is then unknown, and of a protobuf watch only bytes are counted.
//!
//! To the server it speaks HTTP/1.1, with a connection for each request, so that no fault reaches a second one.
//! Headers pass, `Authorization` among them; client certificates cannot, so give clients a token. Protocol upgrades
//! (`kubectl exec`) are not passed on.

mod dam;
mod events;
mod exchange;
mod fault;
mod forward;
mod log;
mod matching;
mod proxy;
mod record;
mod rules;
mod serve;
mod stream;
mod tls;
mod wire;

pub use dam::Dam;
pub use events::{EventFate, EventRecord, EventType};
pub use fault::{Answer, Fault, Portion};
pub use matching::{Events, Match};
pub use proxy::{Ending, Listen, Login, Proxy, Upstream};
pub use record::{Fate, Record, Verb};
pub use rules::{Held, Hold, Rule};

use std::time::Duration;
use tokio_rustls::rustls;

/// How long a wait of the test may take: generous, because the machine may be busy. Never what is measured.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// Why a proxy could not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The upstream's URL.
    #[error("upstream {url}: {why}; give http://HOST:PORT or https://HOST:PORT")]
    Url {
        /// The URL.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// An https upstream without a CA.
    #[error("upstream {0} speaks TLS and no CA was given; set `ca_pem`")]
    NoCa(String),
    /// The upstream's CA.
    #[error("the upstream's CA cannot be read: {0}; give PEM")]
    Ca(String),
    /// The proxy's own certificates.
    #[error("the proxy's certificate cannot be made: {0}")]
    Certificate(#[from] rcgen::Error),
    /// The proxy's own key.
    #[error("the proxy's key cannot be used: {0}")]
    PrivateKey(&'static str),
    /// TLS settings.
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] rustls::Error),
    /// Its port.
    #[error("127.0.0.1:{port} cannot be listened on: {source}")]
    Listen {
        /// The port, 0 for a free one.
        port: u16,
        /// Why.
        source: std::io::Error,
    },
}
