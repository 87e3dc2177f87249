//! Arguments that all commands share, and those of `help`, `selftest`, `completions`, `man` and `trace`.

use std::path::PathBuf;

use clap::{ArgAction, Args};
use clap_complete::Shell;
use taillight_core::units::Span;

/// How much is said.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct VerbosityArgs {
    /// Only results and errors: no progress, no notes.
    #[arg(short = 'q', long, global = true, conflicts_with = "verbose", display_order = 900)]
    pub quiet: bool,
    /// More: the tables of the page; of `drivers` all options, of `doctor` all that tracing needs.
    #[arg(short = 'v', long, global = true, display_order = 901)]
    pub verbose: bool,
    /// Print help.
    #[arg(short = 'h', long, global = true, display_order = 902, action = ArgAction::HelpShort)]
    pub help: Option<bool>,
}

/// Arguments of `help`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  taillight help
  taillight help run")]
pub struct HelpArgs {
    /// The command; without it, all there are.
    #[arg(value_name = "COMMAND")]
    pub command: Option<String>,
}

/// Arguments of `selftest`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  taillight selftest
  taillight selftest --json

Runs on a simulated device, on virtual time, must give back exactly what was put in; runs that do \
nothing, and in memory, must count every operation, and are this machine's own cost. About ten \
seconds; what it writes is removed again.
Exit codes: 0 all as it should be, 7 something is not.")]
pub struct SelftestArgs {
    /// As JSON, for programs (`taillight schema selftest`).
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `completions`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  source <(taillight completions bash)
  taillight completions zsh > ~/.zfunc/_taillight
  taillight completions fish > ~/.config/fish/completions/taillight.fish")]
pub struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum, value_name = "SHELL")]
    pub shell: Shell,
}

/// Arguments of `man`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  taillight man | man -l -
  taillight man ~/.local/share/man/man1")]
pub struct ManArgs {
    /// Write all pages, one for each command, into this directory; without it, the first one to
    /// standard output.
    #[arg(value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// Arguments of `trace`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  taillight trace web_0.csv
  taillight trace taillight-runs/job-20260102T030405Z --json
  taillight trace io_traces.csv --select device=419 --from 1h --length 10min

Reads fio iolog (versions 2 and 3), blktrace, MSR Cambridge, Alibaba and Tencent block traces, runs of Taillight \
and what `taillight export --format ios-csv` writes. `taillight run --replay FILE` replays it (docs/replay.md).")]
pub struct TraceArgs {
    /// A recorded trace of I/Os, or the directory of a run that kept all of its I/Os.
    #[arg(value_name = "FILE")]
    pub file: String,
    /// The format of the trace, where it is not recognised, like msr or iolog3 (docs/replay.md).
    #[arg(long, value_name = "NAME")]
    pub format: Option<String>,
    /// Only this disk, device, volume or file of a trace that has several, like device=419; without it they are named
    /// with their operations.
    #[arg(long, value_name = "NAME")]
    pub select: Option<String>,
    /// Leave out what comes earlier than this after the first operation, like 1h.
    #[arg(long, value_name = "TIME")]
    pub from: Option<Span>,
    /// Take only so much time from there, like 10min.
    #[arg(long, value_name = "TIME")]
    pub length: Option<Span>,
    /// As JSON, for programs (`taillight schema trace`).
    #[arg(long)]
    pub json: bool,
}
