//! Messages of PostgreSQL's protocol 3.0: writes those of a client into a buffer, and parses those of a server out of
//! received bytes. Allocates nothing but by the growth of the buffer.

use crate::net::Frame;

/// A message of this length or more is taken for broken: a server's own limit of a value is 1 GiB.
const MESSAGE_MAX: usize = (1 << 30) + (1 << 16);

/// A server's message: its letter and its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PgMessage<'a> {
    pub kind: u8,
    pub body: &'a [u8],
}

/// The message at the start of `bytes`.
#[inline]
pub fn parse(bytes: &[u8]) -> Frame<PgMessage<'_>> {
    let Some(head) = bytes.first_chunk::<5>() else { return Frame::Needs(5) };
    let size = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
    if !(4..MESSAGE_MAX).contains(&size) || !head[0].is_ascii_alphanumeric() {
        return Frame::Broken;
    }
    match bytes.get(5..1 + size) {
        Some(body) => Frame::Whole(PgMessage { kind: head[0], body }, 1 + size),
        None => Frame::Needs(1 + size),
    }
}

/// Begins a message of this kind; returns where its length stands, which [`end`] writes.
#[inline]
pub fn begin(out: &mut Vec<u8>, kind: u8) -> usize {
    out.push(kind);
    out.extend_from_slice(&[0; 4]);
    out.len() - 4
}

/// Ends the message whose length stands at `at`.
#[inline]
pub fn end(out: &mut [u8], at: usize) {
    let size = (out.len() - at) as u32;
    out[at..at + 4].copy_from_slice(&size.to_be_bytes());
}

#[inline]
pub fn text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}

#[inline]
fn number(out: &mut Vec<u8>, n: u16) {
    out.extend_from_slice(&n.to_be_bytes());
}

/// The first message of a connection: no letter, the version of the protocol, settings.
pub fn startup(out: &mut Vec<u8>, settings: &[(&str, &str)]) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&196_608u32.to_be_bytes());
    for (name, value) in settings {
        text(out, name);
        text(out, value);
    }
    out.push(0);
    end(out, at);
}

/// Asks for TLS; the server answers with one byte.
pub fn ask_tls(out: &mut Vec<u8>) {
    out.extend_from_slice(&8u32.to_be_bytes());
    out.extend_from_slice(&80_877_103u32.to_be_bytes());
}

/// Asks, over a connection of its own, that the server's process `pid` cancel its statement.
pub fn cancel(out: &mut Vec<u8>, pid: u32, secret: [u8; 4]) {
    for word in [16, 80_877_102, pid] {
        out.extend_from_slice(&word.to_be_bytes());
    }
    out.extend_from_slice(&secret);
}

/// A password, or a message of the dialogue that proves one.
pub fn password(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let at = begin(out, b'p');
    write(out);
    end(out, at);
}

/// Asks for statements in text; results come in text.
pub fn query(out: &mut Vec<u8>, sql: &str) {
    let at = begin(out, b'Q');
    text(out, sql);
    end(out, at);
}

/// Prepares a statement under a name.
pub fn prepare(out: &mut Vec<u8>, name: &str, sql: &str) {
    let at = begin(out, b'P');
    text(out, name);
    text(out, sql);
    number(out, 0);
    end(out, at);
}

pub fn sync(out: &mut Vec<u8>) {
    out.extend_from_slice(&[b'S', 0, 0, 0, 4]);
}

/// Binds and executes a prepared statement, with parameters and results in binary form: [`BindMessage::parameter`] or
/// [`BindMessage::null`] for each parameter, then [`BindMessage::execute`].
pub struct BindMessage<'a> {
    out: &'a mut Vec<u8>,
    at: usize,
}

