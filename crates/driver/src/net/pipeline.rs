//! A worker's pipelines: requests collected by connection and sent together, replies taken in their order, by one
//! readiness loop over all connections. When one connection is lost, all that is in flight fails, and what is
//! submitted later is an error.

use std::io;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use taillight_core::probe::Token;
use taillight_core::{Clock, Error, MonoClock, Op, Result, Stamp, Status};

use super::readiness::{ReadinessLoop, left};
use super::slots::SlotTable;
use super::socket::{Frame, PipelinedSocket, RECEIVE_WAIT};
use crate::contract::{Completion, Session, Submitted};

/// What a driver makes of operations and replies; a session with it is a [`Pipelines`].
pub trait PipelineProtocol {
    /// The slots of the session.
    fn slots(&mut self) -> &mut SlotTable;
    /// As [`Session::submit`], of an operation that has its slot: its requests go into `send`.
    fn request(&mut self, op: &Op, slot: u32, send: &mut Vec<u8>) -> Result<()>;
    /// As [`Session::submit_many`], likewise.
    fn request_many(
        &mut self,
        op: &Op,
        _keys: &[u64],
        _slot: u32,
        _send: &mut Vec<u8>,
    ) -> Result<()> {
        Err(Error::internal(format!("this protocol has no {} of drawn keys", op.kind.name())))
    }
    /// The reply at the start of `bytes`, which came over connection `at`, and the completion of its operation if it
    /// was the last of that one; requests that it asks for go into `send`. Errors inside it end all connections
    /// of the session.
    fn take(
        &mut self,
        at: usize,
        bytes: &[u8],
        send: &mut Vec<u8>,
    ) -> Frame<io::Result<Option<Completion>>>;
    /// Forgets which replies are to come: the connections are gone.
    fn forget(&mut self);
}

/// The pipelines of a session, with the protocol that they speak.
pub struct Pipelines<P> {
    sockets: PipelinedSockets,
    protocol: P,
    /// The server's name in words.
    server: &'static str,
    /// Why a connection is gone.
    lost: Option<String>,
    /// What was in flight then.
    failed: Vec<Completion>,
}

impl<P: PipelineProtocol> Pipelines<P> {
    /// Over connections of its own, for `depth` operations at most. Errors: `Unavailable` when the kernel
    /// gives no epoll.
    pub fn new(
        sockets: Vec<PipelinedSocket>,
        protocol: P,
        server: &'static str,
        depth: usize,
    ) -> Result<Pipelines<P>> {
        let sockets = PipelinedSockets::new(sockets)
            .map_err(|e| Error::unavailable("cannot wait for connections").source(e))?;
        Ok(Pipelines { sockets, protocol, server, lost: None, failed: Vec::with_capacity(depth) })
    }

    /// Where the requests of a slot go, beside the protocol. Errors: `Target` when a connection is gone.
    #[inline]
    fn outlet(&mut self, slot: u32) -> Result<(&mut P, &mut Vec<u8>)> {
        if let Some(why) = &self.lost {
            let what = format!("the connection to the {} server is lost", self.server);
            return Err(Error::target(what)
                .with("why", why)
                .hint("see the server's log; what was measured until then is kept"));
        }
        let at = of_slot(slot, self.sockets.sockets.len());
        Ok((&mut self.protocol, self.sockets.out(at)))
    }

    /// Ends everything in flight with an error each.
    #[cold]
    fn lose(&mut self, e: &io::Error) {
        self.lost = Some(e.to_string());
        let errno = e.raw_os_error();
        let status = Status(errno.unwrap_or(Errno::CONNRESET.raw_os_error()));
        self.protocol.slots().lose(status, &mut self.failed);
        self.protocol.forget();
    }

    /// Takes the slot and collects the requests of its operation.
    #[inline]
    fn queue(
        &mut self,
        op: &Op,
        slot: u32,
        token: Token,
        request: impl FnOnce(&mut P, &mut Vec<u8>) -> Result<()>,
    ) -> Result<Submitted> {
        let (protocol, send) = self.outlet(slot)?;
        if !protocol.slots().occupy(op, slot, token)? {
            return Ok(Submitted::Full);
        }
        request(protocol, send)?;
        protocol.slots().started();
        Ok(Submitted::Queued)
    }

    /// Sends what it can and takes the replies that are there, or the first that come until `until`.
    fn turn(
        &mut self,
        wait: bool,
        until: Option<Stamp>,
        out: &mut Vec<Completion>,
    ) -> io::Result<()> {
        self.sockets.send()?;
        for nth in 0..self.sockets.wait(wait, until)? {
            let at = self.sockets.ready(nth);
            loop {
                let more = self.sockets.receive(at)?;
                let protocol = &mut self.protocol;
                let mut take = |bytes: &[u8], send: &mut _| protocol.take(at, bytes, send);
                while let Some(done) = self.sockets.take(at, &mut take)? {
                    out.extend(done?);
                }
                if !more {
                    break;
                }
            }
        }
        // A reply may have asked for more.
        self.sockets.send()
    }
}

impl<P: PipelineProtocol> Session for Pipelines<P> {
    fn buffer(&mut self, slot: u32) -> &mut [u8] {
        self.protocol.slots().buffer(slot)
    }

    fn submit(&mut self, op: &Op, slot: u32, token: Token) -> Result<Submitted> {
        self.queue(op, slot, token, |protocol, send| protocol.request(op, slot, send))
    }

