//! Where the objects are: `http(s)://HOST[:PORT]/BUCKET[/PREFIX/]`, and further endpoints of the
//! same store. A run never owns a whole bucket: without a prefix it keeps to one of its own.

use std::net::IpAddr;

use taillight_core::{Error, Result};

use super::options::Addressing;

/// A store, its bucket and the prefix that the run keeps to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrefixLocation {
    pub tls: bool,
    /// Servers, the first from the path.
    pub hosts: Vec<Endpoint>,
    pub bucket: String,
    /// Ends in `/`.
    pub prefix: String,
}

/// A server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Name or address; an IPv6 address in brackets.
    pub name: String,
    pub port: u16,
}

impl Endpoint {
    /// The name as certificates and resolvers know it.
    pub fn bare(&self) -> &str {
        self.name.trim_start_matches('[').trim_end_matches(']')
    }
}

/// The prefix of a path that names none.
pub const PREFIX: &str = "taillight/";

const FORM: &str = "the form is http(s)://HOST[:PORT]/BUCKET[/PREFIX/], for example \
    http://127.0.0.1:9000/bench/taillight/";

impl PrefixLocation {
    /// From the path and the further endpoints, `HOST[:PORT]` each. Errors: `Usage` saying the
    /// form; no part of a URL that could be a password is shown.
    pub fn parse(path: Option<&str>, more: &[String]) -> Result<PrefixLocation> {
        let path = path.filter(|p| !p.is_empty()).ok_or_else(|| {
            Error::usage("driver `s3` needs a path: it has no default endpoint").hint(FORM)
        })?;
        let (tls, rest) = match (path.strip_prefix("http://"), path.strip_prefix("https://")) {
            (Some(rest), _) => (false, rest),
            (_, Some(rest)) => (true, rest),
            _ => return Err(Error::usage("the path is no address of a store").hint(FORM)),
        };
        let (server, rest) = rest.split_once('/').unwrap_or((rest, ""));
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let mut hosts = vec![host(server, tls)?];
        for endpoint in more {
            hosts.push(host(endpoint, tls)?);
        }
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-._".contains(&b);
        let wrong = match bucket.len() {
            0 => Some("the path names no bucket"),
            3..=63 if bucket.bytes().all(plain) => None,
            3..=63 => Some("the name of a bucket has small letters, digits and - . _ only"),
            _ => Some("the name of a bucket has 3 to 63 characters"),
        };
        if let Some(wrong) = wrong {
            return Err(Error::usage(wrong).with("bucket", bucket).hint(FORM));
        }
        let prefix = if prefix.is_empty() { PREFIX } else { prefix };
        let safe = |b: u8| b.is_ascii_alphanumeric() || b"-._/".contains(&b);
        if !prefix.ends_with('/') || prefix.starts_with('/') || !prefix.bytes().all(safe) {
            return Err(Error::usage("the path needs a prefix of its own, ending in /")
                .with("prefix", prefix)
                .hint(format!(
                    "letters, digits and - . _ / make a prefix; nothing outside it is touched; \
                     {FORM}"
                )));
        }
        let strange = |part: &str| part.is_empty() || part == "." || part == "..";
        if prefix.trim_end_matches('/').split('/').any(strange) || prefix.len() > 200 {
            return Err(Error::usage("the prefix has parts that stores refuse")
                .with("prefix", prefix)
                .hint("no empty part, no . or .., and at most 200 bytes"));
        }
        Ok(PrefixLocation { tls, hosts, bucket: bucket.to_owned(), prefix: prefix.to_owned() })
    }

    /// Whether servers can be asked in this style: a bucket stands before a name, not before the
    /// number of an address. Errors: `Usage` naming the server that cannot.
    pub fn takes(&self, addressing: Addressing) -> Result<()> {
        let number = |host: &&Endpoint| host.bare().parse::<IpAddr>().is_ok();
        match self.hosts.iter().find(number) {
            Some(host) if addressing == Addressing::Virtual => {
                Err(Error::usage("virtual-host style needs the names of servers")
                    .with("server", &host.name)
                    .hint(
                        "give the name instead of the number, or use options.addressing = \"path\"",
                    ))
            }
            _ => Ok(()),
        }
    }

