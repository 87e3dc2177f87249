//! `cargo xtask demo hosts`: four ranks of one run on two hosts that are namespaces of this machine: network, host
//! name and monotonic clock of their own. `mpirun` reaches them as it reaches hosts, through an agent; here it is
//! `ip netns exec` in the place of `ssh`.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::tool;

const PROFILE: &str = "demo";
const HOME: &str = "taillight-runs/demo-hosts";
/// The bridge between the hosts, and the first three parts of all addresses.
const BRIDGE: &str = "tlhosts";
const NET: &str = "10.213.77";
/// Hosts by name, with the seconds by which their monotonic clocks are ahead.
const HOSTS: [(&str, i64); 2] = [("tlh1", 3600), ("tlh2", 7200)];

const JOB: &str = r#"[run]
duration = "5s"
interval = "250ms"

[target]
driver = "file"
path = "taillight-runs/demo-hosts/data"
size = "64MiB"

[[workload]]
mix = { read = 70, write = 30 }
block_size = "4KiB"
arrival = { kind = "poisson", rate = "2000/s" }
"#;

pub fn main() -> Result<bool> {
    std::fs::create_dir_all(HOME).with_context(|| format!("cannot write {HOME}"))?;
    println!("demo: building taillight-mpi (some minutes the first time)");
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--profile", PROFILE, "-p", "taillight-mpi"]);
    ensure!(build.status()?.success(), "taillight-mpi cannot be built: cargo xtask setup");
    let job = Path::new(HOME).join("job.toml");
    std::fs::write(&job, JOB)?;
    let agent = agent()?;
    let hosts = Namespaces::make()?;
    let run = (1..10_000).map(|n| Path::new(HOME).join(format!("{n:03}"))).find(|p| !p.exists());
    let run = run.context("too many demo runs here")?;
    println!("demo: four ranks on {} (namespaces of this machine)", hosts.names());
    let good = mpirun(&job, &run, &agent)?.status()?.success();
    println!("demo: open {}", run.join("report.html").display());
    Ok(good)
}

fn mpirun(job: &Path, run: &Path, agent: &Path) -> Result<Command> {
    let net = format!("{NET}.0/24");
    let slots = (0..HOSTS.len()).map(|n| format!("{NET}.{}:2", n + 2)).collect::<Vec<_>>();
    let mut mpirun = Command::new("mpirun");
    mpirun.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    mpirun.args(["--host", &slots.join(","), "-n", "4", "--map-by", "node", "--bind-to", "none"]);
    mpirun.args(["--oversubscribe", "--mca", "plm_rsh_agent"]).arg(agent);
    for (name, value) in [
        ("btl", "tcp,self"),
        ("pml", "ob1"),
        ("btl_tcp_if_include", net.as_str()),
        ("oob_tcp_if_include", net.as_str()),
        ("plm_rsh_no_tree_spawn", "1"),
    ] {
        mpirun.args(["--mca", name, value]);
    }
    mpirun.arg(tool::binary(PROFILE, "taillight-mpi")).arg("run").arg(job).arg("--output").arg(run);
    Ok(mpirun)
}

/// What stands in the place of `ssh`: `agent ADDRESS COMMAND...` runs a command in that namespace.
fn agent() -> Result<std::path::PathBuf> {
    let mut text = "#!/bin/sh\naddress=$1; shift\ncase $address in\n".to_owned();
    for (n, (name, ahead)) in HOSTS.iter().enumerate() {
        text.push_str(&format!("{NET}.{}) host={name} ahead={ahead};;\n", n + 2));
    }
    text.push_str(
        "*) echo \"no such host: $address\" >&2; exit 1;;\nesac\n\
         exec ip netns exec $host unshare --uts --time --fork --monotonic $ahead \\\n\
         \x20 sh -c 'hostname \"$0\"; exec sh -c \"$*\"' $host \"$@\"\n",
    );
    let path = std::path::absolute(Path::new(HOME).join("agent"))?;
    std::fs::write(&path, text)?;
    let mut executable = Command::new("chmod");
    tool::output(executable.arg("755").arg(&path))?;
    Ok(path)
}

/// Network namespaces behind one bridge; gone with this value.
struct Namespaces;

impl Namespaces {
    fn make() -> Result<Namespaces> {
        Namespaces::remove();
        // From here on also what is made half is removed.
        let all = Namespaces;
        ip(&format!("link add {BRIDGE} type bridge"))?;
        ip(&format!("addr add {NET}.1/24 dev {BRIDGE}"))?;
        ip(&format!("link set {BRIDGE} up"))?;
        for (n, (host, _)) in HOSTS.iter().enumerate() {
            ip(&format!("netns add {host}"))?;
            ip(&format!("link add {host}o type veth peer name eth0 netns {host}"))?;
            ip(&format!("link set {host}o master {BRIDGE} up"))?;
            ip(&format!("-n {host} addr add {NET}.{}/24 dev eth0", n + 2))?;
            ip(&format!("-n {host} link set eth0 up"))?;
            ip(&format!("-n {host} link set lo up"))?;
        }
        Ok(all)
    }

    fn names(&self) -> String {
        HOSTS.map(|(name, _)| name).join(" and ")
    }

    fn remove() {
        for (host, _) in HOSTS {
            let _ = ip(&format!("netns del {host}"));
        }
        let _ = ip(&format!("link del {BRIDGE}"));
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        Namespaces::remove();
    }
}

fn ip(words: &str) -> Result<()> {
    let mut ip = Command::new("ip");
    tool::output(ip.args(words.split(' '))).map(drop)
}
