//! AWS Signature Version 4: a request's headers become one `authorization` value, by HMAC-SHA256 over the
//! canonical form, with the day's key kept. The caller says what time it is; credentials come from
//! `credentials`. After the first request of a day nothing is allocated.

use std::io::Write as _;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use sha2::{Digest, Sha256};

use super::credentials::Credentials;
use crate::net::digest::hmac;

/// SHA-256 of nothing, in hexadecimal.
pub const EMPTY_SHA256: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
/// The body is not part of the signature.
pub const UNSIGNED: &str = "UNSIGNED-PAYLOAD";

/// Signs requests of one worker.
pub struct Signer {
    credentials: Credentials,
    region: String,
    service: &'static str,
    key: [u8; 32],
    /// Day of `key`, `YYYYMMDD`.
    day: [u8; 8],
    /// Second of `stamp`, since the epoch.
    second: i64,
    stamp: [u8; 16],
    canonical: Vec<u8>,
}

/// A request as far as it is signed.
pub struct CanonicalRequest<'a> {
    /// `GET` and so on.
    pub method: &'a str,
    pub path: &'a [u8],
    /// Encoded query, its names in order.
    pub query: &'a [u8],
    /// Lower-case names in order, with values.
    pub headers: &'a [(&'a str, &'a [u8])],
    /// SHA-256 of the body in hexadecimal, or [`UNSIGNED`].
    pub payload: &'a str,
}

impl Signer {
    pub fn new(credentials: Credentials, region: &str, service: &'static str) -> Signer {
        Signer {
            credentials,
            region: region.to_owned(),
            service,
            key: [0; 32],
            day: [0; 8],
            second: i64::MIN,
            stamp: [b'0'; 16],
            canonical: Vec::with_capacity(2048),
        }
    }

    /// `x-amz-date` of this second since the epoch.
    pub fn stamp(&mut self, second: i64) -> [u8; 16] {
        if second == self.second {
            return self.stamp;
        }
        self.second = second;
        self.stamp = stamp(second);
        let mut day = [0; 8];
        day.copy_from_slice(&self.stamp[..8]);
        if day != self.day {
            self.day = day;
            self.key = self.day_key();
        }
        self.stamp
    }

    fn day_key(&self) -> [u8; 32] {
        let first = format!("AWS4{}", self.credentials.secret());
        let mut key = hmac(first.as_bytes(), &[&self.day]);
        for part in [self.region.as_str(), self.service, "aws4_request"] {
            key = hmac(&key, &[part.as_bytes()]);
        }
        key
    }

    /// Appends the value of the `authorization` header, for the second last given to `stamp`.
    pub fn authorize(&mut self, parts: &CanonicalRequest<'_>, out: &mut Vec<u8>) {
        self.canonical.clear();
        let text = &mut self.canonical;
        for line in [parts.method.as_bytes(), parts.path, parts.query] {
            text.extend_from_slice(line);
            text.push(b'\n');
        }
        for (name, value) in parts.headers {
            text.extend_from_slice(name.as_bytes());
            text.push(b':');
            text.extend_from_slice(value);
            text.push(b'\n');
        }
        text.push(b'\n');
        names(parts.headers, text);
        text.push(b'\n');
        text.extend_from_slice(parts.payload.as_bytes());
        let hash = hex(&Sha256::digest(&*text).into());
        let signature = hmac(
            &self.key,
            &[
                b"AWS4-HMAC-SHA256\n",
                &self.stamp,
                b"\n",
                &self.day,
                b"/",
                self.region.as_bytes(),
                b"/",
                self.service.as_bytes(),
                b"/aws4_request\n",
                &hash,
            ],
        );
        out.extend_from_slice(b"AWS4-HMAC-SHA256 Credential=");
        out.extend_from_slice(self.credentials.id().as_bytes());
        for part in [
            b"/" as &[u8],
            &self.day,
            b"/",
            self.region.as_bytes(),
            b"/",
            self.service.as_bytes(),
            b"/aws4_request, SignedHeaders=",
        ] {
            out.extend_from_slice(part);
        }
        names(parts.headers, out);
        out.extend_from_slice(b", Signature=");
        out.extend_from_slice(&hex(&signature));
    }
}

fn names(headers: &[(&str, &[u8])], out: &mut Vec<u8>) {
    for (n, (name, _)) in headers.iter().enumerate() {
        if n > 0 {
            out.push(b';');
        }
        out.extend_from_slice(name.as_bytes());
    }
}

