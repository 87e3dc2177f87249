//! A trace looks at the processes of a server, too: what they wait for below them is told, and not "the server".

#[path = "../../driver/src/kv/postgres/testing.rs"]
mod postgres_server;

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::common::traced::{Run, lab, not_root};
use crate::common::{scratch, skipped};
use postgres_server::PostgresServer;
use taillight_lab::cleanup::{Undo, lab_dir};
use taillight_lab::stage::LoopDevice;
use taillight_lab::{fuse, trial};

/// Moves a stopped server's log to a directory of a disk of its own.
fn move_log(server: &PostgresServer, disk: &Path) -> std::io::Result<()> {
    let (log, to) = (server.data().join("pg_wal"), disk.join("log"));
    let status = Command::new("cp").arg("-a").arg(&log).arg(&to).status()?;
    assert!(status.success(), "copied");
    std::fs::remove_dir_all(&log)?;
    std::os::unix::fs::symlink(&to, &log)?;
    let owner = std::fs::metadata(server.data())?;
    std::os::unix::fs::chown(disk, Some(owner.uid()), Some(owner.gid()))?;
    // Its user has to get there.
    let through = std::fs::Permissions::from_mode(0o711);
    for dir in disk.ancestors().skip(1).filter(|dir| dir.starts_with(lab_dir())) {
        std::fs::set_permissions(dir, through.clone())?;
    }
    Ok(())
}

#[test]
fn a_slow_disk_of_the_log_is_told_as_the_disk() {
    const NAME: &str = "a_slow_disk_of_the_log_is_told_as_the_disk";
    if skipped(NAME, not_root().or_else(trial::cannot)) {
        return;
    }
    let _lab = lab();
    // Undone last: the server's files are on what it takes away.
    let mut undo = Undo::default();
    let started = PostgresServer::start(&["max_wal_size=64MB", "autovacuum=off"]);
    let Ok(mut server) = started.inspect_err(|why| eprintln!("skipped: {NAME}: {why}")) else {
        return;
    };
    server.kill();
    let (file, slow) = fuse::serve(&mut undo, 256 << 20).expect("a slow file");
    let device = LoopDevice::over(&mut undo, &file, true).expect("a loop device");
    let disk = device.mount(&mut undo, "ext4").expect("mounted");
    move_log(&server, &disk).expect("moved");
    server.restart().expect("it starts again");
    let dir = scratch();
    let words = format!(
        "--driver postgres --path {} --runtime 4s --set target.options.user=postgres \
         --set workload.0.mix=tpcb --set workload.0.keys={{count=100000}} \
         --set trace.mode=outliers --set trace.threshold=15ms",
        server.address()
    );
    let run = Run::start(dir.path(), &[], &words);
    slow.during(Duration::from_millis(20), || std::thread::sleep(Duration::from_millis(2500)));
    let (value, text, _) = run.explained();
    let no_programs = || "no trace programs here".to_owned();
    if skipped(NAME, (value["rung"] != "bpf").then(no_programs)) {
        return;
    }
    let outliers = value["ios"].as_array().expect("a list");
    let commits = outliers.iter().filter(|io| io["op"] == "commit");
    let of = |layer: &str| commits.clone().filter(|io| io["layer"] == layer).count();
    let all = commits.clone().count();
    assert!(all > 10 && of("device") * 2 > all, "{} of {all}: {text}", of("device"));
}
