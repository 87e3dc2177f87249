//! A connection, plain or TLS, that waits only where it is asked to. Reads and writes bytes; knows no protocol.

use std::io::{self, IoSlice, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
#[cfg(feature = "tls")]
use std::sync::Arc;

use rustix::event::PollFlags;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, sockopt};
#[cfg(feature = "tls")]
use rustls::{ClientConfig, ClientConnection, StreamOwned, pki_types::ServerName};

use super::connect::{self, Deadline};

/// What TLS needs to begin. Nobody has one in a build without TLS.
#[derive(Clone)]
pub struct TlsServer {
    #[cfg(feature = "tls")]
    pub config: Arc<ClientConfig>,
    /// The server's name in its certificate.
    #[cfg(feature = "tls")]
    pub name: ServerName<'static>,
    #[cfg(not(feature = "tls"))]
    pub absent: std::convert::Infallible,
}

/// A connected socket. Its calls never wait, except for a read that is told to.
pub struct RawSocket {
    fd: OwnedFd,
    /// The next read waits as long as the socket's own time-out lets it.
    waits: bool,
}

/// A connection.
pub enum Transport {
    Plain(RawSocket),
    #[cfg(feature = "tls")]
    Encrypted(Box<StreamOwned<ClientConnection, RawSocket>>),
}

impl From<OwnedFd> for RawSocket {
    fn from(fd: OwnedFd) -> RawSocket {
        RawSocket { fd, waits: false }
    }
}

impl Read for RawSocket {
    #[inline]
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let wait = std::mem::take(&mut self.waits);
        let flags = if wait { RecvFlags::empty() } else { RecvFlags::DONTWAIT };
        Ok(rustix::net::recv(&self.fd, into, flags)?.0)
    }
}

const SEND: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);

impl Write for RawSocket {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(&self.fd, bytes, SEND)?)
    }
    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(rustix::net::sendmsg(&self.fd, parts, &mut SendAncillaryBuffer::default(), SEND)?)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Transport {
    /// Over TCP: begins a connection that never waits; it is made when it becomes writable.
    pub fn begin(to: SocketAddr, tls: Option<&TlsServer>) -> io::Result<Transport> {
        Transport::over(connect::begin(to)?, tls)
    }

    /// Over TCP: makes a connection; afterwards it never waits. Errors: as [`connect::connect`].
    pub fn made(
        to: SocketAddr,
        tls: Option<&TlsServer>,
        deadline: &Deadline<'_>,
    ) -> io::Result<Transport> {
        Transport::over(connect::connect(to, deadline)?, tls)
    }

    fn over(tcp: OwnedFd, tls: Option<&TlsServer>) -> io::Result<Transport> {
        sockopt::set_tcp_nodelay(&tcp, true)?;
        Transport::Plain(RawSocket::from(tcp)).secured(tls)
    }

    /// The same connection, encrypted from here on where `tls` says so.
    pub fn secured(self, tls: Option<&TlsServer>) -> io::Result<Transport> {
        match (self, tls) {
            #[cfg(feature = "tls")]
            (Transport::Plain(socket), Some(tls)) => {
                let connection = ClientConnection::new(tls.config.clone(), tls.name.clone())
                    .map_err(io::Error::other)?;
                Ok(Transport::Encrypted(Box::new(StreamOwned::new(connection, socket))))
            }
            (transport, _) => Ok(transport),
        }
    }

    /// Events to wait for: readable, and writable while `sending`; with TLS, while it has bytes to write.
    pub fn awaits(&self, sending: bool) -> PollFlags {
        let writes = match self {
            Transport::Plain(_) => sending,
            #[cfg(feature = "tls")]
            Transport::Encrypted(tls) => tls.conn.wants_write(),
        };
        if writes { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN }
    }

    fn socket(&mut self) -> &mut RawSocket {
        match self {
            Transport::Plain(socket) => socket,
            #[cfg(feature = "tls")]
            Transport::Encrypted(tls) => &mut tls.sock,
        }
    }

    pub fn is_plain(&self) -> bool {
        matches!(self, Transport::Plain(_))
    }

    /// Errors: why the connection could not be made. Asked when it has become writable.
    pub fn connected(&self) -> io::Result<()> {
        Ok(sockopt::socket_error(self)??)
    }

    /// Reads some bytes; 0 at the end. Errors: `WouldBlock`, or that the connection is broken.
    #[inline]
    pub fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Transport::Plain(socket) => socket.read(into),
            #[cfg(feature = "tls")]
            Transport::Encrypted(tls) => tls.read(into),
        }
    }

    /// As [`Transport::read`], but waits as long as the socket's own time-out lets it.
    #[inline]
    pub fn read_waiting(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.socket().waits = true;
        let read = self.read(into);
        self.socket().waits = false;
        read
    }

    /// Writes some bytes of `head`, then of `body`, and says how many. Errors: `WouldBlock`, or
    /// that the connection is broken.
    #[inline]
    pub fn write(&mut self, head: &[u8], body: &[u8]) -> io::Result<usize> {
        match self {
            Transport::Plain(socket) if body.is_empty() => socket.write(head),
            Transport::Plain(socket) => {
                socket.write_vectored(&[IoSlice::new(head), IoSlice::new(body)])
            }
            #[cfg(feature = "tls")]
            Transport::Encrypted(tls) if !head.is_empty() => tls.write(head),
            #[cfg(feature = "tls")]
            Transport::Encrypted(tls) => tls.write(body),
        }
    }

    /// Hands over what encryption holds back. Errors: `WouldBlock`, or that the connection is
    /// broken.
    #[inline]
    pub fn flush(&mut self) -> io::Result<()> {
        match self {
            Transport::Plain(_) => Ok(()),
            #[cfg(feature = "tls")]
            Transport::Encrypted(tls) => tls.flush(),
        }
    }
}

impl AsFd for Transport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Transport::Plain(socket) => socket.fd.as_fd(),
            #[cfg(feature = "tls")]
            Transport::Encrypted(tls) => tls.sock.fd.as_fd(),
        }
    }
}
