//! Signatures of the bare client: the three headers that every request has, the day's key kept.

use std::time::{SystemTime, UNIX_EPOCH};

use sha2::{Digest, Sha256};

/// The body is not part of the signature, as in Taillight unless asked otherwise.
pub const UNSIGNED: &str = "UNSIGNED-PAYLOAD";
/// SHA-256 of nothing.
pub const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
/// The headers that are signed.
const HEADERS: &str = "host;x-amz-content-sha256;x-amz-date";

/// Signs for one pair of credentials and one server.
pub struct BareSigner {
    id: String,
    secret: String,
    host: String,
    second: u64,
    /// `YYYYMMDDTHHMMSSZ` of that second.
    date: String,
    /// `YYYYMMDD/us-east-1/s3/aws4_request` of its day, and the key for it.
    scope: String,
    key: [u8; 32],
    canonical: String,
}

impl BareSigner {
    /// For requests to `host`.
    pub fn new(id: &str, secret: &str, host: &str) -> BareSigner {
        BareSigner {
            id: id.to_owned(),
            secret: secret.to_owned(),
            host: host.to_owned(),
            second: 0,
            date: String::new(),
            scope: String::new(),
            key: [0; 32],
            canonical: String::with_capacity(512),
        }
    }

    /// The values of `x-amz-date` and `authorization`, now.
    pub fn sign(&mut self, method: &str, path: &str, payload: &str) -> (&str, String) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        self.turn(now.map_or(0, |d| d.as_secs()));
        self.canonical.clear();
        for part in [
            method,
            "\n",
            path,
            "\n\nhost:",
            &self.host,
            "\nx-amz-content-sha256:",
            payload,
            "\nx-amz-date:",
            &self.date,
            "\n\n",
            HEADERS,
            "\n",
            payload,
        ] {
            self.canonical.push_str(part);
        }
        let hash = hex(&Sha256::digest(&self.canonical).into());
        let parts = ["AWS4-HMAC-SHA256\n", &self.date, "\n", &self.scope, "\n", &hash];
        let signature = hex(&hmac(&self.key, &parts));
        let line = [
            "AWS4-HMAC-SHA256 Credential=",
            &self.id,
            "/",
            &self.scope,
            ", SignedHeaders=",
            HEADERS,
            ", Signature=",
            &signature,
        ];
        (&self.date, line.concat())
    }

    /// Makes date and key anew when their second or day is over.
    fn turn(&mut self, second: u64) {
        if second == self.second {
            return;
        }
        self.second = second;
        let (year, month, day) = civil(second / 86_400);
        let (h, m, s) = (second / 3600 % 24, second / 60 % 60, second % 60);
        self.date = format!("{year:04}{month:02}{day:02}T{h:02}{m:02}{s:02}Z");
        let scope = format!("{}/us-east-1/s3/aws4_request", &self.date[..8]);
        if scope != self.scope {
            let first = format!("AWS4{}", self.secret);
            let key = hmac(first.as_bytes(), &[&self.date[..8]]);
            let words = ["us-east-1", "s3", "aws4_request"];
            self.key = words.iter().fold(key, |key, word| hmac(&key, &[*word]));
            self.scope = scope;
        }
    }
}

/// Year, month and day of a day since 1970.
fn civil(mut days: u64) -> (u64, u64, u64) {
    let leap = |y: u64| (y.is_multiple_of(4) && !y.is_multiple_of(100)) || y.is_multiple_of(400);
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in lengths {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

/// RFC 2104; keys here are never longer than a block.
fn hmac(key: &[u8], parts: &[&str]) -> [u8; 32] {
    let pad = |with: u8| {
        let mut block = [with; 64];
        block.iter_mut().zip(key).for_each(|(b, k)| *b ^= k);
        block
    };
    let mut inner = Sha256::new_with_prefix(pad(0x36));
    parts.iter().for_each(|part| inner.update(part));
    let mut outer = Sha256::new_with_prefix(pad(0x5c));
    outer.update(inner.finalize());
    outer.finalize().into()
}

fn hex(bytes: &[u8; 32]) -> String {
    let digits = b"0123456789abcdef";
    let pair = |b: &u8| [digits[usize::from(b >> 4)], digits[usize::from(b & 15)]];
    let text: Vec<u8> = bytes.iter().flat_map(pair).collect();
    String::from_utf8(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_of_the_calendar() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(951_782_400 / 86_400), (2000, 2, 29));
        assert_eq!(civil(1_369_353_600 / 86_400), (2013, 5, 24));
    }
}
