//! Informers: kube's watcher feeds the cache, and what the cache says must wake goes into the queue.
//!
//! A watch that breaks is begun again with growing delays, for ever: an API server that is away, a CRD that is
//! not installed yet, a role that lacks a verb are all mended without a restart.

use crate::cache::{Cache, Origin, Seen, Wake};
use crate::client::{Connection, Timeouts};
use crate::gate::{Gate, jitter};
use crate::health::Health;
use crate::key::Key;
use foo_api::{GROUP, KIND};
use futures::{Stream, StreamExt as _};
use kube::api::{Api, ApiResource, DynamicObject};
use kube::core::Status;
use kube::runtime::watcher::{self, Event};
use plan::{Kind, Object};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use workqueue::{Priority, WorkQueue};

/// Objects in one page of a list. client-go takes 500; with 100 a list of a large cluster costs a fifth of the
/// memory at its peak, which the allocator keeps, and some more round trips once.
const PAGE: u32 = 100;

/// How much longer than an attempt to open a watch takes it has to be silent to be taken for open.
const LONGER: Duration = Duration::from_secs(10);

/// A failure that stays the same is said again after this.
const REMIND_AFTER: Duration = Duration::from_mins(5);

/// First and longest pause between attempts.
const PAUSE: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(10));

/// One informer: a kind in one namespace or in all.
pub struct Informer {
    kind: Kind,
    namespace: Option<String>,
    api: Api<DynamicObject>,
    cache: Arc<Cache>,
    queue: WorkQueue<Key>,
    health: Arc<Health>,
    gate: Gate,
    server: String,
    timeouts: Timeouts,
}

/// How an informer fares, across watches that broke.
#[derive(Default)]
struct Progress {
    /// A list was complete.
    synced: bool,
    /// Health has heard that all is well.
    good: bool,
    /// Failures since the last success.
    failures: u32,
    /// What was said about the failure, and when.
    said: Option<(String, Instant)>,
    /// UIDs of objects that cannot be read, each said once.
    warned: HashSet<String>,
}

/// The resource that `kind` is served under.
pub fn resource(kind: Kind) -> ApiResource {
    let (group, version, kind, plural) = match kind {
        Kind::Foo => (GROUP, foo_api::VERSION, KIND, foo_api::PLURAL),
        Kind::Deployment => ("apps", "v1", "Deployment", "deployments"),
    };
    ApiResource {
        group: group.into(),
        version: version.into(),
        api_version: format!("{group}/{version}"),
        kind: kind.into(),
        plural: plural.into(),
    }
}

