//! One request at a time on one connection that stays: sends it, reads the answer, as far as the
//! connection lets it. A broken connection is made anew for the *next* request; nothing is ever
//! sent twice.

use std::io;

use rustix::io::Errno;
use taillight_core::{Clock, MonoClock, Stamp, Status};

use super::response::{MalformedResponse, ResponseHead};
use crate::net::Transport;

/// Room for the head of an answer.
const HEAD_MAX: usize = 16 << 10;
/// Kept of the body of an error.
const ERROR_MAX: usize = 4 << 10;
/// Longest body of an answer that is kept as text: a list of a thousand names.
pub const TEXT_MAX: usize = 8 << 20;
/// Interim answers to one request.
const INTERIM_MAX: u32 = 16;

/// Where the body of a good answer goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodySink {
    Drop,
    /// Into the slot's buffer, as far as it fits.
    Buffer,
    /// Into `text`, up to so many bytes.
    Text(usize),
    /// Keys of a listing are counted.
    Keys,
}

/// How far it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoProgress {
    /// Waits for the connection.
    Waits,
    /// The answer is there, whatever its code.
    Answered,
    /// The connection failed; it is closed.
    Failed(Status),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HttpPhase {
    Idle,
    Connect,
    Send,
    Head,
    Body,
}

/// A connection and the request on it.
pub struct HttpConnection {
    transport: Option<Transport>,
    phase: HttpPhase,
    /// The request's head (and a small body of its own); made by the caller.
    pub head: Vec<u8>,
    /// Part of the slot's buffer that follows the head.
    upload: (usize, usize),
    sent: usize,
    raw: Box<[u8]>,
    filled: usize,
    /// Interim answers so far.
    interim: u32,
    bodiless: bool,
    sink: BodySink,
    pub reply: ResponseHead,
    /// The answer's body where it is kept as text.
    pub text: Vec<u8>,
    pub moved: u64,
    pub keys: u32,
    matched: usize,
    stamp_first_byte: bool,
    event_driven: bool,
    /// When the first byte of the body was read.
    pub first: Option<Stamp>,
    /// What TLS says of the last failure, if it was its own.
    pub tls_error: Option<rustls::Error>,
}

/// What a request is besides its head.
pub struct RequestSpec {
    /// Part of the slot's buffer to send.
    pub upload: (usize, usize),
    /// The answer has no body: HEAD.
    pub bodiless: bool,
    /// Where its body goes.
    pub sink: BodySink,
    /// The first byte is stamped.
    pub stamp_first_byte: bool,
    /// An event says when there is something to read: none is tried right after sending.
    pub event_driven: bool,
}

impl HttpConnection {
    pub fn new() -> HttpConnection {
        HttpConnection {
            transport: None,
            phase: HttpPhase::Idle,
            head: Vec::with_capacity(2048),
            upload: (0, 0),
            sent: 0,
            raw: vec![0; HEAD_MAX].into_boxed_slice(),
            filled: 0,
            interim: 0,
            bodiless: false,
            sink: BodySink::Drop,
            reply: ResponseHead::default(),
            text: Vec::with_capacity(ERROR_MAX),
            moved: 0,
            keys: 0,
            matched: 0,
            stamp_first_byte: false,
            event_driven: false,
            first: None,
            tls_error: None,
        }
    }

    pub fn transport(&self) -> Option<&Transport> {
        self.transport.as_ref()
    }

    /// Whether some of the request is still to be sent.
    pub fn sends(&self) -> bool {
        self.phase == HttpPhase::Send
    }

    /// Takes a new connection, made or about to be.
    pub fn connect(&mut self, transport: Transport) {
        self.transport = Some(transport);
    }

    pub fn hang_up(&mut self) {
        self.transport = None;
        self.phase = HttpPhase::Idle;
    }

