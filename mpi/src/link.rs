//! The connection to another rank as the kernel has it. While a rank is waited for, its host is asked for life each
//! second, so that a link that is down is told from a process that is slow: a host answers for a process that stands
//! still. The rank that waits is not measuring; the one whose host is asked may be.

use std::ffi::c_int;
use std::time::{Duration, Instant};

use crate::sys;

/// A host that has not answered for so long while it was asked is cut off.
const SILENT: Duration = Duration::from_secs(10);
/// What came before a connection was closed has been read by then.
const CLOSED: Duration = Duration::from_secs(2);
/// Between two looks.
const EACH: Duration = Duration::from_millis(200);

/// The connection to a rank.
pub struct RankLink {
    fd: c_int,
    other: String,
    /// Asked since, and looked at last.
    asked: Option<(Instant, Instant)>,
    /// The kernel asks: without that, silence says nothing.
    can_ask: bool,
    /// Found closed.
    closed: Option<Instant>,
    /// What the last look found.
    cut_off: bool,
}

/// TCP connections of this process: descriptor, own end and the other.
pub fn own() -> Vec<(c_int, String, String)> {
    let all = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let all = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    all.filter_map(|fd| sys::ends_of(fd).map(|(own, other)| (fd, own, other))).collect()
}

impl RankLink {
    pub fn new(fd: c_int, other: String) -> RankLink {
        RankLink { fd, other, asked: None, can_ask: false, closed: None, cut_off: false }
    }

    /// Whether its host is silent for too long, or the connection is closed; asked again and again while the rank is
    /// waited for.
    pub fn is_cut_off(&mut self) -> bool {
        let now = Instant::now();
        if self.asked.is_some_and(|(_, looked)| now - looked < EACH) {
            return self.cut_off;
        }
        // The number may be that of another descriptor by now.
        let same = sys::ends_of(self.fd).is_some_and(|(_, other)| other == self.other);
        if self.asked.is_none() {
            self.can_ask = same && sys::ask(self.fd, true);
        }
        let since = self.asked.map_or(now, |(since, _)| since);
        self.asked = Some((since, now));
        self.cut_off = match sys::silence(self.fd).filter(|_| same) {
            Some(silent) => self.can_ask && silent >= SILENT && now - since >= SILENT,
            None => now - *self.closed.get_or_insert(now) >= CLOSED,
        };
        self.cut_off
    }

    /// The rank was heard: its host is not asked any more.
    pub fn rest(&mut self) {
        if self.asked.take().is_some() && self.closed.is_none() && self.can_ask {
            sys::ask(self.fd, false);
        }
        self.cut_off = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_connection_is_found_by_its_ends_and_closed_is_cut_off() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (there, from) = listener.accept().unwrap();
        let end = format!("{} {}", from.ip(), from.port());
        let (fd, _, other) = own().into_iter().find(|(.., other)| *other == end).unwrap();
        let mut link = RankLink::new(fd, other);
        let ask = |link: &mut RankLink, time: Duration| {
            let until = Instant::now() + time;
            while Instant::now() < until {
                if link.is_cut_off() {
                    return true;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            false
        };
        assert!(!ask(&mut link, Duration::from_millis(500)), "it answers");
        link.rest();
        drop(here);
        assert!(ask(&mut link, Duration::from_secs(30)), "it is closed");
        drop(there);
    }
}
