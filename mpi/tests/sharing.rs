//! Ranks that share a file, in parts, in turns, or all of it: every block belongs to the rank that it is said to. What
//! cannot be shared is refused.

mod common;

use std::collections::BTreeMap;
use std::path::Path;

use common::{Failed, has_mpirun, ranks, said};
use taillight_rundir::ios::{ColumnSet, read_ios};

const BLOCK: u64 = 4096;
/// Blocks of the file.
const BLOCKS: u64 = 256;
/// Access in order.
const ORDER: &str = "\"sequential\"";

fn job(dir: &Path, share: &str, access: &str) -> Result<(), Failed> {
    let text = format!(
        "[run]\nshare = \"{share}\"\nseed = 5\nduration = \"30s\"\n[target]\ndriver = \"file\"\npath = \"data\"\n\
         size = \"{}B\"\noptions = {{ direct = false, keep = true }}\n[[workload]]\nmix = \"write\"\n\
         block_size = \"4KiB\"\npasses = 1\naccess = {access}\n",
        BLOCKS * BLOCK
    );
    Ok(std::fs::write(dir.join("job.toml"), text)?)
}

/// How often each rank had each block.
fn blocks(dir: &Path, n: u32) -> Result<Vec<BTreeMap<u64, u64>>, Failed> {
    let mut all = Vec::new();
    for rank in 0..n {
        let mut own = BTreeMap::new();
        let path = dir.join(format!("RUN/rank-{rank:04}/ios.parquet"));
        read_ios(&path, ColumnSet::ALL, &mut |batch| {
            for row in (0..batch.rows).map(|i| batch.row(i)) {
                *own.entry(row.offset.unwrap_or(u64::MAX) / BLOCK).or_default() += 1;
            }
            Ok(())
        })?;
        all.push(own);
    }
    Ok(all)
}

/// Runs it by three ranks with these words in the job.
fn shared(share: &str, access: &str) -> Result<Vec<BTreeMap<u64, u64>>, Failed> {
    let tmp = tempfile::tempdir()?;
    job(tmp.path(), share, access)?;
    let (code, text) = said(&ranks(tmp.path(), 3, &["run", "job.toml", "--output", "RUN"])?);
    assert_eq!(code, Some(0), "{share}: {text}");
    let left = std::fs::read_dir(tmp.path())?.flatten().map(|e| e.file_name());
    let left: Vec<_> = left.filter(|n| n.to_string_lossy().contains("shared-")).collect();
    assert!(left.is_empty(), "{left:?}");
    blocks(tmp.path(), 3)
}

#[test]
fn segments_and_strides_cover_a_file_once() -> Result<(), Failed> {
    if !has_mpirun("segments_and_strides_cover_a_file_once") {
        return Ok(());
    }
    let random = "{ kind = \"random\", cover = true }";
    for (share, more) in
        [("segments", ORDER), ("segments", random), ("strided", ORDER), ("strided", random)]
    {
        let all = shared(share, more)?;
        let mut seen = BTreeMap::new();
        for (rank, own) in all.iter().enumerate() {
            assert!(own.values().all(|n| *n == 1), "{share} {more}: rank {rank} twice");
            for block in own.keys() {
                assert_eq!(seen.insert(*block, rank), None, "{share} {more}: block {block} of two");
            }
            let (first, last) = (own.keys().next(), own.keys().last());
            let in_place = match share {
                "strided" => own.keys().all(|block| block % 3 == rank as u64),
                _ => last.zip(first).is_some_and(|(b, a)| b - a + 1 == own.len() as u64),
            };
            assert!(in_place, "{share} {more}: rank {rank}");
        }
        // Of 256 blocks in turns of three one is left over.
        let whole = if share == "strided" { BLOCKS / 3 * 3 } else { BLOCKS };
        assert_eq!(seen.len() as u64, whole, "{share} {more}");
    }
    Ok(())
}

#[test]
fn the_same_file_is_for_all() -> Result<(), Failed> {
    if !has_mpirun("the_same_file_is_for_all") {
        return Ok(());
    }
    for own in shared("same", ORDER)? {
        assert_eq!((own.len() as u64, own.values().sum()), (BLOCKS, BLOCKS));
    }
    Ok(())
}

#[test]
fn what_cannot_be_shared_is_refused() -> Result<(), Failed> {
    if !has_mpirun("what_cannot_be_shared_is_refused") {
        return Ok(());
    }
    let tmp = tempfile::tempdir()?;
    job(tmp.path(), "strided", ORDER)?;
    let sizes = "workload.0.block_size={ min = \"4KiB\", max = \"8KiB\", step = \"4KiB\" }";
    let words = ["run", "job.toml", "--output", "RUN", "--set", sizes];
    let (code, text) = said(&ranks(tmp.path(), 2, &words)?);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("blocks of one size"), "{text}");
    assert!(!tmp.path().join("RUN").exists());
    // Each with what is wrong, by words of the command line.
    let wrong = [
        ("run.share=\"same\"", "verify.mode=\"after\"", "cannot verify it"),
        ("target.driver=\"sim\"", "target.options={}", "cannot share its target"),
        ("run.share=\"segments\"", "target.options.fill=\"50%\"", "cannot purge or fill"),
    ];
    for (first, set, words) in wrong {
        let args = ["run", "job.toml", "--output", "RUN", "--set", first, "--set", set];
        let (code, text) = said(&ranks(tmp.path(), 2, &args)?);
        assert_eq!(code, Some(2), "{set}: {text}");
        let plain = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(plain.contains(words), "{set}: {text}");
        assert!(!tmp.path().join("RUN").exists(), "{set}");
    }
    Ok(())
}
