//! The command `taillight` as ranks of an MPI job: `mpirun -n 4 taillight-mpi run job.toml`. Everything but
//! the messages is `taillight`'s own; this crate alone links MPI.

mod link;
mod sys;

use std::process::ExitCode;
use std::sync::Arc;

use sys::MpiGroup;
use taillight_cli::Launcher;

fn main() -> ExitCode {
    taillight_cli::main_with(Some(Launcher {
        join: Box::new(|| Ok(Box::new(MpiGroup::join()?))),
        leave: Box::new(MpiGroup::leave),
        abort: Arc::new(MpiGroup::abort),
    }))
}
