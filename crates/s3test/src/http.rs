//! As much HTTP/1.1 as a server of S3 needs: requests and answers whose bodies have a length and
//! are no chunks, connections that stay.

use std::io::{self, Read, Write};
use std::sync::Arc;

/// Longest head of a request.
const HEAD_MAX: usize = 32 << 10;
/// Longest body: a part of an upload, or a small object.
const BODY_MAX: usize = 256 << 20;

/// A request, its body read.
#[derive(Debug, Default, Clone)]
pub struct HttpRequest {
    /// `GET` and so on.
    pub method: String,
    /// Path as it was sent.
    pub path: String,
    /// Query as it was sent, without the question mark.
    pub query: String,
    /// Names in lower case, with values.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl HttpRequest {
    /// The first header of this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(n, _)| n == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// An answer.
#[derive(Debug, Clone)]
pub struct HttpReply {
    pub code: u16,
    /// Headers besides the length.
    pub headers: Vec<(String, String)>,
    pub body: Arc<[u8]>,
    /// Part of the body that is sent.
    pub range: (usize, usize),
}

impl HttpReply {
    /// With nothing in it.
    pub fn empty(code: u16) -> HttpReply {
        HttpReply::data(code, Arc::from([]))
    }
    /// With bytes.
    pub fn data(code: u16, body: Arc<[u8]>) -> HttpReply {
        HttpReply { code, headers: Vec::new(), range: (0, body.len()), body }
    }
    pub fn xml(code: u16, inside: &str) -> HttpReply {
        let text = format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{inside}");
        let reply = HttpReply::data(code, Arc::from(text.into_bytes()));
        reply.with("content-type", "application/xml")
    }
    /// An error as S3 words it.
    pub fn error(code: u16, word: &str, message: &str) -> HttpReply {
        HttpReply::xml(
            code,
            &format!("<Error><Code>{word}</Code><Message>{message}</Message></Error>"),
        )
    }
    /// With a header more.
    pub fn with(mut self, name: &str, value: impl Into<String>) -> HttpReply {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// Sends it; `bodiless` for HEAD.
    pub fn send(&self, to: &mut impl Write, bodiless: bool) -> io::Result<()> {
        let mut out = self.head();
        if !bodiless {
            out.extend_from_slice(&self.body[self.range.0..self.range.1]);
        }
        to.write_all(&out)?;
        to.flush()
    }

    /// Sends the head and half of the body.
    pub fn send_half(&self, to: &mut impl Write) -> io::Result<()> {
        let mut out = self.head();
        let half = self.range.0 + (self.range.1 - self.range.0) / 2;
        out.extend_from_slice(&self.body[self.range.0..half]);
        to.write_all(&out)?;
        to.flush()
    }

    fn head(&self) -> Vec<u8> {
        let length = self.range.1 - self.range.0;
        let mut head = format!("HTTP/1.1 {} {}\r\n", self.code, reason(self.code));
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        if self.code != 204 {
            head += &format!("content-length: {length}\r\n");
        }
        head += &format!("server: {}\r\n\r\n", crate::faulty::WORD);
        head.into_bytes()
    }
}

fn reason(code: u16) -> &'static str {
    match code {
        200 => "OK",
        204 => "No Content",
        206 => "Partial Content",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        416 => "Requested Range Not Satisfiable",
        503 => "Slow Down",
        _ => "Something Else",
    }
}

/// Reads requests of one connection.
pub struct RequestReader {
    raw: Vec<u8>,
}

impl RequestReader {
    /// At the start of a connection.
    pub fn new() -> RequestReader {
        RequestReader { raw: Vec::new() }
    }

    /// The next request; `None` when the client has gone between two.
    pub fn next(&mut self, from: &mut impl Read) -> io::Result<Option<HttpRequest>> {
        let strange = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
        let (mut request, head) = loop {
            if let Some(found) = self.head()? {
                break found;
            }
            if self.raw.len() > HEAD_MAX {
                return Err(strange("a head without an end"));
            }
            if self.more(from)? == 0 {
                return match self.raw.is_empty() {
                    true => Ok(None),
                    false => Err(io::ErrorKind::UnexpectedEof.into()),
                };
            }
        };
        if request.header("transfer-encoding").is_some() {
            return Err(strange("chunks are not understood"));
        }
        let length: usize = match request.header("content-length") {
            Some(text) => text.parse().map_err(|_| strange("no length"))?,
            None => 0,
        };
        if length > BODY_MAX {
            return Err(strange("a body too large"));
        }
        while self.raw.len() < head + length {
            if self.more(from)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        request.body = self.raw[head..head + length].to_vec();
        self.raw.drain(..head + length);
        Ok(Some(request))
    }

    fn more(&mut self, from: &mut impl Read) -> io::Result<usize> {
        let mut piece = [0; 64 << 10];
        let n = from.read(&mut piece)?;
        self.raw.extend_from_slice(&piece[..n]);
        Ok(n)
    }

    /// A request as far as its head, and the bytes of that, when it is whole.
    fn head(&self) -> io::Result<Option<(HttpRequest, usize)>> {
        let mut lines = [httparse::EMPTY_HEADER; 64];
        let mut head = httparse::Request::new(&mut lines);
        let parsed = head.parse(&self.raw);
        let strange = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
        let length = match parsed.map_err(|e| strange(e.to_string()))? {
            httparse::Status::Partial => return Ok(None),
            httparse::Status::Complete(length) => length,
        };
        let target = head.path.unwrap_or_default();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let line = |h: &httparse::Header<'_>| {
            let value = String::from_utf8_lossy(h.value).trim().to_owned();
            (h.name.to_ascii_lowercase(), value)
        };
        let request = HttpRequest {
            method: head.method.unwrap_or_default().to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            headers: head.headers.iter().map(line).collect(),
            body: Vec::new(),
        };
        Ok(Some((request, length)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_follow_each_other_on_a_connection() {
        let text = b"PUT /b/k?x=1 HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc\
                     GET /b/k HTTP/1.1\r\nhost: h\r\n\r\n";
        let (mut reader, mut from) = (RequestReader::new(), &text[..]);
        let put = reader.next(&mut from).expect("read").expect("a request");
        assert_eq!((put.method.as_str(), put.query.as_str()), ("PUT", "x=1"));
        assert_eq!((put.body.as_slice(), put.header("host")), (&b"abc"[..], Some("h")));
        let get = reader.next(&mut from).expect("read").expect("a request");
        assert_eq!((get.method.as_str(), get.path.as_str()), ("GET", "/b/k"));
        assert!(reader.next(&mut from).expect("the end").is_none());
        let broken = RequestReader::new().next(&mut &text[..54]);
        assert!(broken.is_err(), "ends inside of a body: {broken:?}");
    }

    #[test]
    fn answers_have_a_length() {
        let mut out = Vec::new();
        let reply = HttpReply::data(200, Arc::from(*b"hello")).with("etag", "\"x\"");
        reply.send(&mut out, false).expect("sent");
        let text = String::from_utf8(out).expect("text");
        assert!(text.starts_with("HTTP/1.1 200 OK\r\netag: \"x\"\r\ncontent-length: 5\r\n"));
        assert!(text.ends_with("\r\n\r\nhello"), "{text}");
    }
}
