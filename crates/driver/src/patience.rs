//! Waiting for something that another program does or holds: never longer than the wait may last, and
//! no longer than a slice once the run is asked to stop.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use taillight_core::StopFlag;

/// The stop flag is looked at so often.
const SLICE: Duration = Duration::from_millis(100);

/// An earlier run that gave up on I/O in flight, or was killed, lets go of a device or file a moment after it ended: the
/// kernel takes a ring apart by itself.
pub const BUSY_WAIT: Duration = Duration::from_millis(500);
pub const BUSY_PAUSE: Duration = Duration::from_millis(25);

/// Between two attempts to enter the queue of a unix socket.
const QUEUE_PAUSE: Duration = Duration::from_millis(5);

/// The end of one wait, whatever comes in meanwhile.
pub struct Deadline<'a> {
    until: Instant,
    stop: &'a StopFlag,
}

impl Deadline<'_> {
    pub fn within(most: Duration, stop: &StopFlag) -> Deadline<'_> {
        Deadline { until: Instant::now() + most, stop }
    }

    /// The share of what is left that one of `waits` may have, one after the other.
    pub fn share(&self, waits: usize) -> Deadline<'_> {
        let left = self.until.saturating_duration_since(Instant::now());
        let waits = u32::try_from(waits.max(1)).unwrap_or(u32::MAX);
        Deadline { until: Instant::now() + left / waits, stop: self.stop }
    }

    /// How long to wait before asking again. Errors: `TimedOut`, `Interrupted` when the run is to stop.
    pub fn slice(&self) -> io::Result<Duration> {
        if self.stop.stopped() {
            return Err(io::Error::new(ErrorKind::Interrupted, "stopped while waiting"));
        }
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left.min(SLICE)) }
    }

    /// Waits for an event of a connection, or for a slice. Errors: as [`Deadline::slice`].
    pub fn wait_for(&self, fd: impl AsFd, events: PollFlags) -> io::Result<()> {
        let slice = Timespec { tv_sec: 0, tv_nsec: i64::from(self.slice()?.subsec_nanos()) };
        match poll(&mut [PollFd::new(&fd, events)], Some(&slice)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }
}

/// Asks `is_free` until it gives something, `most` is over or the run is to stop, with a pause between
/// two questions; the last answer counts, so that one question is always asked.
pub fn wait<T>(
    most: Duration,
    pause: Duration,
    stop: &StopFlag,
    mut is_free: impl FnMut() -> Option<T>,
) -> Option<T> {
    let deadline = Deadline::within(most, stop);
    loop {
        let answer = is_free();
        if answer.is_some() || deadline.slice().is_err() {
            return answer;
        }
        std::thread::sleep(pause);
    }
}

/// Addresses of a server, as the system orders them. Errors: as [`Deadline::slice`], or that there are none.
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
pub fn begin(to: SocketAddr) -> io::Result<TcpStream> {
    let family = match to {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let fd = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    match rustix::net::connect(&fd, &to) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(TcpStream::from(fd)),
        Err(e) => Err(e.into()),
    }
}

/// Makes a connection, which waits for nothing afterwards. Errors: as [`Deadline::slice`], or why the
/// server does not take it.
pub fn connect(to: SocketAddr, deadline: &Deadline<'_>) -> io::Result<TcpStream> {
    let tcp = begin(to)?;
    loop {
        deadline.wait_for(&tcp, PollFlags::OUT)?;
        if let Some(e) = tcp.take_error()? {
            return Err(e);
        }
        if tcp.peer_addr().is_ok() {
            return Ok(tcp);
        }
    }
}

/// Connects to the first of these addresses that takes it, within one deadline: each has its share of
/// what is left. Errors: as [`connect`], of the last one; `AddrNotAvailable` when there is none.
pub fn connect_any(all: &[SocketAddr], deadline: &Deadline<'_>) -> io::Result<TcpStream> {
    let mut made = Err(ErrorKind::AddrNotAvailable.into());
    for (nth, at) in all.iter().enumerate() {
        made = connect(*at, &deadline.share(all.len() - nth));
        if made.is_ok() {
            break;
        }
    }
    made
}

/// Connects to a unix socket. A server that takes no connections is waited for, but not longer than
/// `deadline`. Errors: as [`connect`].
pub fn connect_unix(file: &Path, deadline: &Deadline<'_>) -> io::Result<UnixStream> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let fd = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let address = rustix::net::SocketAddrUnix::new(file)?;
    loop {
        match rustix::net::connect(&fd, &address) {
            Ok(()) => return Ok(UnixStream::from(fd)),
            // Its queue of connections is full; no event says when it is not.
            Err(Errno::AGAIN) => std::thread::sleep(deadline.slice()?.min(QUEUE_PAUSE)),
            Err(e) => return Err(e.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_asks_until_there_is_an_answer_or_no_patience() {
        let stop = StopFlag::default();
        let mut asked = 0;
        let mut third = || {
            asked += 1;
            (asked == 3).then_some(asked)
        };
        let long = Duration::from_secs(3_600);
        assert_eq!(wait(long, Duration::ZERO, &stop, &mut third), Some(3));
        assert_eq!(wait(Duration::ZERO, Duration::ZERO, &stop, &mut third), None, "asked once");
        stop.stop();
        assert_eq!(wait(long, Duration::ZERO, &stop, &mut third), None, "asked once");
        assert_eq!(asked, 5);
    }

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
