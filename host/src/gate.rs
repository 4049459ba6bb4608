//! The server's wish to be left alone: a 429 or 503 with `Retry-After` closes the gate, and nothing is sent
//! before it opens. client-go waits inside the request as well (`rest/with_retry.go`).

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Request, Response, StatusCode, header};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;
use tower::{Layer, Service};

/// The longest wait that is granted: a server that asks for more is asked again.
const LONGEST: Duration = Duration::from_mins(1);

/// Shared by everything that sends.
#[derive(Clone, Debug, Default)]
pub struct Gate {
    opens: Arc<Mutex<Option<Instant>>>,
}

impl Gate {
    fn close_for(&self, wait: Duration) {
        let until = Instant::now() + wait.min(LONGEST);
        let mut opens = self.opens.lock().unwrap_or_else(PoisonError::into_inner);
        if opens.is_none_or(|old| old < until) {
            *opens = Some(until);
        }
    }

    /// How long nothing should be sent.
    pub fn closed_for(&self) -> Duration {
        let opens = *self.opens.lock().unwrap_or_else(PoisonError::into_inner);
        opens.map_or(Duration::ZERO, |opens| opens.saturating_duration_since(Instant::now()))
    }

    /// Waits until the gate is open.
    pub async fn open(&self) {
        loop {
            let wait = self.closed_for();
            if wait.is_zero() {
                return;
            }
            tokio::time::sleep(wait + jitter(wait / 8)).await;
        }
    }
}

/// Up to `most`, so that many waiting tasks or hosts do not come back at once. Needs no more than to differ.
pub fn jitter(most: Duration) -> Duration {
    use std::hash::{BuildHasher as _, RandomState};
    let random = RandomState::new().hash_one(0_u8) % 1_000;
    most.mul_f64(random as f64 / 1_000.0)
}

impl<S> Layer<S> for Gate {
    type Service = Gated<S>;

    fn layer(&self, inner: S) -> Gated<S> {
        Gated { inner, gate: self.clone() }
    }
}

/// A client's service that watches for `Retry-After`.
#[derive(Clone, Debug)]
pub struct Gated<S> {
    inner: S,
    gate: Gate,
}

impl<S, A, B> Service<Request<A>> for Gated<S>
where
    S: Service<Request<A>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let gate = self.gate.clone();
        self.inner
            .call(request)
            .inspect(move |answer| {
                if let Ok(answer) = answer
                    && let Some(wait) = retry_after(answer)
                {
                    gate.close_for(wait);
                }
            })
            .boxed()
    }
}

/// `Retry-After` in seconds; the API server sends no dates.
fn retry_after<B>(answer: &Response<B>) -> Option<Duration> {
    let asks = matches!(answer.status(), StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
    let seconds = answer.headers().get(header::RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    asks.then(|| Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn answer(gate: &Gate, status: u16, retry_after: Option<&'static str>) {
        let service = tower::service_fn(move |_request: Request<()>| async move {
            let mut answer = Response::builder().status(status);
            if let Some(value) = retry_after {
                answer = answer.header(header::RETRY_AFTER, value);
            }
            answer.body(())
        });
        tower::ServiceExt::oneshot(gate.layer(service), Request::new(())).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn case_43_nothing_is_sent_before_the_server_wants_it() {
        let gate = Gate::default();
        let start = Instant::now();
        answer(&gate, 429, Some("7")).await;
        gate.open().await;
        let waited = start.elapsed();
        assert!(waited >= Duration::from_secs(7) && waited < Duration::from_secs(9), "{waited:?}");
        assert_eq!(gate.closed_for(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn other_answers_leave_the_gate_open_and_a_huge_wish_is_cut() {
        let gate = Gate::default();
        for (status, value) in [(200, Some("7")), (429, None), (503, Some("soon")), (409, Some("7"))] {
            answer(&gate, status, value).await;
            assert_eq!(gate.closed_for(), Duration::ZERO, "{status} {value:?}");
        }
        answer(&gate, 503, Some("4294967295")).await;
        assert_eq!(gate.closed_for(), LONGEST);
    }
}
