//! Requests of the driver's own housekeeping, each waiting for its answer: whose the prefix is, lists, deletions.
//! None is made while measuring; sessions take addresses, TLS and request writers from here.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use quick_xml::escape::escape;
use taillight_core::{Error, Result, Status, StopFlag};

use super::connection::{BodySink, HttpConnection, IoProgress, RequestSpec, TEXT_MAX};
use super::credentials::Credentials;
use super::location::PrefixLocation;
use super::options::{Addressing, S3Options};
use super::request::{RequestWriter, S3Request, encoded};
use super::tls;
use super::xml;
use crate::net::{Deadline, TlsServer, Transport, connect};

/// How long a store may take to answer once, after the run was stopped.
const MOMENT: Duration = Duration::from_millis(700);
/// Objects deleted by one request.
const BATCH: usize = 1000;
/// Heads asked for at a time, each on a connection of its own.
const ASKERS: usize = 32;
/// Fewest heads for which a connection is made.
const SHARE: usize = 8;
/// Bytes of the largest owner object.
const MARK_MAX: usize = 64 << 10;
/// Stores hang up on idle connections, the first of them after 5 s, and firewalls forget them: one
/// that was idle for longer than this is made anew.
const IDLE: Duration = Duration::from_secs(3);

/// Everything that opening a connection needs; shared by all workers.
pub struct S3Client {
    pub location: PrefixLocation,
    pub options: S3Options,
    /// Addresses of each server, as the system orders them; at least one each.
    addresses: Vec<Vec<SocketAddr>>,
    /// The one of them that took the first connection; it is kept for the run.
    settled: Vec<OnceLock<SocketAddr>>,
    /// TLS of each server, if any.
    pub tls: Vec<TlsServer>,
    /// Housekeeping's connection is not used again after being idle for longer.
    pub idle: Duration,
    credentials: Credentials,
    /// The run that objects name as their maker, once it is known.
    pub maker: Arc<OnceLock<String>>,
    admin: Mutex<Option<Housekeeping>>,
    /// Ends what waits for a server, until [`S3Client::detach_from_stop`].
    stop: Mutex<StopFlag>,
}

/// The connection of housekeeping.
struct Housekeeping {
    api: RequestWriter,
    connection: HttpConnection,
    used: Instant,
}

/// An answer to housekeeping.
pub struct S3Answer {
    pub code: u16,
    pub text: String,
    /// `Server` header.
    pub server: String,
    /// What a HEAD says.
    pub head: ObjectHead,
}

/// An object as a HEAD shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObjectHead {
    pub etag: String,
    pub size: u64,
    /// The run that it names as its maker; empty where it names none.
    pub maker: String,
}

/// An object in a listing, or to be deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedObject {
    pub name: String,
    /// Deleted only while it has this tag, where the store can tell; empty: whatever it has.
    pub etag: String,
}

/// Why there is no answer.
enum NoAnswer {
    /// No connection was made, or the answer is not there in time.
    Waited(std::io::Error),
    Broken(Status),
    Untrusted(rustls::Error),
}

impl S3Answer {
    /// The store's word for what is wrong.
    pub fn error_code(&self) -> String {
        xml::first(&self.text, "Code").unwrap_or_else(|| format!("HTTP {}", self.code))
    }
}

impl S3Client {
    /// Resolves addresses and reads certificates; connects to nothing. Errors: `Unavailable` when a
    /// name or file cannot be resolved.
    pub fn new(
        location: PrefixLocation,
        options: S3Options,
        credentials: Credentials,
        stop: &StopFlag,
    ) -> Result<S3Client> {
        let timeout = Duration::from_nanos(options.timeout.0);
        let addresses = location.hosts.iter().map(|h| {
            let found = connect::resolve(h.bare(), h.port, &Deadline::within(timeout, stop));
            let all = found.map_err(|e| unreachable(&h.name, h.port).source(e))?;
            match all.is_empty() {
                true => Err(unreachable(&h.name, h.port)),
                false => Ok(all),
            }
        });
        let addresses = addresses.collect::<Result<_>>()?;
        S3Client::at(location, options, credentials, addresses, stop)
    }

    /// [`S3Client::new`] with the addresses of each server, at least one each.
    pub fn at(
        location: PrefixLocation,
        options: S3Options,
        credentials: Credentials,
        addresses: Vec<Vec<SocketAddr>>,
        stop: &StopFlag,
    ) -> Result<S3Client> {
        let virtual_hosted = options.addressing == Addressing::Virtual;
        let bucket = virtual_hosted.then_some(location.bucket.as_str());
        let tls = match location.tls {
            true => tls::prepare(&location.hosts, bucket, &options.ca)?,
            false => Vec::new(),
        };
        Ok(S3Client {
            location,
            options,
            settled: addresses.iter().map(|_| OnceLock::new()).collect(),
            addresses,
            tls,
            idle: IDLE,
            credentials,
            maker: Arc::default(),
            admin: Mutex::new(None),
            stop: Mutex::new(stop.clone()),
        })
    }

