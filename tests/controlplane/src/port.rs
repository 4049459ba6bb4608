//! Ports that nobody else gets.

use crate::Error;
use socket2::{Domain, Socket, Type};
use std::net::{Ipv4Addr, SocketAddr};

/// A free port of 127.0.0.1, kept as long as this lives. The socket is bound, never listens, and shares its
/// port with programs of this user that ask for it (`SO_REUSEPORT`). So there is no moment in which another
/// process could take it, neither before the program has started nor while it is down; and while it is down,
/// connections are refused.
pub(crate) struct Port {
    number: u16,
    _socket: Socket,
}

impl Port {
    pub(crate) fn reserve() -> Result<Self, Error> {
        let reserve = || {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
            socket.set_reuse_port(true)?;
            socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())?;
            let number = socket.local_addr()?.as_socket().map_or(0, |address| address.port());
            Ok(Self { number, _socket: socket })
        };
        reserve().map_err(Error::Port)
    }

    pub(crate) fn number(&self) -> u16 {
        self.number
    }
}
