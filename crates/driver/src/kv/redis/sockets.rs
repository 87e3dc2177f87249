//! The connections of one worker, by one epoll over all of them: which have something to send, and which
//! have something to say, so that a thread serves many connections. Commands and replies are `session`'s.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use taillight_core::{Clock, MonoClock, Stamp};

use super::wire::{RECEIVE_WAIT, RespSocket, timespec};

const NS_OF_MS: i64 = 1_000_000;

/// Connections by number.
pub struct RedisSockets {
    sockets: Vec<RespSocket>,
    epoll: OwnedFd,
    /// Those with commands to send, each once, and whether one is among them.
    unsent: Vec<u32>,
    is_unsent: Vec<bool>,
    /// What did not fit into a socket's buffer: woken when it takes more.
    is_blocked: Vec<bool>,
    /// Those that were ready last; `events` has room for all.
    ready: Vec<u32>,
    /// The only connection was not waited for: its receive is to wait.
    to_wait: bool,
    events: Vec<Event>,
}

/// The connection, of so many, that serves a slot.
#[inline]
pub fn of_slot(slot: u32, connections: usize) -> usize {
    match connections {
        1 => 0,
        _ => slot as usize % connections,
    }
}

impl RedisSockets {
    /// Errors: when the kernel gives no epoll.
    pub fn new(sockets: Vec<RespSocket>) -> io::Result<RedisSockets> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        for (at, socket) in sockets.iter().enumerate() {
            epoll::add(&epoll, socket, EventData::new_u64(at as u64), EventFlags::IN)?;
        }
        let count = sockets.len();
        Ok(RedisSockets {
            sockets,
            epoll,
            unsent: Vec::with_capacity(count),
            is_unsent: vec![false; count],
            is_blocked: vec![false; count],
            ready: Vec::with_capacity(count),
            to_wait: false,
            events: Vec::with_capacity(count),
        })
    }

    /// Where the commands of a connection go: [`RedisSockets::send`] sends them.
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
                let data = EventData::new_u64(at as u64);
                epoll::modify(&self.epoll, &self.sockets[at], data, wanted)?;
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
    /// at all without `wait`. Returns how many are ready: [`RedisSockets::ready`] takes them. A single connection
    /// that may be waited for long counts as ready: its next [`RedisSockets::receive`] waits.
    pub fn wait(&mut self, wait: bool, until: Option<Stamp>) -> io::Result<usize> {
        let left = match until {
            _ if !wait => Some(0),
            Some(until) => Some(until.since(MonoClock.now()).max(0)),
            None => None,
        };
        // The kernel counts a receive's wait in ticks, of up to 10 ms, and rounds up.
        let long = left.is_none_or(|ns| ns > 2 * RECEIVE_WAIT.as_nanos() as i64);
        self.to_wait = self.sockets.len() == 1 && self.unsent.is_empty() && long;
        if self.to_wait {
            // One system call less of each reply.
            self.ready.clear();
            self.ready.push(0);
            return Ok(1);
        }
        // epoll knows milliseconds only: the rest is waited for by poll.
        let whole = left.map(|ns| timespec(ns / NS_OF_MS * NS_OF_MS));
        if wait && left.is_some_and(|ns| ns < NS_OF_MS) {
            let epoll = self.epoll.as_fd();
            let rest = left.map(timespec);
            uninterrupted(poll(&mut [PollFd::new(&epoll, PollFlags::IN)], rest.as_ref()))?;
        }
        self.events.clear();
        let room = rustix::buffer::spare_capacity(&mut self.events);
        uninterrupted(epoll::wait(&self.epoll, room, whole.as_ref()))?;
        self.ready.clear();
        self.ready.extend(self.events.iter().map(|event| event.data.u64() as u32));
        Ok(self.ready.len())
    }

    /// The nth connection that is ready.
    pub fn ready(&self, nth: usize) -> usize {
        self.ready[nth] as usize
    }

    /// Takes the next reply of a connection, as [`RespSocket::take`]; commands that this asks for are sent
    /// with the next [`RedisSockets::send`].
    #[inline]
    pub fn take<T>(
        &mut self,
        at: usize,
        take: impl FnOnce(super::resp::RespValue<'_>, &mut Vec<u8>) -> T,
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

fn uninterrupted(waited: Result<usize, Errno>) -> io::Result<()> {
    match waited {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(Errno::NOSYS) => Err(ErrorKind::Unsupported.into()),
        Err(e) => Err(e.into()),
    }
}
