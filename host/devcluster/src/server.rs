//! The HTTP shell: one handler that reads a request, calls the state behind it and writes the answer.
//!
//! Source of paths and verbs: `apiserver/pkg/endpoints/{installer,request}`. Must not know how objects change.

use crate::cluster::Cluster;
use crate::discovery;
use crate::kubelet::Kubelet;
use crate::records::{Records, RequestRecord};
use crate::requests;
use crate::route::{Accepted, Query, Route, accept};
use crate::status::ApiError;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode, header};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

/// Largest body that is read, the API server's `MaxRequestBodyBytes`.
const BODY_LIMIT: usize = 3 * 1024 * 1024;
/// Pieces of background work that are done under one lock.
const WORK_BATCH: usize = 64;

/// What all requests share.
pub(crate) struct Shared {
    cluster: Mutex<Cluster>,
    pub(crate) records: Records,
    /// Wakes the controllers.
    work: Notify,
    shutdown: watch::Sender<bool>,
}

impl Shared {
    pub(crate) fn new(cluster: Cluster, records: Records) -> Arc<Self> {
        let (shutdown, _) = watch::channel(false);
        Arc::new(Self { cluster: Mutex::new(cluster), records, work: Notify::new(), shutdown })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Cluster> {
        self.cluster.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the cluster and wakes the controllers.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Cluster) -> T) -> T {
        let mut cluster = self.lock();
        let outcome = change(&mut cluster);
        let busy = !cluster.work.is_empty();
        drop(cluster);
        if busy {
            self.work.notify_one();
        }
        outcome
    }

    /// Turns true when the server goes.
    pub(crate) fn shutdown(&self) -> watch::Receiver<bool> {
        self.shutdown.subscribe()
    }

    pub(crate) fn begin_shutdown(&self) {
        self.shutdown.send_replace(true);
    }
}

/// Runs the controllers and the fake kubelet until the server goes.
pub(crate) async fn run_controllers(shared: Arc<Shared>) {
    let mut kubelet = Kubelet::default();
    let mut shutdown = shared.shutdown();
    loop {
        let mut more = false;
        {
            let mut cluster = shared.lock();
            kubelet.run_due(&mut cluster, Instant::now());
            for _ in 0..WORK_BATCH {
                more = cluster.work_once(&mut kubelet);
                if !more {
                    break;
                }
            }
        }
        if more {
            tokio::task::yield_now().await;
            continue;
        }
        let due = kubelet.next();
        tokio::select! {
            () = shared.work.notified() => {}
            () = async { tokio::time::sleep_until(due.unwrap_or_else(Instant::now)).await }, if due.is_some() => {}
            _ = shutdown.wait_for(|gone| *gone) => return,
        }
    }
}

/// One request, taken apart.
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) query: Query,
    pub(crate) accepted: Accepted,
    pub(crate) content_type: String,
    pub(crate) user_agent: String,
    pub(crate) body: Bytes,
}

/// An answer before it is HTTP.
pub(crate) enum Answer {
    /// Status, JSON, warnings.
    Bytes(StatusCode, Bytes, Vec<String>),
    /// JSON of another media type.
    Typed(String, Bytes),
    Stream(Body),
}

impl Answer {
    pub(crate) fn json(value: &Value) -> Self {
        Self::Bytes(StatusCode::OK, value.to_string().into(), Vec::new())
    }
}

fn word(headers: &HeaderMap, name: header::HeaderName) -> String {
    headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned()
}

/// Serves one request.
pub(crate) async fn handle(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let route = Route::parse(parts.uri.path());
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let mut record = RequestRecord {
        method: parts.method.to_string(),
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        user_agent: word(&parts.headers, header::USER_AGENT),
        dry_run: query.get("dryRun") == "All",
        ..RequestRecord::default()
    };
    if let Route::Resource(path) = &route {
        requests::verb(&parts.method, path, &query).clone_into(&mut record.verb);
        record.resource.clone_from(&path.plural);
        record.subresource.clone_from(&path.subresource);
        record.namespace.clone_from(&path.namespace);
        record.name.clone_from(&path.name);
    }
    let host = word(&parts.headers, header::HOST);
    let wanted = word(&parts.headers, header::ACCEPT);
    let outcome = match accept(&wanted) {
        // What kubectl checks a kind against that no document of OpenAPI v3 has: it speaks this form only.
        _ if is_openapi_v2(&route) && wanted.contains(OPENAPI_V2) => {
            // An at sign may stand in what is asked for, not in what is answered.
            Ok(Answer::Typed(OPENAPI_V2.replace('@', "."), Bytes::from_static(discovery::EMPTY_OPENAPI_V2)))
        }
        Err(error) => Err(error),
        Ok(accepted) => match axum::body::to_bytes(body, BODY_LIMIT).await {
            Err(_) => Err(ApiError::too_large()),
            Ok(body) => {
                let content_type = word(&parts.headers, header::CONTENT_TYPE);
                let user_agent = record.user_agent.clone();
                let call = Call { method: parts.method, query, accepted, content_type, user_agent, body };
                answer(&shared, &route, &call, &host)
            }
        },
    };
    let response = respond(outcome);
    record.status = response.status().as_u16();
    shared.records.push(record);
    response
}

