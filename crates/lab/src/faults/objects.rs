//! Faults of an object store, a server of the tests in a process and a network of its own.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use taillight_s3test::{ID, SECRET};

use crate::cleanup::tool;
use crate::fault_trial::FaultTrial;
use crate::faults::stopped::{frozen, stopped};
use crate::faults::store::{inside_words, narrowed, shaped};
use crate::faults::{cpu, server};
use crate::victim::VictimOptions;

/// An object store that is stopped for a while.
pub fn stopped_objects(b: &mut FaultTrial<'_>) -> Result<()> {
    let pid = stored(b)?;
    stopped(b, pid)
}

/// An object store whose control group is frozen for a while.
pub fn frozen_objects(b: &mut FaultTrial<'_>) -> Result<()> {
    let pid = stored(b)?;
    frozen(b, pid)
}

/// Packets of an object store are lost for a while.
pub fn lost_objects(b: &mut FaultTrial<'_>) -> Result<()> {
    let pid = stored(b)?;
    server::lossy(b, pid)
}

/// An object store that may run only so long in each period.
pub fn limited_objects(b: &mut FaultTrial<'_>) -> Result<()> {
    let pid = stored(b)?;
    server::limited(b, pid)
}

/// The network to the object store is slow.
pub fn slow_object_network(b: &mut FaultTrial<'_>) -> Result<()> {
    let pid = stored(b)?;
    let rate = shaped(pid)?;
    narrowed(b, rate)
}

/// Large objects, and the network to the object store is slow.
pub fn large_objects(b: &mut FaultTrial<'_>) -> Result<()> {
    let (path, pid) = objects(b)?;
    let mut options = object_load(b, path);
    options.set.push("workload.0.block_size=\"64KiB\"".into());
    options.within = inside_words(pid);
    b.start(&options)?;
    let rate = shaped(pid)?;
    narrowed(b, rate)
}

/// An object store has no CPU, which the victim does not want.
pub fn hogged_objects(b: &mut FaultTrial<'_>) -> Result<()> {
    let pid = stored(b)?;
    tool("taskset", &["-a", "-c", "-p", "0", &pid.to_string()])?;
    cpu::taken_beside(b)
}

/// A victim of an object store; the store's process.
fn stored(b: &mut FaultTrial<'_>) -> Result<u32> {
    let (path, pid) = objects(b)?;
    let mut options = object_load(b, path);
    options.within = inside_words(pid);
    b.start(&options)?;
    Ok(pid)
}

pub fn object_load(b: &FaultTrial<'_>, path: String) -> VictimOptions {
    let mut options = b.options_of(path.into(), &["s3"]);
    options.set.extend(
        [
            "workload.0.mix={get=50,put=50}",
            "workload.0.block_size=\"1KiB\"",
            "workload.0.keys={count=100}",
        ]
        .map(String::from),
    );
    let names = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"];
    options.env = names.into_iter().zip([ID.into(), SECRET.into()]).collect();
    options
}

/// Starts the object store of the tests in a process and a network of its own; where, and the process.
pub fn objects(b: &mut FaultTrial<'_>) -> Result<(String, u32)> {
    let mut command = Command::new("setpriv");
    let server = "ip link set lo up && exec \"$0\" --serve-objects";
    command.args(["--pdeathsig", "KILL", "unshare", "-n", "sh", "-c", server]);
    command.arg(b.taillight.with_file_name("taillight-lab"));
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().context("cannot start taillight-lab")?;
    let (pid, out) = (child.id(), child.stdout.take().context("its output")?);
    b.undo.add(move || {
        let _ = child.kill();
        let _ = child.wait();
    });
    let mut path = String::new();
    BufReader::new(out).read_line(&mut path)?;
    Ok((path.trim().to_owned(), pid))
}