impl Informer {
    /// An informer of `kind` in `namespace`, or in all.
    pub fn new(
        kind: Kind,
        namespace: Option<String>,
        connection: &Connection,
        cache: Arc<Cache>,
        queue: WorkQueue<Key>,
        health: Arc<Health>,
    ) -> Self {
        let resource = resource(kind);
        let client = connection.client.clone();
        let api = match &namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &resource),
            None => Api::all_with(client, &resource),
        };
        let Connection { gate, server, timeouts, .. } = connection.clone();
        Self { kind, namespace, api, cache, queue, health, gate, server, timeouts }
    }

    /// `foos.samplecontroller.k8s.io`, with the namespace where there is one.
    pub fn label(&self) -> String {
        let plural = match self.kind {
            Kind::Foo => "foos.samplecontroller.k8s.io",
            Kind::Deployment => "deployments.apps",
        };
        match &self.namespace {
            Some(namespace) => format!("{plural} in namespace {namespace}"),
            None => plural.to_owned(),
        }
    }

    /// Runs until dropped.
    pub async fn run(self) {
        let mut progress = Progress::default();
        loop {
            let config = watcher::Config::default().timeout(self.timeouts.watch_seconds).page_size(PAGE);
            self.follow(watcher::watcher(self.api.clone(), config), &mut progress).await;
        }
    }

    /// Follows one watcher until it has to begin with a list again.
    async fn follow(
        &self,
        stream: impl Stream<Item = watcher::Result<Event<DynamicObject>>>,
        progress: &mut Progress,
    ) {
        let mut stream = std::pin::pin!(stream);
        loop {
            // An open watch on an idle cluster says nothing: silence for longer than an attempt takes is success.
            let mends = progress.synced && progress.said.is_some();
            let event = if mends {
                let Ok(event) = tokio::time::timeout(self.timeouts.answer + LONGER, stream.next()).await
                else {
                    self.works(progress);
                    continue;
                };
                event
            } else {
                stream.next().await
            };
            match event {
                None => return,
                Some(Ok(event)) => {
                    // An Init comes before the list was tried: no sign that the server answers.
                    let answers = !matches!(event, Event::Init);
                    progress.synced |= matches!(event, Event::InitDone);
                    self.take(event, &mut progress.warned);
                    if answers {
                        self.works(progress);
                    }
                }
                Some(Err(error)) => {
                    let pause = self.fails(&error, progress);
                    tokio::time::sleep(pause + jitter(pause / 4)).await;
                    if expired(&error) {
                        return;
                    }
                }
            }
        }
    }

    fn works(&self, progress: &mut Progress) {
        progress.failures = 0;
        if progress.said.take().is_some() {
            // As loud as the failure was.
            tracing::warn!("{}: works again", self.label());
            self.health.expect(&self.label(), "listing");
            progress.good = false;
        }
        if progress.synced && !progress.good {
            self.health.good(&self.label());
            progress.good = true;
        }
    }

    /// Says what failed, and how long to wait. An informer that was synced goes on serving what it knows while the
    /// server is away; one that may not watch would serve the past, and is not ready.
    fn fails(&self, error: &watcher::Error, progress: &mut Progress) -> Duration {
        let label = self.label();
        let text = explain(error, &label, &self.server);
        // One line at once, then only when the cause changes or, rarely, as a reminder.
        let known =
            progress.said.as_ref().is_some_and(|(old, when)| *old == text && when.elapsed() < REMIND_AFTER);
        if known {
            tracing::debug!("{text}");
        } else {
            tracing::warn!("{text}");
            progress.said = Some((text.clone(), Instant::now()));
        }
        if !progress.synced || forbidden(error) {
            self.health.bad(&label, &text);
            progress.good = false;
        }
        let pause = PAUSE.0 * 2_u32.saturating_pow(progress.failures.min(16));
        progress.failures = progress.failures.saturating_add(1);
        pause.min(PAUSE.1).max(self.gate.closed_for())
    }

    fn take(&self, event: Event<DynamicObject>, warned: &mut HashSet<String>) {
        let scope = self.namespace.as_deref();
        let wakes = match event {
            Event::Init => {
                self.cache.begin_list(self.kind, scope);
                Vec::new()
            }
            Event::InitApply(object) => self.apply(object, Origin::List, warned),
            Event::InitDone => self.cache.end_list(self.kind, scope),
            Event::Apply(object) => self.apply(object, Origin::Watch, warned),
            Event::Delete(object) => {
                let key = key_of(&object);
                match self.kind {
                    Kind::Foo => {
                        warned.remove(object.metadata.uid.as_deref().unwrap_or_default());
                        self.cache.delete_foo(&key)
                    }
                    Kind::Deployment => {
                        self.cache.delete_deployment(&key, object.metadata.uid.as_deref().unwrap_or_default())
                    }
                }
            }
        };
        wake(&self.queue, wakes);
    }

    fn apply(&self, object: DynamicObject, origin: Origin, warned: &mut HashSet<String>) -> Vec<Wake> {
        let key = key_of(&object);
        let uid = object.metadata.uid.clone().unwrap_or_default();
        if self.kind == Kind::Deployment && !of_foo(&object) {
            return self.cache.apply_deployment(Seen::Foreign { key, uid }, origin);
        }
        match parse(self.kind, object) {
            Ok((object, wants)) => {
                warned.remove(&uid);
                match self.kind {
                    Kind::Foo => self.cache.apply_foo(object, wants.as_deref(), origin),
                    Kind::Deployment => self.cache.apply_deployment(Seen::OfFoo(object), origin),
                }
            }
            Err(why) => {
                if warned.insert(uid) {
                    tracing::warn!(object = %key, "{}: one object cannot be read and is left alone: {why}", self.label());
                }
                Vec::new()
            }
        }
    }
}

