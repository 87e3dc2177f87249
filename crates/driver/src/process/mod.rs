//! `process`: any store behind a program in any language, which serves operations over rings in shared memory
//! (`sdk/taillight_process.h`, `sdk/taillight.py`).
//!
//! All but how operations are carried is that of driver `plugin`: description, guard, sessions, the measured bridge.
//! The program runs in a process of its own: what it writes is never trusted, its end is a partial run, never a hang.

mod program;
mod ring;
mod sys;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use taillight_core::units::Span;
use taillight_core::{Error, Result};

use crate::options::{DriverOptions, OptionSet};
use crate::plugin::PluginDriver;
pub use program::{DriverProgram, ProgramTarget};
pub use ring::RingQueue;

/// Options of the driver `process`; beside them stand those of the program itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ProcessOptions {
    /// The plug-in: a program with its arguments, apart by spaces (`python3 store.py`); no shell reads them.
    /// `taillight drivers --check "python3 store.py"` shows what it is and lists its own options, which stand beside
    /// these.
    #[schemars(title = "program and arguments")]
    pub command: String,
    /// Records stay after the run, with the mark that says whose they are.
    pub keep: bool,
    /// Nothing is written, no mark either: reads what somebody else stored. Keys of the plan are believed to be there.
    pub read_only: bool,
    /// How long an operation or an answer is awaited while nothing else comes; then the program is ended, and the run
    /// with it.
    #[schemars(title = "time above 0")]
    pub patience: Span,
}

impl Default for ProcessOptions {
    fn default() -> ProcessOptions {
        ProcessOptions {
            command: String::new(),
            keep: false,
            read_only: false,
            patience: Span(60_000_000_000),
        }
    }
}

impl DriverOptions for ProcessOptions {
    fn check(&self) -> Result<()> {
        match self.patience.0 {
            0 => Err(Error::usage("without patience nothing is awaited").of_field("patience")),
            _ => Ok(()),
        }
    }
}

impl ProcessOptions {
    /// What no option of a program may be called.
    pub const NAMES: &[&str] = &["command", "keep", "read_only", "patience"];
}

/// A program of its own.
pub static PROGRAM: PluginDriver = PluginDriver {
    name: NAME,
    about: "any store behind a program in any language, over shared memory: Python, C, Go, Java, Node",
    options: OptionSet::of::<ProcessOptions>,
    #[cfg(any(test, feature = "testing"))]
    examples: || {
        let of = |command: &String| format!("command = {command:?}");
        Ok(crate::plugin::testing::programs()?.iter().map(of).collect())
    },
};
/// Name of the driver.
pub const NAME: &str = "process";
