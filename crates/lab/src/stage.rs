//! Things to measure that the lab may spoil: images in memory, loop devices, file systems, control
//! groups. Each is registered for undoing as soon as it is there.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::cleanup::{CGROUPS, NAME, Undo, dissolve, lab_dir, make_lab_dir, set, tool};

/// A file of zeros in memory.
pub fn image(undo: &mut Undo, name: &str, bytes: u64) -> Result<PathBuf> {
    make_lab_dir()?;
    let path = lab_dir().join(format!("{NAME}-{name}"));
    let file = std::fs::File::create_new(&path).context("an image")?;
    let gone = path.clone();
    undo.add(move || drop(std::fs::remove_file(gone)));
    file.set_len(bytes)?;
    Ok(path)
}

/// A block device over a file.
#[derive(Debug, Clone)]
pub struct LoopDevice {
    /// `/dev/loopN`.
    pub device: PathBuf,
    /// `loopN`.
    pub name: String,
}

impl LoopDevice {
    /// Attaches one; `direct`: it goes past the page cache of what the file is on.
    pub fn over(undo: &mut Undo, file: &Path, direct: bool) -> Result<LoopDevice> {
        let direct = format!("--direct-io={}", if direct { "on" } else { "off" });
        LoopDevice::attached(undo, file, &[&direct])
    }

    /// Attaches one to a part of a device, as a partition is: where it begins and its size, bytes.
    pub fn part(undo: &mut Undo, device: &Path, (from, size): (u64, u64)) -> Result<LoopDevice> {
        let (from, size) = (format!("--offset={from}"), format!("--sizelimit={size}"));
        LoopDevice::attached(undo, device, &["--direct-io=on", &from, &size])
    }

