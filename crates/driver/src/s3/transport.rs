//! A connection: plain or TLS, blocking or not. Reads and writes bytes; knows nothing of HTTP.

use std::io::{self, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

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
        let family = match to {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let fd = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        match rustix::net::connect(&fd, &to) {
            Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {}
            Err(e) => return Err(e.into()),
        }
        Transport::over(TcpStream::from(fd), tls)
    }

    /// Makes a connection that waits at most `timeout` for each step.
    pub fn blocking(
        to: SocketAddr,
        tls: Option<&TlsServer>,
        timeout: Duration,
    ) -> io::Result<Transport> {
        let tcp = TcpStream::connect_timeout(&to, timeout)?;
        tcp.set_read_timeout(Some(timeout))?;
        tcp.set_write_timeout(Some(timeout))?;
        Transport::over(tcp, tls)
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
