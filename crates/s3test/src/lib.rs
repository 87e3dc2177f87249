//! Servers for tests of object stores: MinIO where it is there, else a small one of our own, with
//! the bucket [`BUCKET`] and the credentials [`ID`] and [`SECRET`].
//!
//! What it is: a development dependency; tests and comparisons start one each, on loopback, with
//! data that goes with it. What it is not: part of the product, or a store for anybody's data
//! (`docs/design/` says why it is here). [`Server::start`] says on standard error which it took.
//!
//! `TAILLIGHT_MINIO` names a MinIO; empty, it hides the one that is cached.

mod api;
mod auth;
mod certs;
mod http;
mod minio;
mod own;
mod store;
mod text;

use std::net::TcpListener;
use std::path::PathBuf;

pub use certs::Certs;
pub use minio::Minio;
pub use own::{Own, Trouble};

/// Access key id that all of them know.
pub const ID: &str = "taillight-tester";
/// Its secret.
pub const SECRET: &str = "not-to-be-printed-anywhere";
/// The bucket that is there.
pub const BUCKET: &str = "bench";

/// How a server is started.
#[derive(Debug, Default, Clone, Copy)]
pub struct Settings<'a> {
    /// Certificates: it speaks TLS.
    pub certs: Option<&'a Certs>,
    /// Serves `BUCKET.localhost` as well as paths.
    pub domain: bool,
    /// Directory for the data of a MinIO; the system's temporary one when there is none.
    pub data: Option<&'a std::path::Path>,
}

/// A running server.
pub enum Server {
    /// A MinIO in a process of its own.
    Minio(Box<Minio>),
    /// Our own, in threads of this process.
    Own(Box<Own>),
}

impl Server {
    /// MinIO if it is there, else our own.
    ///
    /// # Panics
    /// When it does not start: a test cannot go on.
    pub fn start() -> Server {
        Server::start_with(Settings::default())
    }

    /// [`Server::start`] with settings.
    ///
    /// # Panics
    /// As there.
    pub fn start_with(settings: Settings<'_>) -> Server {
        match minio::program() {
            Some(program) => {
                eprintln!("S3 server: MinIO ({})", shown(&program));
                Server::Minio(Box::new(Minio::start(&program, settings)))
            }
            None => {
                eprintln!("S3 server: our own, there is no MinIO (see docs/s3.md)");
                Server::Own(Box::new(Own::start(settings)))
            }
        }
    }

    /// Where it listens on 127.0.0.1.
    pub fn port(&self) -> u16 {
        match self {
            Server::Minio(minio) => minio.port(),
            Server::Own(own) => own.port(),
        }
    }

    /// `http(s)://127.0.0.1:PORT/BUCKET/prefix`.
    pub fn path(&self, prefix: &str) -> String {
        let tls = match self {
            Server::Minio(minio) => minio.tls(),
            Server::Own(own) => own.tls(),
        };
        let scheme = if tls { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}/{BUCKET}/{prefix}", self.port())
    }

    /// Names of the objects whose names begin like this, in order.
    pub fn names(&self, prefix: &str) -> Vec<String> {
        match self {
            Server::Minio(minio) => minio.names(prefix),
            Server::Own(own) => own.names(prefix),
        }
    }

    /// Whether an object is there whose name begins like this.
    pub fn holds(&self, prefix: &str) -> bool {
        !self.names(prefix).is_empty()
    }

    /// What it calls itself in answers.
    pub fn word(&self) -> &'static str {
        match self {
            Server::Minio(_) => "MinIO",
            Server::Own(_) => own::WORD,
        }
    }

    /// Ends it at once, in the midst of whatever it does.
    pub fn kill(&mut self) {
        match self {
            Server::Minio(minio) => minio.kill(),
            Server::Own(own) => own.kill(),
        }
    }
}

/// A MinIO that is there: `TAILLIGHT_MINIO`, or what `cargo xtask setup` keeps under the home
/// folder.
pub fn minio_program() -> Option<PathBuf> {
    minio::program()
}

/// A port that nobody listens on, at this moment.
///
/// # Panics
/// When the system gives none.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

/// The last two parts of a path: its version and name, and nothing of the machine.
fn shown(program: &std::path::Path) -> String {
    let parts: Vec<_> = program.iter().rev().take(2).collect();
    let parts = parts.iter().rev().map(|p| p.to_string_lossy());
    parts.collect::<Vec<_>>().join("/")
}
