//! Parses the text of a block-size file into block sizes (bytes) with their counts. That is done when a job is
//! resolved, so that a plan holds the sizes themselves; the engine's generator draws from them.

use std::str::FromStr as _;

use crate::units::ByteSize;
use crate::{Error, ErrorKind, Result};

/// Pairs of size in bytes and count, in the order of the lines. The text has one of two forms:
///
/// - YCSB's: a first line `BlockSize<TAB>n`, then lines `bucket<TAB>count`. Bucket i (from 0)
///   stands for the size `(i + 1) * n`. YCSB itself draws its last bucket one size too small and
///   the first a little too often; that is not copied.
/// - Plain: lines `size,count`, sizes in bytes or with a unit (`4KiB,70`). A first line `size,count` is skipped.
///
/// Empty lines and lines starting with `#` are skipped in both.
///
/// Errors: `Usage` when no line is left, or naming the first line that does not fit. A heading alone gives an empty
/// list.
pub fn parse(text: &str) -> Result<Vec<(u64, u64)>> {
    let lines = text.lines().zip(1u64..);
    let mut lines = lines.filter(|(l, _)| !l.trim().is_empty() && !l.starts_with('#'));
    let mut rest = lines.clone();
    let (head, at) = rest.next().ok_or_else(|| {
        Error::usage("the size histogram is empty")
            .hint("write one `size,count` on a line, for example 4KiB,70")
    })?;
    if let Some(width) = head.strip_prefix("BlockSize\t") {
        let width = number(width).ok_or_else(|| unfit(at, head))?;
        let part = |(line, at): (&str, u64)| {
            let (bucket, count) = line.split_once('\t').ok_or_else(|| unfit(at, line))?;
            let size = number(bucket)
                .and_then(|b| b.checked_add(1)?.checked_mul(width))
                .ok_or_else(|| unfit(at, line))?;
            Ok((size, number(count).ok_or_else(|| unfit(at, line))?))
        };
        return rest.map(part).collect();
    }
    if head.trim() == "size,count" {
        lines = rest;
    }
    let part = |(line, at): (&str, u64)| {
        let (size, count) = line.split_once(',').ok_or_else(|| unfit(at, line))?;
        let size = number(size).or_else(|| Some(ByteSize::from_str(size.trim()).ok()?.0));
        let size = size.ok_or_else(|| unfit(at, line))?;
        Ok((size, number(count).ok_or_else(|| unfit(at, line))?))
    };
    lines.map(part).collect()
}

fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

fn unfit(at: u64, line: &str) -> Error {
    Error::new(ErrorKind::Usage, "a line of the size histogram cannot be read")
        .with("line", at)
        .with("text", line)
        .hint("either `size,count` lines, or YCSB's `BlockSize<TAB>n` and `bucket<TAB>count` lines")
}