/// Puts what must wake into the queue.
pub fn wake(queue: &WorkQueue<Key>, wakes: Vec<Wake>) {
    for wake in wakes {
        match wake {
            Wake::Now(key) => queue.add(key, Priority::Change),
            Wake::Start(key) => queue.add(key, Priority::Background),
            Wake::Drift(key) => queue.add_unless_delayed(key, Priority::Change),
        }
    }
}

fn key_of(object: &DynamicObject) -> Key {
    let metadata = &object.metadata;
    Key::new(metadata.namespace.as_deref().unwrap_or_default(), metadata.name.as_deref().unwrap_or_default())
}

fn of_foo(object: &DynamicObject) -> bool {
    let owners = object.metadata.owner_references.iter().flatten();
    owners.filter(|owner| owner.controller == Some(true)).any(|owner| {
        owner.kind == KIND && owner.api_version.split_once('/').is_some_and(|(group, _)| group == GROUP)
    })
}

fn parse(kind: Kind, object: DynamicObject) -> Result<(Arc<Object>, Option<String>), String> {
    let mut value = serde_json::to_value(object).map_err(|error| error.to_string())?;
    // The items of a list carry no type.
    let resource = resource(kind);
    if let Some(object) = value.as_object_mut() {
        object.insert("apiVersion".into(), resource.api_version.into());
        object.insert("kind".into(), resource.kind.into());
    }
    read(kind, value)
}

/// A cached object, and for a Foo the name of the Deployment that it wants.
pub fn read(kind: Kind, value: serde_json::Value) -> Result<(Arc<Object>, Option<String>), String> {
    let wants = match kind {
        Kind::Foo => value.pointer("/spec/deploymentName").and_then(|name| name.as_str()).map(str::to_owned),
        Kind::Deployment => None,
    };
    let object = Object::from_value(value, kind).map_err(|error| error.to_string())?;
    Ok((Arc::new(object), wants))
}

/// The API's answer, where there is one.
fn status(error: &watcher::Error) -> Option<&Status> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => Some(status),
        _ => None,
    }
}

fn forbidden(error: &watcher::Error) -> bool {
    status(error).is_some_and(|status| matches!(status.code, 401 | 403))
}

/// The version to watch from is gone. kube's watcher lists again by itself only when that comes as an event of an
/// open watch, not when it is the answer to the request.
fn expired(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::WatchStartFailed(_))
        && status(error).is_some_and(|status| status.code == 410)
}

/// One line for people.
fn explain(error: &watcher::Error, label: &str, server: &str) -> String {
    let verb = match error {
        watcher::Error::InitialListFailed(_) | watcher::Error::NoResourceVersion => "list",
        watcher::Error::WatchStartFailed(_)
        | watcher::Error::WatchFailed(_)
        | watcher::Error::WatchError(_) => "watch",
    };
    match status(error) {
        Some(status) if status.code == 403 => {
            format!("cannot {verb} {label}: {}; grant it to go on", status.message)
        }
        Some(status) if status.code == 404 && label.starts_with(foo_api::PLURAL) => {
            format!(
                "cannot {verb} {label}: the CRD is not installed; `foo-host crd | kubectl apply -f -` installs it"
            )
        }
        Some(status) => format!("cannot {verb} {label}: {} ({})", status.message, status.code),
        None => {
            let text = crate::api::chain(error);
            match text.split_once("invalid peer certificate: ") {
                Some((_, why)) => format!("cannot {verb} {label}: {}", distrust(server, why)),
                None => format!("cannot {verb} {label}: {text}"),
            }
        }
    }
}

