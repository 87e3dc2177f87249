//! What a rank says of itself when it joins, and whether the ranks fit together: one version, one command line, one
//! job file (a host may lack it), one clock on each host. Nothing is touched before that.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use taillight_core::{Error, Result};
use taillight_machine::Sys;
use taillight_machine::openers::PeerProcess;
use taillight_scale::Ranks;

use crate::args::{Cli, Command};

/// The host and the process of a rank.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankPeer {
    pub host: String,
    pub pid: u32,
    started: u64,
    /// The boot and the PID namespace that `pid` is of.
    numbered_in: String,
}

impl RankPeer {
    pub fn of(host: &str, process: PeerProcess) -> RankPeer {
        let PeerProcess { pid, started, numbered_in } = process;
        RankPeer { host: host.to_owned(), pid, started, numbered_in }
    }

    /// The boot of its machine; empty where that is not known.
    pub fn boot(&self) -> &str {
        self.numbered_in.split(' ').next().unwrap_or_default()
    }

    pub fn process(&self) -> PeerProcess {
        let RankPeer { pid, started, numbered_in, .. } = self.clone();
        PeerProcess { pid, started, numbered_in }
    }
}

/// What a rank says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Its host and process.
    pub peer: RankPeer,
    /// Ranks with the same one share CLOCK_MONOTONIC.
    pub clock_id: String,
    /// CPUs of the host.
    pub cpus: u32,
    /// Those that it may use.
    pub allowed: u32,
    version: String,
    words: Vec<String>,
    /// The job file there, hashed; none where there is no such file.
    job: Option<String>,
    /// What hosts may differ in.
    pub facts: BTreeMap<String, String>,
}

impl Hello {
    /// The `Hello` of this process, which always succeeds; `job` is none where the job file cannot be read.
    pub fn of(ranks: &Ranks, cli: &Cli) -> Result<Hello> {
        let sys = Sys::default();
        let words: Vec<String> =
            std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
        let job = match &cli.command {
            Some(Command::Run(args)) => args.job.clone(),
            Some(Command::Search(args)) => args.run.job.clone(),
            _ => None,
        };
        let text = job.and_then(|path| std::fs::read(path).ok());
        // A time namespace has a monotonic clock of its own.
        let namespace = std::fs::read_link("/proc/self/ns/time").unwrap_or_default();
        let boot = sys.text("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let uname = rustix::system::uname();
        let model = sys.text("/proc/cpuinfo").unwrap_or_default();
        let model = model.lines().find(|line| line.starts_with("model name"));
        let model = model.and_then(|line| line.split(": ").nth(1)).unwrap_or("unknown");
        let allowed = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
        let online = sys.text("/sys/devices/system/cpu/online").unwrap_or_default();
        let cpus = counted(online.trim()).unwrap_or(allowed);
        // Without /proc this identity matches no process: where other ranks see the process, they refuse a target that
        // the process has open for writing.
        let unknown = || PeerProcess { pid: std::process::id(), ..PeerProcess::default() };
        let process = PeerProcess::own(&sys).unwrap_or_else(unknown);
        Ok(Hello {
            peer: RankPeer::of(ranks.host(), process),
            clock_id: format!("{} {}", boot.trim(), namespace.display()),
            cpus,
            allowed,
            version: crate::version::with_commit(),
            words,
            job: text.map(|text| digest(&text)),
            facts: BTreeMap::from([
                ("kernel".to_owned(), uname.release().to_string_lossy().into_owned()),
                ("CPU".to_owned(), model.trim().to_owned()),
                ("CPUs".to_owned(), cpus.to_string()),
            ]),
        })
    }
}

/// CPUs in a list like `0-3,8`.
fn counted(list: &str) -> Option<u32> {
    let each = list.split(',').map(|part| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        Some(to.parse::<u32>().ok()?.checked_sub(from.parse().ok()?)? + 1)
    });
    each.sum()
}

