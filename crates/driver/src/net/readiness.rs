//! Waiting for many connections at once: one epoll instance for each worker. Takes any descriptor that epoll
//! knows, that of a client library too, which is then driven by its own calls.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use taillight_core::{Clock, MonoClock, Stamp};

const NS_OF_MS: i64 = 1_000_000;

/// Descriptors by number, and which of them were ready last.
pub struct ReadinessLoop {
    epoll: OwnedFd,
    events: Vec<Event>,
}

impl ReadinessLoop {
    /// With room for the events of `count` descriptors. Errors: when the kernel gives no epoll.
    pub fn new(count: usize) -> io::Result<ReadinessLoop> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(ReadinessLoop { epoll, events: Vec::with_capacity(count.max(1)) })
    }

    /// Looks at a descriptor from now on, until it is closed.
    pub fn add(&self, fd: impl AsFd, number: usize, wanted: EventFlags) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, EventData::new_u64(number as u64), wanted)?)
    }

    pub fn change(&self, fd: impl AsFd, number: usize, wanted: EventFlags) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, fd, EventData::new_u64(number as u64), wanted)?)
    }

    /// Waits until a descriptor is ready, for `left` nanoseconds or without an end, and says how many are. A
    /// signal ends it too, and a wait of more than 1 ms ends up to 1 ms early.
    pub fn wait(&mut self, left: Option<i64>) -> io::Result<usize> {
        // epoll knows milliseconds only: it waits for whole ones, and poll for less than one.
        let whole = left.map(|ns| timespec(ns / NS_OF_MS * NS_OF_MS));
        if let Some(rest) = left.filter(|ns| (1..NS_OF_MS).contains(ns)) {
            let epoll = self.epoll.as_fd();
            let ready = poll(&mut [PollFd::new(&epoll, PollFlags::IN)], Some(&timespec(rest)));
            uninterrupted(ready)?;
        }
        self.events.clear();
        let room = rustix::buffer::spare_capacity(&mut self.events);
        uninterrupted(epoll::wait(&self.epoll, room, whole.as_ref()))?;
        Ok(self.events.len())
    }

    /// The number of the nth descriptor that was ready.
    #[inline]
    pub fn ready(&self, nth: usize) -> usize {
        self.events[nth].data.u64() as usize
    }
}

/// Nanoseconds until a moment; none without an end, 0 when it is over.
pub fn left(until: Option<Stamp>) -> Option<i64> {
    until.map(|until| if until.0 <= 0 { 0 } else { until.since(MonoClock.now()).max(0) })
}

fn timespec(ns: i64) -> Timespec {
    Timespec { tv_sec: ns / 1_000_000_000, tv_nsec: ns % 1_000_000_000 }
}

fn uninterrupted(waited: Result<usize, Errno>) -> io::Result<()> {
    match waited {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(Errno::NOSYS) => Err(ErrorKind::Unsupported.into()),
        Err(e) => Err(e.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};

    /// What a client library gives: a descriptor, and calls of its own.
    #[test]
    fn descriptors_of_others_wake_the_loop() {
        let library = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        let mut readiness = ReadinessLoop::new(2).unwrap();
        readiness.add(&library, 7, EventFlags::IN).unwrap();
        for left in [0, 500_000, 2_000_000] {
            assert_eq!(readiness.wait(Some(left)).unwrap(), 0);
        }
        rustix::io::write(&library, &1u64.to_ne_bytes()).unwrap();
        for left in [Some(0), Some(500_000), None] {
            assert_eq!(readiness.wait(left).unwrap(), 1);
            assert_eq!(readiness.ready(0), 7);
        }
    }
}
