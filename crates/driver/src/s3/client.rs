//! The store as the driver's own housekeeping sees it, one waiting request after the other: whose
//! the prefix is, lists, deletions. Never used while measuring.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Mutex;
use std::time::Duration;

use taillight_core::{Error, Result, Status};

use super::api::{Api, Request, encoded};
use super::credentials::Credentials;
use super::lane::{Ask, Drive, Lane, Take};
use super::options::{Addressing, S3Options};
use super::place::Place;
use super::tls;
use super::wire::{Tls, Wire};
use super::xml;

/// Largest answer that is kept.
const ANSWER_MAX: usize = 8 << 20;
/// Objects deleted by one request.
const BATCH: usize = 1000;

/// Everything that opening a connection needs; shared by all workers.
pub struct Store {
    /// Where.
    pub place: Place,
    /// Options.
    pub options: S3Options,
    /// Address of each server.
    pub addresses: Vec<SocketAddr>,
    /// TLS of each server, if any.
    pub tls: Vec<Tls>,
    credentials: Credentials,
    admin: Mutex<Option<(Api, Lane)>>,
}

/// An answer to housekeeping.
pub struct Answer {
    /// HTTP status.
    pub code: u16,
    /// Body.
    pub text: String,
    /// `Server` header.
    pub server: String,
}

impl Answer {
    /// The store's word for what is wrong.
    fn word(&self) -> String {
        xml::first(&self.text, "Code").unwrap_or_else(|| format!("HTTP {}", self.code))
    }
}

impl Store {
    /// Resolves addresses and reads certificates; connects to nothing.
    ///
    /// # Errors
    /// `Unavailable` when a name or file cannot be resolved.
    pub fn new(place: Place, options: S3Options, credentials: Credentials) -> Result<Store> {
        let addresses = place.hosts.iter().map(|h| {
            let found = (h.bare(), h.port).to_socket_addrs();
            let first = found
                .map_err(|e| unreachable(&h.name, h.port).source(e))?
                .next();
            first.ok_or_else(|| unreachable(&h.name, h.port))
        });
        let addresses = addresses.collect::<Result<_>>()?;
        let virtual_hosted = options.addressing == Addressing::Virtual;
        let bucket = virtual_hosted.then_some(place.bucket.as_str());
        let tls = match place.tls {
            true => tls::prepare(&place.hosts, bucket, &options.ca)?,
            false => Vec::new(),
        };
        Ok(Store {
            place,
            options,
            addresses,
            tls,
            credentials,
            admin: Mutex::new(None),
        })
    }

    /// For the requests of one worker.
    pub fn api(&self) -> Api {
        Api::new(&self.place, &self.options, self.credentials.clone())
    }

    /// Performs one request on the first server and waits for its answer.
    ///
    /// # Errors
    /// `Unavailable` when no answer comes.
    pub fn call(&self, request: &Request<'_>) -> Result<Answer> {
        let mut held = self
            .admin
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let (api, lane) = held.get_or_insert_with(|| (self.api(), Lane::new()));
        if lane.wire().is_none() {
            let timeout = Duration::from_nanos(self.options.timeout.0);
            let wire = Wire::blocking(self.addresses[0], self.tls.first(), timeout);
            lane.connect(wire.map_err(|e| self.silent(super::lane::status(&e)).source(e))?);
        }
        api.write(0, request, &mut lane.head);
        lane.head.extend_from_slice(request.body);
        let ask = Ask {
            upload: (0, 0),
            bodiless: request.method == "HEAD",
            take: Take::Text(ANSWER_MAX),
            timed: false,
            told: false,
        };
        lane.begin(&ask, false);
        let mut scratch = vec![0; 64 << 10];
        match lane.drive(&mut [], &mut scratch) {
            Drive::Answered => Ok(Answer {
                code: lane.reply.code,
                text: String::from_utf8_lossy(&lane.text).into_owned(),
                server: lane.reply.server.clone(),
            }),
            Drive::Waits => {
                // The waiting read gave up.
                lane.hang_up();
                Err(self.silent(Status::TIMEOUT))
            }
            Drive::Failed(status) => match lane.tls_why.take() {
                Some(why) => Err(self.untrusted(&why)),
                None => Err(self.silent(status)),
            },
        }
    }

    /// TLS itself failed.
    fn untrusted(&self, why: &str) -> Error {
        let host = &self.place.hosts[0];
        unreachable(&host.name, host.port).with("why", why).hint(
            "a server with a certificate of its own: name the authority's PEM file in options.ca; \
             a server without TLS: http://",
        )
    }

