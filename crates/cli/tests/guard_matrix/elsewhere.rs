//! The same devices and images from another place: mount namespaces, containers, other nodes of a
//! device, a series that goes on, a user who is not root.

use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::container::{SysTree, container};
use super::occupied::{
    DEVICE_LOADS, FILE_LOADS, Occupant, attack, attack_device, attack_file, disk, occupy,
    occupy_file,
};
use super::stage::{AttackStage, Must, Setup, path_text};
use super::table::VictimKind;
use crate::common::traced::tool;

const ELSEWHERE: [&str; 5] = ["unshare", "--mount", "sh", "-ec", ""];

/// Starts a process in a mount namespace of its own that runs the script; it goes on behind WAIT when the stage ends.
fn elsewhere(stage: &mut AttackStage<'_>, script: &str, words: &[&Path]) -> Setup<()> {
    let script = script.replace("WAIT", "echo ready; read _ || true");
    let words: Vec<String> = words.iter().map(|w| path_text(w)).collect();
    let mut all = ELSEWHERE.to_vec();
    all[4] = &script;
    all.push("sh");
    all.extend(words.iter().map(String::as_str));
    stage.holder(&all)
}

/// The device is used from a mount namespace that Taillight is not in.
pub fn occupied_elsewhere(stage: &mut AttackStage<'_>, occupant: Occupant) -> Setup<()> {
    let disk = disk(stage)?;
    let point = stage.fresh_dir("point");
    match occupant {
        Occupant::Mounted => {
            stage.make_ext4(&disk)?;
            elsewhere(stage, "mount -o noatime $1 $2; WAIT", &[&disk, &point])?;
        }
        Occupant::Swap => {
            // The name that the kernel gives for it leads nowhere here.
            let script = "mount -t tmpfs none $2; cp -a $1 $2/disk; mkswap $2/disk >&2; \
                          swapon $2/disk; WAIT; swapoff $2/disk";
            elsewhere(stage, script, &[&disk, &point])?;
            stage.swaps.push(path_text(&disk));
        }
        Occupant::Written => elsewhere(stage, "exec 9<>$1; WAIT", &[&disk])?,
        // Signatures, file systems and mappings are in no mount namespace: they are put there from here.
        Occupant::Member | Occupant::Mapped | Occupant::ForeignFs => {
            occupy(stage, occupant, &disk)?;
        }
    }
    attack_device(stage, occupant, &disk);
    Ok(())
}

/// Taillight is in a mount namespace that has none of the stage's mounts.
pub fn run_elsewhere(stage: &mut AttackStage<'_>, occupant: Occupant) -> Setup<()> {
    let image = stage.image(8);
    stage.keep_safe(&image);
    occupy_file(stage, occupant, &image)?;
    let place = path_text(stage.root());
    let script = format!(
        "grep -o ' {place}/mount[0-9]* ' /proc/self/mountinfo | xargs -r -n 1 umount; exec \"$@\""
    );
    let before = ["unshare", "--mount", "sh", "-ec", &script, "sh"];
    attack_file(stage, occupant, &before, &image);
    Ok(())
}

/// The loop device was made where its image has another name, which is not here.
pub fn loop_made_elsewhere(stage: &mut AttackStage<'_>, occupant: Occupant) -> Setup<()> {
    let image = stage.image(8);
    stage.keep_safe(&image);
    let (point, name) = (stage.fresh_dir("point"), stage.fresh("name"));
    let script = "mount -t tmpfs none $2; : > $2/image; mount --bind $1 $2/image; \
                  d=$(losetup --find --show $2/image); echo $d > $3; WAIT; \
                  for i in $(seq 50); do losetup --detach $d && break; sleep 0.05; done";
    elsewhere(stage, script, &[&image, &point, &name])?;
    let disk = std::fs::read_to_string(&name).map_err(|e| e.to_string())?;
    let disk = PathBuf::from(disk.trim());
    occupy(stage, occupant, &disk)?;
    if let Ok(file) = std::fs::File::open(&disk) {
        let _ = file.sync_all();
    }
    attack_file(stage, occupant, &[], &image);
    Ok(())
}

fn in_container(
    stage: &mut AttackStage<'_>,
    occupant: Occupant,
    sys: SysTree,
    inside: &Path,
    load: &str,
) {
    let words = container(stage, sys, &[(inside, "disk")]);
    let before: Vec<&str> = words.iter().map(String::as_str).collect();
    attack(stage, occupant, &before, Path::new("/data/disk"), load);
}

pub fn image_in_container(stage: &mut AttackStage<'_>, occupant: Occupant) -> Setup<()> {
    let image = stage.image(8);
    stage.keep_safe(&image);
    occupy_file(stage, occupant, &image)?;
    in_container(stage, occupant, SysTree::ReadOnly, &image, FILE_LOADS[0]);
    Ok(())
}

pub fn image_without_sys(stage: &mut AttackStage<'_>, occupant: Occupant) -> Setup<()> {
    let image = stage.image(8);
    stage.keep_safe(&image);
    occupy_file(stage, occupant, &image)?;
    in_container(stage, occupant, SysTree::Absent, &image, FILE_LOADS[2]);
    Ok(())
}

