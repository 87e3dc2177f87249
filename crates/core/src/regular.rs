//! Opens and reads files that somebody names: regular ones only, or links to such.
//!
//! A pipe would wait for a writer, whatever signal comes, or never end.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Opens a file to be read. Errors: the system's; that it is no regular file.
pub fn open(path: impl AsRef<Path>) -> io::Result<File> {
    let regular = |meta: fs::Metadata| match meta.is_file() {
        true => Ok(()),
        false => Err(io::Error::other("it is no regular file")),
    };
    regular(fs::metadata(&path)?)?;
    // A pipe that took its place since is not waited for.
    let no_wait = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file = File::options().read(true).custom_flags(no_wait).open(path)?;
    regular(file.metadata()?)?;
    Ok(file)
}

/// Reads a whole file. Errors: as [`open`].
pub fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a whole file of text. Errors: as [`open`]; that it is no UTF-8.
pub fn read_to_string(path: impl AsRef<Path>) -> io::Result<String> {
    io::read_to_string(open(path)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_regular_file_is_not_opened() {
        let dir = tempfile::tempdir().expect("a directory");
        let pipe = dir.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.expect("mkfifo").success());
        for path in [pipe.as_path(), dir.path()] {
            let e = read(path).expect_err("not read");
            assert_eq!(e.to_string(), "it is no regular file");
        }
        let file = dir.path().join("file");
        fs::write(&file, "text").expect("written");
        assert_eq!(read_to_string(&file).expect("read"), "text");
    }
}
