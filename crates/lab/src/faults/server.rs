//! Faults of servers and of the network to them: Redis, and the object store of the tests, each in a process and a
//! network of its own; and PostgreSQL on a Unix socket.

use std::ffi::OsStr;
use std::fs::Permissions;
use std::io::{BufRead, BufReader};
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::Signal;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::cleanup::{NAME, StopSignal, Undo, lab_dir, make_lab_dir, tool};
use crate::fault_trial::FaultTrial;
use crate::faults::stages::{BuiltStage, EXT4, FaultStage};
use crate::faults::{loads, memory, stopped};
use crate::proxy;
use crate::stage::LabCgroup;
use crate::victim::signal;

/// The Redis server's port, in the network of its own.
pub const PORT: u16 = 6379;
const GAP: Duration = Duration::from_millis(200);
/// How long TCP waits at most before it sends again what was lost once.
const AGAIN: Duration = Duration::from_millis(250);

/// A Redis server behind a proxy that holds an answer back now and then.
pub fn slow_server(trial: &mut FaultTrial<'_>) -> Result<()> {
    let (socket, _) = redis(&mut trial.undo, trial.stop)?;
    let (port, slow) = proxy::serve(&mut trial.undo, &socket)?;
    through_proxy(trial, port)?;
    trial.slowed(&slow)
}

/// A Redis server behind a proxy is stopped for a while.
pub fn stopped_server(trial: &mut FaultTrial<'_>) -> Result<()> {
    let (socket, pid) = redis(&mut trial.undo, trial.stop)?;
    let (port, _) = proxy::serve(&mut trial.undo, &socket)?;
    through_proxy(trial, port)?;
    stopped::stopped(trial, pid)
}

/// Starts a victim of the server on this port.
fn through_proxy(trial: &mut FaultTrial<'_>, port: u16) -> Result<()> {
    let address = format!("redis://127.0.0.1:{port}/0");
    let options = loads::asking_redis(trial, address.into());
    trial.start(&options).map(drop)
}

/// The server is busy with somebody else's script.
pub fn busy_server(trial: &mut FaultTrial<'_>, built: &BuiltStage) -> Result<()> {
    let script = format!(
        "local t=redis.call('TIME') local e=t[1]*1000000+t[2]+{} repeat t=redis.call('TIME') \
         until t[1]*1000000+t[2]>=e",
        trial.amplitude.as_micros()
    );
    commanded(trial, built.socket()?, &["EVAL", &script, "0"], Duration::from_millis(2))
}

/// The server sleeps.
pub fn sleeping_server(trial: &mut FaultTrial<'_>) -> Result<()> {
    let how = ["--save", "", "--appendonly", "no", "--enable-debug-command", "yes"];
    let socket = served_by(trial, &how)?;
    let time = trial.amplitude.as_secs_f64().to_string();
    commanded(trial, &socket, &["DEBUG", "SLEEP", &time], Duration::from_millis(2))
}

/// The server lets all clients wait, as in a failover.
pub fn paused_clients(trial: &mut FaultTrial<'_>, built: &BuiltStage) -> Result<()> {
    let time = trial.amplitude.as_millis().to_string();
    let after = trial.amplitude;
    commanded(trial, built.socket()?, &["CLIENT", "PAUSE", &time, "ALL"], after)
}

/// A Redis server is given this command again and again, whose effect lasts for `after` behind it.
fn commanded(
    trial: &mut FaultTrial<'_>,
    socket: &Path,
    command: &[&str],
    after: Duration,
) -> Result<()> {
    let words = asked(socket, command);
    trial.pulses(GAP, after, |_| tool("redis-cli", &words).map(drop))
}

/// Words of `redis-cli` that give the server of this socket a command.
fn asked<'a>(socket: &'a Path, command: &'a [&'a str]) -> Vec<&'a OsStr> {
    let command = command.iter().map(OsStr::new);
    [OsStr::new("-s"), socket.as_os_str()].into_iter().chain(command).collect()
}

/// Starts a Redis server with these arguments and a victim of it; the server's socket.
fn served_by(trial: &mut FaultTrial<'_>, how: &[&str]) -> Result<PathBuf> {
    let (socket, pid) = redis_with(&mut trial.undo, trial.stop, how)?;
    let path = format!("redis://127.0.0.1:{PORT}/0").into();
    let server = Some((pid, socket.clone()));
    let built = BuiltStage { path, server, ..BuiltStage::default() };
    let options = loads::options(&[loads::ASKING], trial, &built)?;
    trial.start(&options)?;
    Ok(socket)
}

