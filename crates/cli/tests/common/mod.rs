//! What the tests of the binary share.

use std::path::Path;
use std::process::Output;

use assert_cmd::Command;

/// The binary, in a directory of its own.
pub fn taillight(dir: &Path) -> Command {
    let mut command = Command::cargo_bin("taillight").expect("the binary is built");
    command.current_dir(dir).env_remove("NO_COLOR");
    command
}

/// Runs it; the exit code must be `code`. Returns standard output and standard error.
#[allow(dead_code)] // not every test binary calls it
pub fn run(dir: &Path, args: &[&str], code: i32) -> (String, String) {
    let output: Output = taillight(dir).args(args).output().expect("it starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{args:?}\n{out}\n{err}");
    assert!(!err.contains("panicked"), "{err}");
    (out, err)
}
