//! Faults of stores: one that holds its writers back, a server that answers late.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::cleanup::{NAME, StopSignal, Undo, lab_dir, make_lab_dir, tool};
use crate::fault_trial::FaultTrial;
use crate::faults::stopped::{first_thread, frozen, pulsed, stopped, threads};
use crate::faults::{cpu, disk, filesystem, memory};
use crate::fuse::Brake;
use crate::proxy;
use crate::stage::LabCgroup;
use crate::truth::now_ns;
use crate::victim::VictimOptions;

/// Of a server in a network of its own.
pub const PORT: u16 = 6379;

/// RocksDB stops its writers: two small memtables, and a flush that takes long. There is no
/// write-ahead log, so that a writer touches memory only; what it waits for is the store.
pub fn stall(b: &mut FaultTrial<'_>) -> Result<()> {
    let (at, slow) = mounted(b)?;
    let options = small_memtables(b, &at);
    b.start(&options)?;
    flushes(b, &slow)
}

/// A disk that is slow for a while, again and again.
fn flushes(b: &mut FaultTrial<'_>, slow: &Brake) -> Result<()> {
    let on = b.amplitude * 5;
    let nap = b.amplitude / 2;
    b.pulses(Duration::from_millis(300), b.amplitude * 4, |stop| {
        slow.during(nap, || stop.sleep(on))
    })
}

/// The same where the threads that flush are frozen, and nothing is slow.
pub fn frozen_flush(b: &mut FaultTrial<'_>) -> Result<()> {
    let at = b.disk(2048)?.mount(&mut b.undo, "ext4")?;
    let mut options = small_memtables(b, &at);
    options.without_pauses();
    let pid = b.start(&options)?;
    let group = LabCgroup::of(&mut b.undo, "freezer")?;
    for tid in threads(pid, "rocksdb:")? {
        group.set("tasks", tid)?;
    }
    pulsed(b, &group)
}

fn small_memtables(b: &FaultTrial<'_>, at: &Path) -> VictimOptions {
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
    options
}

/// RocksDB lets writers go on slowly, for too much is left to compact: the threads that do it are frozen.
pub fn braked(b: &mut FaultTrial<'_>) -> Result<()> {
    let at = b.disk(2048)?.mount(&mut b.undo, "ext4")?;
    let mut options = small_memtables(b, &at);
    options.set.retain(|s| !s.contains("think") && !s.contains("options.options"));
    let per_s = 1040 * 1000 / b.amplitude.as_millis();
    options.set.push(format!(
        "target.options.options=\"level0_file_num_compaction_trigger=2;\
         level0_slowdown_writes_trigger=2;level0_stop_writes_trigger=900;\
         delayed_write_rate={per_s}\""
    ));
    let pid = b.start(&options)?;
    let group = LabCgroup::of(&mut b.undo, "freezer")?;
    for tid in threads(pid, "rocksdb:low")? {
        group.set("tasks", tid)?;
    }
    let from = now_ns();
    group.set("freezer.state", "FROZEN")?;
    while b.more() {
        b.stop.sleep(b.amplitude)?;
    }
    group.set("freezer.state", "THAWED")?;
    b.truth.add(from, now_ns() + 1_000_000_000);
    Ok(())
}

/// Reads of a store whose files are part of its memory: pages of them are dropped, and a slow disk has
/// to bring them again.
pub fn mapped_gets(b: &mut FaultTrial<'_>) -> Result<()> {
    let (at, slow) = mounted(b)?;
    let group = LabCgroup::of_memory(&mut b.undo, NAME)?;
    let mut options = updates(b, &at);
    options.set.push("workload.0.mix={get=1}".into());
    options.set.push("workload.0.keys={count=20000}".into());
    if b.engine == "rocksdb" {
        options.set.push("target.options.options=\"allow_mmap_reads=true\"".into());
        options.set.push("target.options.block_cache=\"1MiB\"".into());
    }
    options.within = group.within();
    b.start(&options)?;
    memory::dropped(b, &slow, &group, |held| held + (1 << 20))
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
    stopped(b, pid)
}

/// The same by its control group.
pub fn frozen_server(b: &mut FaultTrial<'_>) -> Result<()> {
    let (_, pid) = redis(&mut b.undo, b.stop)?;
    alone(b, pid)?;
    frozen(b, pid)
}

/// The server is stopped for a while, and who is served has several connections to it.
pub fn pooled_server(b: &mut FaultTrial<'_>) -> Result<()> {
    let (_, pid) = redis(&mut b.undo, b.stop)?;
    let mut options = loaded(b, PORT);
    options.depth = 16;
    options.set.push("target.options.connections=4".into());
    options.within = inside_words(pid);
    b.start(&options)?;
    stopped(b, pid)
}

