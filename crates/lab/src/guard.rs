//! Undoing: whatever happens, everything that was made or changed is taken back, last first.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Begins the name of everything that the lab makes.
pub const NAME: &str = "taillight-lab";
/// Where control group hierarchies are mounted.
pub const CGROUPS: &str = "/sys/fs/cgroup";

/// Where images and mount points are: memory, so that the machine's disk plays no part.
pub fn home() -> PathBuf {
    Path::new("/dev/shm").join(NAME)
}

/// What is to be undone. Dropping it does so, also when a thread panics.
#[derive(Default)]
pub struct Undo(Vec<Box<dyn FnOnce() + Send>>);

impl Undo {
    /// Undone before everything that was added earlier.
    pub fn add(&mut self, undo: impl FnOnce() + Send + 'static) {
        self.0.push(Box::new(undo));
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        while let Some(undo) = self.0.pop() {
            undo();
        }
    }
}

/// Set by SIGINT and SIGTERM: every wait ends early, and all is undone on the way out.
#[derive(Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Installs the handlers.
    ///
    /// # Errors
    /// When the system refuses them.
    pub fn install() -> Result<Stop> {
        let stop = Stop::default();
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register(signal, stop.0.clone())?;
        }
        Ok(stop)
    }

    /// Fails once a signal came.
    ///
    /// # Errors
    /// Then.
    pub fn check(&self) -> Result<()> {
        if self.0.load(Relaxed) {
            bail!("interrupted");
        }
        Ok(())
    }

    /// Sleeps.
    ///
    /// # Errors
    /// When a signal came.
    pub fn sleep(&self, time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        loop {
            self.check()?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(Duration::from_millis(50)));
        }
    }
}

/// Runs a system program; what it printed.
///
/// # Errors
/// When it is missing or fails, with what it said.
pub fn tool<S: AsRef<std::ffi::OsStr>>(name: &str, args: &[S]) -> Result<String> {
    let out = Command::new(name)
        .args(args)
        .output()
        .with_context(|| format!("cannot start {name}"))?;
    if !out.status.success() {
        let said = String::from_utf8_lossy(&out.stderr);
        bail!("{name}: {}: {}", out.status, said.trim());
    }
    Ok(String::from_utf8_lossy(&out.stdout).trim().to_owned())
}

/// Writes a control file.
///
/// # Errors
/// When the kernel refuses it.
pub fn set(path: &Path, value: impl std::fmt::Display) -> Result<()> {
    let value = value.to_string();
    std::fs::write(path, &value).with_context(|| format!("{value} into {}", path.display()))
}

/// Takes back what an earlier lab left that was killed: thaws, unmounts, detaches, removes.
/// Everything is found by [`NAME`].
pub fn sweep() {
    groups();
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mine = |line: &&str| line.split(' ').nth(1).is_some_and(|at| at.contains(NAME));
    for line in mounts.lines().rev().filter(mine) {
        let at = line.split(' ').nth(1).unwrap_or_default();
        let _ = tool("fsfreeze", &["--unfreeze", at]);
        let _ = tool("umount", &["--lazy", at]);
    }
    let blocks = std::fs::read_dir("/sys/block").into_iter().flatten();
    for entry in blocks.flatten() {
        let file = std::fs::read_to_string(entry.path().join("loop/backing_file"));
        if file.is_ok_and(|f| f.contains(NAME)) {
            let device = Path::new("/dev").join(entry.file_name());
            let _ = tool("losetup", &[Path::new("--detach"), &device]);
        }
    }
    let _ = std::fs::remove_dir_all(home());
}

fn groups() {
    let hierarchies = std::fs::read_dir(CGROUPS).into_iter().flatten();
    for hierarchy in hierarchies.flatten() {
        let groups = std::fs::read_dir(hierarchy.path()).into_iter().flatten();
        for group in groups.flatten() {
            if group.file_name().to_string_lossy().starts_with(NAME) {
                dissolve(&hierarchy.path(), &group.path());
            }
        }
    }
}

/// Sends the members of a group one level up and removes it.
pub fn dissolve(parent: &Path, group: &Path) {
    let _ = std::fs::write(group.join("freezer.state"), "THAWED");
    for _ in 0..50 {
        let members = std::fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
        for pid in members.split_whitespace() {
            let _ = std::fs::write(parent.join("cgroup.procs"), pid);
        }
        if std::fs::remove_dir(group).is_ok() || !group.exists() {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn everything_is_undone_backwards_even_in_a_panic() {
        let order = Arc::new(Mutex::new(Vec::new()));
        let inner = order.clone();
        let ended = std::panic::catch_unwind(move || {
            let mut undo = Undo::default();
            for n in 0..3 {
                let order = inner.clone();
                undo.add(move || order.lock().expect("unpoisoned").push(n));
            }
            panic!("on purpose");
        });
        assert!(ended.is_err());
        assert_eq!(*order.lock().expect("unpoisoned"), [2, 1, 0]);
    }
}
