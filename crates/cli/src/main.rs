//! The command `taillight`. What it does is in the library, which `taillight-mpi` calls, too.

use std::process::ExitCode;

fn main() -> ExitCode {
    taillight_cli::main_with(None)
}
