//! RESP2, the protocol of Redis: writes commands into a buffer and parses replies. Only the buffer may allocate.

use crate::net::Frame;

/// Bytes of a line (a number, an error in words) after which its end is not waited for.
const LINE_MAX: usize = 64 << 10;

/// Begins a command of `parts` parts.
#[inline]
pub fn command(out: &mut Vec<u8>, parts: usize) {
    head(out, b'*', parts);
}

/// One part of a command.
#[inline]
pub fn part(out: &mut Vec<u8>, bytes: &[u8]) {
    head(out, b'$', bytes.len());
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// One part made of two pieces.
#[inline]
pub fn joined(out: &mut Vec<u8>, first: &[u8], second: &[u8]) {
    head(out, b'$', first.len() + second.len());
    out.extend_from_slice(first);
    out.extend_from_slice(second);
    out.extend_from_slice(b"\r\n");
}

/// A number as a part.
pub fn number(out: &mut Vec<u8>, n: u64) {
    part(out, itoa::Buffer::new().format(n).as_bytes());
}

/// Writes a count `n` behind the sign `kind`. Those below 100, of which each command has several, are written at once.
#[inline]
fn head(out: &mut Vec<u8>, kind: u8, n: usize) {
    let digit = |n: usize| b'0' + (n % 10) as u8;
    match n {
        ..10 => out.extend_from_slice(&[kind, digit(n), b'\r', b'\n']),
        10..100 => out.extend_from_slice(&[kind, digit(n / 10), digit(n), b'\r', b'\n']),
        _ => {
            out.push(kind);
            out.extend_from_slice(itoa::Buffer::new().format(n).as_bytes());
            out.extend_from_slice(b"\r\n");
        }
    }
}

/// A reply, or the head of an array whose elements follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RespValue<'a> {
    /// `+OK`.
    Simple(&'a [u8]),
    /// `-ERR ...`, without the sign.
    Error(&'a [u8]),
    /// `:1`.
    Number(i64),
    Bulk(&'a [u8]),
    /// The null of strings (`$-1`) and of arrays (`*-1`).
    Nil,
    /// An array: how many elements, and their bytes for [`elements`].
    Array(usize, &'a [u8]),
}

/// What the bytes so far are: a whole reply and its length, the start of one, or no RESP.
pub type ParsedReply<'a> = Frame<RespValue<'a>>;

/// The reply at the start of `bytes`. An array inside an array counts as one element, its head,
/// and is followed by its own elements.
pub fn parse(bytes: &[u8]) -> ParsedReply<'_> {
    match single(bytes) {
        ParsedReply::Whole(RespValue::Array(count, _), start) => {
            let (mut at, mut left) = (start, count);
            while left > 0 {
                left -= 1;
                match single(&bytes[at..]) {
                    ParsedReply::Broken => return ParsedReply::Broken,
                    ParsedReply::Whole(RespValue::Array(more, _), used) => {
                        left = left.saturating_add(more);
                        at += used;
                    }
                    ParsedReply::Whole(_, used) => at += used,
                    ParsedReply::Needs(n) => return ParsedReply::Needs(at + n),
                }
            }
            ParsedReply::Whole(RespValue::Array(count, &bytes[start..at]), at)
        }
        other => other,
    }
}

/// A reply without the elements of an array.
fn single(bytes: &[u8]) -> ParsedReply<'_> {
    let Some(end) = bytes.iter().position(|b| *b == b'\n') else {
        return match bytes.len() {
            ..LINE_MAX => ParsedReply::Needs(bytes.len() + 1),
            _ => ParsedReply::Broken,
        };
    };
    let Some((kind, line)) = bytes[..end].strip_suffix(b"\r").and_then(<[u8]>::split_first) else {
        return ParsedReply::Broken;
    };
    let start = end + 1;
    let number = || std::str::from_utf8(line).ok()?.parse::<i64>().ok();
    let reply = match (kind, number()) {
        (b'+', _) => RespValue::Simple(line),
        (b'-', _) => RespValue::Error(line),
        (b':', Some(n)) => RespValue::Number(n),
        (b'$' | b'*', Some(-1)) => RespValue::Nil,
        (b'*', Some(n)) => match usize::try_from(n) {
            Ok(n) => RespValue::Array(n, &[]),
            Err(_) => return ParsedReply::Broken,
        },
        (b'$', Some(n)) => return bulk(bytes, start, n),
        _ => return ParsedReply::Broken,
    };
    ParsedReply::Whole(reply, start)
}

fn bulk(bytes: &[u8], start: usize, length: i64) -> ParsedReply<'_> {
    // A server's own limit is 512 MiB.
    let Some(length) = usize::try_from(length).ok().filter(|n| *n <= 1 << 30) else {
        return ParsedReply::Broken;
    };
    let end = start + length;
    match bytes.get(end..end + 2) {
        None => ParsedReply::Needs(end + 2),
        Some(b"\r\n") => ParsedReply::Whole(RespValue::Bulk(&bytes[start..end]), end + 2),
        Some(_) => ParsedReply::Broken,
    }
}

/// Walks over the elements of an array. One that is an array itself shows as its head; its elements follow.
pub fn elements(mut bytes: &[u8]) -> impl Iterator<Item = RespValue<'_>> {
    std::iter::from_fn(move || match single(bytes) {
        ParsedReply::Whole(reply, used) if used > 0 => {
            bytes = &bytes[used..];
            Some(reply)
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands() {
        let mut out = Vec::new();
        command(&mut out, 3);
        part(&mut out, b"SET");
        joined(&mut out, b"p:", b"k");
        number(&mut out, 1050);
        assert_eq!(out, b"*3\r\n$3\r\nSET\r\n$3\r\np:k\r\n$4\r\n1050\r\n");
    }

    #[test]
    fn replies_whole_and_in_pieces() {
        for (bytes, reply) in [
            (&b"+OK\r\n"[..], RespValue::Simple(b"OK")),
            (b"-ERR no\r\n", RespValue::Error(b"ERR no")),
            (b":-3\r\n", RespValue::Number(-3)),
            (b"$-1\r\n", RespValue::Nil),
            (b"*-1\r\n", RespValue::Nil),
            (b"$4\r\na\r\nb\r\n", RespValue::Bulk(b"a\r\nb")),
            (b"*0\r\n", RespValue::Array(0, b"")),
            (b"*2\r\n$1\r\na\r\n$-1\r\n", RespValue::Array(2, b"$1\r\na\r\n$-1\r\n")),
        ] {
            assert_eq!(parse(bytes), ParsedReply::Whole(reply, bytes.len()));
            for cut in 0..bytes.len() {
                match parse(&bytes[..cut]) {
                    ParsedReply::Needs(n) => assert!(n > cut && n <= bytes.len()),
                    other => panic!("{other:?} after {cut} of {bytes:?}"),
                }
            }
        }
        let all: Vec<_> = elements(b"$1\r\na\r\n$-1\r\n").collect();
        assert_eq!(all, [RespValue::Bulk(b"a"), RespValue::Nil]);
    }

    #[test]
    fn what_is_no_reply() {
        for bytes in [&b"HTTP/1.1\r\n"[..], b"$x\r\n", b"$1\r\nabc", b"\n", b"$-2\r\n"] {
            assert_eq!(parse(bytes), ParsedReply::Broken, "{bytes:?}");
        }
    }
}
