//! Heads of S3 requests as bytes: path, query, headers, signature. The caller sends the bodies.

use std::io::Write as _;
use std::sync::{Arc, OnceLock};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rustix::time::ClockId;
use sha2::{Digest, Sha256};

use super::credentials::Credentials;
use super::location::PrefixLocation;
use super::options::{Addressing, Checksum, S3Options};
use super::sign::{CanonicalRequest, EMPTY_SHA256, Signer, UNSIGNED, hex};

/// Writes requests of one worker. Nothing is allocated once its buffers have grown.
pub struct RequestWriter {
    signer: Signer,
    /// The `host` header of each server.
    hosts: Vec<String>,
    /// What paths begin with.
    root: String,
    checksum: Checksum,
    signed: bool,
    path: Vec<u8>,
    sum: String,
    token: Option<String>,
    /// The run that objects name as their maker, once it is known.
    pub maker: Arc<OnceLock<String>>,
}

/// The metadata by which an object names its maker.
pub const MAKER: &str = "x-amz-meta-taillight-run";

/// One request.
pub struct S3Request<'a> {
    /// `GET` and so on.
    pub method: &'static str,
    /// Name of the object; empty for the bucket itself.
    pub name: &'a [u8],
    /// Query with its names in order, encoded.
    pub query: &'a str,
    pub body: &'a [u8],
    /// Bytes to get, first and last.
    pub range: Option<(u64, u64)>,
    /// The body is that of an object or of a part: checksum and signature as the options say.
    pub data: bool,
    /// The body's SHA-256 goes along in any case: deletion of many asks for it.
    pub hashed: bool,
    /// Begins an upload in parts: says which checksum they will have.
    pub creates: bool,
}

impl<'a> S3Request<'a> {
    /// Without body and query.
    pub fn new(method: &'static str, name: &'a [u8]) -> S3Request<'a> {
        S3Request {
            method,
            name,
            query: "",
            body: &[],
            range: None,
            data: false,
            hashed: false,
            creates: false,
        }
    }
}

impl RequestWriter {
    pub fn new(
        location: &PrefixLocation,
        o: &S3Options,
        credentials: Credentials,
    ) -> RequestWriter {
        let virtual_hosted = o.addressing == Addressing::Virtual;
        let standard = if location.tls { 443 } else { 80 };
        let host = |h: &super::location::Endpoint| {
            let name = match virtual_hosted {
                true => format!("{}.{}", location.bucket, h.name),
                false => h.name.clone(),
            };
            match h.port == standard {
                true => name,
                false => format!("{name}:{}", h.port),
            }
        };
        RequestWriter {
            token: credentials.token().map(str::to_owned),
            signer: Signer::new(credentials, &o.region, "s3"),
            hosts: location.hosts.iter().map(host).collect(),
            root: match virtual_hosted {
                true => "/".to_owned(),
                false => format!("/{}/", location.bucket),
            },
            checksum: o.checksum,
            signed: o.signed_payload,
            path: Vec::with_capacity(1024),
            sum: String::with_capacity(64),
            maker: Arc::default(),
        }
    }

    /// S3's name of the options' checksum, and the value of a checksum in the request written last; empty if that
    /// had none.
    pub fn checksum(&self) -> Option<(&'static str, &str)> {
        match self.checksum {
            Checksum::None => None,
            Checksum::Crc32c => Some(("CRC32C", &self.sum)),
            Checksum::Sha256 => Some(("SHA256", &self.sum)),
        }
    }

    /// Replaces `out` by the head of a request to server number `host`; the caller sends the body.
    pub fn write(&mut self, host: usize, r: &S3Request<'_>, out: &mut Vec<u8>) {
        let second = rustix::time::clock_gettime(ClockId::RealtimeCoarse).tv_sec;
        let date = self.signer.stamp(second);
        self.path.clear();
        self.path.extend_from_slice(self.root.as_bytes());
        encode(r.name, true, &mut self.path);

        let digest = r.data && (self.signed || self.checksum == Checksum::Sha256);
        let digest: Option<[u8; 32]> = (digest || r.hashed).then(|| Sha256::digest(r.body).into());
        let digits = digest.map(|d| hex(&d));
        let payload = match &digits {
            _ if r.body.is_empty() && !r.data => EMPTY_SHA256,
            Some(digits) if self.signed || !r.data => std::str::from_utf8(digits).unwrap_or(""),
            _ => UNSIGNED,
        };
        let sum_header = self.sum(r, digest.as_ref());
        let kind = self.checksum().map(|(kind, _)| kind);
        let host = self.hosts.get(host).map_or("", String::as_str);

        let mut headers: [(&str, &[u8]); 6] = [("", b""); 6];
        let mut n = 0;
        let mut add = |name, value| {
            headers[n] = (name, value);
            n += 1;
        };
        add("host", host.as_bytes());
        if let Some(name) = sum_header {
            add(name, self.sum.as_bytes());
        }
        if let (true, Some(kind)) = (r.creates, kind) {
            add("x-amz-checksum-algorithm", kind.as_bytes());
        }
        add("x-amz-content-sha256", payload.as_bytes());
        add("x-amz-date", &date);
        // An upload in parts has it of the request that begins it.
        let makes = r.creates || (r.data && r.query.is_empty());
        if let (true, Some(run)) = (makes, self.maker.get()) {
            add(MAKER, run.as_bytes());
        }
        if let Some(token) = &self.token {
            add("x-amz-security-token", token.as_bytes());
        }
        let headers = &headers[..n];
        out.clear();
        for part in [r.method.as_bytes(), b" ", &self.path] {
            out.extend_from_slice(part);
        }
        if !r.query.is_empty() {
            out.push(b'?');
            out.extend_from_slice(r.query.as_bytes());
        }
        out.extend_from_slice(b" HTTP/1.1\r\n");
        for (name, value) in headers {
            line(name, value, out);
        }
        if let Some((first, last)) = r.range {
            let _ = write!(out, "range: bytes={first}-{last}\r\n");
        }
        if matches!(r.method, "PUT" | "POST") {
            let _ = write!(out, "content-length: {}\r\n", r.body.len());
        }
        out.extend_from_slice(b"authorization: ");
        let parts = CanonicalRequest {
            method: r.method,
            path: &self.path,
            query: r.query.as_bytes(),
            headers,
            payload,
        };
        self.signer.authorize(&parts, out);
        out.extend_from_slice(b"\r\n\r\n");
    }

