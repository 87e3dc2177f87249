//! Redis: gets and sets against its own `redis-benchmark`, on a server of our own on loopback. Both
//! have one thread that serves all connections, the same number of them, the same pipeline on each,
//! the same keys (`key:` and twelve digits), and values of the same size.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::pairs::{self, BenchArm, Bound, Comparison, Figures};
use crate::{BenchSetup, child, files, taillight};

/// Records of each side.
const RECORDS: u64 = 100_000;
/// Bytes of a value.
const VALUE: u64 = 100;
/// The port that tables show.
pub const SHOWN: u16 = 6379;

/// Connections, operations of a run for each second asked (about what a server does on two cores),
/// names of the arms.
type Row = (u32, u64, [&'static str; 2]);

const SINGLE: [Row; 3] = [
    (1, 25_000, ["taillight 1", "redis-benchmark 1"]),
    (32, 100_000, ["taillight 32", "redis-benchmark 32"]),
    (256, 100_000, ["taillight 256", "redis-benchmark 256"]),
];
const PIPELINED: [Row; 3] = [
    (1, 300_000, ["taillight 1", "redis-benchmark 1"]),
    (32, 700_000, ["taillight 32", "redis-benchmark 32"]),
    (256, 700_000, ["taillight 256", "redis-benchmark 256"]),
];

/// Gets, one at a time on each connection.
pub fn get_1(setup: &BenchSetup) -> Result<Comparison> {
    compared(setup, "get", 1, &SINGLE)
}

/// Gets, 16 at a time on each connection.
pub fn get_16(setup: &BenchSetup) -> Result<Comparison> {
    compared(setup, "get", 16, &PIPELINED)
}

/// Sets, one at a time on each connection.
pub fn set_1(setup: &BenchSetup) -> Result<Comparison> {
    compared(setup, "set", 1, &SINGLE)
}

/// Sets, 16 at a time on each connection.
pub fn set_16(setup: &BenchSetup) -> Result<Comparison> {
    compared(setup, "set", 16, &PIPELINED)
}

/// A server; dropped, it is gone.
pub struct Server {
    process: Child,
    pub port: u16,
}

impl Server {
    /// A server that keeps nothing on disk.
    fn start() -> Result<Server> {
        Server::start_as(&["--appendonly", "no"])
    }

    /// Id of the server's process.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// A server that appends to a file, and syncs the file as often as this word (`appendfsync`) says.
    pub fn start_with(sync: &str) -> Result<Server> {
        Server::start_as(&["--appendonly", "yes", "--appendfsync", sync])
    }

    fn start_as(words: &[&str]) -> Result<Server> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        // A log that lies there would be loaded, and nothing answered meanwhile.
        let home = files::bench_path("redis")?;
        let _ = std::fs::remove_dir_all(&home);
        std::fs::create_dir(&home)?;
        let process = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--save", ""])
            .args(words)
            .arg("--port")
            .arg(port.to_string())
            .arg("--dir")
            .arg(&home)
            .stdout(Stdio::null())
            .spawn()
            .context("redis-server cannot be started (cargo xtask setup installs it)")?;
        let server = Server { process, port };
        for _ in 0..100 {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Ok(server);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        anyhow::bail!("redis-server does not listen")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has nothing to save.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn compared(setup: &BenchSetup, what: &str, pipeline: u32, rows: &[Row]) -> Result<Comparison> {
    let server = Server::start()?;
    let mut report = Comparison::titled(&format!(
        "Redis, {what} of {VALUE} B, {pipeline} in flight a connection, against redis-benchmark"
    ));
    // What both sides find; does not count.
    taillight::run(&arguments(server.port, "get", (1, 1), 1000))?;
    for (connections, rate, names) in rows {
        let load = (*connections, pipeline);
        let ops = rate * setup.seconds;
        let ours = |port: u16| arguments(port, what, load, ops);
        let theirs = |port: u16| peer_words(port, what, load, ops);
        let arms = vec![
            BenchArm {
                name: names[0],
                command: taillight::command_line(&ours(SHOWN)),
                run: Box::new(|| taillight::run_whole(&ours(server.port))),
            },
            BenchArm {
                name: names[1],
                command: format!("redis-benchmark {}", theirs(SHOWN)),
                run: Box::new(|| peer(&theirs(server.port))),
            },
        ];
        report.arms.extend(pairs::run(setup.pairs, arms)?);
    }
    for (connections, _, [ours, theirs]) in rows {
        report.ratio("iops", ours, theirs, Bound::AtLeast(1.0))?;
        report.ratio("cpu_ns", ours, theirs, Bound::None)?;
        report.ratio("all_cpu_ns", ours, theirs, Bound::AtMost(1.0))?;
        report.ratio("p50_ns", ours, theirs, Bound::AtMost(1.0))?;
        report.ratio("p99_ns", ours, theirs, Bound::AtMost(1.0))?;
        // One at a time there is no stamp of its own for that.
        if connections * pipeline > 1 {
            report.ratio("sent_p50_ns", ours, theirs, Bound::None)?;
            report.ratio("sent_p99_ns", ours, theirs, Bound::None)?;
        }
    }
    report.notes.push(NOTE.into());
    Ok(report)
}

/// What a reader must know.
const NOTE: &str = "The number in a name is the connections, all of one worker \
     (`target.options.connections`) or one thread. cpu_ns is that of the measured time for \
     Taillight and of the whole process for redis-benchmark; all_cpu_ns is that of the whole \
     process on both sides, from the command to the page. The server has the other core. \
     redis-benchmark stamps a command when it writes it to the socket: what a client waits \
     before in its own loop is in none of its latencies, and connections times pipeline is \
     more than its rate times its mean latency, which stands beside the percentiles. \
     Taillight's begin before, with the draw, so that all in flight are in them. sent_p50_ns and sent_p99_ns are Taillight's from the end of \
     the call that sent it, which leaves that call out, over redis-benchmark's, which begin \
     before it. The ends differ too: theirs is before a reply is read, rounded up to 8 us.";

/// The words of a run of ours, with so many connections and operations in flight on each.
fn arguments(port: u16, what: &str, (connections, pipeline): (u32, u32), ops: u64) -> String {
    let mix = if what == "set" { "put" } else { "get" };
    format!(
        "--driver redis --path redis://127.0.0.1:{port}/0 --bs {VALUE}B \
         --depth {} --ops {ops} --set target.options.connections={connections} \
         --set target.options.keep=true --set workload.0.mix={mix} --set workload.0.access=random \
         --set target.options.prefix=key \
         --set workload.0.keys={{count={RECORDS},naming=\"ordered\",prefix=\"\",digits=12}}",
        connections * pipeline
    )
}

/// The words of redis-benchmark for the same.
pub fn peer_words(port: u16, what: &str, (connections, pipeline): (u32, u32), ops: u64) -> String {
    format!("-p {port} -t {what} -c {connections} -P {pipeline} -n {ops} -r {RECORDS} -d {VALUE}")
}

/// A run of redis-benchmark, and the CPU of its whole process.
pub fn peer(words: &str) -> Result<Figures> {
    let mut command = Command::new("redis-benchmark");
    command.args(["-h", "127.0.0.1", "--csv", "--precision", "3"]).args(words.split(' '));
    let done = child::run(&mut command)?;
    let mut sample = figures(&done.stdout)
        .with_context(|| format!("redis-benchmark said something else:\n{}", done.stdout))?;
    let ops = words.split(' ').skip_while(|word| *word != "-n").nth(1);
    let ops: f64 = ops.context("no -n")?.parse()?;
    ensure!(sample["iops"] > 0.0, "redis-benchmark did nothing");
    let cpu = done.cpu_s * 1e9 / ops;
    sample.extend([("cpu_ns", cpu), ("all_cpu_ns", cpu), ("foreign", done.foreign)]);
    let (p50, p99) = (sample["p50_ns"], sample["p99_ns"]);
    sample.extend([("sent_p50_ns", p50), ("sent_p99_ns", p99)]);
    Ok(sample)
}

/// `"test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms",...`, then a line of figures.
fn figures(csv: &str) -> Option<Figures> {
    let mut lines = csv.lines().rev().filter(|line| !line.is_empty());
    let (last, names) = (lines.next()?, lines.next()?);
    let split = |line: &str| -> Vec<String> {
        line.split(',').map(|field| field.trim_matches('"').to_owned()).collect()
    };
    let (names, values) = (split(names), split(last));
    let value = |name: &str| -> Option<f64> {
        values.get(names.iter().position(|n| n == name)?)?.parse().ok()
    };
    let rate = value("rps")?;
    Some(Figures::from([
        ("iops", rate),
        ("ns_per_io", 1e9 / rate),
        ("mean_ns", value("avg_latency_ms")? * 1e6),
        ("p50_ns", value("p50_latency_ms")? * 1e6),
        ("p99_ns", value("p99_latency_ms")? * 1e6),
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_from_redis_benchmark() {
        let csv = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\
                   \"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"\n\
                   \"GET\",\"70641.38\",\"0.225\",\"0.064\",\"0.215\",\"0.4\",\"0.735\",\"2.2\"\n";
        let sample = figures(csv).expect("figures");
        assert_eq!((sample["iops"], sample["p50_ns"]), (70_641.38, 215_000.0));
        assert!((sample["p99_ns"] - 735_000.0).abs() < 1.0);
        assert!(figures("Could not connect to Redis\n").is_none());
    }
}
