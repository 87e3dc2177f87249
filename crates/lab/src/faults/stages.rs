//! Stages: what the victim works on, from a bare disk to a server. All are in memory; those with a disk have one that
//! can be slowed down where the disturbance asks for it, a served file always can.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};

use crate::cleanup::{lab_dir, tool};
use crate::fault_trial::FaultTrial;
use crate::faults::server::{PORT, objects, postgres, redis};
use crate::fuse::{self, DelayInjector};
use crate::stage::{LoopDevice, overlaid, overlaid_for_reading};

/// A file system as it is made: the names of kinds, and special ones.
pub type Kind = &'static str;
pub const EXT4: Kind = "ext4";
pub const XFS: Kind = "xfs";
pub const BTRFS: Kind = "btrfs";
pub const EXT2: Kind = "ext2";
/// ext4 without a journal.
pub const NO_JOURNAL: Kind = "ext4 without a journal";
/// ext4 whose journal holds the data, too.
pub const DATA_JOURNAL: Kind = "ext4 with data in the journal";

/// What the victim works on. Sizes are in MiB.
#[derive(Debug, Clone, Copy)]
pub enum FaultStage {
    /// A disk.
    Disk(u64),
    /// A disk over a disk, so many times; disturbed is the lowest.
    Nested(u32, u64),
    /// A file system.
    Fs(Kind, u64),
    /// A file system whose disk is over another one, which is disturbed.
    NestedFs(Kind, u64),
    /// A layer of directories, as containers have one, over a file system, which is disturbed.
    Overlay(Kind, u64),
    /// btrfs over two disks with this profile for data; the second one is disturbed.
    TwoDisks(&'static str),
    /// A disk that is a file of a file system, which is disturbed.
    Image(Kind, u64),
    /// A file system (the last) on such a disk.
    ImageFs(Kind, u64, Kind),
    /// A directory of ext4 whose files are encrypted.
    Encrypted(u64),
    /// A file that a process serves.
    Fuse,
    /// The same below an overlay.
    OverlayFuse,
    /// A server by the engine: Redis or an object store in a network of its own, or PostgreSQL on a Unix socket.
    Server,
}

/// A stage that is there.
#[derive(Debug, Default)]
pub struct BuiltStage {
    /// Where the victim works: a device, a directory, a file or an address.
    pub path: PathBuf,
    /// The disk that is disturbed.
    pub disk: Option<LoopDevice>,
    /// What slows that disk, or the served file, down.
    pub slow: Option<Arc<DelayInjector>>,
    /// The file system that is frozen, or that neighbours use.
    pub lower: PathBuf,
    /// The server's process, and its socket if it has one, of PostgreSQL the directory of that.
    pub server: Option<(u32, PathBuf)>,
}

impl BuiltStage {
    pub fn disk(&self) -> Result<&LoopDevice> {
        self.disk.as_ref().context("a stage with a disk")
    }

    pub fn slow(&self) -> Result<&Arc<DelayInjector>> {
        self.slow.as_ref().context("a stage with a slow disk")
    }

    pub fn server(&self) -> Result<u32> {
        Ok(self.server.as_ref().context("a stage with a server")?.0)
    }

    /// The socket of a Redis server, or the directory of a PostgreSQL server's.
    pub fn socket(&self) -> Result<&Path> {
        Ok(&self.server.as_ref().context("a stage with a server")?.1)
    }

    /// The victim's file.
    pub fn victim(&self) -> PathBuf {
        self.path.join("victim")
    }

    fn disk_of(&mut self, trial: &mut FaultTrial<'_>, mib: u64, slow: bool) -> Result<LoopDevice> {
        let disk = if slow {
            let (disk, injector) = trial.slow_disk(mib as usize)?;
            self.slow = Some(injector);
            disk
        } else {
            trial.disk(mib)?
        };
        self.disk = Some(disk.clone());
        Ok(disk)
    }