/// OpenAPI v2 as a protobuf message.
const OPENAPI_V2: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

fn is_openapi_v2(route: &Route) -> bool {
    matches!(route, Route::Other(steps) if steps.iter().map(String::as_str).eq(["openapi", "v2"]))
}

fn answer(shared: &Arc<Shared>, route: &Route, call: &Call, host: &str) -> Result<Answer, ApiError> {
    if let Route::Resource(path) = route {
        return requests::serve(shared, path, call);
    }
    if call.method != Method::GET && call.method != Method::HEAD {
        return Err(ApiError::method_not_allowed());
    }
    let cluster = shared.lock();
    let registry = &cluster.registry;
    let found = match route {
        Route::Roots { core } => {
            let value = discovery::roots(registry, *core, &call.accepted, host);
            // Clients tell the aggregated form by its media type.
            let Accepted { profile, group, version } = &call.accepted;
            let media = match profile.as_str() {
                "" => "application/json".to_owned(),
                _ => format!("application/json;g={group};v={version};as={profile}"),
            };
            return Ok(Answer::Typed(media, value.to_string().into()));
        }
        Route::Group(group) => discovery::group(registry, group),
        Route::Version { group, version } => {
            let found = discovery::resources(registry, group, version);
            // The router knows the groups that are built in.
            let built_in = registry.all().iter().any(|r| r.group == *group && r.structural.is_none());
            if found.is_none() && built_in {
                return Err(ApiError::no_such_resource());
            }
            found
        }
        Route::Other(steps) => match steps.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["version"] => Some(discovery::version()),
            ["readyz" | "livez" | "healthz", ..] => {
                return Ok(Answer::Typed("text/plain; charset=utf-8".to_owned(), Bytes::from_static(b"ok")));
            }
            ["openapi", "v3"] => Some(discovery::openapi_index(registry)),
            ["openapi", "v3", "api", version] => discovery::openapi(registry, "", version),
            ["openapi", "v3", "apis", group, version] => discovery::openapi(registry, group, version),
            ["openapi", "v2"] => Some(json!({
                "swagger": "2.0",
                "info": { "title": "Kubernetes", "version": discovery::GIT_VERSION },
                "paths": {},
                "definitions": {},
            })),
            _ => None,
        },
        Route::Resource(_) => None,
    };
    found.map(|value| Answer::json(&value)).ok_or_else(ApiError::no_such_path)
}

fn respond(outcome: Result<Answer, ApiError>) -> Response {
    let mut media = header::HeaderValue::from_static("application/json");
    let retry_after = outcome.as_ref().err().and_then(ApiError::retry_after);
    let (status, body, warnings) = match outcome {
        Ok(Answer::Bytes(status, bytes, warnings)) => (status, Body::from(bytes), warnings),
        Ok(Answer::Typed(typed, bytes)) => {
            if let Ok(typed) = header::HeaderValue::from_str(&typed) {
                media = typed;
            }
            (StatusCode::OK, Body::from(bytes), Vec::new())
        }
        Ok(Answer::Stream(body)) => (StatusCode::OK, body, Vec::new()),
        Err(error) => {
            let status = StatusCode::from_u16(error.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            let body = if error.plain {
                media = header::HeaderValue::from_static("text/plain; charset=utf-8");
                format!("{}\n", error.message)
            } else {
                error.to_status().to_string()
            };
            (status, Body::from(body), Vec::new())
        }
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, media);
    headers.insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-cache, private"));
    if let Some(seconds) = retry_after {
        headers.insert(header::RETRY_AFTER, seconds.into());
    }
    for warning in warnings {
        let text = format!("299 - {warning:?}");
        if let Ok(value) = header::HeaderValue::from_str(&text) {
            headers.append(header::WARNING, value);
        }
    }
    response
}