/// The server syncs each write before it answers, and its disk takes long over that at times.
pub fn server_syncs(trial: &mut FaultTrial<'_>) -> Result<()> {
    let files = FaultStage::Fs(EXT4, 128).make(trial, true)?;
    let dir = files.path.to_string_lossy();
    let how = ["--save", "", "--appendonly", "yes", "--appendfsync", "always", "--dir", &dir];
    served_by(trial, &how)?;
    trial.slow_syncs(files.slow()?)
}

/// A server that saves all it holds before it goes on, to a disk whose syncs take long then.
pub fn saving_server(trial: &mut FaultTrial<'_>) -> Result<()> {
    let files = FaultStage::Fs(EXT4, 128).make(trial, true)?;
    let dir = files.path.to_string_lossy();
    let socket = served_by(trial, &["--save", "", "--appendonly", "no", "--dir", &dir])?;
    let (delay, slow) = (trial.amplitude, files.slow()?);
    trial.pulses(Duration::from_millis(300), Duration::from_millis(2), |_| {
        slow.set_syncs(delay);
        let saved = tool("redis-cli", &["-s".as_ref(), socket.as_os_str(), "SAVE".as_ref()]);
        slow.set_syncs(Duration::ZERO);
        saved.map(drop)
    })
}

/// The server's memory has been swapped out, to a disk that is slow when it is needed again.
pub fn swapped_server(trial: &mut FaultTrial<'_>) -> Result<()> {
    let (slow, group) = memory::swapped(trial)?;
    let built = FaultStage::Server.make(trial, false)?;
    group.add_process(built.server()?)?;
    let options = loads::options(&[loads::ASKING], trial, &built)?;
    trial.start(&options)?;
    memory::dropped(trial, &slow, &group, |held| held / 8)
}

/// A neighbour's datagrams fill the network to the server, and packets queue behind them.
pub fn shared_network(trial: &mut FaultTrial<'_>, built: &BuiltStage) -> Result<()> {
    const RATE: u64 = 40_000_000;
    const SENDERS: u64 = 16;
    const PIECE: u64 = 16 << 10;
    let pid = built.server()?;
    shaped(pid)?(RATE)?;
    let network = std::fs::File::open(format!("/proc/{pid}/ns/net"))?;
    // Twice as much as passes in that time.
    let each = (RATE * trial.amplitude.as_millis() as u64 / 500 / SENDERS / PIECE).max(1);
    let flood = || -> Result<()> {
        let kind = Some(LinkNameSpaceType::Network);
        move_into_link_name_space(std::os::fd::AsFd::as_fd(&network), kind)?;
        // Nobody reads what comes: it is thrown away.
        let end = UdpSocket::bind("127.0.0.1:0")?;
        let data = vec![0; PIECE as usize];
        for _ in 0..SENDERS {
            let sender = UdpSocket::bind("127.0.0.1:0")?;
            for _ in 0..each {
                sender.send_to(&data, end.local_addr()?)?;
            }
        }
        Ok(())
    };
    trial.pulses(GAP, trial.amplitude * 2, |_| {
        std::thread::scope(|scope| scope.spawn(flood).join().unwrap_or(Ok(())))
    })
}

/// Another session of the PostgreSQL server has the locks of all rows.
pub fn locked_rows(trial: &mut FaultTrial<'_>, built: &BuiltStage) -> Result<()> {
    let sleep = format!("SELECT pg_sleep({})", trial.amplitude.as_secs_f64());
    let lock = "SELECT count(*) FROM (SELECT 1 FROM taillight FOR UPDATE) AS locked";
    let cluster = built.socket()?.to_owned();
    trial.pulses(GAP, Duration::ZERO, |_| {
        psql(&cluster, &["-c", "BEGIN", "-c", lock, "-c", &sleep, "-c", "COMMIT"])
    })
}

/// The processes of the PostgreSQL server that serve connections are stopped, and no other one.
pub fn stopped_backends(trial: &mut FaultTrial<'_>, built: &BuiltStage) -> Result<()> {
    let main = built.server()?.to_string();
    let found = tool("pgrep", &["-P", &main, "-f", "\\[local\\]"])?;
    let backends: Vec<u32> = found.lines().map(str::parse::<u32>).collect::<Result<_, _>>()?;
    let all = |what: Signal| backends.iter().try_for_each(|pid| signal(*pid, what));
    let on = trial.amplitude;
    trial.pulses(GAP, on / 10, |stop| {
        let done = all(Signal::STOP).and_then(|()| stop.sleep(on));
        all(Signal::CONT)?;
        done
    })
}

