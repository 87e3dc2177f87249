//! Answers of HTTP/1.1: head and framing of the body. Bytes in, meaning out; no connection.

use super::request::MAKER;

/// How the end of a body is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyFraming {
    /// So many bytes are left.
    Length(u64),
    Chunks(ChunkState),
    /// Until the connection closes.
    Close,
}

/// Where in the chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChunkState {
    /// In the line that gives the size read so far; whether its digits ended.
    Size(u64, bool),
    /// So many bytes of data are left.
    Data(u64),
    /// In the line end after the data.
    DataEnd,
    /// In the lines after the last chunk; bytes of the present line.
    Trailer(u32),
    /// Behind the last byte.
    End,
}

/// An answer's head.
#[derive(Debug, Clone)]
pub struct ResponseHead {
    /// HTTP status; 0 before there is one.
    pub code: u16,
    /// How its body ends.
    pub framing: BodyFraming,
    /// The connection ends with this answer.
    pub close: bool,
    /// `ETag`, quotes included; memory is used again.
    pub etag: String,
    pub server: String,
    /// `Content-Length`, 0 without one: of the answer to HEAD the bytes of the object.
    pub size: u64,
    /// Of the answer to HEAD: the run that the object names as its maker; else empty.
    pub maker: String,
}

impl Default for ResponseHead {
    fn default() -> ResponseHead {
        ResponseHead {
            code: 0,
            framing: BodyFraming::Length(0),
            close: false,
            etag: String::new(),
            server: String::new(),
            size: 0,
            maker: String::new(),
        }
    }
}

/// Not HTTP/1.1, or not as it should be.
#[derive(Debug, PartialEq, Eq)]
pub struct MalformedResponse;

impl ResponseHead {
    /// Reads a head; its bytes, or `None` while it is not whole. `bodiless`: the answer to HEAD.
    pub fn parse(
        &mut self,
        raw: &[u8],
        bodiless: bool,
    ) -> Result<Option<usize>, MalformedResponse> {
        let mut lines = [httparse::EMPTY_HEADER; 96];
        let mut head = httparse::Response::new(&mut lines);
        let length = match head.parse(raw).map_err(|_| MalformedResponse)? {
            httparse::Status::Partial => return Ok(None),
            httparse::Status::Complete(length) => length,
        };
        self.code = head.code.ok_or(MalformedResponse)?;
        self.close = head.version == Some(0);
        self.etag.clear();
        self.maker.clear();
        let (mut size, mut chunked) = (None, false);
        for line in head.headers.iter() {
            let text = || std::str::from_utf8(line.value).map_err(|_| MalformedResponse);
            let is = |name: &str| line.name.eq_ignore_ascii_case(name);
            if is("content-length") {
                size = Some(text()?.trim().parse::<u64>().map_err(|_| MalformedResponse)?);
            } else if is("transfer-encoding") {
                chunked = text()?.trim().eq_ignore_ascii_case("chunked");
            } else if is("connection") {
                self.close |= text()?.eq_ignore_ascii_case("close");
            } else if is("etag") {
                self.etag.push_str(text()?);
            } else if bodiless && is(MAKER) {
                self.maker.push_str(text()?);
            } else if is("server") && self.server.is_empty() {
                self.server.push_str(text()?);
            }
        }
        self.size = size.unwrap_or(0);
        let none = bodiless || self.code == 204 || self.code == 304 || self.code < 200;
        self.framing = match (none, chunked, size) {
            (true, ..) => BodyFraming::Length(0),
            (_, true, _) => BodyFraming::Chunks(ChunkState::Size(0, false)),
            (_, _, Some(size)) => BodyFraming::Length(size),
            _ => BodyFraming::Close,
        };
        self.close |= self.framing == BodyFraming::Close;
        Ok(Some(length))
    }

    /// Whether the body has ended.
    pub fn ended(&self) -> bool {
        matches!(self.framing, BodyFraming::Length(0) | BodyFraming::Chunks(ChunkState::End))
    }

    /// Takes bytes of the body, showing its data; how many were its own.
    pub fn absorb(
        &mut self,
        bytes: &[u8],
        show: &mut dyn FnMut(&[u8]),
    ) -> Result<usize, MalformedResponse> {
        match &mut self.framing {
            BodyFraming::Length(left) => {
                let n = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= n as u64;
                show(&bytes[..n]);
                Ok(n)
            }
            BodyFraming::Close => {
                show(bytes);
                Ok(bytes.len())
            }
            BodyFraming::Chunks(at) => chunks(at, bytes, show),
        }
    }
}

