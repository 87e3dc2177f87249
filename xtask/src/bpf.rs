//! The trace programs: built from C with clang into an object that is part of the source.
//!
//! `cargo xtask bpf` rebuilds it; CI builds it beside the committed one and compares, where the
//! same clang is installed. Users and developers need no C compiler for BPF.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::steps::StepOutcome;
use crate::tool;

/// Major version of clang that the committed object was built with: other versions make other code.
const CLANG: &str = "14";
const SOURCE: &str = "taillight.bpf.c";
const OBJECT: &str = "taillight.bpf.o";

/// `cargo xtask bpf`.
pub fn main() -> Result<bool> {
    let Some(tools) = BpfTools::find() else {
        bail!(
            "clang-{CLANG} and llvm-strip-{CLANG} are missing; `cargo xtask setup` installs them"
        );
    };
    let object = dir().join(OBJECT);
    let before = std::fs::read(&object).unwrap_or_default();
    tools.build(&object)?;
    let after = std::fs::read(&object).context("the built object")?;
    let word = if before == after { "unchanged" } else { "changed" };
    println!("{OBJECT}: {} bytes, {word}", after.len());
    Ok(true)
}

/// The CI step: the committed object is what the source gives.
pub fn step() -> Result<StepOutcome> {
    let Some(tools) = BpfTools::find() else {
        return StepOutcome::skip(format!("clang-{CLANG} is not installed"));
    };
    let fresh = tool::target_dir().join(OBJECT);
    tools.build(&fresh)?;
    let same = std::fs::read(&fresh)? == std::fs::read(dir().join(OBJECT))?;
    if !same {
        bail!("{OBJECT} is not what {SOURCE} gives; run cargo xtask bpf and commit it");
    }
    StepOutcome::ok()
}

fn dir() -> PathBuf {
    tool::root().join("crates/trace/bpf")
}

struct BpfTools {
    clang: PathBuf,
    strip: PathBuf,
}

impl BpfTools {
    fn find() -> Option<BpfTools> {
        Some(BpfTools {
            clang: tool::which(&format!("clang-{CLANG}"))?,
            strip: tool::which(&format!("llvm-strip-{CLANG}"))?,
        })
    }

    /// Builds in the source's own directory, so that no path of this machine gets into the object.
    fn build(&self, to: &Path) -> Result<()> {
        let mut clang = Command::new(&self.clang);
        clang.current_dir(dir()).args([
            "-target",
            "bpf",
            "-mcpu=v3",
            "-g",
            "-O2",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-Wno-unused-parameter",
            "-fdebug-compilation-dir=.",
            "-c",
            SOURCE,
            "-o",
        ]);
        tool::run(clang.arg(to))?;
        // Types and relocations stay, debug information for people goes.
        tool::run(Command::new(&self.strip).arg("-g").arg(to))
    }
}