/// The PostgreSQL server's disk takes long over the syncs of its log.
pub fn server_log(trial: &mut FaultTrial<'_>) -> Result<()> {
    let files = FaultStage::Fs(EXT4, 512).make(trial, true)?;
    let built = postgres(trial, &files.path)?;
    let options = loads::options(&[loads::ASKING], trial, &built)?;
    trial.start(&options)?;
    trial.slow_syncs(files.slow()?)
}

/// Another session of the PostgreSQL server changes the form of the table, and nobody else may use it until that ends.
pub fn locked_table(trial: &mut FaultTrial<'_>, built: &BuiltStage) -> Result<()> {
    let sleep = format!("SELECT pg_sleep({})", trial.amplitude.as_secs_f64());
    let cluster = built.socket()?.to_owned();
    trial.pulses(GAP, Duration::ZERO, |_| {
        let lock = "LOCK TABLE taillight IN ACCESS EXCLUSIVE MODE";
        psql(&cluster, &["-c", "BEGIN", "-c", lock, "-c", &sleep, "-c", "COMMIT"])
    })
}

/// The PostgreSQL server has each commit wait for a standby that is not there, for a while.
pub fn absent_standby(trial: &mut FaultTrial<'_>, built: &BuiltStage) -> Result<()> {
    reconfigured(trial, built, &[("synchronous_standby_names", "'nobody'")])
}

/// The PostgreSQL server waits for so long before it writes its log, for others that commit, for a while.
pub fn delayed_commits(trial: &mut FaultTrial<'_>, built: &BuiltStage) -> Result<()> {
    let delay_us = trial.amplitude.as_micros().to_string();
    let settings = [("commit_delay", delay_us.as_str()), ("commit_siblings", "0")];
    reconfigured(trial, built, &settings)
}

/// The PostgreSQL server has these settings for a while, again and again.
fn reconfigured(
    trial: &mut FaultTrial<'_>,
    built: &BuiltStage,
    settings: &[(&str, &str)],
) -> Result<()> {
    let cluster = built.socket()?.to_owned();
    let altered = |change: &dyn Fn(&str, &str) -> String| {
        let all = settings.iter().map(|(name, value)| change(name, value));
        let all: Vec<String> = all.chain(["SELECT pg_reload_conf()".to_owned()]).collect();
        let words: Vec<&str> = all.iter().flat_map(|one| ["-c", one.as_str()]).collect();
        psql(&cluster, &words)
    };
    // Each process of the server comes to its settings when it is done with what it does.
    let time = trial.amplitude * 2;
    trial.pulses(GAP, time, |stop| {
        altered(&|name, value| format!("ALTER SYSTEM SET {name} = {value}"))?;
        let slept = stop.sleep(time);
        altered(&|name, _| format!("ALTER SYSTEM RESET {name}"))?;
        slept
    })
}

/// The Redis server hands a key over to another one, which never answers, and does nothing else until it has waited
/// long enough.
pub fn migrating_server(trial: &mut FaultTrial<'_>, built: &BuiltStage) -> Result<()> {
    let network = std::fs::File::open(format!("/proc/{}/ns/net", built.server()?))?;
    let listen = || -> Result<TcpListener> {
        let kind = Some(LinkNameSpaceType::Network);
        move_into_link_name_space(std::os::fd::AsFd::as_fd(&network), kind)?;
        Ok(TcpListener::bind("127.0.0.1:0")?)
    };
    let made = std::thread::scope(|scope| scope.spawn(listen).join().ok());
    let silent = made.context("a server that never answers")??;
    let (port, time) = (silent.local_addr()?.port(), trial.amplitude.as_millis());
    let (port, time, socket) = (port.to_string(), time.to_string(), built.socket()?);
    // In a database of its own.
    tool("redis-cli", &asked(socket, &["-n", "1", "SET", "lab", "x"]))?;
    let command = ["-n", "1", "MIGRATE", "127.0.0.1", &port, "lab", "0", &time];
    commanded(trial, socket, &command, Duration::from_millis(2))
}

