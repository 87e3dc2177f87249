//! The head of an HTTP request: what is asked, and whether it may be. Pure functions over bytes; `server`
//! has the sockets.
//!
//! Only GET and HEAD are answered, and only for a `Host` that is an IP address, `localhost` or the name the user
//! gave: a page of somebody else's that resolves its own name to this address gets nothing.

use std::net::IpAddr;

/// Longest head, bytes: `server` reads no further, and a head that has no end by then is refused.
pub const LONGEST: usize = 8 << 10;
/// Most header lines.
const HEADERS: usize = 64;

/// What was asked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Request {
    /// HEAD: an answer without a body.
    pub head_only: bool,
    /// Without the query.
    pub path: String,
    pub accept: String,
    /// The last event that the client has; a value that is no number is ignored.
    pub last_event: Option<u64>,
}

/// What the bytes read so far are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Head {
    /// More is to come.
    Partial,
    Request(Request),
    /// Refused: status line and words.
    Refused(&'static str, &'static str),
}

const BAD: Head = Head::Refused("400 Bad Request", "this is no HTTP request\n");

/// Reads a head; `hosts` are names that may be asked for beside addresses and `localhost`. A head with no `Host`, or
/// two, is refused.
pub fn read(bytes: &[u8], hosts: &[String]) -> Head {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) if bytes.len() < LONGEST => return Head::Partial,
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            return Head::Refused("431 Request Header Fields Too Large", "the head is too long\n");
        }
        Err(_) => return BAD,
    }
    let of = |name: &str| {
        let mut found = parsed.headers.iter().filter(|h| h.name.eq_ignore_ascii_case(name));
        let value = found.next().and_then(|h| std::str::from_utf8(h.value).ok());
        (value, found.next().is_none())
    };
    match of("host") {
        (Some(host), true) if known(host, hosts) => {}
        _ => {
            let words = "this name is not the live view's: ask for it by its address\n";
            return Head::Refused("421 Misdirected Request", words);
        }
    }
    let head_only = match parsed.method {
        Some("GET") => false,
        Some("HEAD") => true,
        _ => return Head::Refused("405 Method Not Allowed", "only GET and HEAD\n"),
    };
    let path = parsed.path.unwrap_or_default();
    Head::Request(Request {
        head_only,
        path: path.split('?').next().unwrap_or_default().to_owned(),
        accept: of("accept").0.unwrap_or_default().to_owned(),
        last_event: of("last-event-id").0.and_then(|id| id.trim().parse().ok()),
    })
}

/// Whether a `Host` may be asked for: any IP address, `localhost`, or a name of `hosts`, in capitals or not; a port
/// must be a number.
fn known(host: &str, hosts: &[String]) -> bool {
    let host = host.trim();
    let (name, port) = match host.rsplit_once(':') {
        // An IPv6 address without a port has colons, too.
        Some((name, port)) if !name.contains(':') || name.ends_with(']') => (name, Some(port)),
        _ => (host, None),
    };
    if port.is_some_and(|p| p.parse::<u16>().is_err()) {
        return false;
    }
    let bare = name.strip_prefix('[').and_then(|n| n.strip_suffix(']')).unwrap_or(name);
    bare.parse::<IpAddr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || hosts.iter().any(|h| h.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ask(host: &str) -> Head {
        read(format!("GET /metrics?x HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes(), &[])
    }

    #[test]
    fn only_addresses_localhost_and_given_names_are_asked_for() {
        for host in ["127.0.0.1", "127.0.0.1:9713", "localhost:1", "LOCALHOST", "[::1]:80", "::1"] {
            assert!(matches!(ask(host), Head::Request(_)), "{host}");
        }
        for host in
            ["evil.example", "127.0.0.1.evil.example:80", "", "localhost:x", "a:b:c", "[::1"]
        {
            assert!(matches!(ask(host), Head::Refused("421 Misdirected Request", _)), "{host}");
        }
        let named = b"GET / HTTP/1.1\r\nHost: bench:80\r\n\r\n";
        assert!(matches!(read(named, &["bench".to_owned()]), Head::Request(_)));
        let twice = b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n";
        assert!(matches!(read(twice, &[]), Head::Refused("421 Misdirected Request", _)));
        let none = b"GET / HTTP/1.1\r\n\r\n";
        assert!(matches!(read(none, &[]), Head::Refused("421 Misdirected Request", _)));
    }

    #[test]
    fn what_is_asked_is_read() {
        let text = b"HEAD /events?a=b HTTP/1.1\r\nhost: localhost\r\nACCEPT: text/plain\r\nLast-Event-ID: 7\r\n\r\n";
        let wanted = Request {
            head_only: true,
            path: "/events".to_owned(),
            accept: "text/plain".to_owned(),
            last_event: Some(7),
        };
        assert_eq!(read(text, &[]), Head::Request(wanted));
        let post = b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\n";
        assert!(matches!(read(post, &[]), Head::Refused("405 Method Not Allowed", _)));
        assert_eq!(read(b"\x16\x03\x01\x02\x00", &[]), BAD, "TLS");
        let long = [b"GET /".to_vec(), vec![b'a'; LONGEST]].concat();
        assert!(matches!(
            read(&long, &[]),
            Head::Refused("431 Request Header Fields Too Large", _)
        ));
    }

    proptest! {
        #[test]
        fn any_bytes_have_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..9000)) {
            if bytes.len() >= LONGEST {
                prop_assert!(!matches!(read(&bytes, &[]), Head::Partial));
            } else {
                let _ = read(&bytes, &[]);
            }
        }

        #[test]
        fn damaged_requests_have_an_answer(at in 0usize..80, with in any::<u8>(), cut in 0usize..90) {
            let mut text = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:9713\r\nAccept: a/b;q=0.5\r\nLast-Event-ID: 1\r\n\r\n".to_vec();
            text[at] = with;
            text.truncate(cut);
            // The damage may be an empty line, which ends a head early.
            let ends = |end: &[u8]| text.windows(end.len()).any(|w| w == end);
            let whole = ends(b"\n\n") || ends(b"\n\r\n");
            match read(&text, &[]) {
                Head::Request(r) => prop_assert!(r.path.len() < 80 && whole),
                Head::Partial | Head::Refused(..) => {}
            }
        }

        #[test]
        fn a_foreign_name_is_never_served(name in "[a-z][a-z0-9-]{0,10}\\.[a-z]{2,6}", port in proptest::option::of(1u16..)) {
            let port = port.map_or(String::new(), |p| format!(":{p}"));
            let host = format!("{name}{port}");
            prop_assert!(matches!(ask(&host), Head::Refused("421 Misdirected Request", _)));
        }
    }
}
