//! Checks AWS Signature Version 4 as a server does: from the request as it came, written from the
//! manual and sharing nothing with the client it is to test.

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use sha2::{Digest, Sha256};

use crate::http::{HttpReply, HttpRequest};
use crate::text;

/// Seconds that a request's clock may be off.
const SKEW: i64 = 15 * 60;
/// Region of this server.
const REGION: &str = "us-east-1";

/// Checks a request against one pair of credentials.
pub fn check(request: &HttpRequest, id: &str, secret: &str) -> Result<(), HttpReply> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |d| d.as_secs() as i64);
    let denied = |why: &str| HttpReply::error(403, "AccessDenied", why);
    let line = request.header("authorization");
    let line = line.ok_or_else(|| denied("no authorization"))?;
    let claim = SignatureClaim::parse(line).ok_or_else(|| {
        HttpReply::error(400, "AuthorizationHeaderMalformed", "not as it should be")
    })?;
    if claim.id != id {
        return Err(HttpReply::error(403, "InvalidAccessKeyId", "nobody has this id"));
    }
    if claim.region != REGION || claim.rest != "s3/aws4_request" {
        let word = "AuthorizationHeaderMalformed";
        return Err(HttpReply::error(400, word, "another region or service"));
    }
    let date = request.header("x-amz-date").unwrap_or_default();
    let then = seconds(date).ok_or_else(|| denied("no date"))?;
    if !date.starts_with(claim.day) || (then - now).abs() > SKEW {
        return Err(HttpReply::error(403, "RequestTimeTooSkewed", "clocks differ"));
    }
    let signed = |name: &str| claim.headers.split(';').any(|s| s == name);
    let must = |name: &str| name == "host" || name.starts_with("x-amz-");
    let loose = request.headers.iter().find(|(n, _)| must(n) && !signed(n));
    if loose.is_some() || !signed("host") {
        return Err(denied("headers that are not signed"));
    }
    let payload = request.header("x-amz-content-sha256").unwrap_or_default();
    let wrong = || HttpReply::error(403, "SignatureDoesNotMatch", "signed otherwise");
    let expected = signature(request, &claim, date, payload, secret).ok_or_else(wrong)?;
    if expected != claim.signature {
        return Err(wrong());
    }
    if payload != "UNSIGNED-PAYLOAD" && payload != text::sha256(&request.body) {
        let word = "XAmzContentSHA256Mismatch";
        return Err(HttpReply::error(400, word, "the body is another"));
    }
    Ok(())
}

/// What the `authorization` header says.
struct SignatureClaim<'a> {
    id: &'a str,
    day: &'a str,
    region: &'a str,
    rest: &'a str,
    headers: &'a str,
    signature: &'a str,
}

