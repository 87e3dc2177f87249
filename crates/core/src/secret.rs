//! Passwords and keys in text that comes from outside: found, so that they are refused, and masked, so that nothing
//! repeats them (docs/credentials.md).
//!
//! What it knows: what stands before the `@` of an address, and the values of names such as `password` or
//! `X-Amz-Signature`. What it cannot know: a secret without either.

use std::borrow::Cow;
use std::ops::Range;

/// What to do about one, where it is refused.
pub const INSTEAD: &str = "remove it from the address, and give passwords and keys by the environment \
     (REDIS_PASSWORD, AWS_SECRET_ACCESS_KEY) or by a credentials file: docs/credentials.md";

/// What stands in a secret's place.
const MASK: &str = "***";

/// Parts of names that hold secrets, without `_`, `-` and capitals.
const PARTS: [&str; 14] = [
    "password",
    "passwd",
    "passphrase",
    "requirepass",
    "httppass",
    "secret",
    "token",
    "credential",
    "accesskey",
    "apikey",
    "s3key",
    "privatekey",
    "signature",
    "authorization",
];

/// Whole names, likewise.
const NAMES: [&str; 3] = ["pass", "pwd", "auth"];
/// Whole names in the query of an address; elsewhere they mean other things.
const OF_QUERIES: [&str; 2] = ["key", "sig"];

/// Whether a field, an option or a part of a query by this name holds a secret.
pub fn is_secret_name(name: &str) -> bool {
    let plain = |c: &char| !matches!(c, '_' | '-');
    let name: String = name.chars().filter(plain).map(|c| c.to_ascii_lowercase()).collect();
    NAMES.contains(&&*name) || PARTS.iter().any(|part| name.contains(part))
}

/// Whether a text holds a secret.
pub fn holds_secret(text: &str) -> bool {
    // As a whole, a password may have spaces.
    let whole = text.split_once("://").is_some_and(|(_, rest)| user_end(rest).is_some());
    whole || !secrets(text).is_empty()
}

/// The text with every secret masked.
pub fn masked(text: &str) -> Cow<'_, str> {
    let secrets = secrets(text);
    if secrets.is_empty() {
        return text.into();
    }
    let (mut out, mut from) = (String::with_capacity(text.len()), 0);
    for secret in secrets.into_iter().filter(|s| &text[s.clone()] != MASK) {
        // One may lie in another: a password in an address that is the value of a name.
        if secret.start >= from {
            out.push_str(&text[from..secret.start]);
            out.push_str(MASK);
        }
        from = from.max(secret.end);
    }
    out.push_str(&text[from..]);
    out.into()
}

/// Where secrets stand, by their start.
fn secrets(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    if text.contains('@') {
        let mut from = 0;
        for word in text.split_inclusive(|c: char| c.is_whitespace() || matches!(c, '"' | '`')) {
            found.extend(before_at(word).map(|r| from + r.start..from + r.end));
            from += word.len();
        }
    }
    found.extend(text.match_indices('=').filter_map(|(at, _)| value(text, at)));
    found.retain(|secret| !secret.is_empty());
    found.sort_by_key(|secret| (secret.start, secret.end));
    found
}

/// User and password of an address: before the last `@`, as a password may have one; without a scheme only where
/// there is a password, and a host with a port after it.
fn before_at(word: &str) -> Option<Range<usize>> {
    if let Some(scheme) = word.find("://") {
        let start = scheme + 3;
        return user_end(&word[start..]).map(|at| start..start + at);
    }
    let at = word.rfind('@')?;
    let start = word[..at].rfind(['=', '(', ',', '[', '\'']).map_or(0, |i| i + 1);
    let user = &word[start..at];
    let port = |(_, port): (&str, &str)| port.starts_with(|c: char| c.is_ascii_digit());
    let host = word[at + 1..].rsplit_once(':').is_some_and(port);
    (user.contains(':') && !user.contains('/') && host).then_some(start..at)
}

/// Where user and password end in an address without its scheme. An `@` behind host and port is a part of a path;
/// a password may hold a `/`, and then what is before it is no host with a port.
fn user_end(address: &str) -> Option<usize> {
    let host = address.split('/').next().unwrap_or_default();
    let port = |(_, port): (&str, &str)| port.bytes().all(|c| c.is_ascii_digit());
    let plain = host.ends_with(']') || host.rsplit_once(':').is_none_or(port);
    if host.contains('@') || !plain { address.rfind('@') } else { None }
}

/// The value of the `=` at a place, if its name says that it is a secret.
fn value(text: &str, equals: usize) -> Option<Range<usize>> {
    let before = text[..equals].trim_end_matches(' ');
    let part = |c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-');
    let name = before.rfind(part).map_or(before, |i| before[i..].trim_start_matches(part));
    let query = before[..before.len() - name.len()].ends_with(['?', '&']);
    if !(is_secret_name(name) || query && OF_QUERIES.contains(&name)) {
        return None;
    }
    let rest = text[equals + 1..].trim_start_matches(' ');
    let start = text.len() - rest.len();
    let (start, end) = match rest.chars().next() {
        Some(quote @ ('"' | '\'')) => (start + 1, rest[1..].find(quote).map(|i| i + 1)),
        _ => (start, rest.find(|c: char| c.is_whitespace() || "&,;)}\"'`".contains(c))),
    };
    Some(start..end.map_or(text.len(), |end| text.len() - rest.len() + end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_masked_and_the_rest_stays() {
        for (text, shown) in [
            ("redis://:pw@h:6379/0", "redis://***@h:6379/0"),
            ("(path: http://me:p@ss:w/o@h/b), at", "(path: http://***@h/b), at"),
            ("--path=redis://:pw@h and s3://k@h", "--path=redis://***@h and s3://***@h"),
            (":pw@127.0.0.1:6379", "***@127.0.0.1:6379"),
            ("redis://:p/w@h/0", "redis://***@h/0"),
            ("target.path=me:pw@h:1", "target.path=***@h:1"),
            (
                "https://h/b?X-Amz-Signature=abc&X-Amz-Date=1&key=z",
                "https://h/b?X-Amz-Signature=***&X-Amz-Date=1&key=***",
            ),
            ("redis.password=foo", "redis.password=***"),
            ("secret_key = \"a b\" # c", "secret_key = \"***\" # c"),
            ("http_s3_key=a", "http_s3_key=***"),
            ("{ aws_secret_access_key = 'x' }", "{ aws_secret_access_key = '***' }"),
            ("password=redis://:pw@h x", "password=*** x"),
        ] {
            assert_eq!(masked(text), shown, "{text}");
            assert!(holds_secret(text), "{text}");
            assert_eq!(masked(shown), shown, "a second time");
        }
        assert!(holds_secret("redis://:two words@h"));
    }

    #[test]
    fn what_holds_no_secret_is_left_alone() {
        for text in [
            "20ms@99.9",
            "http://127.0.0.1:9000/bench/taillight/",
            "remove what stands before the @, and set AWS_ACCESS_KEY_ID",
            "/user.slice/user@1000.service",
            "/mnt/a:b@c/file",
            "2026-11-27T12:30:00@nvme0",
            "http://h/bench/a@b/",
            "http://127.0.0.1:9000/a@b and http://[::1]/a@b",
            "workload.0.keys.count=100",
            "target.options.profile=bench",
            "passes=3 key=user12 compaction.bypass=1 hdrhistogram.sig=3",
            "password=",
            "redis://[::1]:7/0",
        ] {
            assert_eq!(masked(text), text);
            assert!(!holds_secret(text), "{text}");
        }
    }
}