pub fn device_in_container(stage: &mut AttackStage<'_>, occupant: Occupant) -> Setup<()> {
    let disk = disk(stage)?;
    occupy(stage, occupant, &disk)?;
    in_container(stage, occupant, SysTree::ReadOnly, &disk, DEVICE_LOADS[0]);
    in_container(stage, occupant, SysTree::Absent, &disk, DEVICE_LOADS[2]);
    Ok(())
}

/// Makes another node of the same device.
fn node(stage: &mut AttackStage<'_>, disk: &Path, name: &Path) -> Setup<()> {
    let _ = stage;
    tool(&["cp", "-a", &path_text(disk), &path_text(name)]).map(drop)
}

pub fn renamed(stage: &mut AttackStage<'_>, occupant: Occupant) -> Setup<()> {
    let disk = disk(stage)?;
    let name = stage.fresh("node");
    node(stage, &disk, &name)?;
    occupy(stage, occupant, &disk)?;
    attack_device(stage, occupant, &name);
    Ok(())
}

/// A node with the name that another, free device has, and the use under another node's name.
pub fn renamed_as_another(stage: &mut AttackStage<'_>, occupant: Occupant) -> Setup<()> {
    let disk = disk(stage)?;
    let free = stage.image(8);
    let free = stage.loop_over(&free, &[])?;
    let dir = stage.fresh_dir("dev");
    let name = dir.join(free.file_name().unwrap_or_default());
    node(stage, &disk, &name)?;
    let used = stage.fresh("used");
    node(stage, &disk, &used)?;
    occupy(stage, occupant, &used)?;
    attack_device(stage, occupant, &name);
    Ok(())
}

/// Begins a series on a free disk, kills it, puts the other disk in its place, resumes.
fn resumed(
    stage: &mut AttackStage<'_>,
    occupant: Occupant,
    named: impl Fn(&mut AttackStage<'_>, &Path, &Path) -> Setup<()>,
) -> Setup<()> {
    let disk = disk(stage)?;
    occupy(stage, occupant, &disk)?;
    let image = stage.image(8);
    let free = stage.loop_over(&image, &[])?;
    let name = stage.fresh("disk");
    named(stage, &free, &name)?;
    let dir = stage.fresh_dir("series");
    let name_text = path_text(&name);
    let line = format!(
        "run --driver file --path {name_text} --rw write --bs 4KiB --runtime 300ms --output out \
         --set target.options.direct=false --set target.destroy=true --destroy {name_text} \
         --sweep workload.0.queue_depth=1,2"
    );
    let words: Vec<&str> = line.split_whitespace().collect();
    let second = dir.join("out/02-sweep-2/manifest.json");
    stage.killed(&dir, &words, || second.exists())?;
    released(&free)?;
    std::fs::remove_file(&name).map_err(|e| e.to_string())?;
    named(stage, &disk, &name)?;
    stage.attempt_resumed(Must::Refuse, VictimKind::Occupied(occupant).name(), &dir);
    Ok(())
}

/// The kernel lets go of what a killed process had a moment later.
fn released(disk: &Path) -> Setup<()> {
    let patience = Instant::now() + Duration::from_secs(10);
    loop {
        let exclusive = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::EXCL;
        match rustix::fs::open(disk, exclusive, rustix::fs::Mode::empty()) {
            Ok(_) => return Ok(()),
            Err(e) if Instant::now() > patience => return Err(e.to_string()),
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

pub fn resumed_by_link(stage: &mut AttackStage<'_>, occupant: Occupant) -> Setup<()> {
    resumed(stage, occupant, |_, disk, name| symlink(disk, name).map_err(|e| e.to_string()))
}

pub fn resumed_by_node(stage: &mut AttackStage<'_>, occupant: Occupant) -> Setup<()> {
    resumed(stage, occupant, node)
}

pub fn device_as_nobody(stage: &mut AttackStage<'_>, occupant: Occupant) -> Setup<()> {
    let disk = disk(stage)?;
    let name = stage.fresh("node");
    node(stage, &disk, &name)?;
    let all = std::fs::Permissions::from_mode(0o666);
    std::fs::set_permissions(&name, all).map_err(|e| e.to_string())?;
    occupy(stage, occupant, &disk)?;
    let nobody = stage.nobody();
    attack(stage, occupant, &nobody, &name, DEVICE_LOADS[0]);
    attack(stage, occupant, &nobody, &name, DEVICE_LOADS[3]);
    // Root by name only.
    let rootless = [&nobody[..], &["unshare", "--user", "--map-root-user", "--mount"]].concat();
    attack(stage, occupant, &rootless, &name, DEVICE_LOADS[0]);
    Ok(())
}

pub fn file_as_nobody(stage: &mut AttackStage<'_>, occupant: Occupant) -> Setup<()> {
    let image = stage.image(8);
    stage.keep_safe(&image);
    occupy_file(stage, occupant, &image)?;
    chown(&image, Some(65534), Some(65534)).map_err(|e| e.to_string())?;
    let nobody = stage.nobody();
    attack_file(stage, occupant, &nobody, &image);
    let rootless = [&nobody[..], &["unshare", "--user", "--map-root-user", "--mount"]].concat();
    attack_file(stage, occupant, &rootless, &image);
    Ok(())
}
