//! A bearer token in a file that somebody else renews: a kubeconfig's `tokenFile`, a pod's service account.
//!
//! It is read again once a minute, and at once when the server answers 401, as client-go does
//! (`transport/token_source.go`); kube goes on with a refused token until the minute is over.

use anyhow::{Context as _, Result, bail};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{HeaderValue, Request, Response, StatusCode, header};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;
use tower::{Layer, Service};

/// How long a token is used before the file is looked at again.
const READ_EVERY: Duration = Duration::from_mins(1);

/// A token and where it is from; clones share it.
#[derive(Clone, Debug)]
pub struct TokenFile {
    path: Arc<PathBuf>,
    token: Arc<Mutex<Token>>,
}

#[derive(Debug)]
struct Token {
    /// `Bearer …`
    header: HeaderValue,
    read: Instant,
    refused: bool,
}

fn read(path: &PathBuf) -> Result<HeaderValue> {
    let named = || format!("the token file {} cannot be used", path.display());
    let text = std::fs::read_to_string(path).with_context(named)?;
    let token = text.trim();
    if token.is_empty() {
        bail!("{}: it is empty", named());
    }
    let header = HeaderValue::try_from(format!("Bearer {token}"));
    let mut header = header.with_context(|| format!("{}: it holds no token", named()))?;
    header.set_sensitive(true);
    Ok(header)
}

impl TokenFile {
    /// Reads the file for the first time.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        let token = Token { header: read(&path)?, read: Instant::now(), refused: false };
        Ok(Self { path: Arc::new(path), token: Arc::new(Mutex::new(token)) })
    }

    fn token(&self) -> MutexGuard<'_, Token> {
        self.token.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What to send now. Where the file cannot be read the old token is tried on: some take the file away once
    /// it was read (kubernetes#68164).
    fn header(&self) -> HeaderValue {
        let mut token = self.token();
        if token.refused || token.read.elapsed() >= READ_EVERY {
            match read(&self.path) {
                Ok(header) => token.header = header,
                Err(error) => tracing::debug!("{error:#}; the last token is tried on"),
            }
            (token.read, token.refused) = (Instant::now(), false);
        }
        token.header.clone()
    }

    /// The server does not take `header`, unless it was replaced meanwhile.
    fn refuse(&self, header: &HeaderValue) {
        let mut token = self.token();
        token.refused |= token.header == *header;
    }
}

impl<S> Layer<S> for TokenFile {
    type Service = Authorized<S>;

    fn layer(&self, inner: S) -> Authorized<S> {
        Authorized { inner, token: self.clone() }
    }
}

/// A client's service that sends the token.
#[derive(Clone, Debug)]
pub struct Authorized<S> {
    inner: S,
    token: TokenFile,
}

impl<S, A, B> Service<Request<A>> for Authorized<S>
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

    fn call(&mut self, mut request: Request<A>) -> Self::Future {
        let token = self.token.clone();
        let header = token.header();
        request.headers_mut().insert(header::AUTHORIZATION, header.clone());
        self.inner
            .call(request)
            .inspect(move |answer| {
                if let Ok(answer) = answer
                    && answer.status() == StatusCode::UNAUTHORIZED
                {
                    token.refuse(&header);
                }
            })
            .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tower::ServiceExt as _;

    /// Sends one request to a server that takes `good` only; what was sent, and the answer.
    async fn send(file: &TokenFile, good: &'static str) -> (String, u16) {
        let service = tower::service_fn(move |request: Request<()>| async move {
            let sent = request.headers()[header::AUTHORIZATION].to_str().unwrap().to_owned();
            let status = if sent == format!("Bearer {good}") { 200 } else { 401 };
            Response::builder().status(status).body(sent)
        });
        let answer = file.layer(service).oneshot(Request::new(())).await.unwrap();
        (answer.body().clone(), answer.status().as_u16())
    }

    #[tokio::test(start_paused = true)]
    async fn case_38_a_token_is_read_again_when_it_is_refused_and_once_a_minute() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        std::fs::write(&path, "one\n").unwrap();
        let file = TokenFile::open(&path).unwrap();
        assert_eq!(send(&file, "one").await, ("Bearer one".into(), 200), "without the line's end");
        std::fs::write(&path, "two\n").unwrap();
        assert_eq!(send(&file, "one").await, ("Bearer one".into(), 200), "it is good for a minute");
        assert_eq!(send(&file, "two").await, ("Bearer one".into(), 401));
        assert_eq!(send(&file, "two").await, ("Bearer two".into(), 200), "at once, after the refusal");
        std::fs::write(&path, "three").unwrap();
        tokio::time::advance(READ_EVERY).await;
        assert_eq!(send(&file, "two").await, ("Bearer three".into(), 401), "its minute was over");
        std::fs::remove_file(&path).unwrap();
        assert_eq!(send(&file, "three").await, ("Bearer three".into(), 200), "the file was taken away");
    }

    #[test]
    fn a_file_that_is_missing_or_holds_no_token_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        for (content, why) in [(None, "No such file"), (Some(" \n"), "empty"), (Some("a\nb"), "no token")] {
            if let Some(content) = content {
                std::fs::write(&path, content).unwrap();
            }
            let text = format!("{:#}", TokenFile::open(&path).unwrap_err());
            assert!(text.contains("/token cannot be used") && text.contains(why), "{text}");
        }
    }
}