impl<'a> SignatureClaim<'a> {
    fn parse(line: &'a str) -> Option<SignatureClaim<'a>> {
        let fields = line.strip_prefix("AWS4-HMAC-SHA256 ")?;
        let field = |name: &str| {
            let mut fields = fields.split(',').map(str::trim);
            fields.find_map(|f| f.strip_prefix(name)?.strip_prefix('='))
        };
        let mut scope = field("Credential")?.splitn(4, '/');
        Some(SignatureClaim {
            id: scope.next()?,
            day: scope.next()?,
            region: scope.next()?,
            rest: scope.next()?,
            headers: field("SignedHeaders")?,
            signature: field("Signature")?,
        })
    }
}

/// The signature that this request should have; `None` when it cannot have one.
fn signature(
    r: &HttpRequest,
    claim: &SignatureClaim<'_>,
    date: &str,
    payload: &str,
    key: &str,
) -> Option<String> {
    let mut pairs: Vec<(String, String)> = text::query(&r.query)?;
    pairs
        .iter_mut()
        .for_each(|(n, v)| (*n, *v) = (text::encoded(n, false), text::encoded(v, false)));
    pairs.sort();
    let query: Vec<String> = pairs.iter().map(|(n, v)| format!("{n}={v}")).collect();
    let path = text::encoded(&text::decoded(&r.path)?, true);
    let mut canonical = format!("{}\n{path}\n{}\n", r.method, query.join("&"));
    for name in claim.headers.split(';') {
        let words: Vec<&str> = r.header(name)?.split_whitespace().collect();
        canonical += &format!("{name}:{}\n", words.join(" "));
    }
    canonical += &format!("\n{}\n{payload}", claim.headers);
    let scope = format!("{}/{}/{}", claim.day, claim.region, claim.rest);
    let hash = text::sha256(canonical.as_bytes());
    let to_sign = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{hash}");
    let mut key = format!("AWS4{key}").into_bytes();
    for part in scope.split('/') {
        key = hmac(&key, part.as_bytes()).to_vec();
    }
    Some(hex::encode(hmac(&key, to_sign.as_bytes())))
}

/// RFC 2104 over SHA-256.
pub fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
    let key = match key.len() {
        0..=64 => key.to_vec(),
        _ => Sha256::digest(key).to_vec(),
    };
    let pad = |with: u8| {
        let mut block = [with; 64];
        block.iter_mut().zip(&key).for_each(|(b, k)| *b ^= k);
        block
    };
    let inner = Sha256::new_with_prefix(pad(0x36)).chain_update(message);
    let outer = Sha256::new_with_prefix(pad(0x5c)).chain_update(inner.finalize());
    outer.finalize().into()
}

/// `YYYYMMDDTHHMMSSZ` in seconds since the epoch.
fn seconds(date: &str) -> Option<i64> {
    let moment = DateTime::strptime("%Y%m%dT%H%M%SZ", date).ok()?;
    Some(moment.to_zoned(TimeZone::UTC).ok()?.timestamp().as_second())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// "GET Object" of the S3 manual's examples for the authorization header.
    #[test]
    fn the_example_of_the_manual() {
        let empty = text::sha256(b"");
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let request = HttpRequest {
            method: "GET".to_owned(),
            path: "/test.txt".to_owned(),
            headers: vec![
                header("host", "examplebucket.s3.amazonaws.com"),
                header("range", "bytes=0-9"),
                header("x-amz-content-sha256", &empty),
                header("x-amz-date", "20130524T000000Z"),
            ],
            ..HttpRequest::default()
        };
        let line = "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/\
                    aws4_request,SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,\
                    Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41";
        let claim = SignatureClaim::parse(line).expect("a claim");
        let secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
        let made = signature(&request, &claim, "20130524T000000Z", &empty, secret);
        assert_eq!(made.as_deref(), Some(claim.signature));
        let other = signature(&request, &claim, "20130524T000001Z", &empty, secret);
        assert_ne!(other, made);
    }

    #[test]
    fn dates_are_utc() {
        assert_eq!(seconds("19700101T000000Z"), Some(0));
        assert_eq!(seconds("20130524T000000Z"), Some(1_369_353_600));
        assert_eq!(seconds("20240301T000001Z"), Some(1_709_251_201));
        assert_eq!(seconds("20240301T000001"), None);
        assert_eq!(seconds("2024-03-01T0000Z"), None);
    }

    #[test]
    fn strangers_are_not_let_in() {
        let mut request = HttpRequest::default();
        let code = |r: &HttpRequest| check(r, "me", "s").err().map(|reply| reply.code);
        assert_eq!(code(&request), Some(403));
        for (line, wanted) in [
            ("Basic x", 400),
            (
                "AWS4-HMAC-SHA256 Credential=you/1/us-east-1/s3/aws4_request,SignedHeaders=host,Signature=0",
                403,
            ),
            (
                "AWS4-HMAC-SHA256 Credential=me/1/mars/s3/aws4_request,SignedHeaders=host,Signature=0",
                400,
            ),
            (
                "AWS4-HMAC-SHA256 Credential=me/1/us-east-1/s3/aws4_request,SignedHeaders=host,Signature=0",
                403,
            ),
        ] {
            request.headers = vec![("authorization".to_owned(), line.to_owned())];
            assert_eq!(code(&request), Some(wanted), "{line}");
        }
    }
}