    /// As a path, with port and prefix, of the first server.
    pub fn to_text(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        let first = self.hosts.first();
        let (name, port) = first.map_or(("", 0), |h| (h.name.as_str(), h.port));
        format!("{scheme}://{name}:{port}/{}/{}", self.bucket, self.prefix)
    }
}

fn host(text: &str, tls: bool) -> Result<Endpoint> {
    if text.contains('@') {
        return Err(Error::usage("an address holds no credentials").hint(
            "remove what stands before the @, and set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        ));
    }
    let wrong = || Error::usage("this is no HOST[:PORT]").with("endpoint", text).hint(FORM);
    let colon = match text.rfind(']') {
        Some(end) => text[end..].find(':').map(|at| end + at),
        None => text.rfind(':'),
    };
    let (name, port) = match colon {
        Some(at) => (&text[..at], text[at + 1..].parse().map_err(|_| wrong())?),
        None => (text, if tls { 443 } else { 80 }),
    };
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._[]:".contains(&b);
    if name.is_empty() || port == 0 || !name.bytes().all(plain) {
        return Err(wrong());
    }
    Ok(Endpoint { name: name.to_owned(), port })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_everything() {
        let more = ["h2:9001".to_owned()];
        let p = PrefixLocation::parse(Some("http://127.0.0.1:9000/bench/a/b/"), &more).unwrap();
        assert!(!p.tls);
        assert_eq!((p.bucket.as_str(), p.prefix.as_str()), ("bench", "a/b/"));
        assert_eq!((p.hosts[1].name.as_str(), p.hosts[1].port), ("h2", 9001));
        assert_eq!(p.to_text(), "http://127.0.0.1:9000/bench/a/b/");
        let v6 = PrefixLocation::parse(Some("https://[::1]/bench/a/"), &[]).unwrap();
        assert_eq!((v6.hosts[0].bare(), v6.hosts[0].port), ("::1", 443));
    }

    #[test]
    fn a_path_without_a_prefix_means_one_of_our_own() {
        let whole = PrefixLocation::parse(Some("http://h/bench/taillight/"), &[]).unwrap();
        for path in ["http://h/bench", "http://h:80/bench/"] {
            assert_eq!(PrefixLocation::parse(Some(path), &[]).unwrap(), whole);
        }
        let long = format!("http://h/{}/", "b".repeat(64));
        for (path, says) in [
            ("http://h/b", "3 to 63"),
            (&long, "3 to 63"),
            ("http://h/Bench/", "small letters"),
            ("http://h//p/", "names no bucket"),
        ] {
            let e = PrefixLocation::parse(Some(path), &[]).unwrap_err();
            assert!(e.to_string().contains(says), "{path}: {e}");
        }
    }

    #[test]
    fn a_bucket_stands_before_a_name_only() {
        for (path, named) in [
            ("http://127.0.0.1:9000/bench/a/", false),
            ("https://[::1]/bench/a/", false),
            ("http://localhost/bench/a/", true),
        ] {
            let location = PrefixLocation::parse(Some(path), &[]).unwrap();
            assert!(location.takes(Addressing::Path).is_ok());
            assert_eq!(location.takes(Addressing::Virtual).is_ok(), named, "{path}");
        }
        let more = ["10.0.0.7:9000".to_owned()];
        let location = PrefixLocation::parse(Some("http://localhost/bench/a/"), &more).unwrap();
        let e = location.takes(Addressing::Virtual).unwrap_err();
        assert!(e.to_string().contains("10.0.0.7"), "{e}");
    }

    #[test]
    fn what_is_missing_is_said_and_passwords_are_not() {
        for path in [
            "",
            "ftp://h/b/p/",
            "http://h",
            "http://h/be/",
            "http://h/bench/p",
            "http://h:0/bench/p/",
            "http://h:x/bench/p/",
            "http:///bench/p/",
            "http://h/B/p/",
            "http://h/bench//",
            "http://h/bench/../p/",
            "http://h/bench/p q/",
            "http://h\r\nx/bench/p/",
        ] {
            let e = PrefixLocation::parse(Some(path), &[]).unwrap_err();
            assert!(e.hint_text().is_some(), "{path}: {e}");
        }
        let e = PrefixLocation::parse(Some("http://me:s3cr3t@h/bench/p/"), &[]).unwrap_err();
        assert!(!format!("{e} {:?}", e.hint_text()).contains("s3cr3t"));
    }
}
