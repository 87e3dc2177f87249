//! One connection: a buffer of commands to send, a buffer of replies that came.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFlags, Timespec};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{RecvFlags, SendFlags};
use taillight_core::{Error, StopFlag};

use super::address::{DatabaseAddress, ServerAddress};
use super::resp::{self, ParsedReply, RespValue};
use crate::patience::{self, Deadline};

/// Bytes read in one call at least.
const CHUNK: usize = 64 << 10;

/// Longest reply outside the measured loop: a list of some thousand clients or keys.
const ANSWER_MAX: usize = 16 << 20;

/// Longest that [`RespSocket::receive`] waits for the first byte.
pub const RECEIVE_WAIT: Duration = Duration::from_millis(20);

/// A connection that never blocks except where it is asked to.
pub struct RespSocket {
    socket: OwnedFd,
    /// Commands; `sent` bytes of them are gone.
    pub out: Vec<u8>,
    sent: usize,
    /// Replies: from `start` to `end` not yet taken.
    input: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes the next reply needs at least.
    needs: usize,
}

impl RespSocket {
    /// Errors: when no server takes the connection in time, or the run is to stop.
    pub fn connect(
        address: &DatabaseAddress,
        timeout: Duration,
        stop: &StopFlag,
    ) -> io::Result<RespSocket> {
        let deadline = Deadline::within(timeout, stop);
        let socket: OwnedFd = match &address.server {
            ServerAddress::Unix(file) => patience::connect_unix(file.as_ref(), &deadline)?.into(),
            ServerAddress::Tcp(host, port) => {
                let found = patience::resolve(host, *port, &deadline)?;
                let socket = patience::connect_any(&found, &deadline)?;
                socket.set_nodelay(true)?;
                socket.into()
            }
        };
        // Calls say themselves whether they wait.
        ioctl_fionbio(&socket, false)?;
        set_socket_timeout(&socket, Timeout::Recv, Some(RECEIVE_WAIT))?;
        Ok(RespSocket {
            socket,
            out: Vec::with_capacity(CHUNK),
            sent: 0,
            input: vec![0; 2 * CHUNK],
            start: 0,
            end: 0,
            needs: 1,
        })
    }

    /// Sends as much as the socket takes; whether all is sent.
    pub fn send(&mut self) -> io::Result<bool> {
        while self.sent < self.out.len() {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match rustix::net::send(&self.socket, &self.out[self.sent..], flags) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n) => self.sent += n,
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
        self.out.clear();
        self.sent = 0;
        Ok(true)
    }

    /// Takes in what has come, or, with `wait`, what comes first within [`RECEIVE_WAIT`]; whether more may
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
        let flags = if wait { RecvFlags::empty() } else { RecvFlags::DONTWAIT };
        match rustix::net::recv(&self.socket, &mut self.input[self.end..], flags) {
            Ok((0, _)) => Err(ErrorKind::ConnectionReset.into()),
            Ok((n, _)) => {
                self.end += n;
                Ok(self.end == self.input.len())
            }
            // A signal ends a wait: whoever waits looks at the time.
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }

