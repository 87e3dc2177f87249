//! Making connections: names are resolved and servers waited for, never longer than a deadline, and no longer
//! than a moment once the run is asked to stop. Also what `/proc` says of a server's process, where it is on
//! this machine.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use taillight_machine::Sys;
use taillight_machine::process::ProcessStat;

pub use crate::patience::Deadline;

/// Between two attempts to enter the queue of a unix socket.
const QUEUE_PAUSE: Duration = Duration::from_millis(5);

/// A server's place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerAddress {
    Tcp(String, u16),
    Unix(String),
}

impl ServerAddress {
    /// Whether it is one of this machine by its name: a unix socket, `localhost`, 127.0.0.1 or ::1.
    pub fn is_here(&self) -> bool {
        match self {
            ServerAddress::Unix(_) => true,
            ServerAddress::Tcp(host, _) => ["127.0.0.1", "localhost", "::1"].contains(&&**host),
        }
    }
}

/// What `/proc` says of the process with this number, where its name begins with one of these: a number that a
/// server tells may be one of another machine or container.
pub fn process_named(pid: u64, names: &[&str]) -> Option<ProcessStat> {
    let stat = ProcessStat::of(&Sys::default(), &pid.to_string())?;
    names.iter().any(|known| stat.name().starts_with(known)).then_some(stat)
}

/// When a process began, seconds since 1970.
pub fn began(stat: &ProcessStat) -> Option<f64> {
    let ticks = stat.started()? as f64;
    let seconds = |clock| {
        let now = rustix::time::clock_gettime(clock);
        now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
    };
    let boot = seconds(rustix::time::ClockId::Realtime) - seconds(rustix::time::ClockId::Boottime);
    Some(boot + ticks / rustix::param::clock_ticks_per_second() as f64)
}

/// Addresses of a server, as the system orders them, perhaps none. Errors: as [`Deadline::slice`], or the resolver's.
pub fn resolve(host: &str, port: u16, deadline: &Deadline<'_>) -> io::Result<Vec<SocketAddr>> {
    let (found, finds) = mpsc::channel();
    let host = host.to_owned();
    // The system's resolver cannot be told to end.
    std::thread::spawn(move || {
        let all = (host.as_str(), port).to_socket_addrs().map(Vec::from_iter);
        let _ = found.send(all);
    });
    loop {
        match finds.recv_timeout(deadline.slice()?) {
            Ok(all) => return all,
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(_) => return Err(ErrorKind::AddrNotAvailable.into()),
        }
    }
}

/// Begins a connection that never waits; it is made when it becomes writable.
pub fn begin(to: SocketAddr) -> io::Result<OwnedFd> {
    let family = match to {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let fd = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    match rustix::net::connect(&fd, &to) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(fd),
        Err(e) => Err(e.into()),
    }
}

/// Makes a connection, which waits for nothing afterwards. Errors: as [`Deadline::slice`], or why the
/// server does not take it.
pub fn connect(to: SocketAddr, deadline: &Deadline<'_>) -> io::Result<OwnedFd> {
    let tcp = begin(to)?;
    loop {
        deadline.wait_for(&tcp, PollFlags::OUT)?;
        sockopt::socket_error(&tcp)??;
        if rustix::net::getpeername(&tcp).is_ok() {
            return Ok(tcp);
        }
    }
}

/// Connects to the first of these addresses that takes it, within one deadline: each has its share of
/// what is left. Errors: as [`connect`], of the last one; `AddrNotAvailable` when there is none.
pub fn connect_any(all: &[SocketAddr], deadline: &Deadline<'_>) -> io::Result<OwnedFd> {
    let mut made = Err(ErrorKind::AddrNotAvailable.into());
    for (nth, at) in all.iter().enumerate() {
        made = connect(*at, &deadline.share(all.len() - nth));
        if made.is_ok() {
            break;
        }
    }
    made
}

/// Connects to a unix socket. A server whose queue of connections is full is waited for, but not longer than
/// `deadline`. Errors: as [`connect`].
pub fn connect_unix(file: &Path, deadline: &Deadline<'_>) -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let fd = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let address = rustix::net::SocketAddrUnix::new(file)?;
    loop {
        match rustix::net::connect(&fd, &address) {
            Ok(()) => return Ok(fd),
            // Its queue of connections is full; no event says when it is not.
            Err(Errno::AGAIN) => std::thread::sleep(deadline.slice()?.min(QUEUE_PAUSE)),
            Err(e) => return Err(e.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use taillight_core::StopFlag;

    #[test]
    fn names_are_resolved_and_nobody_there_is_an_error() {
        let stop = StopFlag::default();
        let deadline = Deadline::within(Duration::from_secs(5), &stop);
        let all = resolve("127.0.0.1", 1, &deadline).unwrap();
        assert_eq!(connect(all[0], &deadline).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        stop.stop();
        let e = connect(all[0], &deadline).unwrap_err();
        assert!(matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionRefused));
    }
}
