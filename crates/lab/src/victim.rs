//! The run that suffers: Taillight as any user starts it, traced.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::cleanup::{NAME, StopSignal, Undo, lab_dir, make_lab_dir};

/// How the victim is started.
#[derive(Debug, Clone)]
pub struct VictimOptions {
    pub taillight: PathBuf,
    pub path: PathBuf,
    /// Arguments that choose the driver and its load.
    pub load: Vec<String>,
    /// Operations in flight of each worker.
    pub depth: u32,
    pub workers: u32,
    /// How long it runs.
    pub runtime: Duration,
    /// An I/O that takes longer is an outlier.
    pub threshold: Duration,
    /// Which I/Os are traced: `outliers` or `all`.
    pub trace: &'static str,
    /// Further `--set`.
    pub set: Vec<String>,
    /// Further arguments.
    pub more: Vec<String>,
    /// Variables added to its environment.
    pub env: Vec<(&'static str, OsString)>,
    /// The beginning of a command that becomes the victim, in a control group, a network or under a supervisor.
    pub within: Vec<String>,
}

impl VictimOptions {
    /// No pauses between operations.
    pub fn without_pauses(&mut self) {
        self.set.retain(|s| !s.contains("think"));
    }
}

/// A run under way.
pub struct Victim {
    child: Option<Child>,
    pub pid: u32,
    pub dir: PathBuf,
    deadline: Instant,
}

impl Victim {
    /// Starts it and waits until it has a worker. Errors: it ended, or has none after 30 s.
    pub fn start(undo: &mut Undo, stop: &StopSignal, options: &VictimOptions) -> Result<Victim> {
        make_lab_dir()?;
        let dir = lab_dir().join(format!("{NAME}-run"));
        let _ = std::fs::remove_dir_all(&dir);
        let log = std::fs::File::create(lab_dir().join("run.log"))?;
        let program = options.taillight.as_os_str();
        let mut words = options.within.iter().map(OsStr::new).chain([program]);
        let child = Command::new(words.next().unwrap_or(program))
            .args(words)
            .args(arguments(options, &dir))
            .envs(options.env.iter().cloned())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("cannot start taillight")?;
        let pid = child.id();
        let mut victim = Victim {
            child: Some(child),
            pid,
            dir,
            deadline: Instant::now() + options.runtime + Duration::from_secs(60),
        };
        // A stopped or frozen process must be able to end.
        undo.add(move || drop(signal(pid, Signal::CONT)));
        let begin = Instant::now();
        while !working(pid) {
            stop.sleep(Duration::from_millis(20))?;
            victim.alive()?;
            if begin.elapsed() > Duration::from_secs(30) {
                bail!("no worker after 30 s\n{}", said());
            }
        }
        Ok(victim)
    }

    fn alive(&mut self) -> Result<()> {
        if let Some(child) = &mut self.child
            && let Some(status) = child.try_wait()?
        {
            bail!("taillight ended: {status}\n{}", said());
        }
        Ok(())
    }

    /// Whether it has a worker thread now.
    pub fn works(&self) -> bool {
        working(self.pid)
    }

    /// Waits for its end; its run directory. Errors: an exit code but 0, 7 and 8, no end a minute after its time,
    /// or a signal to the lab.
    pub fn end(mut self, stop: &StopSignal) -> Result<PathBuf> {
        let Some(mut child) = self.child.take() else {
            bail!("it ended before");
        };
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if stop.check().is_err() || Instant::now() > self.deadline {
                self.child = Some(child);
                bail!("taillight did not end in time\n{}", said());
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        if !matches!(status.code(), Some(0 | 7 | 8)) {
            forget(&self.dir);
            bail!("taillight: {status}\n{}", said());
        }
        Ok(std::mem::take(&mut self.dir))
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = signal(self.pid, Signal::CONT);
            // It takes its own things away when it is asked to end.
            let _ = signal(self.pid, Signal::TERM);
            for _ in 0..100 {
                if matches!(child.try_wait(), Ok(Some(_))) {
                    break;
                }
                std::thread::sleep(Duration::from_millis(50));
            }
            let _ = child.kill();
            let _ = child.wait();
            forget(&self.dir);
        }
    }
}

/// Removes the capture that a killed run left in memory to be salvaged: nobody will.
fn forget(dir: &Path) {
    let kept = || -> Option<PathBuf> {
        let text = std::fs::read(dir.join("manifest.json")).ok()?;
        let manifest: serde_json::Value = serde_json::from_slice(&text).ok()?;
        Some(manifest["capture"]["path"].as_str()?.into())
    };
    let own = |path: &PathBuf| {
        let name = path.file_name().and_then(|n| n.to_str());
        path.parent() == Some(Path::new("/dev/shm"))
            && name.is_some_and(|n| n.starts_with("taillight-"))
    };
    if let Some(kept) = kept().filter(own) {
        let _ = std::fs::remove_dir_all(kept);
    }
}

fn arguments(options: &VictimOptions, dir: &Path) -> Vec<String> {
    let text = |p: &Path| p.to_string_lossy().into_owned();
    let ns = |d: Duration| format!("{}ns", d.as_nanos());
    let mut args: Vec<String> = vec!["run".into()];
    let mut flag = |name: &str, value: String| args.extend([format!("--{name}"), value]);
    flag("path", text(&options.path));
    flag("depth", options.depth.to_string());
    flag("workers", options.workers.to_string());
    flag("runtime", ns(options.runtime));
    flag("output", text(dir));
    flag("set", format!("trace.mode={}", options.trace));
    flag("set", format!("trace.threshold={}", ns(options.threshold)));
    options.set.iter().for_each(|s| flag("set", s.clone()));
    args.extend(options.load.iter().cloned());
    args.extend(options.more.iter().cloned());
    args
}

/// Whether a process has a thread that makes load.
fn working(pid: u32) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter();
    let mut names = tasks
        .flatten()
        .flatten()
        .filter_map(|t| std::fs::read_to_string(t.path().join("comm")).ok());
    names.any(|name| name.starts_with("worker-"))
}

fn said() -> String {
    std::fs::read_to_string(lab_dir().join("run.log")).unwrap_or_default()
}

/// Sends a signal to a process.
pub fn signal(pid: u32, signal: Signal) -> Result<()> {
    let process = Pid::from_raw(pid.cast_signed()).context("no process")?;
    Ok(kill_process(process, signal)?)
}