impl<'a> BindMessage<'a> {
    #[inline]
    pub fn new(out: &'a mut Vec<u8>, statement: &str, parameters: u16) -> BindMessage<'a> {
        let at = begin(out, b'B');
        out.push(0);
        text(out, statement);
        number(out, 1);
        number(out, 1);
        number(out, parameters);
        BindMessage { out, at }
    }

    #[inline]
    pub fn parameter(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
        self.out.extend_from_slice(bytes);
    }

    /// A parameter without a value.
    pub fn null(&mut self) {
        self.out.extend_from_slice(&(-1i32).to_be_bytes());
    }

    #[inline]
    pub fn execute(self) {
        let out = self.out;
        number(out, 1);
        number(out, 1);
        end(out, self.at);
        // Execute: the nameless portal, all rows.
        out.extend_from_slice(&[b'E', 0, 0, 0, 9, 0, 0, 0, 0, 0]);
    }
}

/// Columns of a row; none for a null.
#[inline]
pub fn columns(body: &[u8]) -> impl Iterator<Item = Option<&[u8]>> {
    let mut rest = body.get(2..).unwrap_or_default();
    std::iter::from_fn(move || {
        let (size, after) = rest.split_first_chunk::<4>()?;
        let size = i32::from_be_bytes(*size);
        if size < 0 {
            rest = after;
            return Some(None);
        }
        let (value, after) = after.split_at_checked(size as usize)?;
        rest = after;
        Some(Some(value))
    })
}

/// Number of rows from the tag of a finished statement, such as "UPDATE 1"; 0 for a tag without a number.
#[inline]
pub fn affected(body: &[u8]) -> u64 {
    let digits = body.strip_suffix(b"\0").unwrap_or(body);
    let number = digits.rsplit(|b| *b == b' ').next().unwrap_or_default();
    number.iter().fold(0u64, |n, b| match b.is_ascii_digit() {
        true => n.saturating_mul(10).saturating_add(u64::from(b - b'0')),
        false => 0,
    })
}

/// A field of an error or notice: C for its code, M for its text, V for its severity; empty where it is absent.
pub fn field(body: &[u8], letter: u8) -> &[u8] {
    let mut fields = body.split(|b| *b == 0);
    fields.find_map(|f| f.strip_prefix(&[letter])).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_whole_and_in_pieces() {
        let bytes = b"C\0\0\0\x0dUPDATE 1\0rest";
        match parse(bytes) {
            Frame::Whole(message, used) => {
                assert_eq!((message.kind, used, affected(message.body)), (b'C', 14, 1));
            }
            other => panic!("{other:?}"),
        }
        for cut in 0..14 {
            match parse(&bytes[..cut]) {
                Frame::Needs(n) => assert!(n > cut && n <= 14),
                other => panic!("{other:?} after {cut}"),
            }
        }
        for bad in [&b"HTTP/1.1 400"[..], b"\0\0\0\0\x04", b"C\0\0\0\x03", b"C\xff\xff\xff\xff"] {
            assert_eq!(parse(bad), Frame::Broken);
        }
        assert_eq!((affected(b"INSERT 0 12\0"), affected(b"BEGIN\0"), affected(b"")), (12, 0, 0));
    }

    #[test]
    fn rows_and_errors() {
        let row = b"\0\x02\0\0\0\x01x\xff\xff\xff\xff";
        let all: Vec<_> = columns(row).collect();
        assert_eq!(all, [Some(&b"x"[..]), None]);
        assert_eq!(columns(b"\0\x01\0\0\0\x09x").count(), 0, "cut off");
        let error = b"SERROR\0C42P01\0Mno such table\0\0";
        assert_eq!((field(error, b'C'), field(error, b'D')), (&b"42P01"[..], &b""[..]));
    }

    #[test]
    fn requests() {
        let mut out = Vec::new();
        let mut bind = BindMessage::new(&mut out, "g", 1);
        bind.parameter(b"key");
        bind.execute();
        sync(&mut out);
        let bind = b"B\0\0\0\x18\0g\0\0\x01\0\x01\0\x01\0\0\0\x03key\0\x01\0\x01";
        assert_eq!(out, [&bind[..], b"E\0\0\0\x09\0\0\0\0\0S\0\0\0\x04"].concat());
    }
}
