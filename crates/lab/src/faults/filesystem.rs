//! Faults in file systems: a slow server, a freeze, a journal that others fill.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use anyhow::Result;

use crate::bench::Bench;
use crate::fuse;
use crate::guard::tool;
use crate::stage::{Loop, image};

const MIB: u64 = 1 << 20;
/// Directories that the neighbour of a journal makes at once.
const CROWD: usize = 48;

/// The victim's own file system is served by a process that sleeps every so often.
pub fn slow_fuse(b: &mut Bench<'_>) -> Result<()> {
    let (file, slow) = fuse::serve(&mut b.undo, 64 << 20)?;
    let mut order = b.order(file, "randread");
    order.set.push("target.options.allow_holes=true".into());
    order.set.push("target.options.read_in_use=true".into());
    b.start(&order)?;
    b.slowed(&slow)
}

/// Frozen and thawed again, ext4.
pub fn freeze_ext4(b: &mut Bench<'_>) -> Result<()> {
    freeze(b, "ext4", 64 * MIB)
}

/// Frozen and thawed again, XFS.
pub fn freeze_xfs(b: &mut Bench<'_>) -> Result<()> {
    freeze(b, "xfs", 320 * MIB)
}

fn freeze(b: &mut Bench<'_>, kind: &str, bytes: u64) -> Result<()> {
    let file = image(&mut b.undo, "image", bytes)?;
    let disk = Loop::over(&mut b.undo, &file, false)?;
    let at = disk.mount(&mut b.undo, kind)?;
    let mut order = b.order(at.join("victim"), "randwrite");
    order.more = ["--size", "16MiB"].map(String::from).to_vec();
    b.start(&order)?;
    let place = at.to_string_lossy().into_owned();
    let on = b.amplitude;
    b.pulses(
        Duration::from_millis(200),
        Duration::from_millis(2),
        |stop| {
            tool("fsfreeze", &["--freeze", &place])?;
            let slept = stop.sleep(on);
            tool("fsfreeze", &["--unfreeze", &place])?;
            slept
        },
    )
}

/// The victim syncs each write; a neighbour on the same journal makes many directories and syncs, so
/// that a commit has much to write. Only large writes are slow, as the victim's are not.
pub fn journal(b: &mut Bench<'_>) -> Result<()> {
    let (file, slow) = fuse::serve(&mut b.undo, 64 << 20)?;
    let disk = Loop::over(&mut b.undo, &file, true)?;
    let at = disk.mount(&mut b.undo, "ext4")?;
    let mut order = b.order(at.join("victim"), "write");
    order.more = ["--size", "4MiB", "--sync", "fsync"]
        .map(String::from)
        .to_vec();
    b.start(&order)?;
    slow.least.store(32 << 10, Relaxed);
    let crowd = at.join("crowd");
    std::fs::create_dir(&crowd)?;
    let (nap, mut round) = (b.amplitude, 0);
    b.pulses(Duration::from_millis(200), Duration::ZERO, |_| {
        round += 1;
        slow.set(1, nap);
        for n in 0..CROWD {
            std::fs::create_dir(crowd.join(format!("{round}-{n}")))?;
        }
        let synced = std::fs::File::open(&crowd)?.sync_all();
        slow.set(0, Duration::ZERO);
        Ok(synced?)
    })
}