    fn file_system(
        &mut self,
        trial: &mut FaultTrial<'_>,
        (kind, mib): (Kind, u64),
        slow: bool,
    ) -> Result<PathBuf> {
        let disk = self.disk_of(trial, mib, slow)?;
        self.lower = mounted(trial, &disk, kind)?;
        Ok(self.lower.clone())
    }
}

impl FaultStage {
    /// Makes it, on a disk that is slow when told to if asked for.
    pub fn make(self, trial: &mut FaultTrial<'_>, slow: bool) -> Result<BuiltStage> {
        let mut built = BuiltStage::default();
        let path = match self {
            FaultStage::Disk(mib) => built.disk_of(trial, mib, slow)?.device,
            FaultStage::Nested(levels, mib) => {
                let lowest = built.disk_of(trial, mib, slow)?;
                above(trial, lowest, levels)?.device
            }
            FaultStage::Fs(kind, mib) => built.file_system(trial, (kind, mib), slow)?,
            FaultStage::NestedFs(kind, mib) => {
                let lowest = built.disk_of(trial, mib, slow)?;
                let upper = above(trial, lowest, 1)?;
                mounted(trial, &upper, kind)?
            }
            FaultStage::Overlay(kind, mib) => {
                let lower = built.file_system(trial, (kind, mib), slow)?;
                overlaid(&mut trial.undo, &lower)?
            }
            FaultStage::TwoDisks(data) => {
                let disk = built.disk_of(trial, 256, slow)?;
                let fast = trial.disk(256)?;
                let (one, other) = (fast.device.to_string_lossy(), disk.device.to_string_lossy());
                let how = ["-q", "-f", "-K", "-d", data, "-m", "raid1", &one, &other];
                tool("mkfs.btrfs", &how)?;
                fast.mount_made(&mut trial.undo, "btrfs")?
            }
            FaultStage::Image(kind, mib) => {
                let lower = built.file_system(trial, (kind, mib), slow)?;
                image_in(trial, &lower, true)?.device
            }
            FaultStage::ImageFs(kind, mib, upper) => {
                let lower = built.file_system(trial, (kind, mib), slow)?;
                let disk = image_in(trial, &lower, true)?;
                mounted(trial, &disk, upper)?
            }
            FaultStage::Encrypted(mib) => {
                let disk = built.disk_of(trial, mib, slow)?;
                encrypted_in(trial, &disk)?
            }
            FaultStage::Fuse | FaultStage::OverlayFuse => {
                let (file, injector) = fuse::serve(&mut trial.undo, 64 << 20)?;
                built.slow = Some(injector);
                match self {
                    FaultStage::Fuse => file,
                    _ => {
                        let lower = file.parent().context("a mount point")?;
                        overlaid_for_reading(&mut trial.undo, lower)?.join(fuse::FILE)
                    }
                }
            }
            FaultStage::Server if trial.engine == "redis" => {
                let (socket, pid) = redis(&mut trial.undo, trial.stop)?;
                built.server = Some((pid, socket));
                format!("redis://127.0.0.1:{PORT}/0").into()
            }
            FaultStage::Server if trial.engine == "postgres" => {
                let server = postgres(trial, &lab_dir())?;
                built.server = server.server;
                server.path
            }
            FaultStage::Server => {
                let (path, pid) = objects(trial)?;
                built.server = Some((pid, PathBuf::new()));
                path.into()
            }
        };
        Ok(BuiltStage { path, ..built })
    }
}

/// Makes a file system on this disk and mounts it.
fn mounted(trial: &mut FaultTrial<'_>, disk: &LoopDevice, kind: Kind) -> Result<PathBuf> {
    let device = disk.device.to_string_lossy();
    match kind {
        EXT2 => {
            tool("mkfs.ext2", &["-q", "-E", "nodiscard", &device])?;
            disk.mount_made(&mut trial.undo, "ext2")
        }
        NO_JOURNAL => disk.mount_ext4(&mut trial.undo, &["-O", "^has_journal"]),
        DATA_JOURNAL => {
            tool("mkfs.ext4", &["-q", "-E", "nodiscard", &device])?;
            tool("tune2fs", &["-o", "journal_data", &device])?;
            disk.mount_made(&mut trial.undo, "ext4")
        }
        kind => disk.mount(&mut trial.undo, kind),
    }
}

/// So many loop devices over each other over this one.
fn above(trial: &mut FaultTrial<'_>, lowest: LoopDevice, levels: u32) -> Result<LoopDevice> {
    (0..levels).try_fold(lowest, |below, _| LoopDevice::over(&mut trial.undo, &below.device, true))
}

/// A loop device over a file in this file system.
pub fn image_in(trial: &mut FaultTrial<'_>, at: &Path, direct: bool) -> Result<LoopDevice> {
    let file = at.join("image");
    std::fs::write(&file, vec![0; 32 << 20])?;
    std::fs::File::open(&file)?.sync_all()?;
    LoopDevice::over(&mut trial.undo, &file, direct)
}

/// A directory on this disk whose files are encrypted.
fn encrypted_in(trial: &mut FaultTrial<'_>, disk: &LoopDevice) -> Result<PathBuf> {
    let at = disk.mount_ext4(&mut trial.undo, &["-O", "encrypt"])?;
    let safe = at.join("safe");
    std::fs::create_dir(&safe)?;
    let (root, place) = (at.to_string_lossy(), safe.to_string_lossy());
    let add = "head -c 64 /dev/zero | tr '\\0' k | xfs_io -c add_enckey \"$0\"";
    let said = tool("sh", &["-c", add, &root])?;
    let key = said.split_whitespace().last().context("a key")?.to_owned();
    tool("xfs_io", &["-c", &format!("set_encpolicy -v 2 {key}"), &place])?;
    Ok(safe)
}
