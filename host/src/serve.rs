//! `/metrics`, `/healthz`, `/livez`, `/readyz` over HTTP.

use crate::health::Health;
use crate::metrics::Metrics;
use anyhow::{Context as _, Result};
use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;

#[derive(Clone)]
struct Parts {
    health: Arc<Health>,
    metrics: Arc<Metrics>,
}

/// A bound listener, so that a taken address is an error at start.
pub async fn bind(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .with_context(|| format!("--metrics-addr {address} cannot be used; give another, or off"))
}

/// Serves until dropped.
pub async fn run(listener: TcpListener, health: Arc<Health>, metrics: Arc<Metrics>) {
    let parts = Parts { health, metrics };
    let router = Router::new()
        .route("/metrics", get(metrics_text))
        .route("/healthz", get(alive))
        .route("/livez", get(alive))
        .route("/readyz", get(ready))
        .with_state(parts);
    if let Err(error) = axum::serve(listener, router).await {
        tracing::error!("the metrics listener ended: {error}");
    }
}

async fn alive() -> &'static str {
    "ok"
}

async fn ready(State(parts): State<Parts>, RawQuery(query): RawQuery) -> Response {
    let ready = parts.health.ready();
    let verbose = query.is_some_and(|query| query.split('&').any(|part| part.starts_with("verbose")));
    let status = if ready { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR };
    // A failed check is always told in full, as the API server does.
    let text = if ready && !verbose { "ok".to_owned() } else { parts.health.report() };
    (status, text).into_response()
}

async fn metrics_text(State(parts): State<Parts>) -> Response {
    match parts.metrics.text() {
        Ok(text) => ([(header::CONTENT_TYPE, prometheus::TEXT_FORMAT)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
