//! What hosts may differ in where a plan is the same: what targets are on (file system, mount options, model of the disks
//! below), and what is in the files that the plan names.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use sha2::{Digest as _, Sha256};
use taillight_core::plan::{Arrival, Plan};
use taillight_core::{Error, Result};
use taillight_machine::{BlockDevice, DeviceNumber, Sys, block, mounts};

/// Options that are a host's own wherever the same is mounted: its address, places of an overlay.
const OWN: [&str; 5] = ["clientaddr=", "upperdir=", "workdir=", "lowerdir", "datadir+"];

/// Names and values; where a plan has several targets, names say of which.
pub fn facts_of(plan: &Plan) -> BTreeMap<String, String> {
    let sys = Sys::default();
    let mut facts = BTreeMap::new();
    for (name, target) in plan.all_targets() {
        let Some(path) = target.path.as_deref().and_then(block::local) else { continue };
        let of = name.map_or(String::new(), |name| format!(" of {name}"));
        let mut put = |what: &str, value: String| drop(facts.insert(format!("{what}{of}"), value));
        let device = DeviceNumber::of_path(path).is_some();
        if let Some(mount) = mounts::mount_of(&sys, path).filter(|_| !device) {
            put("mount options", of_mount(&mount.all_options()));
            put("file system", mount.fs);
        }
        let disks = block::disks_below(&sys, [path]);
        let models: Vec<String> = disks.iter().filter_map(model).collect();
        if !models.is_empty() {
            put("device model", models.join(", "));
        }
    }
    facts
}

/// What is in the traces and recorded times that a plan names, hashed; none where it names no such file. Every rank takes its part
/// of them from the file on its own host.
pub fn recorded_in(plan: &Plan) -> Option<String> {
    let (mut hash, mut some) = (Sha256::new(), false);
    for workload in &plan.workloads {
        if let Some(trace) = &workload.trace {
            some = true;
            for (time, op) in trace.ops.times.iter().zip(trace.ops.ops.iter()) {
                hash.update(time.to_le_bytes());
                hash.update(op.offset.to_le_bytes());
                hash.update(op.size.to_le_bytes());
                hash.update([op.kind as u8, u8::from(op.durable)]);
            }
        } else if let Arrival::Replay { file } = &workload.arrival {
            some = true;
            // Who cannot read it says so itself, and what is read once is not to be read here.
            if std::fs::metadata(file).is_ok_and(|meta| meta.is_file()) {
                let _ = add_file(&mut hash, file);
            }
        }
    }
    let hash = hash.finalize();
    some.then(|| hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect())
}

fn add_file(hash: &mut Sha256, path: &str) -> std::io::Result<()> {
    let (mut file, mut buffer) = (File::open(path)?, vec![0_u8; 1 << 20]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(()),
            n => hash.update(&buffer[..n]),
        }
    }
}

/// Whether all ranks have what rank 0 has in the files that the plan names; `host` names that of a rank. Errors: `Usage`.
pub fn same_recorded<'a>(all: &[Option<String>], host: impl Fn(u32) -> &'a str) -> Result<()> {
    let others = (0..).zip(all).filter(|(_, own)| Some(*own) != all.first());
    let others: Vec<String> = others.map(|(rank, _)| format!("{rank} on {}", host(rank))).collect();
    if others.is_empty() {
        return Ok(());
    }
    Err(Error::usage("the trace or the recorded times are not the same on all hosts")
        .with("ranks", others.join(", "))
        .hint("copy the file of rank 0 to all hosts, under the same path: each rank takes its part of it"))
}

/// Said where results and a target are on one file system: none where they are not.
pub fn results_beside(plan: &Plan, directory: &Path) -> Option<String> {
    let of = |path: &Path| Some(std::fs::metadata(mounts::existing(path)?).ok()?.dev());
    let own = of(directory)?;
    let targets = plan.all_targets().filter_map(|(_, target)| target.path.as_deref());
    let on = targets.filter_map(block::local).any(|path| of(path) == Some(own));
    on.then(|| {
        "The results lie on the file system under test: in a run of some minutes or more, intervals are written there during \
         the load."
            .to_owned()
    })
}

fn of_mount(options: &str) -> String {
    let own = |option: &&str| OWN.iter().any(|own| option.starts_with(own));
    options.split(',').filter(|option| !own(option)).collect::<Vec<_>>().join(",")
}

fn model(disk: &BlockDevice) -> Option<String> {
    let model = disk.attr("device/model")?;
    let firmware = disk.attr("device/firmware_rev").or_else(|| disk.attr("device/rev"));
    Some(match firmware {
        Some(firmware) => format!("{model}, firmware {firmware}"),
        None => model,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_each_hosts_own_is_no_difference() {
        assert_eq!(of_mount("rw,vers=4.2,clientaddr=10.0.0.7,hard"), "rw,vers=4.2,hard");
        assert_eq!(of_mount("rw,lowerdir=/a:/b,upperdir=/c,workdir=/d,xino=off"), "rw,xino=off");
    }

    #[test]
    fn results_on_the_file_system_under_test_are_said() {
        let tmp = tempfile::tempdir().unwrap();
        let mut plan = Plan::default();
        assert_eq!(results_beside(&plan, &tmp.path().join("RUN")), None);
        plan.target.path = Some(tmp.path().join("data").display().to_string());
        assert!(results_beside(&plan, &tmp.path().join("RUN")).is_some());
        assert_eq!(results_beside(&plan, Path::new("/proc/self")), None);
        plan.target.path = Some("redis://127.0.0.1:6379/0".to_owned());
        assert_eq!(results_beside(&plan, &tmp.path().join("RUN")), None);
    }

    #[test]
    fn files_that_differ_are_named() {
        let host = |rank: u32| ["h0", "h1", "h2"][rank as usize];
        let some = |text: &str| Some(text.to_owned());
        assert!(same_recorded(&[None, None], host).is_ok());
        let e = same_recorded(&[some("a"), some("a"), some("b")], host).unwrap_err();
        assert!(e.to_string().contains("2 on h2"), "{e}");
        let tmp = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(tmp.path(), "1ms\n2ms\n").unwrap();
        let file = tmp.path().display().to_string();
        let job = "[run]\nduration = \"1s\"\n[target]\ndriver = \"null\"\n[[workload]]\nmix = \"read\"\nblock_size = \"4KiB\"\n";
        let mut plan = crate::run::plan_of_text(job).unwrap();
        assert_eq!(recorded_in(&plan), None);
        plan.workloads[0].arrival = Arrival::Replay { file };
        let first = recorded_in(&plan);
        std::fs::write(tmp.path(), "1ms\n3ms\n").unwrap();
        assert!(first.is_some() && recorded_in(&plan) != first);
    }

    #[test]
    fn a_file_is_on_a_file_system_and_an_address_on_nothing() {
        let tmp = tempfile::tempdir().unwrap();
        let mut plan = Plan::default();
        assert!(facts_of(&plan).is_empty());
        plan.target.path = Some(tmp.path().join("data").display().to_string());
        let facts = facts_of(&plan);
        assert!(facts.contains_key("file system") && facts.contains_key("mount options"));
        plan.target.path = Some("redis://127.0.0.1:6379/0".to_owned());
        assert!(facts_of(&plan).is_empty());
    }
}
