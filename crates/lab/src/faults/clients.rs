//! What spoils the program that asks a server, or that a store is part of.

use anyhow::Result;

use crate::cleanup::tool;
use crate::fault_trial::FaultTrial;
use crate::faults::objects::{object_load, objects};
use crate::faults::store::{PORT, inside_words, loaded, redis, updates};
use crate::faults::{cpu, server, stopped};

/// A client that is stopped for a while, its server is not.
pub fn stopped_client(b: &mut FaultTrial<'_>) -> Result<()> {
    let (_, client) = client(b)?;
    stopped::stopped(b, client)
}

/// A client whose control group may run only so long in each period.
pub fn limited_client(b: &mut FaultTrial<'_>) -> Result<()> {
    let (_, client) = client(b)?;
    server::limited(b, client)
}

/// A client has no CPU, which its server does not want.
pub fn hogged_client(b: &mut FaultTrial<'_>) -> Result<()> {
    let (served, _) = client(b)?;
    tool("taskset", &["-a", "-c", "-p", "1", &served.to_string()])?;
    cpu::hogged(b)
}

/// A server, and a victim that asks it all the time: their processes.
fn client(b: &mut FaultTrial<'_>) -> Result<(u32, u32)> {
    let (mut options, served) = match b.engine {
        "redis" => {
            let (_, pid) = redis(&mut b.undo, b.stop)?;
            (loaded(b, PORT), pid)
        }
        _ => {
            let (path, pid) = objects(b)?;
            (object_load(b, path), pid)
        }
    };
    options.within = inside_words(served);
    options.without_pauses();
    Ok((served, b.start(&options)?))
}

/// A store's program has no CPU.
pub fn hogged_store(b: &mut FaultTrial<'_>) -> Result<()> {
    store(b)?;
    cpu::hogged(b)
}

/// A store's program may run only so long in each period.
pub fn limited_store(b: &mut FaultTrial<'_>) -> Result<()> {
    let pid = store(b)?;
    server::limited(b, pid)
}

/// Reads and updates of a store all the time, of what is in its memory.
fn store(b: &mut FaultTrial<'_>) -> Result<u32> {
    let at = b.disk(2048)?.mount(&mut b.undo, "ext4")?;
    let mut options = updates(b, &at);
    options.without_pauses();
    options.set.push("workload.0.mix={get=90,update=10}".into());
    b.start(&options)
}