    fn silent(&self, status: Status) -> Error {
        let host = &self.place.hosts[0];
        if status == Status::TIMEOUT || status.0 == rustix::io::Errno::AGAIN.raw_os_error() {
            return Error::unavailable("the object store does not answer in time")
                .with("endpoint", format!("{}:{}", host.name, host.port))
                .with("timeout", self.options.timeout)
                .hint("see whether it runs; or set a longer options.timeout");
        }
        let why = std::io::Error::from_raw_os_error(status.0);
        unreachable(&host.name, host.port).with("why", why)
    }

    /// What a bad answer means.
    pub fn refusal(&self, what: &str, answer: &Answer) -> Error {
        let word = answer.word();
        let hint = match (word.as_str(), answer.code) {
            ("NoSuchBucket", _) => "make the bucket first, or correct the path; none is ever made",
            (
                "InvalidAccessKeyId" | "SignatureDoesNotMatch" | "ExpiredToken" | "InvalidToken",
                _,
            ) => {
                "see which credentials are set: environment, or options.profile and the \
                 credentials file; and options.region"
            }
            ("RequestTimeTooSkewed", _) => "set this machine's clock",
            ("PermanentRedirect" | "AuthorizationHeaderMalformed", _) | (_, 301 | 307) => {
                "set options.region to the bucket's region, and name that region's endpoint"
            }
            (_, 403) => "the credentials do not allow it: list, get, put and delete are needed",
            (_, 400) => "http and https may be mixed up; or see options.region",
            _ => "see the store's own log",
        };
        Error::unavailable(format!("the object store refuses to {what}"))
            .with("bucket", &self.place.bucket)
            .with("prefix", &self.place.prefix)
            .with("store says", word)
            .with("code", answer.code)
            .hint(hint)
    }

    /// The text of an object; `None` when there is none.
    ///
    /// # Errors
    /// `Unavailable`.
    pub fn get(&self, name: &str) -> Result<Option<String>> {
        let answer = self.call(&Request::new("GET", name.as_bytes()))?;
        match answer.code {
            200 => Ok(Some(answer.text)),
            404 if answer.word() == "NoSuchKey" => Ok(None),
            _ => Err(self.refusal("read its owner mark", &answer)),
        }
    }

    /// Writes an object.
    ///
    /// # Errors
    /// `Unavailable`.
    pub fn put(&self, name: &str, body: &str) -> Result<()> {
        let answer = self.call(&Request {
            body: body.as_bytes(),
            data: true,
            ..Request::new("PUT", name.as_bytes())
        })?;
        match answer.code {
            200 => Ok(()),
            _ => Err(self.refusal("write", &answer)),
        }
    }

    /// Shows the names under the prefix, a page at a time; ends when `page` says false.
    ///
    /// # Errors
    /// `Unavailable`.
    pub fn list(&self, page: &mut dyn FnMut(Vec<String>) -> Result<bool>) -> Result<String> {
        let mut next: Option<String> = None;
        loop {
            let from = next.as_ref().map_or(String::new(), |token| {
                format!("continuation-token={}&", encoded(token))
            });
            let query = format!("{from}list-type=2&prefix={}", encoded(&self.place.prefix));
            let answer = self.call(&Request {
                query: &query,
                ..Request::new("GET", b"")
            })?;
            if answer.code != 200 {
                return Err(self.refusal("list the prefix", &answer));
            }
            let inside = |name: &String| name.starts_with(&self.place.prefix);
            let more = page(xml::all(&answer.text, "Key").filter(inside).collect())?;
            next = xml::first(&answer.text, "NextContinuationToken");
            if !more || next.is_none() {
                return Ok(answer.server);
            }
        }
    }

    /// Deletes objects under the prefix, by name.
    ///
    /// # Errors
    /// `Unavailable` when one of them stays.
    pub fn delete(&self, names: &[String]) -> Result<()> {
        for batch in names.chunks(BATCH) {
            let mut body = String::from("<Delete><Quiet>true</Quiet>");
            for name in batch {
                if !name.starts_with(&self.place.prefix) {
                    return Err(Error::internal("a deletion outside the prefix").with("name", name));
                }
                body += &format!("<Object><Key>{}</Key></Object>", xml::escape(name));
            }
            body += "</Delete>";
            let answer = self.call(&Request {
                query: "delete=",
                body: body.as_bytes(),
                hashed: true,
                ..Request::new("POST", b"")
            })?;
            if answer.code != 200 || answer.text.contains("<Error>") {
                return Err(self.refusal("delete", &answer));
            }
        }
        Ok(())
    }
}

fn unreachable(name: &str, port: u16) -> Error {
    Error::unavailable("the object store cannot be reached")
        .with("endpoint", format!("{name}:{port}"))
        .hint("see whether it runs there, and whether it is http or https")
}
