//! Runs another program and says what it cost: wall time, CPU, memory, and how busy the rest of
//! the machine was meanwhile (a figure taken beside foreign load says so itself).

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::machine;
use crate::sys;

/// A finished program.
pub struct ChildUsage {
    pub stdout: String,
    /// Start to end, seconds.
    pub wall_s: f64,
    /// CPU seconds, user and system.
    pub cpu_s: f64,
    /// Most memory, bytes.
    pub max_rss: u64,
    /// CPU use of everything else, in cores.
    pub foreign: f64,
}

/// A started program.
struct ChildProcess {
    child: Child,
    shown: String,
    stderr: PathBuf,
    start: Instant,
}

/// Runs one program to its end. Any exit code but 0 is an error.
pub fn run(command: &mut Command) -> Result<ChildUsage> {
    let mut all = run_together(&mut [command])?;
    all.pop().context("nothing ran")
}

/// Runs programs at the same time. Any exit code but 0 is an error.
pub fn run_together(commands: &mut [&mut Command]) -> Result<Vec<ChildUsage>> {
    let busy = machine::busy_s()?;
    let mut running = Vec::new();
    for (number, command) in commands.iter_mut().enumerate() {
        let shown = show(command);
        let name = format!("taillight-bench-{}-{number}.log", std::process::id());
        let stderr = std::env::temp_dir().join(name);
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&stderr)?)
            .spawn()
            .with_context(|| format!("cannot start {shown}"))?;
        running.push(ChildProcess { child, shown, stderr, start: Instant::now() });
    }
    let mut done = Vec::new();
    for mut one in running {
        done.push(finish(&mut one)?);
    }
    let own: f64 = done.iter().map(|d| d.cpu_s).sum();
    let wall = done.iter().map(|d| d.wall_s).fold(0.0, f64::max);
    let foreign = ((machine::busy_s()? - busy - own) / wall).max(0.0);
    done.iter_mut().for_each(|d| d.foreign = foreign);
    Ok(done)
}

fn finish(one: &mut ChildProcess) -> Result<ChildUsage> {
    let mut stdout = String::new();
    if let Some(pipe) = one.child.stdout.as_mut() {
        pipe.read_to_string(&mut stdout)?;
    }
    let usage = sys::wait4(&one.child)?;
    let said = std::fs::read_to_string(&one.stderr).unwrap_or_default();
    // Left in the temporary directory at worst.
    let _ = std::fs::remove_file(&one.stderr);
    if usage.code != Some(0) {
        bail!("{}: exit code {:?}\n{stdout}\n{said}", one.shown, usage.code);
    }
    Ok(ChildUsage {
        stdout,
        wall_s: one.start.elapsed().as_secs_f64(),
        cpu_s: usage.user_s + usage.system_s,
        max_rss: usage.max_rss,
        foreign: 0.0,
    })
}

/// The command as typed.
fn show(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|a| a.to_string_lossy().into_owned()));
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_and_usage_are_returned() {
        let done = run(Command::new("sh").args(["-c", "echo here"])).unwrap();
        assert_eq!(done.stdout, "here\n");
        assert!(done.max_rss > 0 && done.wall_s > 0.0);
        assert!(run(Command::new("sh").args(["-c", "exit 3"])).is_err());
    }
}
