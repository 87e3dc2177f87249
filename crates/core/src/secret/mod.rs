//! Finds passwords and keys in text that comes from outside, so that a job with one is refused, and masks them, so that
//! no output repeats them (docs/credentials.md). Also masks the command lines of other programs.
//!
//! A secret is known by its place: before the `@` of an address, or as the value of a name such as `password` or
//! `X-Amz-Signature`; in command lines of other programs also behind their usual options. Other secrets are not found.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

/// The hint of an error that refuses a secret.
pub const INSTEAD: &str = "remove it from the address, and give passwords and keys by the environment \
     (REDIS_PASSWORD, PGPASSWORD, AWS_SECRET_ACCESS_KEY) or by a credentials file: docs/credentials.md";

/// What stands in a secret's place.
const MASK: &str = "***";

/// Parts of names that hold secrets, without `_`, `-` and capitals.
const PARTS: [&str; 13] = [
    "password",
    "passwd",
    "passphrase",
    "requirepass",
    "httppass",
    "secret",
    "credential",
    "accesskey",
    "apikey",
    "s3key",
    "privatekey",
    "signature",
    "authorization",
];

/// Whole names of fields, options and parts of queries, likewise. Elsewhere they mean other things: `pass=2` may
/// be the second pass.
const NAMES: [&str; 4] = ["pass", "pwd", "auth", "token"];
/// Whole names in the query of an address; elsewhere they mean other things.
const OF_QUERIES: [&str; 2] = ["key", "sig"];
/// Parts of names in the command lines of other programs, whose meaning is not known: rather one too many.
const FOREIGN_PARTS: [&str; 9] =
    ["pass", "pwd", "secret", "token", "key", "auth", "cred", "cookie", "user"];
/// Options of one letter that give other programs a user, with or without a password, or a password.
const FOREIGN_LETTERS: [char; 6] = ['a', 'p', 'u', 'w', 'P', 'U'];

/// By what a secret was known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretKind {
    /// It stands before the `@` of an address.
    BeforeAt,
    /// The value of this name.
    ValueOf(String),
}

impl fmt::Display for SecretKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SecretKind::BeforeAt => f.write_str("what stands before an @"),
            SecretKind::ValueOf(name) => write!(f, "the value of `{name}`"),
        }
    }
}

/// The name without `_` and `-`, in small letters.
fn plain(name: &str) -> String {
    let told = |c: &char| !matches!(c, '_' | '-');
    name.chars().filter(told).map(|c| c.to_ascii_lowercase()).collect()
}

/// Whether a field, an option or a part of a query by this name holds a secret.
pub fn is_secret_name(name: &str) -> bool {
    NAMES.contains(&&*plain(name)) || says_secret(name)
}

/// Whether a name says that it holds a secret, wherever it stands.
fn says_secret(name: &str) -> bool {
    let plain = plain(name);
    // Of the environment: MYSQL_PWD, REDISCLI_AUTH.
    let variable = !name.contains(|c: char| c.is_ascii_lowercase() || c == '-');
    let last = name.rsplit_once('_').map(|(_, last)| last.to_ascii_lowercase());
    plain.strip_suffix("token").is_some_and(|of| !of.is_empty())
        || PARTS.iter().any(|part| plain.contains(part))
        || variable && last.is_some_and(|last| NAMES.contains(&&*last))
}

/// By what a secret in a value is known; `None` where none is found.
pub fn secret_in(text: &str) -> Option<SecretKind> {
    // As a whole, a password may have spaces.
    let whole = text.split_once("://").is_some_and(|(_, rest)| user_end(rest).is_some());
    if whole {
        return Some(SecretKind::BeforeAt);
    }
    secrets(text).into_iter().next().map(|secret| secret.kind)
}