/// What rustls has against the server's certificate, for people.
fn distrust(server: &str, why: &str) -> String {
    let remedy = match why {
        "UnknownIssuer" => {
            "; no authority that the kubeconfig trusts has signed it: certificate-authority has to be the \
             authority, not the server's own certificate"
        }
        _ => "",
    };
    format!("the certificate of {server} is not accepted: {why}{remedy}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::stream;

    fn informer() -> Informer {
        // Never asked: the tests hand over the events themselves.
        let client = kube::Client::try_from(kube::Config::new(http::Uri::from_static("http://127.0.0.1:1")));
        let connection = Connection {
            client: client.unwrap(),
            gate: Gate::default(),
            server: "http://127.0.0.1:1".into(),
            timeouts: Timeouts::default(),
        };
        let queue = WorkQueue::new(workqueue::Config::default());
        let health = Arc::new(Health::default());
        Informer::new(Kind::Foo, None, &connection, Arc::default(), queue, health)
    }

    fn refused(code: u16, message: &str) -> Box<Status> {
        Status::failure(message, "").with_code(code).boxed()
    }

    fn foo(name: &str) -> DynamicObject {
        serde_json::from_value(serde_json::json!({
            "metadata": {"namespace": "ns", "name": name, "uid": name, "resourceVersion": "1"},
            "spec": {"deploymentName": "web"},
        }))
        .unwrap()
    }

    type Item = watcher::Result<Event<DynamicObject>>;

    fn listed() -> Vec<Item> {
        vec![Ok(Event::Init), Ok(Event::InitApply(foo("a"))), Ok(Event::InitDone)]
    }

    /// Follows `events` and then an open watch that says nothing, for a minute; whether it wants to list again.
    async fn follow(informer: &Informer, events: Vec<Item>, progress: &mut Progress) -> bool {
        let stream = stream::iter(events).chain(stream::pending());
        tokio::time::timeout(Duration::from_mins(1), informer.follow(stream, progress)).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn case_10_a_410_as_the_answer_to_a_watch_begins_with_a_list_again() {
        let informer = informer();
        let gone = |code| {
            let mut events = listed();
            events.push(Err(watcher::Error::WatchStartFailed(kube::Error::Api(refused(code, "too old")))));
            events
        };
        assert!(follow(&informer, gone(410), &mut Progress::default()).await);
        assert!(
            !follow(&informer, gone(500), &mut Progress::default()).await,
            "kube tries that again itself"
        );
        assert_eq!(informer.cache.len().0, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn case_17_a_role_that_lacks_watch_is_not_ready_and_recovers_on_an_idle_cluster() {
        let informer = informer();
        let mut progress = Progress::default();
        follow(&informer, listed(), &mut progress).await;
        assert!(informer.health.ready());
        let message = "foos.samplecontroller.k8s.io is forbidden: User \"x\" cannot watch resource \"foos\"";
        let forbidden = watcher::Error::WatchStartFailed(kube::Error::Api(refused(403, message)));
        let stream = stream::iter([Err(forbidden)]).chain(stream::pending());
        let silence = informer.timeouts.answer + LONGER;
        let mut following = Box::pin(informer.follow(stream, &mut progress));
        assert!(tokio::time::timeout(silence / 2, &mut following).await.is_err());
        assert!(!informer.health.ready());
        assert!(
            informer.health.report().contains("cannot watch resource \"foos\""),
            "{}",
            informer.health.report()
        );
        // The role was mended: the watch opens, and nothing happens in the cluster.
        assert!(tokio::time::timeout(silence * 2, &mut following).await.is_err());
        assert!(informer.health.ready());
    }

    #[tokio::test(start_paused = true)]
    async fn case_14_a_server_that_is_away_leaves_a_synced_informer_ready() {
        let informer = informer();
        let mut progress = Progress::default();
        let mut events = listed();
        let away = || watcher::Error::WatchStartFailed(kube::Error::Service("connection refused".into()));
        events.extend([Err(away()), Err(away())]);
        follow(&informer, events, &mut progress).await;
        assert!(informer.health.ready());
        let mut fresh = Progress::default();
        let unsynced = Informer { health: Arc::default(), ..informer };
        follow(&unsynced, vec![Ok(Event::Init), Err(away())], &mut fresh).await;
        assert!(!unsynced.health.ready());
    }
}
