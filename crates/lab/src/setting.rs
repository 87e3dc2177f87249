//! What else goes on beside a trial: nothing, work on every CPU, too little memory, or the tracing of every I/O.

use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use clap::ValueEnum;

use crate::cleanup::{NAME, Undo, holes};
use crate::stage::LabCgroup;

/// Room for pages, beside what the victim holds itself.
const ROOM: u64 = 160 << 20;
/// A file that is read again and again: more than there is room for.
const FILE: u64 = 512 << 20;

/// What else goes on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Setting {
    #[default]
    Clean,
    /// A busy thread for each CPU, of ordinary weight.
    Busy,
    /// The victim's control group has little memory, and another process in it wants more.
    Memory,
    /// Nothing, but every I/O is traced with all its stamps.
    All,
}

impl Setting {
    /// Its word in results; empty for a clean machine.
    pub fn name(self) -> &'static str {
        match self {
            Setting::Clean => "",
            Setting::Busy => "busy",
            Setting::Memory => "memory",
            Setting::All => "all",
        }
    }

    /// Which I/Os are traced.
    pub fn trace_mode(self) -> &'static str {
        match self {
            Setting::All => "all",
            _ => "outliers",
        }
    }

    /// Begins it beside this victim, until it is undone.
    pub fn begin(self, undo: &mut Undo, pid: u32) -> Result<()> {
        match self {
            Setting::Clean | Setting::All => Ok(()),
            Setting::Busy => {
                let cpus = std::thread::available_parallelism()?.get();
                (0..cpus).try_for_each(|_| beside(undo, "while :; do :; done", "").map(drop))
            }
            Setting::Memory => {
                let group = LabCgroup::of_memory(undo, &format!("{NAME}-setting"))?;
                // The file is a hole: reading it takes memory, and no disk.
                let file = holes();
                std::fs::File::create_new(&file)?.set_len(FILE)?;
                let (gone, name) = (file.clone(), file.to_string_lossy().into_owned());
                undo.add(move || drop(std::fs::remove_file(gone)));
                group.add_process(pid)?;
                let other = beside(undo, "while :; do cat \"$0\" > /dev/null; done", &name)?;
                group.add_process(other)?;
                group.limit_memory(Some(group.unreclaimable()? + ROOM))
            }
        }
    }
}

/// A shell that does this until it is undone, or this process ends.
fn beside(undo: &mut Undo, what: &str, argument: &str) -> Result<u32> {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "sh", "-c", what, argument]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().context("cannot start a shell")?;
    let pid = child.id();
    undo.add(move || {
        let _ = child.kill();
        let _ = child.wait();
    });
    Ok(pid)
}