/// The network to the server goes down for a while, again and again.
pub fn link_down(trial: &mut FaultTrial<'_>, built: &BuiltStage) -> Result<()> {
    spoilt(trial, built.server()?, ["down", "up"].map(|how| ["ip", "link", "set", "lo", how]))
}

/// All TCP packets in a server's network are lost for a while, again and again.
pub fn lossy(trial: &mut FaultTrial<'_>, pid: u32) -> Result<()> {
    spoilt(
        trial,
        pid,
        ["-A", "-D"].map(|what| ["iptables", what, "INPUT", "-p", "tcp", "-j", "DROP"]),
    )
}

/// The first command in a server's network begins a fault, the second ends it, again and again.
fn spoilt<const N: usize>(
    trial: &mut FaultTrial<'_>,
    pid: u32,
    [begin, end]: [[&str; N]; 2],
) -> Result<()> {
    let on = trial.amplitude;
    trial.pulses(GAP, AGAIN, |stop| {
        inside(pid, &begin)?;
        let slept = stop.sleep(on);
        inside(pid, &end)?;
        slept
    })
}

/// A process whose control group may run 1 ms in each period of the amplitude and 1 ms, again and again.
pub fn limited(trial: &mut FaultTrial<'_>, pid: u32) -> Result<()> {
    let group = LabCgroup::of(&mut trial.undo, "cpu")?;
    group.add_process(pid)?;
    limited_group(trial, &group)
}

/// The same of a control group.
pub fn limited_group(trial: &mut FaultTrial<'_>, group: &LabCgroup) -> Result<()> {
    let set = |quota: i64| group.set("cpu.cfs_quota_us", quota);
    group.set("cpu.cfs_period_us", trial.amplitude.as_micros() + 1000)?;
    let (on, after) = (trial.amplitude * 6, trial.amplitude);
    let done = trial.pulses(GAP, after, |stop| {
        set(1000)?;
        let slept = stop.sleep(on);
        set(-1)?;
        slept
    });
    set(-1)?;
    done
}

/// A function that sets how many bytes per second the network of a server takes; 1 GiB/s at first.
pub fn shaped(pid: u32) -> Result<impl Fn(u64) -> Result<()>> {
    let rate = move |what: &str, bytes_per_s: u64| {
        let rate = format!("{bytes_per_s}bps");
        let limit = ["root", "tbf", "rate", &rate, "burst", "70000", "latency", "10s"];
        inside(pid, &[&["tc", "qdisc", what, "dev", "lo"], &limit[..]].concat())
    };
    rate("add", 1 << 30)?;
    Ok(move |bytes_per_s| rate("change", bytes_per_s))
}

/// The network whose `rate` this sets is slow now and then.
pub fn narrowed(trial: &mut FaultTrial<'_>, rate: impl Fn(u64) -> Result<()>) -> Result<()> {
    // What is saved up for a burst is spent first.
    let slow = 1024 * 1000 / trial.amplitude.as_millis() as u64;
    let (on, after) = (trial.amplitude * 5, trial.amplitude);
    trial.pulses(Duration::from_millis(200), after, |stop| {
        rate(slow)?;
        let slept = stop.sleep(on);
        rate(1 << 30)?;
        slept
    })
}

/// Runs a command in the network of the server.
pub fn inside(pid: u32, words: &[&str]) -> Result<()> {
    let into = inside_words(pid);
    let into: Vec<&str> = into[1..].iter().map(String::as_str).collect();
    tool("nsenter", &[&into[..], words].concat()).map(drop)
}

/// The beginning of a command that runs the rest in the network of this process.
pub fn inside_words(pid: u32) -> Vec<String> {
    ["nsenter", "-t", &pid.to_string(), "-n"].map(String::from).to_vec()
}

/// Starts a Redis server with a network of its own; its socket and process. It ends with this process in
/// any case.
pub fn redis(undo: &mut Undo, stop: &StopSignal) -> Result<(PathBuf, u32)> {
    let dir = lab_dir();
    let dir = dir.to_string_lossy();
    redis_with(undo, stop, &["--save", "", "--appendonly", "no", "--dir", &dir])
}

