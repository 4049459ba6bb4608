//! A client's connection as the proxy's parts see it: when it was flushed, whether it fell into a black hole, and
//! the bodies that are sent on it.

use bytes::Bytes;
use futures::task::AtomicWaker;
use http_body::{Body, Frame};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
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
    /// How many flushes went through.
    flushes: watch::Sender<u64>,
    /// The task that writes.
    writer: AtomicWaker,
}

impl Wire {
    pub(crate) fn new(hole: CancellationToken) -> Self {
        Self { hole, flushes: watch::Sender::new(0), writer: AtomicWaker::new() }
    }

    /// Until all that was handed to hyper is on the wire. A flush takes along what was buffered when it began, and h2
    /// buffers before each: the second flush from now began after the first was through, so it took everything. The
    /// writer may have nothing to do, so it is woken for each.
    async fn flushed(self: Arc<Self>) {
        let mut flushes = self.flushes.subscribe();
        for _ in 0..2 {
            let so_far = *flushes.borrow_and_update();
            self.writer.wake();
            // The sender lives in `self`: this cannot fail.
            let _ = flushes.wait_for(|flushes| *flushes > so_far).await;
        }
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
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.wire.writer.register(cx.waker());
        ready!(Pin::new(&mut self.inner).poll_flush(cx))?;
        self.wire.flushes.send_modify(|flushes| *flushes += 1);
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
    cutting: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Relay {
    /// A body that is fed while it is sent. The channel is short: what a client does not read must not pile up here.
    pub(crate) fn fed(wire: Arc<Wire>) -> (mpsc::Sender<Piece>, Self) {
        let (sender, pieces) = mpsc::channel(16);
        (sender, Self { pieces, wire, cutting: None })
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
                Some(Piece::Data(data)) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                Some(Piece::End) => return Poll::Ready(None),
                Some(Piece::Cut) => self.cutting = Some(Box::pin(self.wire.clone().flushed())),
                None => return Poll::Ready(Some(Err(Dropped))),
            }
        }
    }
}
