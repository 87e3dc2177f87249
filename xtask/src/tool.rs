//! Small helpers shared by the chores: where the repository is, how programs are found and run.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// The repository's root directory.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// Where cargo puts what it builds.
pub fn target_dir() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root().join(dir),
        None => root().join("target"),
    }
}

/// A program as built with a profile of that name.
pub fn binary(profile: &str, name: &str) -> PathBuf {
    target_dir().join(profile).join(name)
}

/// The release binary of the product.
pub fn taillight() -> PathBuf {
    binary("release", "taillight")
}

/// Builds the product with a profile.
pub fn build(profile: &str) -> Result<()> {
    run(&mut build_command(profile))
}

/// What builds it.
pub fn build_command(profile: &str) -> Command {
    cargo(["build", "--profile", profile, "--locked", "--package", "taillight-cli"])
}

/// A cargo command in the root, with the cargo that runs this chore.
pub fn cargo<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(root());
    command
}

/// Runs to the end; an exit code other than 0 is an error.
pub fn run(command: &mut Command) -> Result<()> {
    let shown = show(command);
    let status =
        command.stdin(Stdio::null()).status().with_context(|| format!("cannot start {shown}"))?;
    if !status.success() {
        bail!("{shown}: {status}");
    }
    Ok(())
}

/// Runs to the end and returns standard output; an exit code other than 0 is an error.
pub fn output(command: &mut Command) -> Result<String> {
    let shown = show(command);
    let out =
        command.stdin(Stdio::null()).output().with_context(|| format!("cannot start {shown}"))?;
    if !out.status.success() {
        let said = String::from_utf8_lossy(&out.stderr);
        bail!("{shown}: {}\n{}", out.status, said.trim());
    }
    String::from_utf8(out.stdout).with_context(|| format!("{shown} printed no UTF-8"))
}

/// The command as a person would type it.
pub fn show(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let mut text = match program.file_name() {
        Some(name) => name.to_string_lossy().into_owned(),
        None => program.display().to_string(),
    };
    for arg in command.get_args() {
        text.push(' ');
        text.push_str(&arg.to_string_lossy());
    }
    text
}

/// Finds a program in PATH and in the places Debian keeps system programs.
pub fn which(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|dir| dir.join(name))
        .find(|file| file.is_file())
}

/// Whether this process is root.
pub fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0)
}

/// Whether this is a run of CI, on a machine where everything is installed.
pub fn is_ci() -> bool {
    std::env::var("CI").is_ok_and(|said| said == "true")
}

/// Files git knows or would add: tracked and untracked, without ignored ones. Relative paths.
pub fn files() -> Result<Vec<PathBuf>> {
    let list = output(
        Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(root()),
    )?;
    let mut files: Vec<PathBuf> = list
        .split('\0')
        .filter(|f| !f.is_empty())
        .map(PathBuf::from)
        .filter(|f| root().join(f).is_file())
        .collect();
    files.sort();
    files.dedup();
    Ok(files)
}