/// The same with these arguments.
pub fn redis_with(undo: &mut Undo, stop: &StopSignal, how: &[&str]) -> Result<(PathBuf, u32)> {
    make_lab_dir()?;
    let socket = lab_dir().join(format!("{NAME}-redis.sock"));
    let _ = std::fs::remove_file(&socket);
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "unshare", "-n", "redis-server", "--port"]);
    command.arg(PORT.to_string());
    command.args(how).arg("--unixsocket").arg(&socket);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = command.spawn().context("cannot start redis-server")?;
    for _ in 0..250 {
        if Path::new(&socket).exists() || child.try_wait()?.is_some() {
            break;
        }
        stop.sleep(Duration::from_millis(20))?;
    }
    if child.try_wait()?.is_some() {
        bail!("no redis-server here (Debian: redis-server)");
    }
    let (gone, pid) = (socket.clone(), child.id());
    inside(pid, &["ip", "link", "set", "lo", "up"])?;
    undo.add(move || {
        let _ = child.kill();
        let _ = child.wait();
        let _ = std::fs::remove_file(gone);
    });
    Ok((socket, pid))
}

/// Starts a PostgreSQL server with a new cluster in this directory. It ends with this process in any case.
pub fn postgres(trial: &mut FaultTrial<'_>, at: &Path) -> Result<BuiltStage> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let bin = versions.map(|v| v.path().join("bin")).filter(|bin| bin.join("initdb").exists());
    let bin = bin.max().context("no PostgreSQL server here (Debian: postgresql)")?;
    // The server refuses root, and the user that it runs as has to get there.
    std::fs::set_permissions(lab_dir(), Permissions::from_mode(0o711))?;
    trial.undo.add(|| drop(std::fs::set_permissions(lab_dir(), Permissions::from_mode(0o700))));
    let cluster = at.join("cluster");
    let gone = cluster.clone();
    trial.undo.add(move || drop(std::fs::remove_dir_all(gone)));
    std::fs::create_dir(&cluster)?;
    let place = cluster.to_string_lossy().into_owned();
    tool("chown", &["postgres:", &place])?;
    let user = ["--reuid", "postgres", "--regid", "postgres", "--clear-groups"];
    let program = |name: &str| bin.join(name).to_string_lossy().into_owned();
    let (initdb, server) = (program("initdb"), program("postgres"));
    let how = ["-U", "postgres", "-A", "trust", "-N", "--locale=C", "-E", "UTF8", "-D", &place];
    tool("env", &[&["-C", "/", "setpriv"], &user[..], &[&initdb], &how].concat())?;
    let mut command = Command::new("env");
    command.args(["-C", "/", "setpriv"]).args(user).args(["--pdeathsig", "KILL", &server]);
    command.args(["-D", &place, "-k", &place, "-c", "listen_addresses=", "-c", "autovacuum=off"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().context("cannot start postgres")?;
    let pid = child.id();
    trial.undo.add(move || {
        // Its other processes end as well.
        let _ = signal(pid, Signal::QUIT);
        let _ = child.wait();
    });
    for _ in 0..500 {
        if psql(&cluster, &["-c", "SELECT 1"]).is_ok() {
            break;
        }
        trial.stop.sleep(Duration::from_millis(20))?;
    }
    let path = format!("unix:{place}/.s.PGSQL.5432").into();
    Ok(BuiltStage { path, server: Some((pid, cluster)), ..BuiltStage::default() })
}

/// Gives the PostgreSQL server of this cluster these words of `psql`.
fn psql(cluster: &Path, words: &[&str]) -> Result<()> {
    let place = cluster.to_string_lossy();
    let to = ["-q", "-h", &place, "-U", "postgres", "-d", "postgres"];
    tool("psql", &[&to[..], words].concat()).map(drop)
}

/// Starts the object store of the tests, by the `taillight-lab` beside the program under test, in a process and a
/// network of its own; its address, and the process.
pub fn objects(trial: &mut FaultTrial<'_>) -> Result<(String, u32)> {
    let mut command = Command::new("setpriv");
    let server = "ip link set lo up && exec \"$0\" --serve-objects";
    command.args(["--pdeathsig", "KILL", "unshare", "-n", "sh", "-c", server]);
    command.arg(trial.taillight.with_file_name("taillight-lab"));
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().context("cannot start taillight-lab")?;
    let (pid, out) = (child.id(), child.stdout.take().context("its output")?);
    trial.undo.add(move || {
        let _ = child.kill();
        let _ = child.wait();
    });
    let mut path = String::new();
    BufReader::new(out).read_line(&mut path)?;
    Ok((path.trim().to_owned(), pid))
}