    /// Closes a connection without a request if something has come of it: it has ended, or is of no use.
    pub fn check_idle(&mut self) {
        if self.phase != HttpPhase::Idle {
            return;
        }
        let Some(transport) = &mut self.transport else {
            return;
        };
        let mut byte = [0];
        match transport.read(&mut byte) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            _ => self.transport = None,
        }
    }

    /// Begins the request in `head`. `fresh`: the connection is new and may not be made yet.
    pub fn begin(&mut self, spec: &RequestSpec, fresh: bool) {
        self.phase = if fresh { HttpPhase::Connect } else { HttpPhase::Send };
        self.upload = spec.upload;
        self.bodiless = spec.bodiless;
        self.sink = spec.sink;
        self.stamp_first_byte = spec.stamp_first_byte;
        self.event_driven = spec.event_driven;
        self.sent = 0;
        self.filled = 0;
        self.interim = 0;
        self.reply.code = 0;
        self.text.clear();
        self.moved = 0;
        self.keys = 0;
        self.matched = 0;
        self.first = None;
    }

    /// Goes on as far as the connection lets it. `slot` is sent from or read into; `scratch` holds
    /// what is not kept.
    pub fn drive(&mut self, slot: &mut [u8], scratch: &mut [u8]) -> IoProgress {
        match self.advance(slot, scratch) {
            Ok(()) => {
                self.phase = HttpPhase::Idle;
                if self.reply.close {
                    self.transport = None;
                }
                IoProgress::Answered
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => IoProgress::Waits,
            Err(e) => {
                self.hang_up();
                let tls = e.get_ref().and_then(|e| e.downcast_ref::<rustls::Error>());
                self.tls_error = tls.cloned();
                IoProgress::Failed(status(&e))
            }
        }
    }

    fn advance(&mut self, slot: &mut [u8], scratch: &mut [u8]) -> io::Result<()> {
        let Some(transport) = &mut self.transport else {
            return Err(Errno::NOTCONN.into());
        };
        loop {
            match self.phase {
                HttpPhase::Idle => return Err(io::ErrorKind::WouldBlock.into()),
                HttpPhase::Connect => {
                    transport.connected()?;
                    self.phase = HttpPhase::Send;
                }
                HttpPhase::Send => {
                    // An answer that came while sending has had its event already.
                    let at_once = self.event_driven && self.sent == 0;
                    let body = &slot[self.upload.0..self.upload.1];
                    let total = self.head.len() + body.len();
                    while self.sent < total {
                        let head = &self.head[self.sent.min(self.head.len())..];
                        let at = self.sent.saturating_sub(self.head.len());
                        self.sent += match transport.write(head, &body[at..]) {
                            // Made only when the first write is taken.
                            Err(e) if e.kind() == io::ErrorKind::NotConnected => {
                                return Err(io::ErrorKind::WouldBlock.into());
                            }
                            written => written?,
                        };
                    }
                    transport.flush()?;
                    self.phase = HttpPhase::Head;
                    if at_once && transport.is_plain() {
                        return Err(io::ErrorKind::WouldBlock.into());
                    }
                }
                HttpPhase::Head => {
                    let n = read(transport, &mut self.raw[self.filled..])?;
                    self.filled += n;
                    let parsed = self.reply.parse(&self.raw[..self.filled], self.bodiless);
                    match parsed.map_err(malformed)? {
                        None if self.filled == self.raw.len() => {
                            return Err(malformed(MalformedResponse));
                        }
                        None => {}
                        Some(length) => return self.headed(length, slot, scratch),
                    }
                }
                HttpPhase::Body => return self.body(slot, scratch),
            }
        }
    }

    /// The head is there, and perhaps some of the body behind it.
    fn headed(&mut self, length: usize, slot: &mut [u8], scratch: &mut [u8]) -> io::Result<()> {
        if self.reply.code < 200 {
            // An interim answer: the real one follows.
            self.interim += 1;
            if self.interim > INTERIM_MAX {
                return Err(malformed(MalformedResponse));
            }
            self.raw.copy_within(length..self.filled, 0);
            self.filled -= length;
            if self.filled == 0 {
                return self.advance(slot, scratch);
            }
            let parsed = self.reply.parse(&self.raw[..self.filled], self.bodiless);
            return match parsed.map_err(malformed)? {
                Some(length) if self.reply.code >= 200 => self.headed(length, slot, scratch),
                _ => self.advance(slot, scratch),
            };
        }
        if self.reply.code >= 300 {
            self.sink = BodySink::Text(ERROR_MAX);
        }
        self.phase = HttpPhase::Body;
        if self.filled > length {
            let raw = std::mem::take(&mut self.raw);
            let used = self.absorb(&raw[length..self.filled], slot);
            self.raw = raw;
            if used? < self.filled - length {
                self.reply.close = true; // bytes nobody asked for
            }
        }
        self.body(slot, scratch)
    }

    fn body(&mut self, slot: &mut [u8], scratch: &mut [u8]) -> io::Result<()> {
        while !self.reply.ended() {
            let Some(transport) = &mut self.transport else {
                return Err(Errno::NOTCONN.into());
            };
            let n = match transport.read(scratch) {
                Ok(0) if self.reply.framing == super::response::BodyFraming::Close => return Ok(()),
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            if self.absorb(&scratch[..n], slot)? < n {
                self.reply.close = true;
            }
            if matches!(self.sink, BodySink::Text(_)) && self.moved > TEXT_MAX as u64 {
                return Err(malformed(MalformedResponse));
            }
        }
        Ok(())
    }

    fn absorb(&mut self, bytes: &[u8], slot: &mut [u8]) -> io::Result<usize> {
        if self.stamp_first_byte && self.first.is_none() {
            self.first = Some(MonoClock.now());
        }
        let (sink, text, moved) = (self.sink, &mut self.text, &mut self.moved);
        let (keys, matched) = (&mut self.keys, &mut self.matched);
        let mut show = |data: &[u8]| {
            match sink {
                BodySink::Drop => {}
                BodySink::Buffer => {
                    let at = usize::try_from(*moved).unwrap_or(usize::MAX).min(slot.len());
                    let fits = data.len().min(slot.len() - at);
                    slot[at..at + fits].copy_from_slice(&data[..fits]);
                }
                BodySink::Text(most) => {
                    let fits = data.len().min(most.saturating_sub(text.len()));
                    text.extend_from_slice(&data[..fits]);
                }
                BodySink::Keys => *keys += count(matched, data),
            }
            *moved += data.len() as u64;
        };
        self.reply.absorb(bytes, &mut show).map_err(malformed)
    }
}

/// Counts `<Key>` over pieces; `matched` is how much of one the last piece ended in.
fn count(matched: &mut usize, data: &[u8]) -> u32 {
    const TAG: &[u8] = b"<Key>";
    let mut found = 0;
    for byte in data {
        // The tag begins with a byte that comes once in it: a mismatch falls back to its start.
        *matched = match *byte {
            b if b == TAG[*matched] => *matched + 1,
            b'<' => 1,
            _ => 0,
        };
        if *matched == TAG.len() {
            *matched = 0;
            found += 1;
        }
    }
    found
}

fn read(transport: &mut Transport, into: &mut [u8]) -> io::Result<usize> {
    loop {
        match transport.read(into) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

fn malformed(_: MalformedResponse) -> io::Error {
    Errno::PROTO.into()
}

/// A broken connection as the status of a record: its errno; `ECONNRESET` when the server hung
/// up, `EPROTO` for what is no HTTP or no TLS.
pub fn status(e: &io::Error) -> Status {
    let errno = match (e.raw_os_error(), e.kind()) {
        (Some(errno), _) if errno > 0 => errno,
        (_, io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset) => {
            Errno::CONNRESET.raw_os_error()
        }
        (_, io::ErrorKind::TimedOut) => return Status::TIMEOUT,
        _ => Errno::PROTO.raw_os_error(),
    };
    Status::errno(errno)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_counted_over_pieces() {
        let text = b"<C><Key>a</Key></C><<Key>b</Key><Keys/><Key>";
        for step in 1..text.len() {
            let mut matched = 0;
            let found: u32 = text.chunks(step).map(|p| count(&mut matched, p)).sum();
            assert_eq!(found, 3, "in steps of {step}");
        }
    }
}
