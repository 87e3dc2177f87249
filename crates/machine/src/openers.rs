//! Which processes have a file open, from `/proc/PID/fd`.

use std::fs::{self, Metadata};
use std::path::Path;

use crate::Sys;

/// Bits of `flags` in fdinfo that say how a file was opened, and the value for reading only.
const ACCESS_MODE: u32 = 3;

/// Another process that has a file of which `is_it` is true open for writing: its name and id. None when
/// there is none that this user can see.
pub fn writer(sys: &Sys, is_it: impl Fn(&Metadata) -> bool) -> Option<String> {
    let own = std::process::id().to_string();
    let processes = fs::read_dir(sys.path("proc")).ok()?.flatten();
    let mut others = processes.filter(|p| {
        let name = p.file_name();
        name.to_string_lossy().bytes().all(|b| b.is_ascii_digit()) && *name != *own
    });
    let process = others.find(|p| writes(&p.path(), &is_it))?;
    let id = process.file_name().to_string_lossy().into_owned();
    let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
    Some(format!("{} (process {id})", name.trim()))
}

fn writes(process: &Path, is_it: &impl Fn(&Metadata) -> bool) -> bool {
    let Ok(descriptors) = fs::read_dir(process.join("fd")) else {
        return false;
    };
    descriptors.flatten().any(|fd| {
        fs::metadata(fd.path()).is_ok_and(|m| is_it(&m))
            && opened_for_writing(&process.join("fdinfo").join(fd.file_name()))
    })
}

fn opened_for_writing(info: &Path) -> bool {
    let text = fs::read_to_string(info).unwrap_or_default();
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & ACCESS_MODE != 0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_writer_is_named_and_a_reader_is_not() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("data");
        let file = fs::File::create(&path).expect("a file");
        let meta = file.metadata().expect("metadata");
        let is_it = |m: &Metadata| (m.dev(), m.ino()) == (meta.dev(), meta.ino());
        let found = || writer(&Sys::default(), is_it);
        assert_eq!(found(), None, "this process itself");
        let held = |redirection: &str| {
            // Says that it has the file open, then waits for its standard input to end.
            let script = format!("exec 9{redirection}\"$0\"; echo; read _");
            let mut shell = Command::new("sh")
                .args(["-c", &script])
                .arg(&path)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .expect("a shell");
            let mut line = [0];
            let mut out = shell.stdout.take().expect("its output");
            std::io::Read::read_exact(&mut out, &mut line).expect("it is ready");
            let (id, found) = (shell.id(), found());
            drop(shell.stdin.take());
            shell.wait().expect("its end");
            (id, found)
        };
        assert_eq!(held("<").1, None);
        let (id, found) = held(">>");
        assert_eq!(found, Some(format!("sh (process {id})")));
    }
}