    /// For the requests of one worker.
    pub fn api(&self) -> RequestWriter {
        let credentials = self.credentials.clone();
        let mut writer = RequestWriter::new(&self.location, &self.options, credentials);
        writer.maker = self.maker.clone();
        writer
    }

    /// How many servers there are.
    pub fn servers(&self) -> usize {
        self.addresses.len()
    }

    /// Where a server is: the address that took the first connection, until then the first one.
    pub fn address(&self, server: usize) -> SocketAddr {
        let known = self.settled[server].get();
        known.copied().unwrap_or(self.addresses[server][0])
    }

    /// `HOST:PORT` of a server, as the user named it.
    pub fn endpoint(&self, server: usize) -> String {
        let host = &self.location.hosts[server];
        format!("{}:{}", host.name, host.port)
    }

    /// What ends a wait for a server now.
    pub fn stop(&self) -> StopFlag {
        self.stop.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From now on no stop ends a request: what the run made is to be put in order. After one, the store
    /// has a moment to show that it answers at all. Errors: `Unavailable` when it does not.
    pub fn detach_from_stop(&self) -> Result<()> {
        let stop = self.replace_stop(StopFlag::default());
        if stop.stopped() {
            let asked = self.call_within(&S3Request::new("GET", b""), MOMENT);
            asked.inspect_err(|_| drop(self.replace_stop(stop)))?;
        }
        Ok(())
    }

    fn replace_stop(&self, with: StopFlag) -> StopFlag {
        let mut held = self.stop.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut held, with)
    }

    fn timeout(&self) -> Duration {
        Duration::from_nanos(self.options.timeout.0)
    }

    /// Connects and waits for it. The first time, all addresses of the name are tried.
    fn connect(&self, server: usize, deadline: &Deadline<'_>) -> std::io::Result<Transport> {
        let tls = self.tls.get(server);
        let settled = &self.settled[server];
        if let Some(address) = settled.get() {
            return Transport::made(*address, tls, deadline);
        }
        let all = &self.addresses[server];
        let mut made = Err(std::io::ErrorKind::AddrNotAvailable.into());
        for (nth, address) in all.iter().enumerate() {
            made = Transport::made(*address, tls, &deadline.share(all.len() - nth));
            if made.is_ok() {
                let _ = settled.set(*address);
                break;
            }
        }
        made
    }

    /// Performs one request on the first server and waits for its answer. Between two of them the
    /// run may last for hours: a connection idle for so long is not used again. Errors:
    /// `Unavailable` when no answer comes.
    pub fn call(&self, request: &S3Request<'_>) -> Result<S3Answer> {
        self.call_within(request, self.timeout())
    }

    fn call_within(&self, request: &S3Request<'_>, timeout: Duration) -> Result<S3Answer> {
        let mut admin = self.admin.lock().unwrap_or_else(PoisonError::into_inner);
        let housekeeping = admin.get_or_insert_with(|| Housekeeping {
            api: self.api(),
            connection: HttpConnection::new(),
            used: Instant::now(),
        });
        if housekeeping.used.elapsed() > self.idle {
            housekeeping.connection.hang_up();
        }
        let Housekeeping { api, connection, .. } = &mut *housekeeping;
        let answer = self.exchange(0, api, connection, request, timeout);
        housekeeping.used = Instant::now();
        answer.map_err(|why| self.error(0, why))
    }

    /// Performs one request on a connection of its own to this server. Errors: `Unavailable` when
    /// no answer comes.
    pub fn call_on(&self, server: usize, request: &S3Request<'_>) -> Result<S3Answer> {
        let (mut api, mut own) = (self.api(), HttpConnection::new());
        self.exchange(server, &mut api, &mut own, request, self.timeout())
            .map_err(|why| self.error(server, why))
    }

