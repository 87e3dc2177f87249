//! What files of a watched program are called in `watched.json`, and words on how a `watch --record` is replayed.

use std::path::Path;

use sha2::{Digest as _, Sha256};
use taillight_core::units::readable::in_line;
use taillight_report::format::count;
use taillight_trace::watch::{SeenFile, WatchResult};

use crate::run::directory;

/// Files named, of those with most operations.
const NAMED: usize = 4;

/// What files are called, by number. A hashed path is the same word within one watch, and another one in the next. A
/// file whose path is not known is not hashed: it is called by its device and inode, or `-`.
pub fn files(all: &[SeenFile], hashed: bool) -> Vec<String> {
    let salt = directory::fresh_id();
    let called = |file: &SeenFile| match &file.path {
        Some(path) if hashed => {
            let path = path.as_os_str().as_encoded_bytes();
            let digest = Sha256::new().chain_update(&salt).chain_update(path).finalize();
            let hex: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
            format!("file-{hex}")
        }
        _ => file.words(),
    };
    all.iter().map(called).collect()
}

/// What was recorded, and how it is replayed; nothing where no operation of a known file was.
pub fn summary_lines(dir: &Path, result: &WatchResult) -> Vec<String> {
    let known = result.by_file.iter().filter(|(file, _)| **file > 0);
    let mut files: Vec<(u64, u16)> = known.map(|(file, n)| (*n, *file)).collect();
    files.sort_unstable_by(|a, b| b.cmp(a));
    let Some((_, first)) = files.first() else { return Vec::new() };
    let named = files.iter().take(NAMED).map(|(n, file)| {
        let name = result.files.get(usize::from(*file)).map_or(String::new(), SeenFile::words);
        format!("{file} ({} operations, {})", count(*n), in_line(name))
    });
    let named: Vec<String> = named.collect();
    let more = if files.len() > NAMED { ", ..." } else { "" };
    let recorded = count(result.recorded);
    vec![
        format!(
            "recorded {recorded} operations that were not slow; files: {}{more}",
            named.join(", ")
        ),
        format!(
            "replay one file of it: taillight run --path FILE --replay {} --set workload.0.trace.select=file={first}",
            in_line(dir.display())
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hashed_path_is_the_same_in_one_record_and_no_path() {
        let file = |path: &str| SeenFile { dev: 1, inode: 2, path: Some(path.into()) };
        let all = [file("/data/secret.db"), file("/data/secret.db"), file("/b")];
        let hashed = files(&all, true);
        assert_eq!(hashed[0], hashed[1]);
        assert_ne!(hashed[0], hashed[2]);
        let plain = |name: &String| name.starts_with("file-") && name.len() == 21;
        assert!(hashed.iter().all(plain), "{hashed:?}");
        assert_eq!(files(&all, false)[2], "/b");
    }
}