/// The text with every secret that is found replaced by `***`.
pub fn masked(text: &str) -> Cow<'_, str> {
    let secrets = secrets(text);
    if secrets.is_empty() {
        return text.into();
    }
    let (mut out, mut from) = (String::with_capacity(text.len()), 0);
    for secret in secrets.into_iter().map(|s| s.at).filter(|at| &text[at.clone()] != MASK) {
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

/// The command line of another program, its words separated by spaces. What may be a secret is masked: a value of a
/// name or option that sounds like one, user and password of an address, and what follows a one-letter option that
/// often is one (`-p`). In a word that holds several (`sh -c "..."`), all behind its first secret is masked.
pub fn masked_command<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let mut hide = false;
    let words = words.into_iter().enumerate().map(|(i, word)| {
        // A hidden word may be an option all the same: `-p -u me:pw`.
        let hidden = std::mem::replace(&mut hide, i > 0 && awaits_secret(word));
        if hidden { MASK.to_owned() } else { foreign_word(word, i > 0) }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// A word of another program's command line, its secrets masked.
fn foreign_word(word: &str, options: bool) -> String {
    let (mut out, mut hide) = (String::with_capacity(word.len()), false);
    for part in word.split_inclusive(char::is_whitespace) {
        if hide {
            out.push_str(MASK);
            return out;
        }
        let bare = part.trim_start_matches(['"', '\'', '`', '(']);
        let (open, bare) = (part.len() - bare.len(), bare.trim_end());
        // The program itself has a name, and no options before it.
        let options = options || !out.is_empty();
        match foreign_secret(bare, options) {
            Some(at) => {
                out.push_str(&masked(&part[..open + at.start]));
                out.push_str(MASK);
                // Up to the host of an address; else it may go on.
                if !part[open + at.end..].starts_with('@') {
                    return out;
                }
                out.push_str(&masked(&part[open + at.end..]));
            }
            None => out.push_str(&masked(part)),
        }
        hide = options && awaits_secret(bare);
    }
    out
}

/// Whether a name in the command line of another program may be that of a secret.
fn sounds(name: &str) -> bool {
    let name = plain(name);
    FOREIGN_PARTS.iter().any(|part| name.contains(part))
}

/// Where the secret of one part of a foreign command line stands in it.
fn foreign_secret(part: &str, options: bool) -> Option<Range<usize>> {
    let name = |at: usize| part[..at].rsplit(['=', ',', ';', '&', '?']).next().unwrap_or_default();
    if let Some((at, _)) = part.match_indices('=').find(|(at, _)| sounds(name(*at))) {
        return Some(at + 1..part.len());
    }
    // A header: `X-Api-Key:abc`; what is behind a space is the next part.
    let header = part.find(':').filter(|at| sounds(&part[..*at]) && at + 1 < part.len());
    let other = part.starts_with('/') || part.contains("://");
    if let Some(at) = header.filter(|_| !other) {
        return Some(at + 1..part.len());
    }
    if let Some(at) = part.rfind('@') {
        let scheme = part[..at].find("://").map(|i| i + 3);
        let apart = || part[..at].rfind(['=', '(', ',', '[', '\'']).map_or(0, |i| i + 1);
        let start = scheme.unwrap_or_else(apart);
        if scheme.is_some() || part[start..at].contains(':') {
            return Some(start..at);
        }
    }
    let letter = part.strip_prefix('-')?.chars().next()?;
    (options && part.len() > 2 && FOREIGN_LETTERS.contains(&letter)).then_some(2..part.len())
}

/// Whether a word of a foreign command line is an option, or the name of a header, whose secret follows.
fn awaits_secret(word: &str) -> bool {
    if let Some(name) = word.strip_suffix(':') {
        return sounds(name);
    }
    let Some(name) = word.strip_prefix('-').filter(|name| !name.contains('=')) else {
        return false;
    };
    // Options of one letter stand together, the one with a value last.
    let together = name.len() <= 4 && name.chars().all(|c| c.is_ascii_alphabetic());
    sounds(name) || together && name.ends_with(FOREIGN_LETTERS)
}

/// A secret in a text.
struct FoundSecret {
    at: Range<usize>,
    kind: SecretKind,
}

/// Secrets of a text by their start.
fn secrets(text: &str) -> Vec<FoundSecret> {
    let mut found = Vec::new();
    if text.contains('@') {
        let mut from = 0;
        for word in text.split_inclusive(|c: char| c.is_whitespace() || matches!(c, '"' | '`')) {
            let at = before_at(word).map(|r| from + r.start..from + r.end);
            found.extend(at.map(|at| FoundSecret { at, kind: SecretKind::BeforeAt }));
            from += word.len();
        }
    }
    found.extend(text.match_indices('=').filter_map(|(at, _)| value(text, at)));
    found.retain(|secret| !secret.at.is_empty());
    found.sort_by_key(|secret| (secret.at.start, secret.at.end));
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
fn value(text: &str, equals: usize) -> Option<FoundSecret> {
    let before = text[..equals].trim_end_matches(' ');
    let part = |c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-');
    let name = before.rfind(part).map_or(before, |i| before[i..].trim_start_matches(part));
    let lead = &before[..before.len() - name.len()];
    let rest = text[equals + 1..].trim_start_matches(' ');
    let quoted = rest.starts_with(['"', '\'']);
    let query = lead.ends_with(['?', '&']);
    let apart = |c: char| c.is_whitespace() || "\"'`=({,".contains(c);
    let word = lead.rfind(apart).map_or(lead, |i| lead[i..].trim_start_matches(apart));
    let secret = match () {
        () if query => is_secret_name(name) || OF_QUERIES.contains(&name),
        // A directory of this name.
        () if lead.ends_with('/') && !word.contains("://") => false,
        () if says_secret(name) => true,
        // An option, or a field with its text.
        () => (name.starts_with('-') || quoted || before.len() < equals) && is_secret_name(name),
    };
    if !secret {
        return None;
    }
    let start = text.len() - rest.len();
    let (start, end) = match rest.chars().next() {
        Some(quote @ ('"' | '\'')) => (start + 1, rest[1..].find(quote).map(|i| i + 1)),
        _ => (start, rest.find(|c: char| c.is_whitespace() || "&,;)}\"'`".contains(c))),
    };
    let end = end.map_or(text.len(), |end| text.len() - rest.len() + end);
    Some(FoundSecret { at: start..end, kind: SecretKind::ValueOf(name.to_owned()) })
}

#[cfg(test)]
mod tests;
