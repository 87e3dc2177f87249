//! `cargo xtask overhead`: builds the product and the bench program, then lets the bench program
//! measure and write its tables into `benches/RESULTS.md`. Never part of CI: figures need a quiet
//! machine and minutes.

use std::process::Command;

use anyhow::Result;

use crate::tool;

/// Passes every argument on to the bench program; `list` shows what it knows.
pub fn main(args: &[&str]) -> Result<bool> {
    tool::build("release")?;
    // Ranks need an MPI to be built, which the other cases do without.
    let ranks = args.contains(&"two-ranks") || tool::which("mpicc").is_some();
    for package in ["taillight-bench"].into_iter().chain(ranks.then_some("taillight-mpi")) {
        let mut cargo = tool::cargo(["build", "--release", "--locked"]);
        tool::run(cargo.args(["--package", package]))?;
    }
    let mut bench = Command::new(tool::binary("release", "taillight-bench"));
    bench.current_dir(tool::root()).args(args);
    bench.env("TAILLIGHT", tool::taillight());
    Ok(bench.status()?.success())
}
