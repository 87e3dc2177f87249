//! Faults of stores: one that holds its writers back, a server that answers late.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::cleanup::{NAME, StopSignal, Undo, lab_dir, make_lab_dir};
use crate::fault_trial::FaultTrial;
use crate::fuse;
use crate::proxy;
use crate::stage::LoopDevice;
use crate::victim::signal;

/// RocksDB stops its writers: two small memtables, and a flush that takes long. There is no
/// write-ahead log, so that a writer touches memory only; what it waits for is the store.
pub fn stall(b: &mut FaultTrial<'_>) -> Result<()> {
    let (file, slow) = fuse::serve(&mut b.undo, 128 << 20)?;
    let disk = LoopDevice::over(&mut b.undo, &file, true)?;
    let at = disk.mount(&mut b.undo, "ext4")?;
    let mut options = b.options_of(at.join("db/"), &["rocksdb"]);
    options.set.extend(
        [
            "workload.0.mix={update=1}",
            "workload.0.block_size=\"1KiB\"",
            "workload.0.keys={count=2000}",
            "target.options.wal=false",
            "target.options.write_buffer_size=\"256KiB\"",
            "target.options.options=\"max_write_buffer_number=2;\
             level0_file_num_compaction_trigger=400;level0_slowdown_writes_trigger=800;\
             level0_stop_writes_trigger=900\"",
        ]
        .map(String::from),
    );
    b.start(&options)?;
    let on = b.amplitude * 5;
    let nap = b.amplitude / 2;
    b.pulses(Duration::from_millis(300), b.amplitude * 4, |stop| {
        slow.set(1, nap);
        let slept = stop.sleep(on);
        slow.set(0, Duration::ZERO);
        slept
    })
}

/// A Redis server behind a proxy that holds an answer back now and then.
pub fn slow_server(b: &mut FaultTrial<'_>) -> Result<()> {
    let (socket, _) = redis(&mut b.undo, b.stop)?;
    let (port, slow) = proxy::serve(&mut b.undo, &socket)?;
    served(b, port)?;
    b.slowed(&slow)
}

/// The server itself is stopped for a while.
pub fn stopped_server(b: &mut FaultTrial<'_>) -> Result<()> {
    let (socket, pid) = redis(&mut b.undo, b.stop)?;
    let (port, _) = proxy::serve(&mut b.undo, &socket)?;
    served(b, port)?;
    let on = b.amplitude;
    b.pulses(Duration::from_millis(200), Duration::from_millis(2), |stop| {
        signal(pid, "STOP")?;
        let slept = stop.sleep(on);
        signal(pid, "CONT")?;
        slept
    })
}

/// A victim of the server on this port.
fn served(b: &mut FaultTrial<'_>, port: u16) -> Result<()> {
    let address = format!("redis://127.0.0.1:{port}/0");
    let mut options = b.options_of(address.into(), &["redis"]);
    options.set.extend(
        [
            "workload.0.mix={get=50,update=50}",
            "workload.0.block_size=\"1KiB\"",
            "workload.0.keys={count=1000}",
        ]
        .map(String::from),
    );
    b.start(&options).map(drop)
}

/// Starts a server of our own without a port; its socket and process. It ends with this process in any case.
fn redis(undo: &mut Undo, stop: &StopSignal) -> Result<(PathBuf, u32)> {
    make_lab_dir()?;
    let socket = lab_dir().join(format!("{NAME}-redis.sock"));
    let _ = std::fs::remove_file(&socket);
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "redis-server", "--port", "0"]);
    command.args(["--save", "", "--appendonly", "no", "--unixsocket"]);
    command.arg(&socket).arg("--dir").arg(lab_dir());
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = command.spawn().context("cannot start redis-server")?;
    for _ in 0..250 {
        if Path::new(&socket).exists() || child.try_wait()?.is_some() {
            break;
        }
        stop.sleep(Duration::from_millis(20))?;
    }
    if child.try_wait()?.is_some() {
        bail!("no redis-server here (Debian: redis-server)");
    }
    let (gone, pid) = (socket.clone(), child.id());
    undo.add(move || {
        let _ = child.kill();
        let _ = child.wait();
        let _ = std::fs::remove_file(gone);
    });
    Ok((socket, pid))
}