    /// Makes the checksum of the body; the name of its header.
    fn sum(&mut self, r: &S3Request<'_>, digest: Option<&[u8; 32]>) -> Option<&'static str> {
        self.sum.clear();
        let kind = match (r.data, r.hashed) {
            (true, _) => self.checksum,
            (_, true) => Checksum::Sha256,
            _ => Checksum::None,
        };
        match kind {
            Checksum::None => None,
            Checksum::Crc32c => {
                let crc = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, r.body);
                BASE64_STANDARD.encode_string((crc as u32).to_be_bytes(), &mut self.sum);
                Some("x-amz-checksum-crc32c")
            }
            Checksum::Sha256 => {
                BASE64_STANDARD.encode_string(digest?, &mut self.sum);
                Some("x-amz-checksum-sha256")
            }
        }
    }
}

fn line(name: &str, value: &[u8], out: &mut Vec<u8>) {
    for part in [name.as_bytes(), b": ", value, b"\r\n"] {
        out.extend_from_slice(part);
    }
}

/// Percent-encodes as signatures want it: everything but letters, digits and `-._~` (and `/` in
/// paths).
pub fn encode(text: &[u8], path: bool, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for byte in text {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(*byte),
            b'/' if path => out.push(b'/'),
            other => out.extend_from_slice(&[
                b'%',
                DIGITS[usize::from(other >> 4)],
                DIGITS[usize::from(other & 15)],
            ]),
        }
    }
}

/// [`encode`] of a value in a query.
pub fn encoded(text: &str) -> String {
    let mut out = Vec::new();
    encode(text.as_bytes(), false, &mut out);
    String::from_utf8(out).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::DriverOptions;

    fn api(options: &str, token: Option<&str>) -> RequestWriter {
        let location = PrefixLocation::parse(Some("http://127.0.0.1:9000/bench/p/"), &[]).unwrap();
        let options = S3Options::parse("s3", &options.parse().unwrap()).unwrap();
        RequestWriter::new(&location, &options, Credentials::new("ID", "SECRET", token))
    }
    fn text(api: &mut RequestWriter, r: &S3Request<'_>) -> String {
        let mut out = Vec::new();
        api.write(0, r, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn requests_are_signed_and_hold_no_secret() {
        let mut path = api("", Some("TOKEN"));
        let get = text(&mut path, &S3Request::new("GET", b"p/a b"));
        assert!(get.starts_with("GET /bench/p/a%20b HTTP/1.1\r\nhost: 127.0.0.1:9000\r\n"));
        assert!(
            get.contains(
                "SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token, "
            )
        );
        assert!(!get.contains("SECRET"));
        let virtual_hosted =
            text(&mut api("addressing = \"virtual\"", None), &S3Request::new("GET", b"k"));
        assert!(virtual_hosted.starts_with("GET /k HTTP/1.1\r\nhost: bench.127.0.0.1:9000\r\n"));
    }

    #[test]
    fn checksums_of_uploads() {
        let put = S3Request { body: b"123456789", data: true, ..S3Request::new("PUT", b"k") };
        let plain = text(&mut api("", None), &put);
        assert!(plain.contains("UNSIGNED-PAYLOAD") && plain.contains("content-length: 9\r\n"));
        // The check value of CRC-32C is E3069283.
        let crc = text(&mut api("checksum = \"crc32c\"", None), &put);
        assert!(crc.contains("x-amz-checksum-crc32c: 4waSgw==\r\n"), "{crc}");
        let sha = text(&mut api("checksum = \"sha256\"\nsigned_payload = true", None), &put);
        assert!(sha.contains("x-amz-checksum-sha256: FeKw08M4"), "{sha}");
        assert!(sha.contains("x-amz-content-sha256: 15e2b0d3c33891eb"), "{sha}");
    }
}
