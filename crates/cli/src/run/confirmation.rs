//! What the targets of several ranks are, and which of them may be overwritten. The same path is another disk on
//! another host: confirmations name a host and an identity, never a path alone.

use std::collections::BTreeMap;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use taillight_core::plan::{Plan, WorkShare};
use taillight_core::units::readable::in_line;
use taillight_core::{Error, ErrorKind, Result};
use taillight_driver::identity::target;
use taillight_driver::ownership::SHARED_MARKER;
use taillight_machine::block;
use taillight_rundir::scale::RankTarget;

use crate::output;
use crate::ranks::{RankPeer, RunOrder};

/// The targets of a rank's plan that have a path, each with its identity on this host.
pub fn targets_of(plan: &Plan) -> Vec<RankTarget> {
    let paths = plan.all_targets().filter_map(|(_, target)| target.path.clone());
    paths.map(|path| RankTarget { identity: target::of(&path), path }).collect()
}

/// The word that confirms a target of a host, HOST:ID. Where nothing tells it from another of the same name, ID is its
/// path.
fn word(host: &str, target: &RankTarget) -> String {
    let name = || format!("path={}", target.path);
    format!("{host}:{}", target.id().unwrap_or_else(name))
}

/// Confirmations as the command line has them, those in files (`@FILE`, one a line) among them. Errors: `Usage` for
/// one that is not HOST:ID, and for a file that cannot be read.
pub fn listed(destroy: &[String]) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for word in destroy {
        match word.strip_prefix('@') {
            None => all.push(word.clone()),
            Some(file) => {
                let text = std::fs::read_to_string(file).map_err(|e| {
                    Error::usage("the file of confirmations cannot be read")
                        .with("--destroy", word)
                        .source(e)
                        .hint("a file with one HOST:ID on each line")
                })?;
                let lines = text.lines().map(str::trim);
                all.extend(
                    lines.filter(|l| !l.is_empty() && !l.starts_with('#')).map(str::to_owned),
                );
            }
        }
    }
    match all.iter().find(|word| !word.split_once(':').is_some_and(|(_, id)| id.contains('='))) {
        Some(word) => Err(Error::usage("of several ranks, --destroy confirms identities")
            .with("--destroy", word)
            .hint("the same path is another disk on each host: give --destroy HOST:ID, as a run without it prints \
                   them, or --destroy @FILE with one on each line")),
        None => Ok(all),
    }
}

/// The paths that a rank may overwrite, which is this process: those whose identity here is confirmed for this host.
pub fn of_rank(order: &RunOrder, rank: u32, plan: &Plan) -> Result<Vec<String>> {
    let host = order.peers.get(rank as usize).map_or("", |peer| peer.host.as_str());
    Ok(of_host(host, &order.destroy, plan))
}

/// The paths of a plan that confirmations allow to overwrite on a host, which is this one.
pub fn of_host(host: &str, destroy: &[String], plan: &Plan) -> Vec<String> {
    let confirmed = |target: &RankTarget| destroy.contains(&word(host, target));
    targets_of(plan).into_iter().filter(confirmed).map(|target| target.path).collect()
}

/// The error, with a hint which confirmations could lift it where it is a refusal of an unconfirmed target.
pub fn with_words(e: Error, order: &RunOrder, rank: u32, plan: &Plan) -> Error {
    let destroys = plan.all_targets().any(|(_, target)| target.destroy);
    if e.kind() != ErrorKind::Refused || !destroys {
        return e;
    }
    let host = order.peers.get(rank as usize).map_or("", |peer| peer.host.as_str());
    let words: Vec<String> = targets_of(plan).iter().map(|t| word(host, t)).collect();
    if words.iter().all(|word| order.destroy.contains(word)) {
        // Confirmed it was, and refused for another reason.
        return e;
    }
    let words: Vec<String> = words.iter().map(|word| format!("--destroy '{word}'")).collect();
    e.hint(format!("what it is there must be confirmed as such: {}", words.join(" ")))
}

/// Prints what all ranks drive, and checks that it fits together. Errors: `Refused` where two ranks have one local
/// target although each is to have its own, or a device to be shared is not shown to be one on all hosts.
pub fn fit(order: &RunOrder, plan: &Plan, all: &[Vec<RankTarget>]) -> Result<()> {
    let mut seen: BTreeMap<String, (usize, String)> = BTreeMap::new();
    for (rank, targets) in all.iter().enumerate() {
        let host = order.peers.get(rank).map_or("", |peer| peer.host.as_str());
        for target in targets {
            let what = target.id().unwrap_or_else(|| "identity not known".to_owned());
            output::line(&format!(
                "rank {rank} on {host}: {}  {}",
                in_line(&target.path),
                in_line(&what)
            ));
            let absent =
                target.identity.as_ref().is_none_or(taillight_driver::identity::target::is_absent);
            let near = || format!("{host} {}", target.path);
            let key = match device_id(target) {
                _ if absent => near(),
                // What two hosts say of one disk may differ.
                Some((Some(disk), _)) => format!("{disk:?}"),
                _ => target.id().unwrap_or_else(near),
            };
            let before = seen.insert(key, (rank, host.to_owned()));
            let Some((other, of)) = before.filter(|_| is_local(target)) else { continue };
            if plan.run.share == WorkShare::Own {
                return Err(Error::refused("two ranks have the same target")
                    .with("ranks", format!("{other} on {of}, {rank} on {host}"))
                    .with("target", &target.path)
                    .hint("start one rank on each host, or share it: --set run.share='\"segments\"' (or strided, same)"));
            }
        }
    }
    match plan.run.share {
        WorkShare::Own => Ok(()),
        _ => one_device(order, all),
    }
}

