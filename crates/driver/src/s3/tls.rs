//! TLS of the hosts of an object store: their names in certificates, and what to do where one is not trusted.

use rustls::pki_types::ServerName;
use taillight_core::{Error, Result};

use super::location::Endpoint;
use super::options::Addressing;
use crate::net::{TlsServer, tls};

/// What TLS needs for each host; `prefix` is the bucket that stands before the host's name, if any. Errors: `Usage`
/// for a name that no certificate can have, `Unavailable` when no certificates can be read.
pub fn prepare(hosts: &[Endpoint], prefix: Option<&str>, ca: &str) -> Result<Vec<TlsServer>> {
    let config = tls::config(tls::roots(ca)?)?;
    let name = |host: &Endpoint| {
        let name = match prefix {
            Some(bucket) => format!("{bucket}.{}", host.bare()),
            None => host.bare().to_owned(),
        };
        let name = ServerName::try_from(name.clone()).map_err(|_| {
            Error::usage("no certificate can have this name").with("endpoint", name)
        })?;
        Ok(TlsServer { config: config.clone(), name })
    };
    hosts.iter().map(name).collect()
}

/// Why TLS failed with a server, and what to do about it. `gone` names the server.
pub fn untrusted(why: &rustls::Error, addressing: Addressing, gone: Error) -> Error {
    let other_name = match addressing {
        Addressing::Path => {
            "its certificate is for another name: name the server as its certificate does"
        }
        // A wildcard stands for one part of a name: none covers a bucket with a dot.
        Addressing::Virtual => {
            "its certificate does not cover BUCKET.HOST: use options.addressing = \"path\""
        }
    };
    let hint = tls::hint(why, other_name, "the server may speak no TLS: http://");
    gone.with("why", why).hint(hint)
}
