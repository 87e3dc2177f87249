//! The server behind a client library: the process of this machine at the other end of this process's TCP connections,
//! from what `/proc` shows of sockets (proc(5)). Connections by Unix sockets are not seen.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::{read_link, read_to_string};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use rustix::fs::FileType;
use taillight_machine::Sys;
use taillight_machine::openers::opened;
use taillight_machine::process::{ProcessStat, processes};

/// States of a connection in `/proc/net/tcp` (include/net/tcp_states.h).
const ESTABLISHED: &str = "01";
const LISTEN: &str = "0A";

/// A row of `/proc/net/tcp` or `tcp6`.
#[derive(Debug)]
struct TcpRow {
    local: SocketAddr,
    remote: SocketAddr,
    listens: bool,
    inode: u64,
}

/// The one process that serves this process's connections, or the one above it where that runs the same program: each
/// connection may have a process of its own. A proxy passes for the server. None where there are several servers, none
/// in this network namespace, or none that may be looked at.
pub fn server_process() -> Option<u32> {
    let sys = Sys::default();
    let own = sockets(&sys, "self");
    let rows: Vec<TcpRow> = ["tcp", "tcp6"].iter().flat_map(|name| table(name)).collect();
    let asked: HashSet<u16> =
        rows.iter().filter(|row| row.listens).map(|row| row.local.port()).collect();
    let at: HashMap<(SocketAddr, SocketAddr), u64> =
        rows.iter().map(|row| ((row.local, row.remote), row.inode)).collect();
    // Where this side's port is one that somebody listens at, this process is the server: the live view.
    let served = |row: &&TcpRow| own.contains(&row.inode) && !row.listens;
    let asks = |row: &&TcpRow| !asked.contains(&row.local.port());
    let ends = rows.iter().filter(served).filter(asks);
    let other: HashSet<u64> =
        ends.filter_map(|row| at.get(&(row.remote, row.local)).copied()).collect();
    let servers: BTreeSet<u32> =
        holders(&sys, &other).into_iter().map(|pid| main_process(&sys, pid)).collect();
    match servers.len() {
        1 => servers.first().copied().filter(|pid| *pid != std::process::id()),
        _ => None,
    }
}

/// The inodes of a process's sockets.
fn sockets(sys: &Sys, process: &str) -> HashSet<u64> {
    let all = opened(&sys.path(&format!("/proc/{process}")));
    all.filter(|file| file.kind == FileType::Socket).map(|file| file.inode).collect()
}

/// The processes that hold one of these sockets.
fn holders(sys: &Sys, inodes: &HashSet<u64>) -> Vec<u32> {
    if inodes.is_empty() {
        return Vec::new();
    }
    let mut all = processes(sys);
    all.retain(|process| !sockets(sys, process).is_disjoint(inodes));
    all.iter().filter_map(|pid| pid.parse().ok()).collect()
}

/// The process above, where it runs the same program: a trace looks at a process and its children, no further down.
fn main_process(sys: &Sys, pid: u32) -> u32 {
    let program = |pid: u32| read_link(format!("/proc/{pid}/exe")).ok();
    let above = || ProcessStat::of(sys, &pid.to_string())?.parent();
    let same = |parent: &u32| program(*parent).is_some_and(|it| Some(it) == program(pid));
    above().filter(same).unwrap_or(pid)
}

/// The rows of a table; none where it cannot be read.
fn table(name: &str) -> Vec<TcpRow> {
    let text = read_to_string(format!("/proc/self/net/{name}")).unwrap_or_default();
    text.lines().skip(1).filter_map(row).collect()
}

/// A row that listens or is established.
fn row(line: &str) -> Option<TcpRow> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, local, remote, state, _, _, _, _, _, inode, ..] = words[..] else { return None };
    let listens = state == LISTEN;
    let kept = listens || state == ESTABLISHED;
    let (local, remote) = (end(local)?, end(remote)?);
    kept.then_some(TcpRow { local, remote, listens, inode: inode.parse().ok()? })
}

/// An end as the kernel writes it: words of 32 bits in the machine's order. A version 4 address inside a version 6 one
/// is the former, as the other side may show it so.
fn end(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let word = |i: usize| {
        let digits = address.get(i * 8..i * 8 + 8)?;
        u32::from_str_radix(digits, 16).ok().map(u32::to_ne_bytes)
    };
    let address = match address.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let all = [word(0)?, word(1)?, word(2)?, word(3)?].concat();
            Ipv6Addr::from(<[u8; 16]>::try_from(all).ok()?).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(address, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn ends_are_read_in_both_versions() {
        let here = "127.0.0.1:8080".parse().ok();
        let word = u32::from_ne_bytes([127, 0, 0, 1]);
        assert_eq!(end(&format!("{word:08X}:1F90")), here);
        let mapped = u32::from_ne_bytes([0, 0, 0xFF, 0xFF]);
        assert_eq!(end(&format!("0000000000000000{mapped:08X}{word:08X}:1F90")), here);
        assert_eq!(end("7F0001:1F90"), None);
    }

    /// The child asks, as the client; this process is its server.
    #[test]
    fn the_process_at_the_other_end_is_found() {
        const PORT: &str = "TAILLIGHT_TEST_PEER_PORT";
        if let Ok(port) = std::env::var(PORT) {
            let _connected =
                std::net::TcpStream::connect(format!("127.0.0.1:{port}")).expect("a server");
            // The server has no socket of the connection until it accepts.
            let seen = (0..200).find_map(|_| {
                std::thread::sleep(std::time::Duration::from_millis(20));
                server_process()
            });
            println!("server {seen:?}");
            return;
        }
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port().to_string();
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args([
                "--nocapture",
                "--exact",
                "net::peer::tests::the_process_at_the_other_end_is_found",
            ])
            .env(PORT, port)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the test once more");
        let _accepted = listener.accept().expect("a client");
        let mut said = String::new();
        child.stdout.take().expect("piped").read_to_string(&mut said).expect("words");
        assert!(child.wait().expect("it ends").success());
        assert!(said.contains(&format!("server Some({})", std::process::id())), "{said}");
    }
}