/// What tells a shared device from others of its name: its WWID with its place on the disk, which all hosts see alike,
/// and the whole identity.
fn device_id(target: &RankTarget) -> Option<(Option<[Option<&String>; 3]>, String)> {
    let identity = target.identity.as_ref()?;
    let device = identity.keys().any(|name| name.starts_with("device."));
    let of_scsi = identity.get("device.device.wwid").filter(|it| it.starts_with("naa."));
    let wwid = identity.get("device.wwid").or(of_scsi);
    let place = || ["device.start", "device.size"].map(|name| identity.get(name));
    let wwid = wwid.map(|wwid| [Some(wwid), place()[0], place()[1]]);
    device.then(|| (wwid, target.id().unwrap_or_default()))
}

/// Whether a device that ranks share is one device; the same path on each host does not show it. Errors: `Refused`
/// where its identity differs or is not known.
fn one_device(order: &RunOrder, all: &[Vec<RankTarget>]) -> Result<()> {
    let Some(first) = all.first() else { return Ok(()) };
    let boot = |rank: usize| order.peers.get(rank).map(RankPeer::boot);
    let on_machine_of_first = |rank: usize| boot(rank) == boot(0);
    for (rank, targets) in all.iter().enumerate().skip(1) {
        for (own, of_first) in targets.iter().zip(first) {
            let same = match (device_id(of_first), device_id(own)) {
                (Some((Some(a), _)), Some((Some(b), _))) => a == b,
                // Machines made from one image have the same file behind a loop device, each its own.
                (Some((_, a)), Some((_, b))) => {
                    a == b && (on_machine_of_first(rank) || !over_file(own))
                }
                // A file is told by its marker.
                (None, None) => !is_device(&own.path),
                _ => false,
            };
            if !same {
                let id = |t: &RankTarget| t.id().unwrap_or_else(|| "not known".to_owned());
                let host = order.peers.get(rank).map_or("", |peer| peer.host.as_str());
                return Err(Error::refused(
                    "the device is to be shared, and is not shown to be one on all hosts",
                )
                .with("target", &own.path)
                .with("rank 0", id(of_first))
                .with("other", format!("rank {rank} on {host}: {}", id(own)))
                .hint("name a device with a WWID that all hosts share, or leave run.share out"));
            }
        }
    }
    Ok(())
}

/// Whether a device is a file, as loop devices are.
fn over_file(target: &RankTarget) -> bool {
    let mut names = target.identity.iter().flat_map(|identity| identity.keys());
    names.any(|name| name.contains(".backing."))
}

fn is_device(path: &str) -> bool {
    std::fs::metadata(path)
        .is_ok_and(|meta| meta.file_type().is_block_device() || meta.file_type().is_char_device())
}

fn is_local(target: &RankTarget) -> bool {
    block::local(&target.path).is_some()
}

/// Files beside shared targets that rank 0 makes, and removes when it is done, whatever comes of it: who does not see
/// them has another file system.
pub struct Marker {
    paths: Vec<PathBuf>,
    /// A device here that nothing tells from another of its name.
    unknown: Option<PathBuf>,
    made: bool,
}

impl Marker {
    pub fn of(order: &RunOrder, plan: &Plan) -> Marker {
        let paths: Vec<&str> =
            plan.all_targets().filter_map(|(_, target)| target.path.as_deref()).collect();
        let unknown = paths.iter().find(|path| is_device(path) && target::of(path).is_none());
        // A device is told by its identity.
        let files = paths.iter().filter(|path| !is_device(path));
        let files = files.filter_map(|path| block::local(path));
        let name = format!("{SHARED_MARKER}{}", order.run_id);
        let beside = files.map(|path| match path.as_os_str().as_encoded_bytes().ends_with(b"/") {
            true => path.join(&name),
            false => path.parent().map_or_else(PathBuf::new, Path::to_owned).join(&name),
        });
        Marker { paths: beside.collect(), unknown: unknown.map(PathBuf::from), made: false }
    }