/// The server is busy with somebody else's script.
pub fn busy_server(b: &mut FaultTrial<'_>) -> Result<()> {
    let (socket, pid) = redis(&mut b.undo, b.stop)?;
    alone(b, pid)?;
    let script = format!(
        "local t=redis.call('TIME') local e=t[1]*1000000+t[2]+{} repeat t=redis.call('TIME') \
         until t[1]*1000000+t[2]>=e",
        b.amplitude.as_micros()
    );
    let words = ["-s".as_ref(), socket.as_os_str(), "EVAL".as_ref(), script.as_ref(), "0".as_ref()];
    b.pulses(Duration::from_millis(200), Duration::from_millis(2), |_| {
        tool("redis-cli", &words).map(drop)
    })
}

/// The server has no CPU, which the victim does not want.
pub fn hogged_server(b: &mut FaultTrial<'_>) -> Result<()> {
    let (_, pid) = redis(&mut b.undo, b.stop)?;
    tool("taskset", &["-a", "-c", "-p", "0", &pid.to_string()])?;
    alone(b, pid)?;
    cpu::taken_beside(b)
}

/// The server sleeps.
pub fn sleeping_server(b: &mut FaultTrial<'_>) -> Result<()> {
    let how = ["--save", "", "--appendonly", "no", "--enable-debug-command", "yes"];
    let (socket, pid) = redis_with(&mut b.undo, b.stop, &how)?;
    alone(b, pid)?;
    let time = b.amplitude.as_secs_f64().to_string();
    let words = ["-s".as_ref(), socket.as_os_str(), "DEBUG".as_ref(), "SLEEP".as_ref()];
    let words = [&words[..], &[time.as_ref()]].concat();
    b.pulses(Duration::from_millis(200), Duration::from_millis(2), |_| {
        tool("redis-cli", &words).map(drop)
    })
}

/// The network to the server is slow: a packet of a record takes the amplitude.
pub fn slow_network(b: &mut FaultTrial<'_>) -> Result<()> {
    let (_, pid) = redis(&mut b.undo, b.stop)?;
    let rate = shaped(pid)?;
    alone(b, pid)?;
    narrowed(b, rate)
}

/// Sets how many bytes per second the network of a server takes.
pub fn shaped(pid: u32) -> Result<impl Fn(u64) -> Result<()>> {
    let rate = move |what: &str, bytes_per_s: u64| {
        let rate = format!("{bytes_per_s}bps");
        let limit = ["root", "tbf", "rate", &rate, "burst", "70000", "latency", "10s"];
        inside(pid, &[&["tc", "qdisc", what, "dev", "lo"], &limit[..]].concat())
    };
    rate("add", 1 << 30)?;
    Ok(move |bytes_per_s| rate("change", bytes_per_s))
}

/// A network that is slow now and then.
pub fn narrowed(b: &mut FaultTrial<'_>, rate: impl Fn(u64) -> Result<()>) -> Result<()> {
    // What is saved up for a burst is spent first.
    let slow = 1024 * 1000 / b.amplitude.as_millis() as u64;
    let (on, after) = (b.amplitude * 5, b.amplitude);
    b.pulses(Duration::from_millis(200), after, |stop| {
        rate(slow)?;
        let slept = stop.sleep(on);
        rate(1 << 30)?;
        slept
    })
}

/// The file system of a store is frozen.
pub fn frozen_files(b: &mut FaultTrial<'_>) -> Result<()> {
    let at = b.disk(128)?.mount(&mut b.undo, "ext4")?;
    let options = updates(b, &at);
    b.start(&options)?;
    filesystem::frozen(b, &at)
}

/// A store's program is stopped. Its writes sync: else hardly ever one is under way.
pub fn stopped_store(b: &mut FaultTrial<'_>) -> Result<()> {
    let at = b.disk(128)?.mount(&mut b.undo, "ext4")?;
    let options = synced_updates(updates(b, &at));
    let pid = b.start(&options)?;
    stopped(b, pid)
}

/// Of two threads whose writes sync one is frozen, at times while it writes for both.
pub fn frozen_writer(b: &mut FaultTrial<'_>) -> Result<()> {
    let at = b.disk(128)?.mount(&mut b.undo, "ext4")?;
    let mut options = synced_updates(updates(b, &at));
    options.without_pauses();
    let pid = b.start(&options)?;
    first_thread(b, pid)
}

/// A small memtable of LevelDB, and a flush that takes long.
pub fn slow_flush(b: &mut FaultTrial<'_>) -> Result<()> {
    let (at, slow) = mounted(b)?;
    let mut options = updates(b, &at);
    options.set.push("target.options.write_buffer_size=\"64KiB\"".into());
    b.start(&options)?;
    flushes(b, &slow)
}

