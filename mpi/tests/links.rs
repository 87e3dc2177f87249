//! A link between hosts that is taken down: the rank behind it is named after the load, and the others are reported.
//! Hosts are network namespaces, which `mpirun` reaches as it reaches hosts, with `ip netns exec` in the place of `ssh`.

mod common;

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use common::{Failed, MPI, has_namespaces, json, ranks, said};

const JOB: &str = "[run]\nduration = \"3s\"\n[target]\ndriver = \"null\"\n[[workload]]\nmix = \"read\"\n\
                   block_size = \"4KiB\"\narrival = { kind = \"constant\", rate = \"2000/s\" }\n";

fn ip(words: &str) -> Result<String, Failed> {
    let done = Command::new("ip").args(words.split(' ')).output()?;
    match done.status.success() {
        true => Ok(String::from_utf8_lossy(&done.stdout).into_owned()),
        false => Err(format!("ip {words}: {}", String::from_utf8_lossy(&done.stderr)).into()),
    }
}

/// Two hosts behind a bridge; gone with this value, and with them what still runs there.
struct LinkedHosts {
    name: String,
    net: String,
}

impl LinkedHosts {
    fn make() -> Result<LinkedHosts, Failed> {
        let own = std::process::id();
        let (name, net) = (format!("tl{}", own % 100_000), format!("10.214.{}", own % 250));
        ip(&format!("link add {name} type bridge"))?;
        // From here on the name is ours, and what it names is taken down in the end.
        let all = LinkedHosts { name, net };
        let (bridge, net) = (&all.name, &all.net);
        ip(&format!("addr add {net}.1/24 dev {bridge}"))?;
        ip(&format!("link set {bridge} up"))?;
        for host in 0..2 {
            let name = all.host(host);
            ip(&format!("netns add {name}"))?;
            ip(&format!("link add {} type veth peer name eth0 netns {name}", all.link(host)))?;
            ip(&format!("link set {} master {bridge} up", all.link(host)))?;
            ip(&format!("-n {name} addr add {net}.{}/24 dev eth0", host + 2))?;
            ip(&format!("-n {name} link set eth0 up"))?;
            ip(&format!("-n {name} link set lo up"))?;
        }
        Ok(all)
    }

    fn host(&self, n: u32) -> String {
        format!("{}h{n}", self.name)
    }

    fn link(&self, n: u32) -> String {
        format!("{}l{n}", self.name)
    }

    /// What stands in the place of `ssh`.
    fn agent(&self, dir: &Path) -> Result<PathBuf, Failed> {
        let path = dir.join("agent");
        let text = format!(
            "#!/bin/sh\nhost={}h$((${{1##*.}} - 2)); shift\n\
             exec ip netns exec $host unshare --uts sh -c 'hostname \"$0\"; exec sh -c \"$*\"' $host \"$@\"\n",
            self.name
        );
        std::fs::write(&path, text)?;
        Command::new("chmod").arg("755").arg(&path).status()?;
        Ok(path)
    }

    fn mpirun(&self, dir: &Path) -> Result<Child, Failed> {
        let net = format!("{}.0/24", self.net);
        let mut command = common::mpirun(dir);
        command.args(["--host", &format!("{0}.2:1,{0}.3:1", self.net), "-n", "2"]);
        command.args(["--map-by", "node", "--mca", "plm_rsh_agent"]).arg(self.agent(dir)?);
        for (name, value) in [
            ("btl", "tcp,self"),
            ("pml", "ob1"),
            ("btl_tcp_if_include", net.as_str()),
            ("oob_tcp_if_include", net.as_str()),
        ] {
            command.args(["--mca", name, value]);
        }
        command.args([MPI, "run", "job.toml", "--output", "RUN"]);
        Ok(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?)
    }
}

impl Drop for LinkedHosts {
    fn drop(&mut self) {
        for host in [0, 1] {
            let there = ip(&format!("netns pids {}", self.host(host))).unwrap_or_default();
            let kill = |pid| Command::new("kill").args(["-9", pid]).status();
            there.split_whitespace().for_each(|pid| drop(kill(pid)));
            let _ = ip(&format!("netns del {}", self.host(host)));
        }
        let _ = ip(&format!("link del {}", self.name));
    }
}

#[test]
fn a_link_that_is_down_is_named_and_the_others_are_reported() -> Result<(), Failed> {
    let test = "a_link_that_is_down_is_named_and_the_others_are_reported";
    if !has_namespaces(test) {
        return Ok(());
    }
    let tmp = tempfile::tempdir()?;
    std::fs::write(tmp.path().join("job.toml"), JOB)?;
    let made = LinkedHosts::make().inspect_err(|why| eprintln!("skipped: {test}: {why}"));
    let Ok(hosts) = made else { return Ok(()) };
    let mut child = hosts.mpirun(tmp.path())?;
    let run = tmp.path().join("RUN");
    while !run.join("scale.json").is_file() && child.try_wait()?.is_none() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    // The load begins half a second later.
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    if child.try_wait()?.is_some() {
        return Err(format!("ended early: {}", said(&child.wait_with_output()?).1).into());
    }
    ip(&format!("link set {} down", hosts.link(1)))?;
    let mut text = String::new();
    let mut lines = BufReader::new(child.stderr.take().ok_or("no output")?);
    while !text.contains("the job is aborted") && lines.read_line(&mut text)? > 0 {}
    // It waits for the host that is cut off; `timeout` made a group for itself and mpirun.
    Command::new("kill").args(["-9", "--", &format!("-{}", child.id())]).status()?;
    child.wait()?;
    assert!(text.contains(" is lost: it is cut off"), "{text}");
    let scale = json(&run.join("scale.json"))?;
    let lost = |rank: usize| scale["ranks"][rank]["lost"].as_str().map(str::to_owned);
    assert!(lost(0).is_none() && lost(1).is_some_and(|why| why.contains("cut off")), "{scale}");
    let (code, text) = said(&ranks(tmp.path(), 1, &["report", "RUN"])?);
    assert_eq!(code, Some(5), "{text}");
    let plain = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(plain.contains("rank 1 on") && plain.contains("cut off"), "{text}");
    Ok(())
}