    /// Makes the files. Errors: `Unavailable` where one cannot be made.
    pub fn set(&mut self) -> Result<()> {
        self.made = true;
        self.paths.iter().try_for_each(|path| {
            std::fs::write(path, "").map_err(|e| {
                Error::unavailable(
                    "cannot make a file beside the target, by which ranks see that they share it",
                )
                .with("path", path.display())
                .source(e)
                .hint("name a target in a directory that can be written")
            })
        })
    }

    /// Whether this rank sees the files. Errors: `Refused` where it does not, and for a device without identity.
    pub fn check(&self) -> Result<()> {
        match self.unknown.iter().chain(self.paths.iter().filter(|path| !path.exists())).next() {
            Some(path) => Err(Error::refused(
                "the target is to be shared, and this host has another one of the same name",
            )
            .with("not seen", path.display())
            .hint("name a file on a file system that all hosts share, or leave run.share out")),
            None => Ok(()),
        }
    }
}

impl Drop for Marker {
    fn drop(&mut self) {
        let made = self.paths.iter().filter(|_| self.made);
        made.for_each(|path| drop(std::fs::remove_file(path)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use taillight_machine::openers::PeerProcess;

    fn peer(host: &str) -> RankPeer {
        RankPeer::of(host, PeerProcess::default())
    }

    fn order(destroy: &[&str]) -> RunOrder {
        RunOrder {
            plan: String::new(),
            directory: PathBuf::new(),
            run_id: "r".to_owned(),
            destroy: destroy.iter().map(|s| (*s).to_owned()).collect(),
            shift: 0,
            peers: vec![peer("h0"), peer("h1")],
            leaders: Vec::new(),
            leader_of: Vec::new(),
            kept: None,
        }
    }

    fn target(serial: &str) -> RankTarget {
        let identity = [("device.serial".to_owned(), serial.to_owned())].into();
        RankTarget { path: "/dev/nvme1n1".to_owned(), identity: Some(identity) }
    }

    #[test]
    fn a_path_confirms_nothing() {
        let refused = |word: &str| listed(&[word.to_owned()]).unwrap_err().to_string();
        assert!(refused("/dev/nvme1n1").contains("identities"));
        assert!(refused("h0:/dev/nvme1n1").contains("identities"));
        let good = "h0:device.serial=ABC".to_owned();
        assert_eq!(listed(std::slice::from_ref(&good)).unwrap(), [good]);
    }

    /// The same path with another serial number than the confirmed one is another disk.
    #[test]
    fn another_serial_number_is_not_confirmed() {
        let order = order(&["h0:device.serial=A"]);
        assert!(order.destroy.contains(&word("h0", &target("A"))));
        assert!(!order.destroy.contains(&word("h0", &target("B"))));
        assert!(!order.destroy.contains(&word("h1", &target("A"))), "of another host");
    }

    #[test]
    fn ranks_that_have_the_same_disk_are_refused() {
        let mut plan = Plan::default();
        let all = |a: &str, b: &str| vec![vec![target(a)], vec![target(b)]];
        assert!(fit(&order(&[]), &plan, &all("A", "B")).is_ok());
        let e = fit(&order(&[]), &plan, &all("A", "A")).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Refused);
        plan.run.share = WorkShare::Segments;
        assert!(fit(&order(&[]), &plan, &all("A", "A")).is_ok(), "two hosts, one disk");
        let e = fit(&order(&[]), &plan, &all("A", "B")).unwrap_err();
        assert!(e.to_string().contains("to be shared"), "{e}");
        // Two paths to one disk: what each host says of it differs, its WWID does not.
        let with_wwid = |serial: &str| {
            let mut one = target(serial);
            let identity = one.identity.get_or_insert_default();
            identity.insert("device.wwid".to_owned(), "naa.5".to_owned());
            vec![one]
        };
        assert!(fit(&order(&[]), &plan, &[with_wwid("A"), with_wwid("B")]).is_ok());
        plan.run.share = WorkShare::Own;
        let e = fit(&order(&[]), &plan, &[with_wwid("A"), with_wwid("B")]).unwrap_err();
        assert!(e.to_string().contains("two ranks have the same target"), "{e}");
        plan.run.share = WorkShare::Segments;
        let mut loops = target("A");
        loops.identity.get_or_insert_default().insert("device.backing.inode".into(), "12".into());
        let loops = [vec![loops.clone()], vec![loops]];
        assert!(fit(&order(&[]), &plan, &loops).is_ok(), "on one machine");
        let mut apart = order(&[]);
        let process = PeerProcess { numbered_in: "boot2 pid:[1]".into(), ..PeerProcess::default() };
        apart.peers[1] = RankPeer::of("h1", process);
        let e = fit(&apart, &plan, &loops).unwrap_err();
        assert!(e.to_string().contains("to be shared"), "the file of another machine: {e}");
        let unknown = RankTarget { identity: None, ..target("A") };
        let e = fit(&order(&[]), &plan, &[vec![target("A")], vec![unknown]]).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Refused, "not known to be the same");
    }
}
