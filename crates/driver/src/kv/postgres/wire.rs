//! One connection to a PostgreSQL server: makes and authenticates it, and asks over it outside the measured loop; and
//! errors in words for a server that does not answer or refuses.

use std::io::{self, ErrorKind, Read};
use std::time::Duration;

use base64::Engine;
use taillight_core::{Error, Result, StopFlag};

use super::address::PgAddress;
use super::messages::{self, PgMessage};
use super::options::PostgresOptions;
use super::scram::ScramDialogue;
use crate::net::{Deadline, Frame, PipelinedSocket, ServerAddress, TlsServer, tls};

/// Environment variables of the password, and of the user where the options name none.
const PASSWORD: &str = "PGPASSWORD";
const USER: &str = "PGUSER";

/// How long the request to cancel a statement may take.
const CANCEL: Duration = Duration::from_millis(500);

/// What is needed to connect to a server.
pub struct PgServer {
    pub address: PgAddress,
    pub user: String,
    password: Option<String>,
    tls: Option<TlsServer>,
    commit: Option<&'static str>,
    pub timeout: Duration,
}

/// A connection.
pub struct PgConnection {
    pub socket: PipelinedSocket,
    /// The server's process that serves it.
    pub pid: u32,
    /// The key that a request to cancel its statement has to name.
    secret: [u8; 4],
    /// Over TLS or a unix socket: others on the way cannot read along.
    private: bool,
}

/// A server's refusal: the code and text of its error message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PgError {
    /// SQLSTATE.
    pub code: String,
    pub says: String,
}

/// Why there is no result.
pub enum PgFailure {
    /// No answer: the connection is of no use any more.
    Lost(io::Error),
    /// The server's answer is an error.
    Refused(PgError),
}

impl From<io::Error> for PgFailure {
    fn from(e: io::Error) -> PgFailure {
        PgFailure::Lost(e)
    }
}

/// Rows of an answer, as text.
pub type PgRows = Vec<Vec<Option<String>>>;

impl PgError {
    fn of(body: &[u8]) -> PgError {
        let text = |letter| String::from_utf8_lossy(messages::field(body, letter)).into_owned();
        PgError { code: text(b'C'), says: text(b'M') }
    }
}

/// USER or LOGNAME of the environment, else `postgres`.
fn system_user() -> String {
    let named = ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok());
    named.filter(|name| !name.is_empty()).unwrap_or_else(|| "postgres".to_owned())
}

/// 18 random bytes in base64.
fn nonce() -> io::Result<String> {
    let mut bytes = [0; 18];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(base64::engine::general_purpose::STANDARD.encode(bytes))
}

impl PgServer {
    /// By the options and the environment; no connection is made. Errors: `Usage` where the address can have
    /// no TLS, `Unavailable` when certificates cannot be read.
    pub fn new(address: PgAddress, options: &PostgresOptions) -> Result<PgServer> {
        let from_env = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let tls = match (&address.server, options.tls) {
            (_, false) => None,
            (ServerAddress::Unix(_), true) => {
                return Err(Error::usage("no TLS over a unix socket")
                    .of_field("tls")
                    .hint("leave options.tls out, or name the server by its host"));
            }
            (ServerAddress::Tcp(host, _), true) => {
                let config = tls::config(tls::roots(&options.ca)?)?;
                let name = host.clone().try_into().map_err(|_| {
                    Error::usage("no certificate can have this name").with("host", host)
                })?;
                Some(TlsServer { config, name })
            }
        };
        let user = match options.user.is_empty() {
            true => from_env(USER).unwrap_or_else(system_user),
            false => options.user.clone(),
        };
        Ok(PgServer {
            address,
            user,
            password: from_env(PASSWORD),
            tls,
            commit: options.synchronous_commit.setting(),
            timeout: Duration::from_nanos(options.timeout.0),
        })
    }

    /// Makes a connection that is ready for statements. Errors: `Unavailable`, with the reason in words.
    pub fn connect(&self, stop: &StopFlag) -> Result<PgConnection> {
        self.connect_within(self.timeout, stop)
    }

    /// As [`PgServer::connect`], within `timeout` if that is shorter. Errors: as there.
    pub fn connect_within(&self, timeout: Duration, stop: &StopFlag) -> Result<PgConnection> {
        let timeout = timeout.min(self.timeout);
        let deadline = Deadline::within(timeout, stop);
        let socket = self.reach(timeout, stop, &deadline)?;
        let private = self.tls.is_some() || matches!(self.address.server, ServerAddress::Unix(_));
        let mut made = PgConnection { socket, pid: 0, secret: [0; 4], private };
        let mut settings = vec![
            ("user", self.user.as_str()),
            ("database", self.address.database.as_str()),
            ("application_name", "taillight"),
            ("client_encoding", "UTF8"),
        ];
        settings.extend(self.commit.map(|commit| ("synchronous_commit", commit)));
        messages::startup(&mut made.socket.out, &settings);
        self.authenticate(&mut made, &deadline)?;
        Ok(made)
    }

