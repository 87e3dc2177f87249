//! A connection, plain or TLS, that never waits. Reads and writes bytes; knows nothing of HTTP.

use std::io::{self, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rustix::event::PollFlags;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use crate::patience::{self, Deadline};

/// What TLS needs to begin.
#[derive(Clone)]
pub struct TlsServer {
    pub config: Arc<ClientConfig>,
    /// The server's name in its certificate.
    pub name: ServerName<'static>,
}

/// A connection.
pub enum Transport {
    Plain(TcpStream),
    Encrypted(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Transport {
    /// Begins a connection that never waits; it is made when it becomes writable.
    pub fn begin(to: SocketAddr, tls: Option<&TlsServer>) -> io::Result<Transport> {
        Transport::over(patience::begin(to)?, tls)
    }

    /// Makes a connection; afterwards it never waits. Errors: as [`patience::connect`].
    pub fn made(
        to: SocketAddr,
        tls: Option<&TlsServer>,
        deadline: &Deadline<'_>,
    ) -> io::Result<Transport> {
        Transport::over(patience::connect(to, deadline)?, tls)
    }

    /// What a request waits for that is being sent or answered.
    pub fn awaits(&self, sending: bool) -> PollFlags {
        let writes = match self {
            Transport::Plain(_) => sending,
            Transport::Encrypted(tls) => tls.conn.wants_write(),
        };
        if writes { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN }
    }

    fn over(tcp: TcpStream, tls: Option<&TlsServer>) -> io::Result<Transport> {
        tcp.set_nodelay(true)?;
        let Some(tls) = tls else {
            return Ok(Transport::Plain(tcp));
        };
        let connection = ClientConnection::new(tls.config.clone(), tls.name.clone())
            .map_err(io::Error::other)?;
        Ok(Transport::Encrypted(Box::new(StreamOwned::new(connection, tcp))))
    }

    fn tcp(&self) -> &TcpStream {
        match self {
            Transport::Plain(tcp) => tcp,
            Transport::Encrypted(tls) => &tls.sock,
        }
    }

    /// Why the connection failed, asked once it became writable.
    pub fn connected(&self) -> io::Result<()> {
        self.tcp().take_error()?.map_or(Ok(()), Err)
    }

    /// Reads some bytes; 0 at the end. Errors: `WouldBlock`, or that the connection is broken.
    pub fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Transport::Plain(tcp) => tcp.read(into),
            Transport::Encrypted(tls) => tls.read(into),
        }
    }

    /// Writes some of `head`, then `body`. Errors: `WouldBlock`, or that the connection is broken.
    pub fn write(&mut self, head: &[u8], body: &[u8]) -> io::Result<usize> {
        match self {
            Transport::Plain(tcp) if body.is_empty() => tcp.write(head),
            Transport::Plain(tcp) => tcp.write_vectored(&[IoSlice::new(head), IoSlice::new(body)]),
            Transport::Encrypted(tls) if !head.is_empty() => tls.write(head),
            Transport::Encrypted(tls) => tls.write(body),
        }
    }

    /// Hands over what encryption holds back. Errors: `WouldBlock`, or that the connection is
    /// broken.
    pub fn flush(&mut self) -> io::Result<()> {
        match self {
            Transport::Plain(_) => Ok(()),
            Transport::Encrypted(tls) => tls.flush(),
        }
    }
}

impl AsFd for Transport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tcp().as_fd()
    }
}