    fn attached(undo: &mut Undo, file: &Path, how: &[&str]) -> Result<LoopDevice> {
        let file = file.to_string_lossy();
        let device = tool("losetup", &[&["--find", "--show"], how, &[&file]].concat())?;
        let detach = device.clone();
        undo.add(move || {
            // A file system that is just being unmounted may hold it for a moment.
            for _ in 0..50 {
                if tool("losetup", &["--detach", &detach]).is_ok() {
                    return;
                }
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        let device = PathBuf::from(device);
        let name = device.file_name().unwrap_or_default().to_string_lossy();
        Ok(LoopDevice { name: name.into_owned(), device: device.clone() })
    }

    /// A file below `/sys/block/loopN`.
    pub fn sys(&self, file: &str) -> PathBuf {
        Path::new("/sys/block").join(&self.name).join(file)
    }

    /// `major:minor`.
    pub fn number(&self) -> Result<String> {
        Ok(std::fs::read_to_string(self.sys("dev"))?.trim().to_owned())
    }

    /// Makes a file system (ext4, btrfs, else XFS) and mounts it.
    pub fn mount(&self, undo: &mut Undo, kind: &str) -> Result<PathBuf> {
        let device = self.device.to_string_lossy();
        match kind {
            "ext4" => tool("mkfs.ext4", &["-q", "-E", "nodiscard", &device])?,
            "btrfs" => tool("mkfs.btrfs", &["-q", "-f", "-K", "-m", "single", &device])?,
            _ => tool("mkfs.xfs", &["-q", "-f", "-K", &device])?,
        };
        self.mount_made(undo, kind)
    }

    /// Makes an ext4 with these arguments of `mkfs.ext4` and mounts it.
    pub fn mount_ext4(&self, undo: &mut Undo, how: &[&str]) -> Result<PathBuf> {
        let device = self.device.to_string_lossy();
        tool("mkfs.ext4", &[&["-q", "-E", "nodiscard"], how, &[&device]].concat())?;
        self.mount_made(undo, "ext4")
    }

    /// Mounts the file system that is on it.
    pub fn mount_made(&self, undo: &mut Undo, kind: &str) -> Result<PathBuf> {
        let device = self.device.to_string_lossy();
        let at = lab_dir().join(format!("{NAME}-{kind}"));
        std::fs::create_dir_all(&at)?;
        let place = at.to_string_lossy().into_owned();
        if std::fs::metadata(&at)?.dev() != std::fs::metadata(lab_dir())?.dev() {
            bail!("{place} is mounted already: a second file system has to be of another kind");
        }
        tool("mount", &["-t", kind, &device, &place])?;
        undo.add(move || {
            let _ = tool("fsfreeze", &["--unfreeze", &place]);
            for _ in 0..50 {
                if tool("umount", &[&place]).is_ok() {
                    let _ = std::fs::remove_dir(&place);
                    return;
                }
                std::thread::sleep(Duration::from_millis(100));
            }
            let _ = tool("umount", &["--lazy", &place]);
        });
        Ok(at)
    }
}

/// A layer of directories over one on the same file system, as containers have it.
pub fn overlaid(undo: &mut Undo, lower: &Path) -> Result<PathBuf> {
    let part = |name: &str| -> Result<String> {
        let at = lower.join(name);
        std::fs::create_dir(&at)?;
        Ok(at.to_string_lossy().into_owned())
    };
    let (base, upper, work, at) = (part("base")?, part("upper")?, part("work")?, part("at")?);
    let options = format!("lowerdir={base},upperdir={upper},workdir={work}");
    tool("mount", &["-t", "overlay", "overlay", "-o", &options, &at])?;
    let place = at.clone();
    undo.add(move || drop(tool("umount", &[&place])));
    Ok(at.into())
}

/// An overlay over a file system that is only read.
pub fn overlaid_for_reading(undo: &mut Undo, lower: &Path) -> Result<PathBuf> {
    let part = |name: &str| -> Result<PathBuf> {
        let at = lab_dir().join(format!("{NAME}-{name}"));
        std::fs::create_dir_all(&at)?;
        Ok(at)
    };
    // Without an upper layer it takes two lower ones.
    let (empty, at) = (part("empty")?, part("over")?);
    let options = format!("lowerdir={}:{}", lower.display(), empty.display());
    tool("mount", &["-t", "overlay", "overlay", "-o", &options, &at.to_string_lossy()])?;
    let place = at.clone();
    undo.add(move || {
        let _ = tool("umount", &[&place]);
        [place, empty].iter().for_each(|dir| drop(std::fs::remove_dir(dir)));
    });
    Ok(at)
}

/// A control group.
#[derive(Debug, Clone)]
pub struct LabCgroup {
    path: PathBuf,
    /// Whether it is one of version 2.
    unified: bool,
}

impl LabCgroup {
    /// Makes one of one controller (version 1).
    pub fn of(undo: &mut Undo, controller: &str) -> Result<LabCgroup> {
        LabCgroup::named(undo, controller, NAME)
    }

    /// The same with another name, which has to begin with [`NAME`].
    pub fn named(undo: &mut Undo, controller: &str, name: &str) -> Result<LabCgroup> {
        let parent = Path::new(CGROUPS).join(controller);
        let path = parent.join(name);
        std::fs::create_dir(&path)
            .with_context(|| format!("no control group of {controller} (version 1) here"))?;
        let group = path.clone();
        undo.add(move || dissolve(&parent, &group));
        Ok(LabCgroup { path, unified: false })
    }

    /// Makes one that limits memory: of version 2 where that has the controller, else of version 1.
    pub fn of_memory(undo: &mut Undo, name: &str) -> Result<LabCgroup> {
        let both = [CGROUPS.to_owned(), format!("{CGROUPS}/unified")];
        let memory = |hierarchy: &&String| {
            let file = Path::new(hierarchy).join("cgroup.subtree_control");
            let list = std::fs::read_to_string(file).unwrap_or_default();
            list.split_whitespace().any(|name| name == "memory")
        };
        let Some(parent) = both.iter().find(memory).map(PathBuf::from) else {
            return LabCgroup::named(undo, "memory", name);
        };
        let path = parent.join(name);
        std::fs::create_dir(&path).context("no control group of memory (version 2) here")?;
        let group = path.clone();
        undo.add(move || dissolve(&parent, &group));
        Ok(LabCgroup { path, unified: true })
    }

    /// Limits its memory to so many bytes, or not at all.
    pub fn limit_memory(&self, bytes: Option<u64>) -> Result<()> {
        let word = |bytes: Option<u64>, none: &str| bytes.map_or(none.into(), |b| b.to_string());
        if self.unified {
            self.set("memory.max", word(bytes, "max"))
        } else {
            self.set("memory.limit_in_bytes", word(bytes, "-1"))
        }
    }

    /// Memory of its processes that cannot be given back, bytes.
    pub fn unreclaimable(&self) -> Result<u64> {
        let text = self.get("memory.stat")?;
        let known = |name: &str| ["rss", "anon", "shmem"].contains(&name);
        let pairs = text.lines().filter_map(|l| l.split_once(' '));
        let held = pairs.filter(|(name, _)| known(name));
        Ok(held.filter_map(|(_, n)| n.parse::<u64>().ok()).sum())
    }

    /// How many of its processes the kernel killed for want of memory.
    pub fn killed(&self) -> Result<u64> {
        let file = match self.unified {
            true => "memory.events",
            false => "memory.oom_control",
        };
        killed(&self.get(file)?).with_context(|| format!("{file} does not count oom_kill"))
    }

    pub fn set(&self, file: &str, value: impl std::fmt::Display) -> Result<()> {
        set(&self.path.join(file), value)
    }

    /// The beginning of a command that enters the group and then becomes the rest of the words.
    pub fn within(&self) -> Vec<String> {
        let file = self.path.join("cgroup.procs");
        let enter = format!("echo $$ > {} && exec \"$0\" \"$@\"", file.display());
        vec!["sh".into(), "-c".into(), enter]
    }

    /// Takes a process in.
    pub fn add_process(&self, pid: u32) -> Result<()> {
        self.set("cgroup.procs", pid)
    }

    pub fn get(&self, file: &str) -> Result<String> {
        Ok(std::fs::read_to_string(self.path.join(file))?)
    }
}

/// The count of processes killed for want of memory, of either version's file.
fn killed(text: &str) -> Option<u64> {
    let count = text.lines().find_map(|l| l.strip_prefix("oom_kill "))?;
    count.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_count_who_was_killed() {
        let first = "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n";
        assert_eq!(killed(first), Some(2));
        let second = "low 0\nhigh 0\nmax 9\noom 3\noom_kill 1\noom_group_kill 0\n";
        assert_eq!(killed(second), Some(1));
        assert_eq!(killed("oom_kill_disable 0\n"), None);
    }
}