/// Reads of RocksDB under a limit.
pub fn limited_gets(b: &mut FaultTrial<'_>) -> Result<()> {
    let disk = b.disk(128)?;
    let at = disk.mount(&mut b.undo, "ext4")?;
    let options = direct_gets(b, &at);
    let pid = b.start(&options)?;
    disk::limit(b, pid, &disk, "read")
}

pub fn updates(b: &FaultTrial<'_>, at: &Path) -> VictimOptions {
    let mut options = b.options_of(at.join("db/"), &[b.engine]);
    options.set.extend(
        [
            "workload.0.mix={update=1}",
            "workload.0.block_size=\"1KiB\"",
            "workload.0.keys={count=2000}",
        ]
        .map(String::from),
    );
    options
}

pub fn synced_updates(mut options: VictimOptions) -> VictimOptions {
    options.more = ["--sync", "fdatasync"].map(String::from).to_vec();
    options
}

/// Reads of RocksDB from a device that is slow now and then.
pub fn slow_gets(b: &mut FaultTrial<'_>) -> Result<()> {
    let (at, slow) = mounted(b)?;
    let options = direct_gets(b, &at);
    b.start(&options)?;
    b.slowed(&slow)
}

pub fn direct_gets(b: &FaultTrial<'_>, at: &Path) -> VictimOptions {
    let mut options = b.options_of(at.join("db/"), &["rocksdb"]);
    options.set.extend(
        [
            "workload.0.mix={get=1}",
            "workload.0.block_size=\"1KiB\"",
            "workload.0.keys={count=20000}",
            "target.options.direct_reads=true",
            "target.options.block_cache=\"1MiB\"",
        ]
        .map(String::from),
    );
    options
}

/// Writers of RocksDB that sync: one does it for all, the others wait for that one. The disk's syncs
/// take long.
pub fn slow_syncs(b: &mut FaultTrial<'_>) -> Result<()> {
    let (at, slow) = mounted(b)?;
    let options = synced_updates(updates(b, &at));
    b.start(&options)?;
    b.slow_syncs(&slow)
}

/// The same where only the log is on that disk.
pub fn log_disk(b: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = b.slow_disk(320)?;
    let log = disk.mount(&mut b.undo, "xfs")?;
    let at = b.disk(128)?.mount(&mut b.undo, "ext4")?;
    let mut options = synced_updates(updates(b, &at));
    options.set.push(format!("target.options.options=\"wal_dir={}\"", log.join("log").display()));
    b.start(&options)?;
    b.slow_syncs(&slow)
}

/// A file system on a slow disk.
pub fn mounted(b: &mut FaultTrial<'_>) -> Result<(PathBuf, Arc<Brake>)> {
    let (disk, slow) = b.slow_disk(128)?;
    Ok((disk.mount(&mut b.undo, "ext4")?, slow))
}

/// Runs a command in the network of the server.
pub fn inside(pid: u32, words: &[&str]) -> Result<()> {
    let into = inside_words(pid);
    let into: Vec<&str> = into[1..].iter().map(String::as_str).collect();
    tool("nsenter", &[&into[..], words].concat()).map(drop)
}

/// A command that runs another there.
pub fn inside_words(pid: u32) -> Vec<String> {
    ["nsenter", "-t", &pid.to_string(), "-n"].map(String::from).to_vec()
}

/// A victim in the server's own network.
pub fn alone(b: &mut FaultTrial<'_>, pid: u32) -> Result<()> {
    let mut options = loaded(b, PORT);
    options.within = inside_words(pid);
    b.start(&options).map(drop)
}

/// A victim of the server on this port.
fn served(b: &mut FaultTrial<'_>, port: u16) -> Result<()> {
    let options = loaded(b, port);
    b.start(&options).map(drop)
}

pub fn loaded(b: &FaultTrial<'_>, port: u16) -> VictimOptions {
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
    options
}

/// Starts a server of our own, with a network of its own; its socket and process. It ends with this process in
/// any case.
pub fn redis(undo: &mut Undo, stop: &StopSignal) -> Result<(PathBuf, u32)> {
    let dir = lab_dir();
    let dir = dir.to_string_lossy();
    redis_with(undo, stop, &["--save", "", "--appendonly", "no", "--dir", &dir])
}

/// The same with what it is asked for.
pub fn redis_with(undo: &mut Undo, stop: &StopSignal, how: &[&str]) -> Result<(PathBuf, u32)> {
    make_lab_dir()?;
    let socket = lab_dir().join(format!("{NAME}-redis.sock"));
    let _ = std::fs::remove_file(&socket);
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "unshare", "-n", "redis-server", "--port"]);
    command.arg(PORT.to_string());
    command.args(how).arg("--unixsocket").arg(&socket);
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
    inside(pid, &["ip", "link", "set", "lo", "up"])?;
    undo.add(move || {
        let _ = child.kill();
        let _ = child.wait();
        let _ = std::fs::remove_file(gone);
    });
    Ok((socket, pid))
}