    /// A connection on which nothing was said yet, encrypted where the options ask for it. Errors: `Unavailable`.
    fn reach(
        &self,
        timeout: Duration,
        stop: &StopFlag,
        deadline: &Deadline<'_>,
    ) -> Result<PipelinedSocket> {
        let lost = |e| self.lost(e);
        let server = &self.address.server;
        let mut socket = PipelinedSocket::connect(server, timeout, stop).map_err(lost)?;
        let Some(tls) = &self.tls else { return Ok(socket) };
        messages::ask_tls(&mut socket.out);
        let answer = socket.answer(deadline, |bytes| match bytes.first() {
            Some(byte) => Frame::Whole(*byte, 1),
            None => Frame::Needs(1),
        });
        if answer.map_err(lost)? != b'S' {
            return Err(Error::unavailable("the server takes no TLS connections")
                .with("server", self.address.to_text())
                .hint("set `ssl = on` in its postgresql.conf, or leave options.tls out"));
        }
        socket.secure(tls).map_err(lost)
    }

    /// Asks the server to cancel the statement of a connection that is given up; a failure is ignored. The request
    /// with its key is encrypted as the statements were.
    pub fn cancel(&self, given_up: &PgConnection) {
        let stop = StopFlag::default();
        let deadline = Deadline::within(CANCEL, &stop);
        let Ok(mut socket) = self.reach(CANCEL, &stop, &deadline) else { return };
        messages::cancel(&mut socket.out, given_up.pid, given_up.secret);
        // No answer but the end of the connection.
        let end = socket.answer(&deadline, |_| Frame::<()>::Needs(1));
        drop(end);
    }

    fn authenticate(&self, made: &mut PgConnection, deadline: &Deadline<'_>) -> Result<()> {
        let nonce = nonce()
            .map_err(|e| Error::unavailable("the system gives no random numbers").source(e))?;
        let (mut scram, mut verified) = (None, false);
        loop {
            let (kind, body) = made.message(deadline).map_err(|e| self.lost(e))?;
            match kind {
                b'R' => {}
                b'K' => {
                    let pid = body.first_chunk().map_or(0, |pid| u32::from_be_bytes(*pid));
                    made.pid = pid;
                    made.secret = body.last_chunk().copied().unwrap_or_default();
                    continue;
                }
                b'E' => return Err(self.refused(&PgError::of(&body))),
                b'Z' => return Ok(()),
                _ => continue,
            }
            let (asks, rest) = body.split_first_chunk::<4>().unwrap_or((&[0xff; 4], &[]));
            let out = &mut made.socket.out;
            match u32::from_be_bytes(*asks) {
                // A server that ends the dialogue early has not shown that it knows the password.
                0 if scram.is_some() && !verified => {
                    return Err(self.unknown("SCRAM that the server does not end"));
                }
                0 => {}
                3 if !made.private => {
                    return Err(
                        self.unknown("the password itself, over a connection that others may read")
                    );
                }
                3 => {
                    let password = self.password()?;
                    messages::password(out, |out| messages::text(out, password));
                }
                10 if rest.split(|b| *b == 0).any(|name| name == b"SCRAM-SHA-256") => {
                    let begun = ScramDialogue::new("", self.password()?, &nonce);
                    let first = scram.insert(begun).first();
                    messages::password(out, |out| {
                        messages::text(out, "SCRAM-SHA-256");
                        out.extend_from_slice(&(first.len() as u32).to_be_bytes());
                        out.extend_from_slice(first.as_bytes());
                    });
                }
                11 => {
                    let proof = scram.as_mut().ok_or_else(|| self.unknown("SASL"))?.proof(rest)?;
                    messages::password(out, |out| out.extend_from_slice(proof.as_bytes()));
                }
                12 => {
                    scram.as_ref().ok_or_else(|| self.unknown("SASL"))?.verify(rest)?;
                    verified = true;
                }
                5 => return Err(self.unknown("md5")),
                other => return Err(self.unknown(&format!("method {other}"))),
            }
        }
    }

    fn password(&self) -> Result<&str> {
        self.password.as_deref().ok_or_else(|| {
            Error::unavailable("the server wants a password")
                .with("server", self.address.to_text())
                .with("user", &self.user)
                .hint(format!("put it into the environment: {PASSWORD}"))
        })
    }

    fn unknown(&self, method: &str) -> Error {
        Error::unavailable("the server wants a kind of password that this driver does not know")
            .with("server", self.address.to_text())
            .with("kind", method)
            .hint(
                "it knows SCRAM-SHA-256: set password_encryption on the server, give the user its \
                 password anew, and name scram-sha-256 in pg_hba.conf",
            )
    }

    /// The error (`Unavailable`) of a server that cannot be reached or does not answer, in words.
    pub fn lost(&self, e: io::Error) -> Error {
        let gone = Error::unavailable("cannot talk to the PostgreSQL server")
            .with("server", self.address.to_text());
        if let Some(why) = e.get_ref().and_then(|e| e.downcast_ref::<rustls::Error>()) {
            let other_name = "its certificate is for another name: name the server as its \
                              certificate does";
            let no_tls = "what answers there speaks no TLS: check the port";
            return gone.with("why", why).hint(tls::hint(why, other_name, no_tls));
        }
        let hint = match e.kind() {
            ErrorKind::InvalidData => "what answers there is no PostgreSQL server: check the port",
            ErrorKind::TimedOut | ErrorKind::WouldBlock => {
                "the server does not answer: check the address, or raise options.timeout"
            }
            _ => "start the server, or check the address in target.path",
        };
        gone.source(e).hint(hint)
    }

