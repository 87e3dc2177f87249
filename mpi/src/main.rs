//! The command `taillight` as ranks of an MPI job: `mpirun -n 4 taillight-mpi run job.toml`. Everything but
//! the messages is `taillight`'s own; this crate alone links MPI.

mod sys;

use std::process::ExitCode;

use sys::MpiGroup;
use taillight_cli::GroupOf;

fn main() -> ExitCode {
    let group: GroupOf = Box::new(|| Ok(Box::new(MpiGroup::join()?)));
    taillight_cli::main_with(Some(taillight_cli::Launcher {
        join: group,
        leave: Box::new(MpiGroup::leave),
        abort: Box::new(MpiGroup::abort),
    }))
}
