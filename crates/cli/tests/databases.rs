//! The binary against PostgreSQL on loopback, started and ended by each test: passwords, TLS, a server killed while it
//! is measured, a full disk.

#[path = "../../driver/src/kv/postgres/testing.rs"]
pub mod postgres_server;

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use crate::common::{ended, scratch, start_measuring, summary, taillight, witnessed};
use postgres_server::PostgresServer;
use taillight_s3test::Certs;

/// None, with a reason printed, where there is no server.
fn start(settings: &[&str]) -> Option<PostgresServer> {
    PostgresServer::start(settings).inspect_err(|why| eprintln!("skipped: {why}")).ok()
}

const FEW: &str = "--runtime 300ms --bs 100B --set workload.0.mix=get \
                   --set workload.0.keys={count=50}";

/// Runs over TCP as this user; what it said on both streams.
fn run_as(dir: &Path, port: u16, user: &str, password: &str, more: &str, code: i32) -> String {
    let mut command = taillight(dir);
    command.env("PGPASSWORD", password).env("PGUSER", user);
    let line = format!("run --path postgres://127.0.0.1:{port}/postgres {FEW} {more}");
    let (out, err) =
        ended(&command.args(line.split_whitespace()).output().expect("it starts"), code);
    format!("{out}{err}")
}

#[test]
fn passwords_are_proved_over_tls_and_without() {
    let Some(server) = start(&["fsync=off"]) else { return };
    server.psql("CREATE ROLE bench LOGIN PASSWORD 'right'");
    server.psql("GRANT CREATE ON SCHEMA public TO bench");
    let home = scratch();
    let dir = home.path();
    run_as(dir, server.port, "bench", "right", "--output plain", 0);
    assert_eq!(witnessed(&summary(dir, "plain")), [1.0], "scans of the table's index");
    for (user, password) in [("bench", "wrong"), ("nobody", "right")] {
        let said = run_as(dir, server.port, user, password, "--output no", 4);
        assert!(said.contains("does not accept the password"), "{said}");
        assert!(!said.contains("right") && !said.contains("wrong\n"), "{said}");
    }
    let Some(certs) = Certs::make() else {
        eprintln!("skipped: no openssl program to make certificates with");
        return;
    };
    for name in ["public.crt", "private.key"] {
        let to = server.data().join(name);
        std::fs::copy(certs.dir().join(name), &to).expect("copied");
        let owner = std::fs::metadata(server.data()).expect("there").uid();
        std::os::unix::fs::chown(&to, Some(owner), None).expect("given away");
        let mode = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(&to, mode).expect("set");
    }
    for setting in ["ssl_cert_file = 'public.crt'", "ssl_key_file = 'private.key'", "ssl = on"] {
        server.psql(&format!("ALTER SYSTEM SET {setting}"));
    }
    server.psql("SELECT pg_reload_conf()");
    std::thread::sleep(std::time::Duration::from_millis(500));
    let tls = "--set target.options.tls=true";
    let trusted = format!("{tls} --set target.options.ca={}", certs.ca().display());
    run_as(dir, server.port, "bench", "right", &format!("{trusted} --output tls"), 0);
    let said = run_as(dir, server.port, "bench", "right", &format!("{tls} --output no"), 4);
    assert!(said.contains("options.ca") || said.contains("trusted certificates"), "{said}");
    let manifest = std::fs::read_to_string(dir.join("tls/manifest.json")).expect("there");
    assert!(manifest.contains("\"postgres.fsync\": \"off\""), "settings are disclosed");
    assert_eq!(server.psql("SELECT to_regclass('taillight') IS NULL"), "t", "nothing is left");
}

#[test]
fn a_postgres_server_killed_in_the_run() {
    let Some(mut server) = start(&[]) else { return };
    let dir = scratch();
    let line = format!(
        "run --driver postgres --path {} --runtime 20s --depth 8 --bs 100B \
         --set workload.0.mix={{get=50,update=50}} --set workload.0.keys={{count=500}} \
         --set target.options.user=postgres --set run.interval=200ms --output out",
        server.address()
    );
    let child = start_measuring(dir.path(), &line);
    std::thread::sleep(std::time::Duration::from_millis(500));
    server.kill();
    let (_, err) = ended(&child.wait_with_output().expect("it ends"), 5);
    assert!(err.contains("the connection to the PostgreSQL server is lost"), "{err}");
    let summary = summary(dir.path(), "out");
    assert!(summary["ops"]["update"]["count"].as_u64() > Some(10), "what was measured is kept");
    assert!(summary["totals"]["errors"].as_u64() > Some(0), "errors are counted");
    assert_ne!(summary["verdict"]["status"], "good");
    // What the run could not put in order is known to the next one.
    server.restart().expect("it starts again");
    let again = format!("run --driver postgres --path {} {FEW} --output again", server.address());
    let output =
        taillight(dir.path()).env("PGUSER", "postgres").args(again.split_whitespace()).output();
    ended(&output.expect("it starts"), 0);
}

#[test]
fn a_full_disk_of_a_server_is_an_error_of_each_write() {
    let Some(server) = start(&["fsync=off"]) else { return };
    let (place, owner) = (scratch(), std::fs::metadata(server.data()).expect("there").uid());
    let options = format!("size=3m,uid={owner},mode=700");
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", &options, "tmpfs"])
        .arg(place.path())
        .output();
    if !mounted.is_ok_and(|done| done.status.success()) {
        eprintln!("skipped: a_full_disk_of_a_server: only root mounts a small disk");
        return;
    }
    server.psql(&format!("CREATE TABLESPACE tiny LOCATION '{}'", place.path().display()));
    server.psql("ALTER ROLE postgres SET default_tablespace = tiny");
    let dir = scratch();
    let line = format!(
        "run --driver postgres --path {} --ops 10000 --bs 4000B --set workload.0.mix=insert \
         --set workload.0.keys={{count=0}} --output out",
        server.address()
    );
    let output =
        taillight(dir.path()).env("PGUSER", "postgres").args(line.split_whitespace()).output();
    drop(server);
    let unmounted = Command::new("umount").arg(place.path()).status();
    assert!(unmounted.is_ok_and(|done| done.success()));
    let output = output.expect("it starts");
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.code().is_some_and(|code| code != 0), "{said}");
    assert!(said.contains("no space left on device"), "{said}");
    assert!(summary(dir.path(), "out")["ops"]["insert"]["count"].as_u64() > Some(100));
}