    fn submit_many(&mut self, op: &Op, keys: &[u64], slot: u32, token: Token) -> Result<Submitted> {
        self.queue(op, slot, token, |protocol, send| protocol.request_many(op, keys, slot, send))
    }

    fn flush(&mut self) -> Result<()> {
        if self.lost.is_none()
            && let Err(e) = self.sockets.send()
        {
            self.lose(&e);
        }
        Ok(())
    }

    fn poll(&mut self, min: u32, until: Option<Stamp>, out: &mut Vec<Completion>) -> Result<()> {
        let before = out.len();
        loop {
            let wait = out.len() - before < min as usize;
            if self.lost.is_none()
                && self.protocol.slots().in_flight() > 0
                && let Err(e) = self.turn(wait, until, out)
            {
                self.lose(&e);
            }
            out.append(&mut self.failed);
            let enough = out.len() - before >= min as usize;
            if enough
                || self.protocol.slots().in_flight() == 0
                || until.is_some_and(|until| MonoClock.now() >= until)
            {
                return Ok(());
            }
        }
    }
}

/// Connections by number.
pub struct PipelinedSockets {
    sockets: Vec<PipelinedSocket>,
    readiness: ReadinessLoop,
    /// Numbers of the connections with requests to send, each once; whether a connection is among
    /// them.
    unsent: Vec<u32>,
    is_unsent: Vec<bool>,
    /// Whether requests did not fit into a socket's buffer: then it is looked at for taking more.
    is_blocked: Vec<bool>,
    /// The only connection was not waited for: its receive is to wait.
    to_wait: bool,
}

/// The connection, of so many, that serves a slot.
#[inline]
pub fn of_slot(slot: u32, connections: usize) -> usize {
    match connections {
        1 => 0,
        _ => slot as usize % connections,
    }
}

impl PipelinedSockets {
    /// Errors: when the kernel gives no epoll.
    pub fn new(sockets: Vec<PipelinedSocket>) -> io::Result<PipelinedSockets> {
        let count = sockets.len();
        let readiness = ReadinessLoop::new(count)?;
        for (at, socket) in sockets.iter().enumerate() {
            readiness.add(socket, at, EventFlags::IN)?;
        }
        Ok(PipelinedSockets {
            sockets,
            readiness,
            unsent: Vec::with_capacity(count),
            is_unsent: vec![false; count],
            is_blocked: vec![false; count],
            to_wait: false,
        })
    }

    /// Where the requests of a connection go: [`PipelinedSockets::send`] sends them.
    #[inline]
    pub fn out(&mut self, at: usize) -> &mut Vec<u8> {
        self.will_send(at);
        &mut self.sockets[at].out
    }

    fn will_send(&mut self, at: usize) {
        if !std::mem::replace(&mut self.is_unsent[at], true) {
            self.unsent.push(at as u32);
        }
    }

    /// Sends as much as the sockets take.
    pub fn send(&mut self) -> io::Result<()> {
        let mut still = 0;
        for i in 0..self.unsent.len() {
            let at = self.unsent[i] as usize;
            let all = self.sockets[at].send()?;
            if all == self.is_blocked[at] {
                let wanted = if all { EventFlags::IN } else { EventFlags::IN | EventFlags::OUT };
                self.readiness.change(&self.sockets[at], at, wanted)?;
                self.is_blocked[at] = !all;
            }
            self.is_unsent[at] = !all;
            if !all {
                self.unsent[still] = at as u32;
                still += 1;
            }
        }
        self.unsent.truncate(still);
        Ok(())
    }

    /// Waits until a connection has something to say or takes more of what is to be sent, or `until`; not
    /// at all without `wait`. Returns how many are ready: [`PipelinedSockets::ready`] takes them. A single
    /// connection that may be waited for long counts as ready: its next [`PipelinedSockets::receive`] waits.
    pub fn wait(&mut self, wait: bool, until: Option<Stamp>) -> io::Result<usize> {
        let left = if wait { left(until) } else { Some(0) };
        // The kernel counts a receive's wait in ticks, of up to 10 ms, and rounds up.
        let long = left.is_none_or(|ns| ns > 2 * RECEIVE_WAIT.as_nanos() as i64);
        self.to_wait = self.sockets.len() == 1 && self.unsent.is_empty() && long;
        // One system call less of each reply.
        if self.to_wait { Ok(1) } else { self.readiness.wait(left) }
    }

    /// The nth connection that is ready.
    pub fn ready(&self, nth: usize) -> usize {
        if self.to_wait { 0 } else { self.readiness.ready(nth) }
    }

    /// Takes the next reply of a connection, as [`PipelinedSocket::take`]; requests that this asks for are sent
    /// with the next [`PipelinedSockets::send`].
    #[inline]
    pub fn take<T>(
        &mut self,
        at: usize,
        take: impl FnOnce(&[u8], &mut Vec<u8>) -> Frame<T>,
    ) -> io::Result<Option<T>> {
        let socket = &mut self.sockets[at];
        let before = socket.out.len();
        let taken = socket.take(take)?;
        if socket.out.len() > before {
            self.will_send(at);
        }
        Ok(taken)
    }

    /// Takes in what has come for a connection that is ready; whether more may be there.
    #[inline]
    pub fn receive(&mut self, at: usize) -> io::Result<bool> {
        self.sockets[at].receive(std::mem::take(&mut self.to_wait))
    }
}
