//! For tests: a PostgreSQL server with a new cluster in a directory of its own, on a unix socket and a port of
//! loopback, run by user `postgres` where the test is root; on drop it is ended and the directory deleted.
#![allow(clippy::unwrap_used, dead_code)]

use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A running server.
pub struct PostgresServer {
    process: Child,
    data: PathBuf,
    pub port: u16,
    owner: Option<(u32, u32)>,
    settings: Vec<String>,
}

/// The directory of the server's programs: of those of Debian's versions and `/usr/bin` the last by name with `initdb`.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = versions.map(|v| v.path().join("bin")).collect();
    found.push("/usr/bin".into());
    found.sort();
    found.into_iter().rev().find(|bin| bin.join("initdb").exists())
}

/// Ids of user and group `postgres` where the test is root, which may not run a server; else none: the test's own.
fn owner() -> Result<Option<(u32, u32)>, String> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let fields = |line: &str| line.split(':').map(str::to_owned).collect::<Vec<_>>();
    let found = users.lines().map(fields).find(|f| f[0] == "postgres");
    let found = found.and_then(|f| Some((f.get(2)?.parse().ok()?, f.get(3)?.parse().ok()?)));
    found.map(Some).ok_or_else(|| "no user postgres".to_owned())
}

fn command(program: &Path, owner: Option<(u32, u32)>) -> Command {
    let mut command = Command::new(program);
    if let Some((user, group)) = owner {
        command.uid(user).gid(group);
    }
    command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

impl PostgresServer {
    /// Makes a cluster and starts its server with these settings (`name=value`). The superuser `postgres`
    /// needs no password over the socket; over TCP every user proves one (SCRAM). Errors: why no server can be started.
    pub fn start(settings: &[&str]) -> Result<PostgresServer, String> {
        let bin = programs().ok_or("no PostgreSQL server (Debian: postgresql)")?;
        let owner = owner()?;
        // Not below the directory of the test, which the server's user may not be able to enter.
        let data = std::env::temp_dir().join(format!(
            "taillight-pg-{}-{}",
            std::process::id(),
            free_port()
        ));
        std::fs::create_dir(&data).map_err(|e| e.to_string())?;
        if let Some((user, group)) = owner {
            std::os::unix::fs::chown(&data, Some(user), Some(group)).map_err(|e| e.to_string())?;
        }
        let made = command(&bin.join("initdb"), owner)
            .args(["-U", "postgres", "--auth-local=trust", "--auth-host=scram-sha-256", "-N", "-D"])
            .arg(&data)
            .args(["--locale=C", "--encoding=UTF8"])
            .status();
        if !made.is_ok_and(|status| status.success()) {
            let _ = std::fs::remove_dir_all(&data);
            return Err("initdb failed".to_owned());
        }
        let settings = settings.iter().map(|s| (*s).to_owned()).collect();
        let process = Command::new("true").spawn().map_err(|e| e.to_string())?;
        let mut server = PostgresServer { process, data, port: free_port(), owner, settings };
        server.restart()?;
        Ok(server)
    }

    /// Waits for the server's process to end and starts it again. Errors: when it takes no connections within 10 s.
    pub fn restart(&mut self) -> Result<(), String> {
        let _ = self.process.wait();
        let bin = programs().ok_or("no PostgreSQL server")?;
        let mut command = command(&bin.join("postgres"), self.owner);
        command.arg("-D").arg(&self.data).arg("-k").arg(&self.data);
        command.args(["-p", &self.port.to_string(), "-c", "listen_addresses=127.0.0.1"]);
        for setting in &self.settings {
            command.args(["-c", setting]);
        }
        let log = std::fs::File::create(self.data.join("log")).map_err(|e| e.to_string())?;
        self.process = command.stderr(log).spawn().map_err(|e| e.to_string())?;
        for _ in 0..500 {
            if self.try_psql("SELECT 1").is_some_and(|said| said == "1") {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let log = std::fs::read_to_string(self.data.join("log")).unwrap_or_default();
        Err(format!("the PostgreSQL server does not answer: {log}"))
    }

    /// Its address for `target.path`: the socket.
    pub fn address(&self) -> String {
        format!("unix:{}/.s.PGSQL.{}", self.data.display(), self.port)
    }

    /// The table `taillight` in the database `postgres`, as `--destroy` names it.
    pub fn table(&self) -> String {
        format!("{}/postgres#public.taillight", self.address())
    }

    /// Has the server end the connections of runs.
    pub fn cut_runs(&self) {
        let cuts = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name \
                    = 'taillight'";
        self.psql(cuts);
    }

    pub fn data(&self) -> &Path {
        &self.data
    }

    pub fn is_running(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(None))
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Kills the postmaster and its child processes (SIGKILL), as a crash does.
    pub fn kill(&mut self) {
        let parent = self.process.id().to_string();
        let is_child = |pid: &u32| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
            after.split_whitespace().nth(1) == Some(&parent)
        };
        let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let children: Vec<u32> = pids.filter(is_child).collect();
        let _ = self.process.kill();
        for child in children {
            let child = i32::try_from(child).ok().and_then(rustix::process::Pid::from_raw);
            let _ =
                child.map(|pid| rustix::process::kill_process(pid, rustix::process::Signal::KILL));
        }
        let _ = self.process.wait();
    }

    /// The server's answer to a statement, by psql as user `postgres`; none where it fails.
    pub fn try_psql(&self, sql: &str) -> Option<String> {
        let out = Command::new("psql")
            .args(["-X", "-q", "-A", "-t", "-U", "postgres", "-d", "postgres", "-h"])
            .arg(&self.data)
            .args(["-p", &self.port.to_string(), "-c", sql])
            .stdin(Stdio::null())
            .output()
            .ok()?;
        let text = String::from_utf8_lossy(&out.stdout).trim().to_owned();
        out.status.success().then_some(text)
    }

    /// The server's answer to a statement, by psql as user `postgres`; panics where it fails.
    pub fn psql(&self, sql: &str) -> String {
        self.try_psql(sql).unwrap_or_else(|| panic!("psql failed: {sql}"))
    }

    /// As [`PostgresServer::psql`], for a statement that changes rows; returns once the server has counted them. A process
    /// of the server counts what it changed when it ends, at the latest, and psql does not wait for that.
    pub fn psql_counted(&self, sql: &str) {
        self.psql(sql);
        let others = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'psql' AND \
                      pid <> pg_backend_pid()";
        for _ in 0..1000 {
            if self.psql(others) == "0" {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the server's processes for psql do not end");
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        // SIGQUIT is PostgreSQL's immediate shutdown: the postmaster ends its children first.
        let id = rustix::process::Pid::from_child(&self.process);
        let _ = rustix::process::kill_process(id, rustix::process::Signal::QUIT);
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.data);
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
