//! Signatures of the bare client (AWS signature version 4), over three headers of a request; the key of the day is
//! kept.

use jiff::Timestamp;
use sha2::{Digest, Sha256};
use taillight_s3test::hmac;

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
    second: i64,
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
        self.turn(Timestamp::now());
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
        let hash = hex::encode(Sha256::digest(&self.canonical));
        let to_sign = ["AWS4-HMAC-SHA256", &self.date, &self.scope, &hash].join("\n");
        let signature = hex::encode(hmac(&self.key, to_sign.as_bytes()));
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
    fn turn(&mut self, now: Timestamp) {
        if now.as_second() == self.second {
            return;
        }
        self.second = now.as_second();
        self.date = now.strftime("%Y%m%dT%H%M%SZ").to_string();
        let scope = format!("{}/us-east-1/s3/aws4_request", &self.date[..8]);
        if scope != self.scope {
            let first = format!("AWS4{}", self.secret);
            let key = hmac(first.as_bytes(), &self.date.as_bytes()[..8]);
            let words = ["us-east-1", "s3", "aws4_request"];
            self.key = words.iter().fold(key, |key, word| hmac(&key, word.as_bytes()));
            self.scope = scope;
        }
    }
}
