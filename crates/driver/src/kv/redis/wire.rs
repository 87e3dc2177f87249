//! A connection to a Redis server for commands outside the measured loop, and errors in words for a server that does
//! not answer or refuses.

use std::io::{self, ErrorKind};
use std::time::Duration;

use taillight_core::{Error, StopFlag};

use super::address::DatabaseAddress;
use super::resp::{self, RespValue};
use crate::net::{Deadline, Frame, PipelinedSocket};

/// A connection whose calls wait for all replies: outside the measured loop only.
pub struct RespSocket(pub PipelinedSocket);

impl RespSocket {
    /// Connects; no command is sent. Errors: when no server takes the connection in time, or the run is to stop.
    pub fn connect(
        address: &DatabaseAddress,
        timeout: Duration,
        stop: &StopFlag,
    ) -> io::Result<RespSocket> {
        PipelinedSocket::connect(&address.server, timeout, stop).map(RespSocket)
    }

    /// Sends one command and waits for its whole reply. Errors: when the connection is lost, the run is to stop,
    /// or the reply is not there in time or is not that of a server.
    pub fn ask(
        &mut self,
        parts: &[&[u8]],
        timeout: Duration,
        stop: &StopFlag,
    ) -> io::Result<Reply> {
        let out = &mut self.0.out;
        resp::command(out, parts.len());
        parts.iter().for_each(|part| resp::part(out, part));
        self.answer(&Deadline::within(timeout, stop))
    }

    /// Sends the `count` commands in `out` and waits for all replies, `timeout` in all. Errors: as [`RespSocket::ask`].
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
        self.0.answer(deadline, |bytes| match resp::parse(bytes) {
            Frame::Whole(reply, used) => Frame::Whole(Reply::of(reply), used),
            Frame::Needs(n) => Frame::Needs(n),
            Frame::Broken => Frame::Broken,
        })
    }
}

/// A reply in memory of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// A string or a number.
    Text(Vec<u8>),
    Nil,
    /// Elements as text; a nil, an error or an array inside shows as an empty string, the elements of the latter
    /// follow.
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

/// The error (`Unavailable`) of a server that cannot be reached, does not answer, or does not speak RESP.
pub fn unreachable(address: &DatabaseAddress, e: io::Error) -> Error {
    let hint = match e.kind() {
        ErrorKind::InvalidData => "what answers there does not speak RESP: check the port",
        ErrorKind::TimedOut | ErrorKind::WouldBlock => {
            "the server does not answer: check the address, or raise options.timeout"
        }
        _ => "start the server, or check the address in target.path",
    };
    Error::unavailable("cannot talk to the Redis server")
        .with("server", address.to_text())
        .source(e)
        .hint(hint)
}

/// The error (`Unavailable`) of a server that refuses a command: what its error reply means, and a hint.
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
    Error::unavailable(what).with("server", address.to_text()).with("server says", says).hint(hint)
}
