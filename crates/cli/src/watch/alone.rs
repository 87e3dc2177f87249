//! Keeps a second `taillight watch` off the same processes while the first one goes on.

use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};

use taillight_core::{Error, Result};

/// Processes that are held at most: a descriptor each.
const HELD: usize = 64;

/// Sockets that are held while processes are watched, one for each of the first [`HELD`], by which another
/// `taillight watch` knows of it.
pub struct Alone(#[expect(dead_code, reason = "held open")] Vec<UnixListener>);

impl Alone {
    /// Errors: `Unavailable` while another one watches one of these.
    pub fn with(pids: &[u32]) -> Result<Alone> {
        let mut first = pids.to_vec();
        first.sort_unstable();
        first.truncate(HELD);
        let mut held = Vec::new();
        for pid in first {
            let address = SocketAddr::from_abstract_name(format!("taillight-watch-{pid}"));
            match address.and_then(|address| UnixListener::bind_addr(&address)) {
                Ok(socket) => held.push(socket),
                Err(e) if e.kind() == ErrorKind::AddrInUse => {
                    return Err(Error::unavailable(
                        "another `taillight watch` watches this process",
                    )
                    .with("pid", pid)
                    .hint("wait until it ends, or end it with Ctrl-C: its report is kept"));
                }
                // Who cannot keep another one off can watch all the same.
                Err(_) => {}
            }
        }
        Ok(Alone(held))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_one_is_refused_and_thousands_of_processes_take_few_descriptors() {
        // Numbers that no process has.
        let pids: Vec<u32> = (u32::MAX - 5000..u32::MAX).collect();
        let first = Alone::with(&pids).expect("nobody else");
        assert!(Alone::with(&pids[HELD..HELD + 3]).is_ok(), "no descriptor for these");
        let e = Alone::with(&pids[..3]).err().expect("refused").to_string();
        assert!(e.contains("another `taillight watch`"), "{e}");
        drop(first);
        assert!(Alone::with(&pids[..3]).is_ok());
    }
}
