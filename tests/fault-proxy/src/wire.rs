//! A client's connection as the proxy's parts see it: what was written, whether it fell into a black hole, and
//! the bodies that are sent on it.

use bytes::Bytes;
use http_body::{Body, Frame};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

/// The proxy ended a request on purpose, or its server was away.
#[derive(Debug, thiserror::Error)]
#[error("ended by the fault proxy")]
pub(crate) struct Dropped;

/// What is known of a connection.
pub(crate) struct Wire {
    /// Cancelled when the connection fell into a black hole.
    pub(crate) hole: CancellationToken,
    written: AtomicU64,
    /// What `written` was when the last flush was through.
    flushed: watch::Sender<u64>,
}

impl Wire {
    pub(crate) fn new(hole: CancellationToken) -> Self {
        Self { hole, written: AtomicU64::new(0), flushed: watch::Sender::new(0) }
    }

    /// Until so much was written and flushed.
    async fn flushed(self: Arc<Self>, mark: u64) {
        let mut flushed = self.flushed.subscribe();
        // The sender lives in `self`: this cannot fail.
        let _ = flushed.wait_for(|flushed| *flushed >= mark).await;
    }
}

/// A connection that keeps its [`Wire`] up to date.
pub(crate) struct Watched<T> {
    inner: T,
    wire: Arc<Wire>,
}

impl<T> Watched<T> {
    pub(crate) fn new(inner: T, wire: Arc<Wire>) -> Self {
        Self { inner, wire }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Watched<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Watched<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        // Nothing wakes it: whoever drives the connection is told of the hole too, and drops it.
        if self.wire.hole.is_cancelled() {
            return Poll::Pending;
        }
        let written = ready!(Pin::new(&mut self.inner).poll_write(cx, buf))?;
        self.wire.written.fetch_add(written as u64, Ordering::SeqCst);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.inner).poll_flush(cx))?;
        let written = self.wire.written.load(Ordering::SeqCst);
        self.wire.flushed.send_if_modified(|flushed| std::mem::replace(flushed, written) != written);
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// What a [`Relay`] is told to send.
pub(crate) enum Piece {
    Data(Bytes),
    /// A proper end.
    End,
    /// Broken off, once everything before is on the wire.
    Cut,
}

/// The body of an answer, in pieces. If its sender is dropped before it said how it ends, it is broken off.
pub(crate) struct Relay {
    pieces: mpsc::Receiver<Piece>,
    wire: Arc<Wire>,
    /// How much the wire must have written for everything so far to be out: at least a byte for the head.
    mark: u64,
    cutting: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Relay {
    /// A body that is fed while it is sent. The channel is short: what a client does not read must not pile up here.
    pub(crate) fn fed(wire: Arc<Wire>) -> (mpsc::Sender<Piece>, Self) {
        let (sender, pieces) = mpsc::channel(16);
        let mark = wire.written.load(Ordering::SeqCst) + 1;
        (sender, Self { pieces, wire, mark, cutting: None })
    }

    /// A body that is there already.
    pub(crate) fn of(wire: Arc<Wire>, body: Bytes, end: Piece) -> Self {
        let (sender, relay) = Self::fed(wire);
        for piece in [Piece::Data(body), end] {
            // There is room for two.
            let _ = sender.try_send(piece);
        }
        relay
    }
}

impl Body for Relay {
    type Data = Bytes;
    type Error = Dropped;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Dropped>>> {
        loop {
            if let Some(cutting) = &mut self.cutting {
                ready!(cutting.as_mut().poll(cx));
                return Poll::Ready(Some(Err(Dropped)));
            }
            match ready!(self.pieces.poll_recv(cx)) {
                Some(Piece::Data(data)) if data.is_empty() => {}
                Some(Piece::Data(data)) => {
                    self.mark = self.wire.written.load(Ordering::SeqCst) + data.len() as u64;
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                Some(Piece::End) => return Poll::Ready(None),
                Some(Piece::Cut) => self.cutting = Some(Box::pin(self.wire.clone().flushed(self.mark))),
                None => return Poll::Ready(Some(Err(Dropped))),
            }
        }
    }
}