    /// Sends a request to a server and waits for the whole answer; connects first where there is no
    /// connection.
    fn exchange(
        &self,
        server: usize,
        api: &mut RequestWriter,
        connection: &mut HttpConnection,
        request: &S3Request<'_>,
        timeout: Duration,
    ) -> std::result::Result<S3Answer, NoAnswer> {
        let stop = self.stop();
        let deadline = Deadline::within(timeout, &stop);
        if connection.transport().is_none() {
            let made = self.connect(server, &deadline);
            connection.connect(made.map_err(NoAnswer::Waited)?);
        }
        api.write(server, request, &mut connection.head);
        connection.head.extend_from_slice(request.body);
        let spec = RequestSpec {
            upload: (0, 0),
            bodiless: request.method == "HEAD",
            sink: BodySink::Text(TEXT_MAX),
            stamp_first_byte: false,
            event_driven: false,
        };
        connection.begin(&spec, false);
        let mut scratch = vec![0; 64 << 10];
        loop {
            match connection.drive(&mut [], &mut scratch) {
                IoProgress::Answered => {
                    let reply = &connection.reply;
                    return Ok(S3Answer {
                        code: reply.code,
                        text: String::from_utf8_lossy(&connection.text).into_owned(),
                        server: reply.server.clone(),
                        head: ObjectHead {
                            etag: reply.etag.clone(),
                            size: reply.size,
                            maker: reply.maker.clone(),
                        },
                    });
                }
                IoProgress::Waits => {
                    let waited = connection.transport().map_or(Ok(()), |transport| {
                        deadline.wait_for(transport, transport.awaits(connection.sends()))
                    });
                    if let Err(e) = waited {
                        connection.hang_up();
                        return Err(NoAnswer::Waited(e));
                    }
                }
                IoProgress::Failed(status) => {
                    return Err(match connection.tls_error.take() {
                        Some(why) => NoAnswer::Untrusted(why),
                        None => NoAnswer::Broken(status),
                    });
                }
            }
        }
    }

    /// Why a server gave no answer, as an error with its name.
    fn error(&self, server: usize, why: NoAnswer) -> Error {
        let host = &self.location.hosts[server];
        let gone = || unreachable(&host.name, host.port);
        let errno = match &why {
            NoAnswer::Untrusted(why) => {
                return tls::untrusted(why, self.options.addressing, gone());
            }
            NoAnswer::Waited(e) if super::connection::status(e) == Status::TIMEOUT => {
                return self.late(server);
            }
            NoAnswer::Waited(e) => e.raw_os_error(),
            NoAnswer::Broken(status) => Some(status.0),
        };
        match (errno, why) {
            (Some(errno), _) if errno == rustix::io::Errno::AGAIN.raw_os_error() => {
                self.late(server)
            }
            (Some(errno), _) => gone().with("why", std::io::Error::from_raw_os_error(errno)),
            // What has no number has words.
            (None, NoAnswer::Waited(e)) => gone().source(e),
            (None, _) => gone(),
        }
    }

    fn late(&self, server: usize) -> Error {
        Error::unavailable("the object store does not answer in time")
            .with("endpoint", self.endpoint(server))
            .with("timeout", self.options.timeout)
            .hint("see whether it runs; or set a longer options.timeout")
    }

    /// Whether this is a listing of the bucket that was asked for. A server that does not know
    /// virtual hosts answers for another one, and would be written to beside the bucket. Errors:
    /// `Unavailable` when it is not.
    pub fn listed(&self, answer: &S3Answer) -> Result<()> {
        if answer.code != 200 {
            return Err(self.refusal("list the prefix", answer));
        }
        let of = xml::first(&answer.text, "Name");
        if answer.text.contains("<ListBucketResult")
            && of.as_ref().is_none_or(|name| *name == self.location.bucket)
        {
            return Ok(());
        }
        Err(Error::unavailable("the server answers for something else than the bucket")
            .with("bucket", &self.location.bucket)
            .hint(match self.options.addressing {
                Addressing::Virtual => {
                    "it may not know its own domain (MinIO: MINIO_DOMAIN); or use \
                         options.addressing = \"path\""
                }
                Addressing::Path => "see whether it is an object store",
            }))
    }

    /// What a bad answer means.
    pub fn refusal(&self, what: &str, answer: &S3Answer) -> Error {
        let word = answer.error_code();
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
            .with("bucket", &self.location.bucket)
            .with("prefix", &self.location.prefix)
            .with("store says", word)
            .with("code", answer.code)
            .hint(hint)
    }

    /// The text of an owner object; `None` when there is none. Errors: `Refused` for one that is too large
    /// to be one, or no text; `Unavailable`.
    pub fn get(&self, name: &str) -> Result<Option<String>> {
        let most = MARK_MAX as u64;
        let request =
            S3Request { range: Some((0, most)), ..S3Request::new("GET", name.as_bytes()) };
        let answer = self.call(&request)?;
        match answer.code {
            // A range of an empty object is an error to stores.
            416 => Ok(Some(String::new())),
            200 | 206 if answer.text.len() > MARK_MAX || answer.text.contains('\u{fffd}') => {
                Err(Error::refused("the owner object of the prefix is not Taillight's")
                    .with("object", name)
                    .hint("see what it is; delete it, or choose another prefix"))
            }
            200 | 206 => Ok(Some(answer.text)),
            404 if answer.error_code() == "NoSuchKey" => Ok(None),
            _ => Err(self.refusal("read its owner mark", &answer)),
        }
    }

    /// What a HEAD says of an object; `None` when there is none. Errors: `Unavailable`.
    pub fn head(&self, name: &str) -> Result<Option<ObjectHead>> {
        self.headed(self.call(&S3Request::new("HEAD", name.as_bytes()))?)
    }

