//! One connection of a pipelined protocol: a buffer of requests to send, a buffer of replies that came. Allocates
//! nothing once both have grown to the largest.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::io::ioctl_fionbio;
use rustix::net::sockopt::{self, Timeout};
use taillight_core::StopFlag;

use super::connect::{self, Deadline, ServerAddress};
use super::transport::{RawSocket, TlsServer, Transport};

/// Bytes that there is room for in each read, at least.
const CHUNK: usize = 64 << 10;

/// Longest reply outside the measured loop: a list of some thousand clients or keys.
const ANSWER_MAX: usize = 16 << 20;

/// Longest that [`PipelinedSocket::receive`] waits for the first byte.
pub const RECEIVE_WAIT: Duration = Duration::from_millis(20);

/// What the bytes so far are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame<T> {
    /// A whole reply of so many bytes.
    Whole(T, usize),
    /// Not whole before there are at least so many bytes.
    Needs(usize),
    Broken,
}

/// A connection that never blocks except where it is asked to.
pub struct PipelinedSocket {
    transport: Transport,
    /// Requests; `sent` bytes of them are gone.
    pub out: Vec<u8>,
    sent: usize,
    /// Replies: from `start` to `end` not yet taken.
    input: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes the next reply needs at least.
    needs: usize,
}

impl PipelinedSocket {
    /// Errors: when no server takes the connection in time, or the run is to stop.
    pub fn connect(
        address: &ServerAddress,
        timeout: Duration,
        stop: &StopFlag,
    ) -> io::Result<PipelinedSocket> {
        let deadline = Deadline::within(timeout, stop);
        let socket = match address {
            ServerAddress::Unix(file) => connect::connect_unix(file.as_ref(), &deadline)?,
            ServerAddress::Tcp(host, port) => {
                let found = connect::resolve(host, *port, &deadline)?;
                let socket = connect::connect_any(&found, &deadline)?;
                sockopt::set_tcp_nodelay(&socket, true)?;
                socket
            }
        };
        // Calls say themselves whether they wait.
        ioctl_fionbio(&socket, false)?;
        sockopt::set_socket_timeout(&socket, Timeout::Recv, Some(RECEIVE_WAIT))?;
        Ok(PipelinedSocket {
            transport: Transport::Plain(RawSocket::from(socket)),
            out: Vec::with_capacity(CHUNK),
            sent: 0,
            input: vec![0; 2 * CHUNK],
            start: 0,
            end: 0,
            needs: 1,
        })
    }

    /// Encrypts everything from here on; nothing may be left that came or is to be sent. Errors: when bytes came
    /// that nobody vouches for, or TLS cannot begin.
    pub fn secure(mut self, tls: &TlsServer) -> io::Result<PipelinedSocket> {
        if self.start < self.end || !self.out.is_empty() {
            return Err(ErrorKind::InvalidData.into());
        }
        self.transport = self.transport.secured(Some(tls))?;
        Ok(self)
    }

    /// Sends as much as the socket takes; whether all is sent.
    pub fn send(&mut self) -> io::Result<bool> {
        let sent = self.send_all();
        match sent {
            Ok(()) => {
                self.out.clear();
                self.sent = 0;
                Ok(true)
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(e) => Err(e),
        }
    }

    fn send_all(&mut self) -> io::Result<()> {
        while self.sent < self.out.len() {
            match self.transport.write(&self.out[self.sent..], &[]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n) => self.sent += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        self.transport.flush()
    }

    /// Takes in what has come, or, with `wait`, what comes first within `RECEIVE_WAIT`; whether more may
    /// be there.
    pub fn receive(&mut self, wait: bool) -> io::Result<bool> {
        let held = self.end - self.start;
        if self.start > 0 {
            self.input.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, held);
        }
        // Grows to the largest reply, once.
        let room = self.needs.max(held) + CHUNK;
        if self.input.len() < room {
            self.input.resize(room.next_power_of_two(), 0);
        }
        let into = &mut self.input[self.end..];
        let read = match wait {
            true => self.transport.read_waiting(into),
            false => self.transport.read(into),
        };
        match read {
            Ok(0) => Err(ErrorKind::ConnectionReset.into()),
            Ok(n) => {
                self.end += n;
                Ok(self.end == self.input.len())
            }
            // A signal ends a wait: whoever waits looks at the time.
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                Ok(false)
            }
            Err(e) => Err(e),
        }
    }

    /// Takes the next reply, if it is whole; shows the bytes that came, and the requests to send, to `take`.
    #[inline]
    pub fn take<T>(
        &mut self,
        take: impl FnOnce(&[u8], &mut Vec<u8>) -> Frame<T>,
    ) -> io::Result<Option<T>> {
        let held = &self.input[self.start..self.end];
        if held.len() < self.needs {
            return Ok(None);
        }
        match take(held, &mut self.out) {
            Frame::Whole(taken, used) => {
                self.start += used;
                self.needs = 1;
                Ok(Some(taken))
            }
            Frame::Needs(n) => {
                self.needs = n;
                Ok(None)
            }
            Frame::Broken => Err(ErrorKind::InvalidData.into()),
        }
    }

    /// Sends what is in `out` and waits for one whole reply: outside the measured loop only. Errors: when the
    /// connection is lost, the run is to stop, or the reply is not there in time or is none.
    pub fn answer<T>(
        &mut self,
        deadline: &Deadline<'_>,
        mut take: impl FnMut(&[u8]) -> Frame<T>,
    ) -> io::Result<T> {
        loop {
            let unsent = !self.send()?;
            if let Some(said) = self.take(|bytes, _| take(bytes))? {
                return Ok(said);
            }
            let held = self.end - self.start;
            if self.needs.max(held) > ANSWER_MAX {
                return Err(ErrorKind::InvalidData.into());
            }
            deadline.slice()?;
            if self.receive(false)? || self.end - self.start > held {
                continue;
            }
            deadline.wait_for(&self.transport, self.transport.awaits(unsent))?;
        }
    }
}

impl AsFd for PipelinedSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.transport.as_fd()
    }
}