fn chunks(
    at: &mut ChunkState,
    bytes: &[u8],
    show: &mut dyn FnMut(&[u8]),
) -> Result<usize, MalformedResponse> {
    let mut used = 0;
    while used < bytes.len() && *at != ChunkState::End {
        let byte = bytes[used];
        if let ChunkState::Data(left) = at {
            let n = (bytes.len() - used).min(usize::try_from(*left).unwrap_or(usize::MAX));
            show(&bytes[used..used + n]);
            used += n;
            *left -= n as u64;
            if *left == 0 {
                *at = ChunkState::DataEnd;
            }
            continue;
        }
        used += 1;
        *at = match (*at, byte) {
            (ChunkState::Size(0, _), b'\n') => ChunkState::Trailer(0),
            (ChunkState::Size(size, _), b'\n') => ChunkState::Data(size),
            (ChunkState::Size(size, ended), b'\r' | b';' | b' ') if !ended => {
                ChunkState::Size(size, true)
            }
            (ChunkState::Size(size, true), _) => ChunkState::Size(size, true),
            (ChunkState::Size(size, false), digit) => {
                let digit = (digit as char).to_digit(16).ok_or(MalformedResponse)?;
                let size = size.checked_mul(16).ok_or(MalformedResponse)?;
                ChunkState::Size(size + u64::from(digit), false)
            }
            (ChunkState::DataEnd, b'\r') => ChunkState::DataEnd,
            (ChunkState::DataEnd, b'\n') => ChunkState::Size(0, false),
            (ChunkState::Trailer(0), b'\n') => ChunkState::End,
            (ChunkState::Trailer(_), b'\n') => ChunkState::Trailer(0),
            (ChunkState::Trailer(n), b'\r') => ChunkState::Trailer(n),
            (ChunkState::Trailer(n), _) => ChunkState::Trailer(n + 1),
            _ => return Err(MalformedResponse),
        };
    }
    Ok(used)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_say_how_their_bodies_end() {
        let mut r = ResponseHead::default();
        let raw = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nETag: \"x\"\r\nServer: s\r\n\r\nhello";
        assert_eq!(r.parse(&raw[..30], false), Ok(None));
        assert_eq!(r.parse(raw, false), Ok(Some(raw.len() - 5)));
        assert_eq!((r.code, r.framing, r.close), (200, BodyFraming::Length(5), false));
        assert_eq!((r.etag.as_str(), r.server.as_str()), ("\"x\"", "s"));
        r.parse(raw, true).unwrap();
        assert!(r.ended(), "the answer to HEAD has no body");
        r.parse(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n", false).unwrap();
        assert!(r.ended() && r.close);
        r.parse(b"HTTP/1.0 200 OK\r\n\r\n", false).unwrap();
        assert_eq!((r.framing, r.close), (BodyFraming::Close, true));
        assert_eq!(r.parse(b"SSH-2.0-x\r\n\r\n", false), Err(MalformedResponse));
        let signed = b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n";
        assert_eq!(r.parse(signed, false), Err(MalformedResponse));
    }

    #[test]
    fn chunks_come_in_any_pieces() {
        let whole = b"4\r\nWiki\r\nA;x=y\r\n0123456789\r\n0\r\nsome: trailer\r\n\r\nnext";
        for step in 1..whole.len() {
            let mut r = ResponseHead {
                framing: BodyFraming::Chunks(ChunkState::Size(0, false)),
                ..ResponseHead::default()
            };
            let (mut seen, mut used) = (Vec::new(), 0);
            for piece in whole.chunks(step) {
                used += r.absorb(piece, &mut |b| seen.extend_from_slice(b)).unwrap();
            }
            assert!(r.ended());
            assert_eq!(seen, b"Wiki0123456789");
            assert_eq!(used, whole.len() - 4, "in steps of {step}");
        }
        let mut r = ResponseHead {
            framing: BodyFraming::Chunks(ChunkState::Size(0, false)),
            ..ResponseHead::default()
        };
        assert_eq!(r.absorb(b"xyz\r\n", &mut |_| ()), Err(MalformedResponse));
    }
}