    fn headed(&self, answer: S3Answer) -> Result<Option<ObjectHead>> {
        match answer.code {
            200..300 => Ok(Some(answer.head)),
            404 => Ok(None),
            _ => Err(self.refusal("say what an object is", &answer)),
        }
    }

    /// [`S3Client::head`] of many, some at a time. Errors: as there.
    pub fn heads(&self, objects: &[ListedObject]) -> Result<Vec<Option<ObjectHead>>> {
        let ask = |objects: &[ListedObject]| -> Result<Vec<Option<ObjectHead>>> {
            let (mut api, mut connection) = (self.api(), HttpConnection::new());
            let one = |object: &ListedObject| {
                let request = S3Request::new("HEAD", object.name.as_bytes());
                let within = self.timeout();
                let answer = self.exchange(0, &mut api, &mut connection, &request, within);
                self.headed(answer.map_err(|why| self.error(0, why))?)
            };
            objects.iter().map(one).collect()
        };
        let share = objects.len().div_ceil(ASKERS).max(SHARE);
        let lost = |_| Err(Error::internal("a thread that asks for heads of objects ended"));
        std::thread::scope(|scope| {
            let shares = objects.chunks(share);
            let askers: Vec<_> = shares.map(|some| scope.spawn(|| ask(some))).collect();
            let heads = askers.into_iter().map(|asker| asker.join().unwrap_or_else(lost));
            Ok(heads.collect::<Result<Vec<_>>>()?.concat())
        })
    }

    /// Writes an object. Errors: `Unavailable`.
    pub fn put(&self, name: &str, body: &[u8]) -> Result<()> {
        let answer =
            self.call(&S3Request { body, data: true, ..S3Request::new("PUT", name.as_bytes()) })?;
        match answer.code {
            200 => Ok(()),
            _ => Err(self.refusal("write", &answer)),
        }
    }

    /// Shows the objects under the prefix, a page at a time, until `page` returns false; returns the `Server` header.
    /// Errors: `Unavailable`.
    pub fn list(&self, page: &mut dyn FnMut(Vec<ListedObject>) -> Result<bool>) -> Result<String> {
        let mut next: Option<String> = None;
        loop {
            let from = next
                .as_ref()
                .map_or(String::new(), |token| format!("continuation-token={}&", encoded(token)));
            let query = format!("{from}list-type=2&prefix={}", encoded(&self.location.prefix));
            let answer = self.call(&S3Request { query: &query, ..S3Request::new("GET", b"") })?;
            self.listed(&answer)?;
            let inside = |object: &ListedObject| object.name.starts_with(&self.location.prefix);
            let listed = xml::each(&answer.text, "Contents", ["Key", "ETag"])?.into_iter();
            let listed = listed.map(|[name, etag]| ListedObject { name, etag });
            let more = page(listed.filter(inside).collect())?;
            next = xml::first(&answer.text, "NextContinuationToken");
            if !more || next.is_none() {
                return Ok(answer.server);
            }
        }
    }

    /// Deletes objects under the prefix, by name and tag; returns the names of those that have another tag by then,
    /// and stay. Errors: `Unavailable` when one stays for another reason.
    pub fn delete(&self, objects: &[ListedObject]) -> Result<Vec<String>> {
        let mut stay = Vec::new();
        for batch in objects.chunks(BATCH) {
            let mut body = String::from("<Delete><Quiet>true</Quiet>");
            for ListedObject { name, etag } in batch {
                if !name.starts_with(&self.location.prefix) {
                    return Err(Error::internal("a deletion outside the prefix").with("name", name));
                }
                body += &format!("<Object><Key>{}</Key>", escape(name.as_str()));
                // Stores that know no condition pass over it.
                if !etag.is_empty() {
                    body += &format!("<ETag>{}</ETag>", escape(etag.as_str()));
                }
                body += "</Object>";
            }
            body += "</Delete>";
            let answer = self.call(&S3Request {
                query: "delete=",
                body: body.as_bytes(),
                hashed: true,
                ..S3Request::new("POST", b"")
            })?;
            let failed = answer.text.contains("<Error>");
            let codes = if failed { xml::all(&answer.text, "Code")? } else { Vec::new() };
            if answer.code != 200 || codes.iter().any(|code| code != "PreconditionFailed") {
                return Err(self.refusal("delete", &answer));
            }
            if failed {
                stay.extend(xml::all(&answer.text, "Key")?);
            }
        }
        Ok(stay)
    }
}

fn unreachable(name: &str, port: u16) -> Error {
    Error::unavailable("the object store cannot be reached")
        .with("endpoint", format!("{name}:{port}"))
        .hint("see whether it runs there, and whether it is http or https")
}
