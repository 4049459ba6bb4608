//! Informers: kube's watcher feeds the cache, and what the cache says must wake goes into the queue.
//!
//! A watch that breaks is begun again with growing delays, for ever: an API server that is away, a CRD that is
//! not installed yet, a role that lacks a verb are all mended without a restart.

use crate::cache::{Cache, Origin, Seen, Wake};
use crate::health::Health;
use crate::key::Key;
use foo_api::{GROUP, KIND};
use futures::{Stream, StreamExt as _};
use kube::api::{Api, ApiResource, DynamicObject};
use kube::runtime::watcher::{self, Event};
use plan::{Kind, Object};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use workqueue::{Priority, WorkQueue};

/// The server ends each watch after this; with kube's 5 s on top, a connection that died in silence is found
/// within 50 s.
const WATCH_SECONDS: u32 = 45;

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
        client: kube::Client,
        cache: Arc<Cache>,
        queue: WorkQueue<Key>,
        health: Arc<Health>,
    ) -> Self {
        let resource = resource(kind);
        let api = match &namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &resource),
            None => Api::all_with(client, &resource),
        };
        Self { kind, namespace, api, cache, queue, health }
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
        let config = watcher::Config::default().timeout(WATCH_SECONDS);
        let stream = watcher::watcher(self.api.clone(), config);
        self.follow(stream).await;
    }

    async fn follow(&self, stream: impl Stream<Item = watcher::Result<Event<DynamicObject>>>) {
        let mut stream = std::pin::pin!(stream);
        let label = self.label();
        let mut pause = PAUSE.0;
        let mut reported: Option<String> = None;
        let mut warned = HashSet::new();
        while let Some(event) = stream.next().await {
            match event {
                Ok(event) => {
                    let listed = matches!(event, Event::InitDone);
                    // An Init comes before the list was tried: no sign that the server answers.
                    if !matches!(event, Event::Init) {
                        pause = PAUSE.0;
                        if reported.take().is_some() {
                            tracing::info!("{label}: works again");
                            self.health.watch_works(&label);
                        }
                    }
                    self.take(event, &mut warned);
                    if listed {
                        self.health.synced(&label);
                    }
                }
                Err(error) => {
                    let (text, wait) = explain(&error, &label);
                    // One line at once, then only when the cause changes or, rarely, as a reminder.
                    if reported.as_deref() == Some(&text) {
                        tracing::debug!("{text}");
                    } else {
                        tracing::warn!("{text}");
                    }
                    self.health.watch_fails(&label, &text);
                    reported = Some(text);
                    let wait = wait.unwrap_or(pause);
                    tokio::time::sleep(wait + jitter(wait / 4)).await;
                    pause = (pause * 2).min(PAUSE.1);
                }
            }
        }
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

/// One line for people, and the server's own wish how long to wait.
fn explain(error: &watcher::Error, label: &str) -> (String, Option<Duration>) {
    use kube::Error::Api;
    let (inner, verb) = match error {
        watcher::Error::InitialListFailed(inner) => (inner, "list"),
        watcher::Error::WatchStartFailed(inner) | watcher::Error::WatchFailed(inner) => (inner, "watch"),
        watcher::Error::WatchError(status) => {
            return (
                format!("cannot watch {label}: {}", status.message),
                retry_after(status.details.as_ref()),
            );
        }
        watcher::Error::NoResourceVersion => {
            return (format!("cannot list {label}: the server sent no resourceVersion"), None);
        }
    };
    let text = match inner {
        Api(status) if status.code == 403 => {
            format!("cannot {verb} {label}: {}; grant it to go on", status.message)
        }
        Api(status) if status.code == 404 && label.starts_with("foos") => {
            format!(
                "cannot {verb} {label}: the CRD is not installed; `foo-host crd | kubectl apply -f -` installs it"
            )
        }
        Api(status) => format!("cannot {verb} {label}: {} ({})", status.message, status.code),
        other => format!("cannot {verb} {label}: {}", crate::api::chain(other)),
    };
    let wait = match inner {
        Api(status) => retry_after(status.details.as_ref()),
        _ => None,
    };
    (text, wait)
}

fn retry_after(details: Option<&kube::core::response::StatusDetails>) -> Option<Duration> {
    let seconds = details.map_or(0, |details| details.retry_after_seconds);
    (seconds > 0).then(|| Duration::from_secs(seconds.into()))
}

/// Up to `most`, so that many hosts do not come back at once. Needs no more than to differ.
fn jitter(most: Duration) -> Duration {
    use std::hash::{BuildHasher as _, RandomState};
    let random = RandomState::new().hash_one(0_u8) % 1_000;
    most.mul_f64(random as f64 / 1_000.0)
}
