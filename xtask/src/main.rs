//! The command line of the project's chores, which the Makefile and CI call; `cargo xtask help` lists them.
//!
//! Not part of the product: nothing here is linked into `taillight`. `ci` is a list of steps over the other modules.

mod bpf;
mod ci;
mod dashboards;
mod demo;
mod demo_hosts;
mod docs;
mod edges;
mod lab;
mod minio;
mod overhead;
mod package;
mod proof;
mod setup;
mod smoke;
mod steps;
mod tests_step;
mod tidy;
mod tool;

use std::process::ExitCode;

use anyhow::Result;

const HELP: &str = "\
cargo xtask CHORE

  setup [demo|lab|package]
                        install the Debian packages that are missing, or say which
  ci [--only A,B] [--skip A,B] [--list]
                        every check that CI makes
  tidy                  house rules over the source
  edges                 dependency direction between the crates
  docs [--check]        write the generated docs, or check that they are current
  dashboards            write the Grafana dashboards from dashboards/panels.toml
  bpf                   build the trace programs anew (needs clang)
  lab [--only A,B] [--engine E] [--ms N] [--repeats N] [--keep DIR] [--fresh] [--write] [--pages]
                        faults with known truth, scored; --write puts the tables into the docs, --pages does no more
  proof NAME... [--page]
                        what takes too long for every check: intervals, disk-for, merge, ...; --page: the table alone
  demo                  measure the disk under this directory, one overlaid report
  demo hosts            four ranks of one run in two namespaces as hosts (root)
  smoke                 run the release binary end to end
  package KIND... [--binary FILE]
                        portable (builds), notices, sbom, deb, wheel, image: docs/install.md
  overhead [NAME...]    paired comparisons into benches/RESULTS.md (needs a quiet machine)
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let rest: Vec<&str> = args.iter().skip(1).map(String::as_str).collect();
    let done = match args.first().map(String::as_str) {
        Some("setup") => setup::main(&rest),
        Some("ci") => ci::main(&rest),
        Some(step @ ("tidy" | "edges")) => ci::main(&["--only", step]),
        Some("docs") => docs::main(&rest),
        Some("dashboards") => dashboards::main(&rest),
        Some("bpf") => bpf::main(),
        Some("lab") => lab::main(&rest),
        Some("proof") => proof::main(&rest),
        Some("demo") if rest == ["hosts"] => demo_hosts::main(),
        Some("demo") => demo::main(),
        Some("smoke") => ci::main(&["--only", "release,smoke"]),
        Some("package") => package::main(&rest),
        Some("overhead") => overhead::main(&rest),
        Some("help" | "--help" | "-h") => {
            print!("{HELP}");
            Ok(true)
        }
        _ => {
            eprint!("{HELP}");
            return ExitCode::from(2);
        }
    };
    exit_code(done)
}

/// `Ok(false)` means the chore ran and said itself what failed.
fn exit_code(done: Result<bool>) -> ExitCode {
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
