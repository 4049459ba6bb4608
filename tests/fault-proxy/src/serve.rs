//! The proxy's port: accepting, serving and swallowing connections.

use crate::Error;
use crate::exchange;
use crate::log::locked;
use crate::proxy::Shared;
use crate::wire::{Watched, Wire};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Connections that wait to be accepted: more than a client under test opens at once.
const BACKLOG: u32 = 1024;

pub(crate) struct Door {
    room: Arc<Room>,
    address: SocketAddr,
    /// Bound, and never listens: the port's own while nothing else is bound to it.
    _reserved: TcpSocket,
    state: tokio::sync::Mutex<State>,
}

enum State {
    Open {
        cancel: CancellationToken,
        tasks: TaskTracker,
    },
    /// Nothing listens: clients are refused.
    Shut,
}

/// What every connection needs.
struct Room {
    shared: Arc<Shared>,
    acceptor: Option<TlsAcceptor>,
    /// Cancelled while the black hole is on; connections keep the one that they began with.
    hole: Mutex<CancellationToken>,
    /// Connections in the hole, so that nothing closes them.
    buried: Mutex<Vec<std::net::TcpStream>>,
}

impl Door {
    pub(crate) fn open(shared: Arc<Shared>, acceptor: Option<TlsAcceptor>) -> Result<Self, Error> {
        let reserved = bound((Ipv4Addr::LOCALHOST, 0).into())?;
        let address = reserved.local_addr().map_err(|source| Error::Listen { port: 0, source })?;
        let listener = listen(address)?;
        let room = Arc::new(Room { shared, acceptor, hole: Mutex::default(), buried: Mutex::default() });
        let state = tokio::sync::Mutex::new(admit(&room, listener));
        Ok(Self { room, address, _reserved: reserved, state })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn black_hole(&self, on: bool) {
        let mut hole = locked(&self.room.hole);
        if on {
            hole.cancel();
        } else if hole.is_cancelled() {
            *hole = CancellationToken::new();
        }
    }

    pub(crate) fn forget_buried(&self) {
        locked(&self.room.buried).clear();
    }

    pub(crate) async fn shut(&self) -> Result<(), Error> {
        let mut state = self.state.lock().await;
        if let State::Open { cancel, tasks } = &*state {
            cancel.cancel();
            tasks.close();
            tasks.wait().await;
            self.forget_buried();
            *state = State::Shut;
        }
        Ok(())
    }

    pub(crate) async fn reopen(&self) -> Result<(), Error> {
        let mut state = self.state.lock().await;
        if matches!(*state, State::Shut) {
            *state = admit(&self.room, listen(self.address)?);
        }
        Ok(())
    }
}

/// A listener beside the socket that reserves the port.
fn listen(address: SocketAddr) -> Result<TcpListener, Error> {
    bound(address)?.listen(BACKLOG).map_err(|source| Error::Listen { port: address.port(), source })
}

/// A socket that shares its port with those of this user that ask for it. Whoever asks for a free port gets another.
fn bound(address: SocketAddr) -> Result<TcpSocket, Error> {
    let bind = || {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseport(true)?;
        socket.bind(address)?;
        Ok(socket)
    };
    bind().map_err(|source| Error::Listen { port: address.port(), source })
}

/// Accepts until cancelled.
fn admit(room: &Arc<Room>, listener: TcpListener) -> State {
    let (cancel, tasks) = (room.shared.ended.child_token(), TaskTracker::new());
    tasks.spawn(accept(room.clone(), listener, cancel.clone(), tasks.clone()));
    State::Open { cancel, tasks }
}

async fn accept(room: Arc<Room>, listener: TcpListener, cancel: CancellationToken, tasks: TaskTracker) {
    while let Some(accepted) = cancel.run_until_cancelled(listener.accept()).await {
        // A client that left before it was accepted is no trouble.
        if let Ok((stream, _)) = accepted {
            // Boxed: it holds the state of both protocols.
            let connection = Box::pin(connection(room.clone(), stream));
            let cancel = cancel.clone();
            tasks.spawn(async move { cancel.run_until_cancelled_owned(connection).await });
        }
    }
}

/// Serves a connection until it ends or falls into the black hole.
async fn connection(room: Arc<Room>, stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    // The twin keeps the connection open when the one that is served is dropped.
    let stream = stream.into_std()?;
    let twin = stream.try_clone()?;
    let stream = TcpStream::from_std(stream)?;
    let hole = locked(&room.hole).clone();
    let wire = Arc::new(Wire::new(hole.clone()));
    tokio::select! {
        biased;
        () = hole.cancelled() => locked(&room.buried).push(twin),
        () = handshake_and_serve(&room, stream, wire) => {}
    }
    Ok(())
}

async fn handshake_and_serve(room: &Room, stream: TcpStream, wire: Arc<Wire>) {
    match &room.acceptor {
        None => serve(&room.shared, stream, wire).await,
        Some(acceptor) => {
            // A client that does not trust the certificate goes away: that is its business.
            if let Ok(stream) = acceptor.accept(stream).await {
                serve(&room.shared, stream, wire).await;
            }
        }
    }
}

async fn serve<S>(shared: &Arc<Shared>, stream: S, wire: Arc<Wire>)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let service = service_fn(|request| exchange::serve(shared.clone(), wire.clone(), request));
    let io = TokioIo::new(Watched::new(stream, wire.clone()));
    // Its errors are the faults that the test asked for, and clients that left.
    drop(auto::Builder::new(TokioExecutor::new()).serve_connection(io, service).await);
}
