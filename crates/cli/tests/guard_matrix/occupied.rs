//! Devices and images that something else uses, or that carry somebody's file system: each kind of
//! use, under each way to name the device or what shares its blocks.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use super::elsewhere;
use super::signatures::SIGNATURES;
use super::stage::{AttackStage, MIB, Setup, path_text, write_data};
use super::sys::HeldMapping;
use super::table::{Case, CellPlan, Naming, VictimKind};
use crate::common::traced::tool;

/// What is on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occupant {
    Mounted,
    Swap,
    Member,
    Written,
    Mapped,
    ForeignFs,
}

type CaseOf = fn(&mut AttackStage<'_>, Occupant) -> Setup<()>;

pub fn plan(occupant: Occupant, naming: Naming) -> CellPlan {
    let cases: &[CaseOf] = match naming {
        Naming::Direct if occupant == Occupant::Member => &[every_signature, direct_file],
        Naming::Direct => &[direct_device, direct_file],
        Naming::Partition => &[part_of_it, part_below_a_loop],
        Naming::WholeDisk => &[disk_of_it, disk_below_a_loop],
        Naming::Loop if occupant == Occupant::Mounted => &[
            image_behind,
            beside_a_loop,
            below_a_loop,
            above_it,
            second_of_btrfs,
            external_journal,
            image_on_btrfs,
            image_on_overlay,
        ],
        Naming::Loop => {
            &[image_behind, beside_a_loop, below_a_loop, above_it, image_on_btrfs, image_on_overlay]
        }
        Naming::LoopWithOffset => &[image_with_offset, whole_beside_offset, disk_with_offset],
        Naming::HardLink => &[hard_link, hard_link_of_image],
        Naming::BindMount => &[bound_file, bound_directory_covered],
        Naming::Symlink => &[symlink_to_device, symlink_to_file],
        Naming::OtherNamespace => &[
            elsewhere::occupied_elsewhere,
            elsewhere::run_elsewhere,
            elsewhere::loop_made_elsewhere,
        ],
        Naming::Container => &[
            elsewhere::image_in_container,
            elsewhere::image_without_sys,
            elsewhere::device_in_container,
        ],
        Naming::RenamedDevice => &[elsewhere::renamed, elsewhere::renamed_as_another],
        Naming::Resumed => &[elsewhere::resumed_by_link, elsewhere::resumed_by_node],
        Naming::NotRoot => &[elsewhere::device_as_nobody, elsewhere::file_as_nobody],
    };
    let case = |case: &CaseOf| -> Case {
        let case = *case;
        Box::new(move |stage: &mut AttackStage<'_>| case(stage, occupant))
    };
    CellPlan::Cases(cases.iter().map(case).collect())
}

/// What destroys: an operation of the load, or an option.
pub const DEVICE_LOADS: [&str; 6] = [
    "--rw write --ops 64",
    "--rw randwrite --ops 64 --depth 4 --set target.options.engine=uring",
    "--rw trim --ops 64",
    "--rw randread --ops 8 --set target.options.fill=50%",
    "--rw randrw --ops 64 --set target.options.layout=always",
    "--rw write --ops 64 --set target.options.read_in_use=true",
];
pub const FILE_LOADS: [&str; 4] = [
    "--rw write --ops 64",
    "--rw trim --ops 64",
    "--rw randrw --ops 64 --set target.options.layout=always",
    "--rw randwrite --ops 64 --set target.options.layout=always",
];

/// One attempt with this load under this name; confirmed, where the occupant must be spared in spite of it.
pub fn attack(
    stage: &mut AttackStage<'_>,
    occupant: Occupant,
    before: &[&str],
    name: &Path,
    load: &str,
) {
    let name = path_text(name);
    // Another seed each time: the same bytes again would change nothing.
    let seed = stage.attempts.len();
    let line = format!(
        "run --driver file --path {name} --bs 4KiB --output out --set target.options.direct=false \
         --set run.seed={seed} {load}"
    );
    let confirm = format!("--set target.destroy=true --destroy {name}");
    let victim = VictimKind::Occupied(occupant);
    let confirm = if victim.in_spite_of_confirmation() { confirm } else { String::new() };
    let words: Vec<&str> = line.split_whitespace().chain(confirm.split_whitespace()).collect();
    stage.attempt(victim.name(), before, &words);
}

pub fn attack_device(stage: &mut AttackStage<'_>, occupant: Occupant, name: &Path) {
    let turn = occupant as usize + stage.attempts.len();
    for load in [DEVICE_LOADS[0], DEVICE_LOADS[1 + turn % (DEVICE_LOADS.len() - 1)]] {
        attack(stage, occupant, &[], name, load);
    }
}

pub fn attack_file(stage: &mut AttackStage<'_>, occupant: Occupant, before: &[&str], name: &Path) {
    let turn = occupant as usize + stage.attempts.len();
    for load in [FILE_LOADS[0], FILE_LOADS[1 + turn % (FILE_LOADS.len() - 1)]] {
        attack(stage, occupant, before, name, load);
    }
}

/// Puts the occupant on a device.
pub fn occupy(stage: &mut AttackStage<'_>, occupant: Occupant, device: &Path) -> Setup<()> {
    match occupant {
        Occupant::Mounted => {
            stage.make_ext4(device)?;
            let at = stage.mount(device, "noatime")?;
            write_data(&at.join("thesis"), MIB as usize);
            tool(&["sync", "-f", &path_text(&at)]).map(drop)
        }
        Occupant::Swap => swap_on(stage, device),
        Occupant::Member => {
            let turn = stage.attempts.len() % 2;
            SIGNATURES[turn].put(device)
        }
        Occupant::Written => {
            let file = std::fs::File::options().read(true).write(true).open(device);
            let file = file.map_err(|e| e.to_string())?;
            stage.undo.add(move || drop(file));
            Ok(())
        }
        Occupant::Mapped => {
            let mapping = HeldMapping::of(device).map_err(|e| e.to_string())?;
            stage.undo.add(move || drop(mapping));
            Ok(())
        }
        Occupant::ForeignFs => stage.make_ext4(device),
    }
}

fn swap_on(stage: &mut AttackStage<'_>, path: &Path) -> Setup<()> {
    let path = path_text(path);
    tool(&["mkswap", &path])?;
    tool(&["swapon", &path])?;
    stage.swaps.push(path.clone());
    stage.undo.add(move || drop(tool(&["swapoff", &path])));
    Ok(())
}

/// Puts the occupant on an image: through a loop device where it takes one.
pub fn occupy_file(stage: &mut AttackStage<'_>, occupant: Occupant, image: &Path) -> Setup<()> {
    match occupant {
        Occupant::Mounted => {
            let disk = stage.loop_over(image, &[])?;
            occupy(stage, occupant, &disk)
        }
        Occupant::Swap => {
            // A swap file has no holes.
            write_data(image, 4 * MIB as usize);
            let private = std::fs::Permissions::from_mode(0o600);
            std::fs::set_permissions(image, private).map_err(|e| e.to_string())?;
            swap_on(stage, image)
        }
        _ => occupy(stage, occupant, image),
    }
}

/// A loop device over an image of its own, which must not change.
pub fn disk(stage: &mut AttackStage<'_>) -> Setup<PathBuf> {
    let image = stage.image(8);
    stage.keep_safe(&image);
    stage.loop_over(&image, &["--partscan"])
}

fn direct_device(stage: &mut AttackStage<'_>, occupant: Occupant) -> Setup<()> {
    let disk = disk(stage)?;
    occupy(stage, occupant, &disk)?;
    for load in DEVICE_LOADS {
        attack(stage, occupant, &[], &disk, load);
    }
    for how in ["nvme_format", "nvme_sanitize"] {
        let load = format!("--rw randread --ops 8 --set target.options.purge={how}");
        attack(stage, occupant, &[], &disk, &load);
    }
    purged(stage, occupant, &disk);
    Ok(())
}

/// A suite that begins with a purge.
fn purged(stage: &mut AttackStage<'_>, occupant: Occupant, disk: &Path) {
    let disk = path_text(disk);
    let line = format!("suite pts-wsat --scale quick --path {disk} --output out");
    let confirm = format!("--set target.destroy=true --destroy {disk}");
    let victim = VictimKind::Occupied(occupant);
    let confirm = if victim.in_spite_of_confirmation() { confirm } else { String::new() };
    let words: Vec<&str> = line.split_whitespace().chain(confirm.split_whitespace()).collect();
    stage.attempt(victim.name(), &[], &words);
}

fn direct_file(stage: &mut AttackStage<'_>, occupant: Occupant) -> Setup<()> {
    let image = stage.image(8);
    stage.keep_safe(&image);
    occupy_file(stage, occupant, &image)?;
    for load in FILE_LOADS {
        attack(stage, occupant, &[], &image, load);
    }
    Ok(())
}

fn every_signature(stage: &mut AttackStage<'_>, occupant: Occupant) -> Setup<()> {
    for signature in &SIGNATURES {
        // What libblkid takes for too small a pool is none.
        let image = stage.image(if signature.name.starts_with("ZFS") { 64 } else { 8 });
        stage.keep_safe(&image);
        // Partitions are not read from it.
        let disk = stage.loop_over(&image, &[])?;
        signature.put(&disk)?;
        let before = stage.attempts.len();
        attack(stage, occupant, &[], &disk, DEVICE_LOADS[before % DEVICE_LOADS.len()]);
        for attempt in &mut stage.attempts[before..] {
            attempt.what = format!("{}: {}", signature.name, attempt.what);
        }
    }
    Ok(())
}

fn part_of_it(stage: &mut AttackStage<'_>, occupant: Occupant) -> Setup<()> {
    let disk = disk(stage)?;
    let part = stage.partition(&disk)?;
    occupy(stage, occupant, &disk)?;
    attack_device(stage, occupant, &part);
    Ok(())
}

fn part_below_a_loop(stage: &mut AttackStage<'_>, occupant: Occupant) -> Setup<()> {
    let disk = disk(stage)?;
    let part = stage.partition(&disk)?;
    let above = stage.loop_over(&disk, &[])?;
    occupy(stage, occupant, &above)?;
    attack_device(stage, occupant, &part);
    Ok(())
}

fn disk_of_it(stage: &mut AttackStage<'_>, occupant: Occupant) -> Setup<()> {
    let disk = disk(stage)?;
    let part = stage.partition(&disk)?;
    occupy(stage, occupant, &part)?;
    attack_device(stage, occupant, &disk);
    Ok(())
}

fn disk_below_a_loop(stage: &mut AttackStage<'_>, occupant: Occupant) -> Setup<()> {
    let disk = disk(stage)?;
    let part = stage.partition(&disk)?;
    let above = stage.loop_over(&part, &[])?;
    occupy(stage, occupant, &above)?;
    attack_device(stage, occupant, &disk);
    Ok(())
}

fn image_behind(stage: &mut AttackStage<'_>, occupant: Occupant) -> Setup<()> {
    let image = stage.image(8);
    stage.keep_safe(&image);
    let disk = stage.loop_over(&image, &[])?;
    occupy(stage, occupant, &disk)?;
    attack_file(stage, occupant, &[], &image);
    Ok(())
}

fn beside_a_loop(stage: &mut AttackStage<'_>, occupant: Occupant) -> Setup<()> {
    let image = stage.image(8);
    stage.keep_safe(&image);
    let disk = stage.loop_over(&image, &[])?;
    let other = stage.loop_over(&image, &[])?;
    occupy(stage, occupant, &disk)?;
    attack_device(stage, occupant, &other);
    Ok(())
}

fn below_a_loop(stage: &mut AttackStage<'_>, occupant: Occupant) -> Setup<()> {
    let disk = disk(stage)?;
    let above = stage.loop_over(&disk, &[])?;
    let higher = stage.loop_over(&above, &[])?;
    occupy(stage, occupant, &higher)?;
    attack_device(stage, occupant, &disk);
    attack_device(stage, occupant, &above);
    Ok(())
}

fn above_it(stage: &mut AttackStage<'_>, occupant: Occupant) -> Setup<()> {
    let disk = disk(stage)?;
    let above = stage.loop_over(&disk, &[])?;
    occupy(stage, occupant, &disk)?;
    attack_device(stage, occupant, &above);
    Ok(())
}

/// The mount table names one device of a file system on two: the other is the one attacked, from below.
fn second_of_btrfs(stage: &mut AttackStage<'_>, occupant: Occupant) -> Setup<()> {
    let (first, second) = (stage.image(128), stage.image(128));
    stage.keep_safe(&second);
    let first = stage.loop_over(&first, &[])?;
    let below = stage.loop_over(&second, &[])?;
    let above = stage.loop_over(&below, &[])?;
    let both = [path_text(&first), path_text(&above)];
    tool(&["mkfs.btrfs", "-q", "-f", "-K", "-m", "raid1", "-d", "raid1", &both[0], &both[1]])?;
    let at = stage.mount_words(&["-o", &format!("noatime,device={}", both[1]), &both[0]])?;
    tool(&["sync", "-f", &path_text(&at)])?;
    attack_device(stage, occupant, &above);
    attack_device(stage, occupant, &below);
    attack_file(stage, occupant, &[], &second);
    Ok(())
}

/// The journal of a mounted file system is on another device, which no mount names.
fn external_journal(stage: &mut AttackStage<'_>, occupant: Occupant) -> Setup<()> {
    let (data, journal) = (stage.image(8), stage.image(8));
    stage.keep_safe(&journal);
    let data = stage.loop_over(&data, &[])?;
    let below = stage.loop_over(&journal, &[])?;
    let above = stage.loop_over(&below, &[])?;
    let (data, place) = (path_text(&data), path_text(&above));
    tool(&["mkfs.ext4", "-q", "-F", "-b", "4096", "-O", "journal_dev", &place])?;
    let on = format!("device={place}");
    let lazy = "lazy_itable_init=0,nodiscard";
    tool(&["mkfs.ext4", "-q", "-F", "-b", "4096", "-E", lazy, "-J", &on, &data])?;
    let at = stage.mount_words(&["-o", "noatime", &data])?;
    tool(&["sync", "-f", &path_text(&at)])?;
    attack_device(stage, occupant, &above);
    attack_device(stage, occupant, &below);
    attack_file(stage, occupant, &[], &journal);
    Ok(())
}

/// A file of Btrfs has a device number of its subvolume, the loop device knows that of the file system.
fn image_on_btrfs(stage: &mut AttackStage<'_>, occupant: Occupant) -> Setup<()> {
    let disk = stage.image(160);
    let disk = stage.loop_over(&disk, &[])?;
    tool(&["mkfs.btrfs", "-q", "-f", "-K", &path_text(&disk)])?;
    let at = stage.mount(&disk, "noatime")?;
    tool(&["btrfs", "-q", "subvolume", "create", &path_text(&at.join("sub"))])?;
    let (image, link) = (at.join("sub/image"), at.join("sub/link"));
    let made = std::fs::File::create(&image).and_then(|f| f.set_len(8 * MIB));
    made.and_then(|()| std::fs::hard_link(&image, &link)).map_err(|e| e.to_string())?;
    stage.keep_safe(&image);
    let inner = stage.loop_over(&image, &[])?;
    occupy(stage, occupant, &inner)?;
    attack_file(stage, occupant, &[], &link);
    Ok(())
}

/// An image in a container's root: the loop device is over the merged view, or over the layer below.
fn image_on_overlay(stage: &mut AttackStage<'_>, occupant: Occupant) -> Setup<()> {
    for over_merged in [true, false] {
        let dirs = ["lower", "upper", "work"].map(|name| stage.fresh_dir(name));
        let [lower, upper, work] = dirs.each_ref().map(|dir| path_text(dir));
        let how = format!("lowerdir={lower},upperdir={upper},workdir={work}");
        let merged = stage.mount_words(&["-t", "overlay", "-o", &how, "none"])?;
        let (seen, kept) = (merged.join("image"), Path::new(&upper).join("image"));
        let made = std::fs::File::create(&seen).and_then(|f| f.set_len(8 * MIB));
        made.map_err(|e| e.to_string())?;
        stage.keep_safe(&kept);
        let (used, named) = if over_merged { (&seen, &kept) } else { (&kept, &seen) };
        let disk = stage.loop_over(used, &[])?;
        occupy(stage, occupant, &disk)?;
        attack_file(stage, occupant, &[], named);
    }
    Ok(())
}

const OFFSET: [&str; 2] = ["--offset", "1048576"];

fn image_with_offset(stage: &mut AttackStage<'_>, occupant: Occupant) -> Setup<()> {
    let image = stage.image(8);
    stage.keep_safe(&image);
    let disk = stage.loop_over(&image, &OFFSET)?;
    occupy(stage, occupant, &disk)?;
    attack_file(stage, occupant, &[], &image);
    Ok(())
}

fn whole_beside_offset(stage: &mut AttackStage<'_>, occupant: Occupant) -> Setup<()> {
    for (used, named) in [(&OFFSET[..], &[][..]), (&[][..], &OFFSET[..])] {
        let image = stage.image(8);
        stage.keep_safe(&image);
        let disk = stage.loop_over(&image, used)?;
        let other = stage.loop_over(&image, named)?;
        occupy(stage, occupant, &disk)?;
        attack_device(stage, occupant, &other);
    }
    Ok(())
}

fn disk_with_offset(stage: &mut AttackStage<'_>, occupant: Occupant) -> Setup<()> {
    let disk = disk(stage)?;
    let above = stage.loop_over(&disk, &OFFSET)?;
    occupy(stage, occupant, &above)?;
    attack_device(stage, occupant, &disk);
    Ok(())
}

fn hard_link(stage: &mut AttackStage<'_>, occupant: Occupant) -> Setup<()> {
    let image = stage.image(8);
    stage.keep_safe(&image);
    let link = stage.fresh("link");
    std::fs::hard_link(&image, &link).map_err(|e| e.to_string())?;
    occupy_file(stage, occupant, &image)?;
    attack_file(stage, occupant, &[], &link);
    Ok(())
}

/// The name under which the image was attached is gone.
fn hard_link_of_image(stage: &mut AttackStage<'_>, occupant: Occupant) -> Setup<()> {
    let image = stage.image(8);
    let link = stage.fresh("link");
    stage.keep_safe(&link);
    std::fs::hard_link(&image, &link).map_err(|e| e.to_string())?;
    let disk = stage.loop_over(&image, &OFFSET)?;
    occupy(stage, occupant, &disk)?;
    std::fs::remove_file(&image).map_err(|e| e.to_string())?;
    attack_file(stage, occupant, &[], &link);
    Ok(())
}

fn bound_file(stage: &mut AttackStage<'_>, occupant: Occupant) -> Setup<()> {
    let image = stage.image(8);
    stage.keep_safe(&image);
    let bound = stage.fresh("bound");
    std::fs::write(&bound, "").map_err(|e| e.to_string())?;
    tool(&["mount", "--bind", &path_text(&image), &path_text(&bound)])?;
    stage.unmount_at_end(&bound);
    occupy_file(stage, occupant, &image)?;
    attack_file(stage, occupant, &[], &bound);
    Ok(())
}

/// Where the kernel says that the image is, there is something else.
fn bound_directory_covered(stage: &mut AttackStage<'_>, occupant: Occupant) -> Setup<()> {
    let dir = stage.fresh_dir("dir");
    let image = dir.join("image");
    std::fs::File::create(&image).and_then(|f| f.set_len(8 * MIB)).map_err(|e| e.to_string())?;
    let bound = stage.mount_words(&["--bind", &path_text(&dir)])?;
    stage.keep_safe(&bound.join("image"));
    let disk = stage.loop_over(&image, &[])?;
    occupy(stage, occupant, &disk)?;
    tool(&["mount", "-t", "tmpfs", "none", &path_text(&dir)])?;
    stage.unmount_at_end(&dir);
    attack_file(stage, occupant, &[], &bound.join("image"));
    Ok(())
}

fn symlink_to_device(stage: &mut AttackStage<'_>, occupant: Occupant) -> Setup<()> {
    let disk = disk(stage)?;
    let link = stage.fresh("by-id");
    symlink(&disk, &link).map_err(|e| e.to_string())?;
    occupy(stage, occupant, &disk)?;
    attack_device(stage, occupant, &link);
    Ok(())
}

fn symlink_to_file(stage: &mut AttackStage<'_>, occupant: Occupant) -> Setup<()> {
    let image = stage.image(8);
    stage.keep_safe(&image);
    let (link, twice) = (stage.fresh("link"), stage.fresh("link"));
    symlink(&image, &link).and_then(|()| symlink(&link, &twice)).map_err(|e| e.to_string())?;
    occupy_file(stage, occupant, &image)?;
    attack_file(stage, occupant, &[], &twice);
    // A link that the kernel makes.
    let rooted = format!("/proc/{}/root{}", std::process::id(), path_text(&image));
    attack_file(stage, occupant, &[], Path::new(&rooted));
    Ok(())
}
