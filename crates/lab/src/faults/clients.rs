//! What spoils the program that asks a store or a server, and further ways to a slow disk.

use std::path::PathBuf;

use anyhow::Result;

use crate::cleanup::{lab_dir, tool};
use crate::fault_trial::FaultTrial;
use crate::faults::buffered::{synced as cached_syncs, through_cache};
use crate::faults::objects::{object_load, objects};
use crate::faults::store::{PORT, inside_words, loaded, mounted, redis, synced, updates};
use crate::faults::{cpu, disk, memory, server, stopped};
use crate::stage::LoopDevice;

/// A client that is stopped for a while, its server is not.
pub fn stopped_client(b: &mut FaultTrial<'_>) -> Result<()> {
    let (_, client) = client(b)?;
    stopped::stopped(b, client)
}

/// A client whose control group may run only so long in each period.
pub fn limited_client(b: &mut FaultTrial<'_>) -> Result<()> {
    let (_, client) = client(b)?;
    server::limited(b, client)
}

/// A client has no CPU, which its server does not want.
pub fn hogged_client(b: &mut FaultTrial<'_>) -> Result<()> {
    let (served, _) = client(b)?;
    tool("taskset", &["-a", "-c", "-p", "1", &served.to_string()])?;
    cpu::hogged(b)
}

/// A server, and a victim that asks it all the time: their processes.
fn client(b: &mut FaultTrial<'_>) -> Result<(u32, u32)> {
    let (mut options, served) = match b.engine {
        "redis" => {
            let (_, pid) = redis(&mut b.undo, b.stop)?;
            (loaded(b, PORT), pid)
        }
        _ => {
            let (path, pid) = objects(b)?;
            (object_load(b, path), pid)
        }
    };
    options.within = inside_words(served);
    options.set.retain(|s| !s.contains("think"));
    Ok((served, b.start(&options)?))
}

/// A store's program has no CPU.
pub fn hogged_store(b: &mut FaultTrial<'_>) -> Result<()> {
    store(b)?;
    cpu::hogged(b)
}

/// A store's program may run only so long in each period.
pub fn limited_store(b: &mut FaultTrial<'_>) -> Result<()> {
    let pid = store(b)?;
    server::limited(b, pid)
}

/// Reads and updates of a store all the time, of what is in its memory.
fn store(b: &mut FaultTrial<'_>) -> Result<u32> {
    let at = b.disk(2048)?.mount(&mut b.undo, "ext4")?;
    let mut options = updates(b, &at);
    options.set.retain(|s| !s.contains("think"));
    options.set.push("workload.0.mix={get=90,update=10}".into());
    b.start(&options)
}

/// Writers of LevelDB that sync, on a disk whose syncs take long.
pub fn store_syncs(b: &mut FaultTrial<'_>) -> Result<()> {
    let (at, slow) = mounted(b)?;
    let options = synced(updates(b, &at));
    b.start(&options)?;
    b.slow_syncs(&slow)
}

/// A disk over a disk over one that is slow now and then.
pub fn nested(b: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = b.slow_disk(64)?;
    let upper = LoopDevice::over(&mut b.undo, &disk.device, true)?;
    let options = b.options(upper.device, "randread");
    b.start(&options)?;
    b.slowed(&slow)
}

/// A file in memory has been swapped out, to a disk that is slow when it is needed again.
pub fn swapped_file(b: &mut FaultTrial<'_>) -> Result<()> {
    let (slow, group) = memory::swapped(b)?;
    let at: PathBuf = lab_dir().join("memory");
    std::fs::create_dir_all(&at)?;
    let place = at.to_string_lossy().into_owned();
    tool("mount", &["-t", "tmpfs", "tmpfs", &place])?;
    b.undo.add(move || {
        let _ = tool("umount", &[&place]);
        let _ = std::fs::remove_dir(place);
    });
    let mut options = through_cache(b.options(at.join("victim"), "randread"));
    options.set.push("target.options.cache=keep".into());
    options.set.push("target.options.layout=always".into());
    options.more = ["--size", "24MiB"].map(String::from).to_vec();
    options.within = group.within();
    b.start(&options)?;
    memory::dropped(b, &slow, &group, |held| held * 3 / 4)
}

/// Each sync waits for a disk that is slow now and then, btrfs.
pub fn syncs_of_btrfs(b: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = b.slow_disk(256)?;
    let at = disk.mount(&mut b.undo, "btrfs")?;
    let options = cached_syncs(b, &at);
    b.start(&options)?;
    b.slowed(&slow)
}

/// Each sync waits for a limit of what its pages may take of the disk, XFS.
pub fn limited_syncs_of_xfs(b: &mut FaultTrial<'_>) -> Result<()> {
    let disk = b.disk(320)?;
    let at = disk.mount(&mut b.undo, "xfs")?;
    let options = cached_syncs(b, &at);
    let pid = b.start(&options)?;
    disk::limit(b, pid, &disk, "write")
}

/// Direct writes with syncs to a file system without a journal, on a disk whose syncs take long.
pub fn without_journal(b: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = b.slow_disk(64)?;
    let at = disk.mount_ext4(&mut b.undo, &["-O", "^has_journal"])?;
    let mut options = b.options(at.join("victim"), "randwrite");
    options.set.push("target.options.layout=always".into());
    options.more = ["--size", "16MiB", "--sync", "fdatasync"].map(String::from).to_vec();
    b.start(&options)?;
    b.slow_syncs(&slow)
}