    /// The error (`Unavailable`) of a server's refusal: what it means, and a hint.
    pub fn refused(&self, error: &PgError) -> Error {
        let (what, hint) = match error.code.as_str() {
            "28P01" | "28000" if error.says.contains("password") => (
                "the server does not accept the password",
                "correct PGPASSWORD in the environment, or options.user",
            ),
            "28P01" | "28000" => (
                "the server does not let this user in",
                "name one that it knows with options.user (or PGUSER), and see its pg_hba.conf",
            ),
            "3D000" => ("there is no such database", "make it with createdb, or name another one"),
            "53300" => (
                "the server takes no more connections",
                "use fewer workers or options.connections, or raise its max_connections",
            ),
            "57P03" => ("the server is starting up or shutting down", "try again later"),
            "42501" => {
                ("the user may not do this", "give it the rights: CREATE on the database's schema")
            }
            "53100" => ("no space left on the server's disk", "free some, or load less"),
            "25006" => ("the server is a standby", "name the primary"),
            _ => ("the server refuses", "see what it says"),
        };
        Error::unavailable(what)
            .with("server", self.address.to_text())
            .with("user", &self.user)
            .with("database", &self.address.database)
            .with("server says", format!("{} ({})", error.says, error.code))
            .hint(hint)
    }

    /// The error (`Unavailable`) of a failed statement.
    pub fn failed(&self, failure: PgFailure) -> Error {
        match failure {
            PgFailure::Lost(e) => self.lost(e),
            PgFailure::Refused(error) => self.refused(&error),
        }
    }
}

impl PgConnection {
    fn message(&mut self, deadline: &Deadline<'_>) -> io::Result<(u8, Vec<u8>)> {
        self.socket.answer(deadline, |bytes| match messages::parse(bytes) {
            Frame::Whole(PgMessage { kind, body }, used) => {
                Frame::Whole((kind, body.to_vec()), used)
            }
            Frame::Needs(n) => Frame::Needs(n),
            Frame::Broken => Frame::Broken,
        })
    }

    /// Sends statements as text and waits for the rows of all. Errors: the first that fails; later ones are not done.
    pub fn query(
        &mut self,
        sql: &str,
        timeout: Duration,
        stop: &StopFlag,
    ) -> Result<PgRows, PgFailure> {
        messages::query(&mut self.socket.out, sql);
        self.rows(timeout, stop)
    }

    /// Prepares statements by name. Errors: as [`PgConnection::query`].
    pub fn prepare(
        &mut self,
        statements: &[(String, String)],
        timeout: Duration,
        stop: &StopFlag,
    ) -> Result<(), PgFailure> {
        for (name, sql) in statements {
            messages::prepare(&mut self.socket.out, name, sql);
        }
        messages::sync(&mut self.socket.out);
        self.rows(timeout, stop).map(drop)
    }

    fn rows(&mut self, timeout: Duration, stop: &StopFlag) -> Result<PgRows, PgFailure> {
        let deadline = Deadline::within(timeout, stop);
        let (mut rows, mut error) = (Vec::new(), None);
        loop {
            let (kind, body) = self.message(&deadline)?;
            match kind {
                b'D' => {
                    let text = |c: &[u8]| String::from_utf8_lossy(c).into_owned();
                    rows.push(messages::columns(&body).map(|c| c.map(text)).collect());
                }
                b'E' => error = error.or(Some(PgError::of(&body))),
                b'Z' => return error.map_or(Ok(rows), |e| Err(PgFailure::Refused(e))),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kv::redis::testing::peer;

    fn connect(says: &'static [u8]) -> Error {
        let at = peer(says, b"", Duration::from_secs(1));
        let address = PgAddress {
            server: ServerAddress::Tcp(at.ip().to_string(), at.port()),
            database: "d".to_owned(),
        };
        let server = PgServer {
            address,
            user: "u".to_owned(),
            password: Some("hunter2".to_owned()),
            tls: None,
            commit: None,
            timeout: Duration::from_secs(5),
        };
        server.connect(&StopFlag::default()).err().expect("refused")
    }

    #[test]
    fn a_server_that_does_not_prove_itself_is_refused() {
        for (says, why) in [
            (
                &b"R\0\0\0\x17\0\0\0\x0aSCRAM-SHA-256\0\0R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I"[..],
                "does not end",
            ),
            (b"R\0\0\0\x08\0\0\0\x03", "others may read"),
            (b"R\0\0\0\x0c\0\0\0\x05salt", "md5"),
            (b"R\0\0\0\x0c\0\0\0\x0bwhat", "SASL"),
        ] {
            let e = connect(says);
            assert!(e.to_string().contains(why), "{e}");
            assert!(!e.to_string().contains("hunter2"), "{e}");
        }
    }
}