/// SHA-256 or a signature in hexadecimal.
pub fn hex(bytes: &[u8; 32]) -> [u8; 64] {
    let mut out = [0; 64];
    // Cannot fail: the lengths fit.
    let _ = hex::encode_to_slice(bytes, &mut out);
    out
}

/// `YYYYMMDDTHHMMSSZ` of a second since the epoch.
fn stamp(second: i64) -> [u8; 16] {
    let time = Timestamp::from_second(second).unwrap_or(Timestamp::UNIX_EPOCH);
    let utc = TimeZone::UTC.to_datetime(time);
    let mut out = [0; 16];
    // Cannot fail: years have four digits for the next eight thousand years.
    let _ = write!(
        &mut out[..],
        "{:04}{:02}{:02}T{:02}{:02}{:02}Z",
        utc.year(),
        utc.month(),
        utc.day(),
        utc.hour(),
        utc.minute(),
        utc.second()
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds since the epoch of the examples.
    const MAY_2013: i64 = 1_369_353_600;
    const AUG_2015: i64 = 1_440_938_160;

    fn signature(signer: &mut Signer, second: i64, parts: &CanonicalRequest<'_>) -> String {
        signer.stamp(second);
        let mut out = Vec::new();
        signer.authorize(parts, &mut out);
        let text = String::from_utf8(out).unwrap();
        text.rsplit_once("Signature=").unwrap().1.to_owned()
    }

    #[test]
    fn stamps_are_utc() {
        assert_eq!(&stamp(MAY_2013), b"20130524T000000Z");
        assert_eq!(&stamp(AUG_2015), b"20150830T123600Z");
        assert_eq!(&stamp(951_782_400), b"20000229T000000Z");
        assert_eq!(&stamp(4_107_542_399), b"21000228T235959Z");
    }

    /// `get-vanilla` of AWS's Signature Version 4 test suite.
    #[test]
    fn the_plain_vector_of_the_test_suite() {
        let secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
        let credentials = Credentials::new("AKIDEXAMPLE", secret, None);
        let mut signer = Signer::new(credentials, "us-east-1", "service");
        let parts = CanonicalRequest {
            method: "GET",
            path: b"/",
            query: b"",
            headers: &[("host", b"example.amazonaws.com"), ("x-amz-date", b"20150830T123600Z")],
            payload: EMPTY_SHA256,
        };
        assert_eq!(
            signature(&mut signer, AUG_2015, &parts),
            "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"
        );
    }

    /// The examples of "Authenticating Requests: Using the Authorization Header" of the S3 manual.
    #[test]
    fn the_examples_of_the_manual() {
        let secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
        let credentials = Credentials::new("AKIAIOSFODNN7EXAMPLE", secret, None);
        let mut signer = Signer::new(credentials, "us-east-1", "s3");
        let host: (&str, &[u8]) = ("host", b"examplebucket.s3.amazonaws.com");
        let date: (&str, &[u8]) = ("x-amz-date", b"20130524T000000Z");
        let empty = ("x-amz-content-sha256", EMPTY_SHA256.as_bytes());
        let get = CanonicalRequest {
            method: "GET",
            path: b"/test.txt",
            query: b"",
            headers: &[host, ("range", b"bytes=0-9"), empty, date],
            payload: EMPTY_SHA256,
        };
        assert_eq!(
            signature(&mut signer, MAY_2013, &get),
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
        );
        let list = CanonicalRequest {
            path: b"/",
            query: b"max-keys=2&prefix=J",
            headers: &[host, empty, date],
            ..get
        };
        assert_eq!(
            signature(&mut signer, MAY_2013, &list),
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"
        );
        let body = hex(&Sha256::digest(b"Welcome to Amazon S3.").into());
        let put = CanonicalRequest {
            method: "PUT",
            path: b"/test%24file.text",
            query: b"",
            headers: &[
                ("date", b"Fri, 24 May 2013 00:00:00 GMT"),
                host,
                ("x-amz-content-sha256", &body),
                date,
                ("x-amz-storage-class", b"REDUCED_REDUNDANCY"),
            ],
            payload: std::str::from_utf8(&body).unwrap(),
        };
        assert_eq!(
            signature(&mut signer, MAY_2013, &put),
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"
        );
    }
}