fn digest(text: &[u8]) -> String {
    use sha2::Digest as _;
    let hash = sha2::Sha256::digest(text);
    hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// Whether all ranks have the version and the command line of rank 0, its job file or none, and one clock on each
/// host. Errors: `Usage`, naming the ranks that differ and in what.
pub fn fits(all: &[Hello]) -> Result<()> {
    let Some(first) = all.first() else { return Ok(()) };
    let other = |differs: &dyn Fn(&Hello) -> bool| {
        let who = all.iter().enumerate().filter(|(_, hello)| differs(hello));
        let who: Vec<String> = who.map(|(rank, h)| format!("{rank} on {}", h.peer.host)).collect();
        (!who.is_empty()).then(|| who.join(", "))
    };
    if let Some(who) = other(&|h| h.version != first.version) {
        let odd = all.iter().find(|h| h.version != first.version);
        return Err(Error::usage("the ranks are not of one version of Taillight")
            .with("rank 0", &first.version)
            .with("others", odd.map_or("", |h| h.version.as_str()))
            .with("ranks", who)
            .hint("install the same taillight-mpi on all hosts"));
    }
    if let Some(who) = other(&|h| h.words != first.words) {
        return Err(Error::usage("the ranks have different command lines")
            .with("ranks", who)
            .hint("start all ranks with one mpirun and one command line"));
    }
    let named = |h: &Hello| all.iter().find(|other| other.peer.host == h.peer.host);
    if let Some(who) = other(&|h| named(h).is_some_and(|first| first.clock_id != h.clock_id)) {
        return Err(Error::usage("two hosts have the same name, or one has two clocks")
            .with("ranks", who)
            .hint("give each host, container or pod a name of its own: results and confirmations name hosts"));
    }
    if let Some(who) = other(&|h| h.job.is_some() && h.job != first.job) {
        return Err(Error::usage("the job file is not the same on all hosts")
            .with("ranks", who)
            .hint(
                "copy that of rank 0 to all hosts, or delete the others: rank 0 tells what to do",
            ));
    }
    Ok(())
}

/// Notes to be known before figures are read: a single rank, and those [`of_hosts`]. Differences in [`Hello::facts`]
/// are not among them.
pub fn remarks(all: &[Hello]) -> Vec<String> {
    let mut notes = Vec::new();
    if let [_] = all {
        notes.push(
            "one rank only: mpirun -n N starts more (Open MPI for root with --allow-run-as-root), \
             or mpirun does not belong to this MPI"
                .to_owned(),
        );
    }
    notes.extend(of_hosts(all));
    notes
}

/// What must be known of the hosts before figures are compared between them: names of one machine, too few CPUs.
pub fn of_hosts(all: &[Hello]) -> Vec<String> {
    one_machine(all).into_iter().chain(short_of_cpus(all)).collect()
}

/// A line for each machine that has several names among the hosts, as containers and pods give it.
fn one_machine(all: &[Hello]) -> Vec<String> {
    let mut machines: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for hello in all {
        // One boot is one machine.
        let boot = hello.clock_id.split(' ').next().unwrap_or_default();
        let names = machines.entry(boot).or_default();
        if !names.contains(&hello.peer.host.as_str()) {
            names.push(&hello.peer.host);
        }
    }
    let several = machines.into_iter().filter(|(boot, names)| !boot.is_empty() && names.len() > 1);
    let words = several.map(|(_, names)| {
        format!(
            "{} are names of one machine: what is said of them as hosts is said of parts of it",
            names.join(", ")
        )
    });
    words.collect()
}

/// A line for each host with ranks that may use a part of its CPUs only, and for each with more ranks than CPUs.
fn short_of_cpus(all: &[Hello]) -> Vec<String> {
    let mut bound: BTreeMap<&str, (u32, u32)> = BTreeMap::new();
    for hello in all.iter().filter(|h| h.allowed < h.cpus) {
        let least = bound.entry(&hello.peer.host).or_insert((hello.allowed, hello.cpus));
        least.0 = least.0.min(hello.allowed);
    }
    let bound = bound.into_iter().map(|(host, (allowed, cpus))| {
        format!(
            "{host}: a rank may use {allowed} of {cpus} CPUs; mpirun --bind-to none lifts that, unless the host or its \
             container says so"
        )
    });
    bound.chain(oversubscribed(all)).collect()
}

/// A line for each host with more ranks than it has CPUs ([`Hello::cpus`], not [`Hello::allowed`]).
fn oversubscribed(all: &[Hello]) -> Vec<String> {
    let mut hosts: BTreeMap<&str, (u32, u32)> = BTreeMap::new();
    for hello in all {
        let host = hosts.entry(&hello.peer.host).or_default();
        *host = (host.0 + 1, hello.cpus);
    }
    let crowded = hosts.into_iter().filter(|(_, (ranks, cpus))| ranks > cpus);
    let words = crowded.map(|(host, (ranks, cpus))| {
        format!("{host} has {ranks} ranks on {cpus} CPUs: ranks take them from each other, which the figures show")
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(host: &str) -> Hello {
        Hello {
            peer: RankPeer { host: host.to_owned(), pid: 1, ..RankPeer::default() },
            clock_id: "x".to_owned(),
            cpus: 2,
            allowed: 2,
            version: "1".to_owned(),
            words: vec!["run".to_owned()],
            job: Some("a".to_owned()),
            facts: BTreeMap::new(),
        }
    }

    #[test]
    fn who_does_not_fit_is_named() {
        let all = [hello("a"), hello("b")];
        assert!(fits(&all).is_ok());
        let text = |change: fn(&mut Hello)| {
            let mut all = all.clone();
            change(&mut all[1]);
            fits(&all).unwrap_err().to_string()
        };
        assert!(text(|h| h.version = "2".to_owned()).contains("1 on b"));
        assert!(text(|h| h.words.clear()).contains("command lines"));
        assert!(text(|h| h.job = Some("b".to_owned())).contains("job file"));
        let mut twins = [hello("a"), hello("a")];
        assert!(fits(&twins).is_ok());
        twins[1].clock_id = "y".to_owned();
        assert!(fits(&twins).unwrap_err().to_string().contains("same name"));
        // A host without the file does what rank 0 says.
        let mut without = all.clone();
        without[1].job = None;
        assert!(fits(&without).is_ok());
    }

    #[test]
    fn names_of_one_machine_are_no_hosts_apart() {
        let on =
            |host: &str, clock_id: &str| Hello { clock_id: clock_id.to_owned(), ..hello(host) };
        let pods =
            [on("a", "boot1 time:[1]"), on("b", "boot1 time:[2]"), on("c", "boot2 time:[1]")];
        let said = of_hosts(&pods);
        assert!(
            said.len() == 1 && said[0].starts_with("a, b are names of one machine"),
            "{said:?}"
        );
        assert!(of_hosts(&[on("a", "x"), on("a", "x")]).is_empty(), "one name");
        assert!(of_hosts(&[on("a", " "), on("b", " ")]).is_empty(), "not known");
    }

    #[test]
    fn crowded_hosts_are_named() {
        assert!(oversubscribed(&[hello("a"), hello("a"), hello("b")]).is_empty());
        let crowded = oversubscribed(&[hello("a"), hello("a"), hello("a"), hello("b")]);
        assert!(
            crowded.len() == 1 && crowded[0].starts_with("a has 3 ranks on 2 CPUs"),
            "{crowded:?}"
        );
        assert!(remarks(&[hello("a")])[0].starts_with("one rank only"));
        let bound = Hello { allowed: 1, ..hello("b") };
        let short = short_of_cpus(&[hello("a"), bound.clone(), bound]);
        assert!(
            short.len() == 1 && short[0].starts_with("b: a rank may use 1 of 2 CPUs"),
            "{short:?}"
        );
    }
}
