//! MinIO for the S3 tests: built once from its Go module and kept under the home folder.
//!
//! Called by `setup`. Never fails it: without MinIO those tests run against the small server in
//! `crates/s3test` and say so. That crate looks for MinIO in the same place.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::tool;

/// The version tests are written against.
const VERSION: &str = "v0.0.0-20260212201848-7aac2a2c5b7c";
/// Oldest Go that builds it: major, minor.
const OLDEST_GO: (u32, u32) = (1, 24);
/// Set where minutes of building are not wanted; a MinIO that is there is still used.
const NOT_WANTED: &str = "TAILLIGHT_NO_MINIO_BUILD";

/// Says in one line which MinIO there is; builds it first where that is possible.
pub fn prepare() {
    match find_or_build() {
        Ok(program) => println!("setup: MinIO is there ({})", program.display()),
        Err(why) => {
            println!("setup: no MinIO, the S3 tests use a small server of our own: {why:#}")
        }
    }
}

fn find_or_build() -> Result<PathBuf> {
    if let Some(named) = std::env::var_os("TAILLIGHT_MINIO") {
        if named.is_empty() {
            bail!("TAILLIGHT_MINIO is set and empty");
        }
        return Ok(named.into());
    }
    let home = std::env::var_os("HOME").context("no home folder to keep it in")?;
    let cache = PathBuf::from(home).join(".cache/taillight/minio");
    let place = cache.join(VERSION);
    let program = place.join("minio");
    if program.is_file() {
        return Ok(program);
    }
    if std::env::var_os(NOT_WANTED).is_some_and(|v| !v.is_empty()) {
        bail!("none is cached, and {NOT_WANTED} is set");
    }
    let go = tool::which("go").context("none is cached, and there is no Go to build it with")?;
    let said = tool::output(Command::new(&go).args(["env", "GOVERSION"]))?;
    if !recent(&said) {
        let (major, minor) = OLDEST_GO;
        bail!("{} is too old to build it, {major}.{minor} is needed", said.trim());
    }
    println!("setup: building MinIO {VERSION} with {} (about 6 minutes, once)", said.trim());
    // Into a place beside, then renamed: a broken-off build leaves no half program.
    let half = cache.join(format!("{VERSION}.new"));
    let mut build = Command::new(&go);
    build.env("GOBIN", &half).env("GOTOOLCHAIN", "local").env("CGO_ENABLED", "0");
    build.args(["install", "-trimpath", "-ldflags=-s -w"]);
    tool::run(build.arg(format!("github.com/minio/minio@{VERSION}")))?;
    std::fs::create_dir_all(&place)?;
    std::fs::rename(half.join("minio"), &program)?;
    // Empty by now; if not, it only costs space.
    let _ = std::fs::remove_dir(&half);
    Ok(program)
}

/// Whether "go1.26.8" is recent enough.
fn recent(said: &str) -> bool {
    let mut numbers = said.trim().trim_start_matches("go").split('.').map(|part| {
        let digits: String = part.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u32>().unwrap_or(0)
    });
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= OLDEST_GO
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_go_are_compared_as_numbers() {
        assert!(recent("go1.26.8\n") && recent("go1.24") && recent("go1.25rc1") && recent("go2.0"));
        assert!(!recent("go1.9") && !recent("go1.19.8") && !recent("devel") && !recent(""));
    }
}