    /// Takes the next reply, if it is whole; shows it, and the commands to send, to `take`.
    pub fn take<T>(
        &mut self,
        take: impl FnOnce(RespValue<'_>, &mut Vec<u8>) -> T,
    ) -> io::Result<Option<T>> {
        let held = &self.input[self.start..self.end];
        if held.len() < self.needs {
            return Ok(None);
        }
        match resp::parse(held) {
            ParsedReply::Whole(reply, used) => {
                let taken = take(reply, &mut self.out);
                self.start += used;
                self.needs = 1;
                Ok(Some(taken))
            }
            ParsedReply::Needs(n) => {
                self.needs = n;
                Ok(None)
            }
            ParsedReply::Broken => Err(ErrorKind::InvalidData.into()),
        }
    }

    /// Sends one command and waits for its whole reply: outside the measured loop only. Errors: when the
    /// connection is lost, the run is to stop, or the reply is not there in time or is not that of a server.
    pub fn ask(
        &mut self,
        parts: &[&[u8]],
        timeout: Duration,
        stop: &StopFlag,
    ) -> io::Result<Reply> {
        resp::command(&mut self.out, parts.len());
        for part in parts {
            resp::part(&mut self.out, part);
        }
        self.answer(&Deadline::within(timeout, stop))
    }

    /// Sends the `count` commands in `out` and waits for the replies of all. Errors: as [`RespSocket::ask`].
    pub fn answers(
        &mut self,
        count: usize,
        timeout: Duration,
        stop: &StopFlag,
    ) -> io::Result<Vec<Reply>> {
        let deadline = Deadline::within(timeout, stop);
        (0..count).map(|_| self.answer(&deadline)).collect()
    }

    fn answer(&mut self, deadline: &Deadline<'_>) -> io::Result<Reply> {
        loop {
            let unsent = !self.send()?;
            if let Some(said) = self.take(|reply, _| Reply::of(reply))? {
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
            let events = if unsent { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
            deadline.wait_for(&self.socket, events)?;
        }
    }
}

impl AsFd for RespSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A reply kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// A string or a number.
    Text(Vec<u8>),
    Nil,
    /// Strings; an array inside shows as an empty one, then its own.
    List(Vec<Vec<u8>>),
    /// An error, as the server words it.
    Error(String),
}

impl Reply {
    fn of(reply: RespValue<'_>) -> Reply {
        let text = |reply| match reply {
            RespValue::Simple(s) | RespValue::Bulk(s) => s.to_vec(),
            RespValue::Number(n) => n.to_string().into_bytes(),
            _ => Vec::new(),
        };
        match reply {
            RespValue::Nil => Reply::Nil,
            RespValue::Error(e) => Reply::Error(String::from_utf8_lossy(e).into_owned()),
            RespValue::Array(_, all) => Reply::List(resp::elements(all).map(text).collect()),
            other => Reply::Text(text(other)),
        }
    }
}

/// A duration as the kernel wants it.
pub fn timespec(ns: i64) -> Timespec {
    Timespec { tv_sec: ns / 1_000_000_000, tv_nsec: ns % 1_000_000_000 }
}

/// Why a server cannot be used, in words.
pub fn unreachable(address: &DatabaseAddress, e: io::Error) -> Error {
    let hint = match e.kind() {
        ErrorKind::InvalidData => "what answers there does not speak RESP: check the port",
        ErrorKind::TimedOut | ErrorKind::WouldBlock => {
            "the server does not answer: check the address, or raise options.timeout"
        }
        _ => "start the server, or check the address in target.path",
    };
    Error::unavailable("cannot talk to the Redis server")
        .with("server", address.shown())
        .source(e)
        .hint(hint)
}

/// What a server's refusal means, in words.
pub fn refused(address: &DatabaseAddress, says: &str) -> Error {
    let code = says.split_whitespace().next().unwrap_or_default();
    let (what, hint) = match code {
        "NOAUTH" => ("the server wants a password", "put it into the environment: REDIS_PASSWORD"),
        "WRONGPASS" => {
            ("the server does not accept the password", "correct REDIS_PASSWORD in the environment")
        }
        "LOADING" => ("the server is still loading its data", "try again when it has started"),
        "MOVED" | "CLUSTERDOWN" => (
            "the server is part of a cluster",
            "this driver drives single servers: name one that is not clustered",
        ),
        "READONLY" => ("the server is a replica", "name the primary"),
        "OOM" => ("the server has no memory left for data", "raise its maxmemory, or load less"),
        "NOPERM" => {
            ("the server's user may not do this", "give it rights to keys under options.prefix")
        }
        _ if says.contains("AUTH") && says.contains("password") => {
            ("the server has no password, but REDIS_PASSWORD is set", "unset REDIS_PASSWORD")
        }
        _ => ("the server refuses", "see what it says"),
    };
    Error::unavailable(what).with("server", address.shown()).with("server says", says).hint(hint)
}
