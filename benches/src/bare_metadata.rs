//! The calls of driver `metadata` in a bare loop: create, stat, open-read-close and unlink of numbered files in one
//! directory. No operation is timed alone, and nothing is kept; `stamped`, each is timed and how long it took is kept.

use std::ffi::CStr;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags, openat, statx, syncfs, unlinkat};

use crate::bare;

/// As the driver opens them.
const CREATE: OFlags = OFlags::CREATE
    .union(OFlags::WRONLY)
    .union(OFlags::TRUNC)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
const READ: OFlags = OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// What stands in front of the number: as long as what the driver writes there.
const PREFIX: &str = "file.0123abcd.";

/// `bare-metadata DIR create|stat|read|unlink FILES BYTES PASSES [stamped]`; the directory is made, and removed in the
/// end.
pub fn main(args: &[&str]) -> Result<()> {
    let (args, stamped) = match args {
        [args @ .., "stamped"] => (args, true),
        args => (args, false),
    };
    let [dir, what, files, bytes, passes] = args else {
        bail!("bare-metadata DIR create|stat|read|unlink FILES BYTES PASSES [stamped]");
    };
    let (files, bytes, passes): (u64, usize, u64) =
        (files.parse()?, bytes.parse()?, passes.parse()?);
    ensure!(files > 0 && passes > 0 && bytes <= 1 << 20, "no such files");
    ensure!(passes == 1 || matches!(*what, "stat" | "read"), "files are made and removed once");
    let path = Path::new(dir);
    std::fs::create_dir(path).with_context(|| path.display().to_string())?;
    let at = OwnedFd::from(std::fs::File::open(path)?);
    let mut data = vec![0x5A; bytes];
    let mut kept_ns = vec![0; if stamped { (files * passes) as usize } else { 0 }];
    let mut run = |what: &str, kept_ns: &mut [u64]| -> Result<()> {
        let mut name = FileName::new();
        for number in 0..files {
            let begun = stamped.then(Instant::now);
            one(what, &at, name.of(number)?, &mut data)?;
            if let (Some(begun), Some(kept)) = (begun, kept_ns.get_mut(number as usize)) {
                *kept = begun.elapsed().as_nanos() as u64;
            }
        }
        Ok(())
    };
    if *what != "create" {
        run("create", &mut [])?;
        // As the driver's layout does: files that never reached the disk are removed in two thirds of the time.
        syncfs(&at)?;
    }
    let start = Instant::now();
    for pass in 0..passes as usize {
        let begin = (pass * files as usize).min(kept_ns.len());
        run(what, &mut kept_ns[begin..])?;
    }
    let took = start.elapsed().as_secs_f64();
    if *what != "unlink" {
        run("unlink", &mut [])?;
    }
    std::hint::black_box(&kept_ns);
    std::fs::remove_dir(path)?;
    bare::print(files * passes, took);
    Ok(())
}

/// Room for a name, written for each file without memory of its own.
struct FileName {
    bytes: Vec<u8>,
}

impl FileName {
    fn new() -> FileName {
        FileName { bytes: PREFIX.into() }
    }

    fn of(&mut self, number: u64) -> Result<&CStr> {
        self.bytes.truncate(PREFIX.len());
        write!(self.bytes, "{number}\0")?;
        Ok(CStr::from_bytes_with_nul(&self.bytes)?)
    }
}

fn one(what: &str, at: &OwnedFd, name: &CStr, data: &mut [u8]) -> Result<()> {
    match what {
        "create" => {
            let file = openat(at, name, CREATE, Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH)?;
            if !data.is_empty() {
                ensure!(rustix::io::write(&file, data)? == data.len(), "a short write");
            }
        }
        "stat" => {
            statx(at, name, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS)?;
        }
        "read" => {
            let file = openat(at, name, READ, Mode::empty())?;
            if !data.is_empty() {
                ensure!(rustix::io::read(&file, &mut *data)? == data.len(), "a short read");
            }
        }
        "unlink" => unlinkat(at, name, AtFlags::empty())?,
        other => bail!("bare-metadata knows no {other}"),
    }
    Ok(())
}
