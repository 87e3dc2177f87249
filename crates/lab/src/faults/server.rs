//! Faults of a server and of the network to it, that leave its program as it is.

use std::net::UdpSocket;
use std::time::Duration;

use anyhow::Result;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::cleanup::tool;
use crate::fault_trial::FaultTrial;
use crate::faults::memory;
use crate::faults::store::{alone, inside, mounted, redis, redis_with, shaped};
use crate::stage::LabCgroup;

const GAP: Duration = Duration::from_millis(200);
/// How long TCP waits at most before it sends again what was lost once.
const AGAIN: Duration = Duration::from_millis(250);

/// Packets are lost for a while; what was lost is sent again much later.
pub fn lost_packets(b: &mut FaultTrial<'_>) -> Result<()> {
    let (_, pid) = redis(&mut b.undo, b.stop)?;
    alone(b, pid)?;
    lossy(b, pid)
}

/// The network of a server loses all for a while.
pub fn lossy(b: &mut FaultTrial<'_>, pid: u32) -> Result<()> {
    let rule = |what: &str| inside(pid, &["iptables", what, "INPUT", "-p", "tcp", "-j", "DROP"]);
    let on = b.amplitude;
    b.pulses(GAP, AGAIN, |stop| {
        rule("-A")?;
        let slept = stop.sleep(on);
        rule("-D")?;
        slept
    })
}

/// The server lets all clients wait, as in a failover.
pub fn paused_clients(b: &mut FaultTrial<'_>) -> Result<()> {
    let (socket, pid) = redis(&mut b.undo, b.stop)?;
    alone(b, pid)?;
    let time = b.amplitude.as_millis().to_string();
    let words = ["-s".as_ref(), socket.as_os_str(), "CLIENT".as_ref(), "PAUSE".as_ref()];
    let words = [&words[..], &[time.as_ref(), "ALL".as_ref()]].concat();
    b.pulses(GAP, b.amplitude, |_| tool("redis-cli", &words).map(drop))
}

/// The server syncs each write before it answers, and its disk takes long over that at times.
pub fn server_syncs(b: &mut FaultTrial<'_>) -> Result<()> {
    let (at, slow) = mounted(b)?;
    let dir = at.to_string_lossy();
    let how = ["--save", "", "--appendonly", "yes", "--appendfsync", "always", "--dir", &dir];
    let (_, pid) = redis_with(&mut b.undo, b.stop, &how)?;
    alone(b, pid)?;
    b.slow_syncs(&slow)
}

/// The server's control group may run only so long in each period.
pub fn limited_server(b: &mut FaultTrial<'_>) -> Result<()> {
    let (_, pid) = redis(&mut b.undo, b.stop)?;
    alone(b, pid)?;
    limited(b, pid)
}

/// A process that may run only so long in each period.
pub fn limited(b: &mut FaultTrial<'_>, pid: u32) -> Result<()> {
    let group = LabCgroup::of(&mut b.undo, "cpu")?;
    group.add_process(pid)?;
    let set = |quota: i64| group.set("cpu.cfs_quota_us", quota);
    group.set("cpu.cfs_period_us", b.amplitude.as_micros() + 1000)?;
    let (on, after) = (b.amplitude * 6, b.amplitude);
    let done = b.pulses(GAP, after, |stop| {
        set(1000)?;
        let slept = stop.sleep(on);
        set(-1)?;
        slept
    });
    set(-1)?;
    done
}

/// The server's memory has been swapped out, to a disk that is slow when it is needed again.
pub fn swapped_server(b: &mut FaultTrial<'_>) -> Result<()> {
    let (slow, group) = memory::swapped(b)?;
    let (_, pid) = redis(&mut b.undo, b.stop)?;
    group.add_process(pid)?;
    alone(b, pid)?;
    memory::dropped(b, &slow, &group, |held| held / 8)
}

/// A neighbour's datagrams fill the network to the server, and packets queue behind them.
pub fn shared_network(b: &mut FaultTrial<'_>) -> Result<()> {
    const RATE: u64 = 40_000_000;
    const SENDERS: u64 = 16;
    const PIECE: u64 = 16 << 10;
    let (_, pid) = redis(&mut b.undo, b.stop)?;
    shaped(pid)?(RATE)?;
    alone(b, pid)?;
    let network = std::fs::File::open(format!("/proc/{pid}/ns/net"))?;
    // Twice as much as passes in that time.
    let each = (RATE * b.amplitude.as_millis() as u64 / 500 / SENDERS / PIECE).max(1);
    let flood = || -> Result<()> {
        let kind = Some(LinkNameSpaceType::Network);
        move_into_link_name_space(std::os::fd::AsFd::as_fd(&network), kind)?;
        // Nobody reads what comes: it is thrown away.
        let end = UdpSocket::bind("127.0.0.1:0")?;
        let data = vec![0; PIECE as usize];
        for _ in 0..SENDERS {
            let sender = UdpSocket::bind("127.0.0.1:0")?;
            for _ in 0..each {
                sender.send_to(&data, end.local_addr()?)?;
            }
        }
        Ok(())
    };
    b.pulses(GAP, b.amplitude * 2, |_| {
        std::thread::scope(|scope| scope.spawn(flood).join().unwrap_or(Ok(())))
    })
}
