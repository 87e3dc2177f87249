//! Whom https trusts: the user's own CA file, else the system's certificates.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig, RootCertStore};
use taillight_core::{Error, Result, regular};

use super::location::Endpoint;
use super::options::Addressing;
use super::transport::TlsServer;

/// Where systems keep their bundle.
const BUNDLES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// What TLS needs for each host. Errors: `Unavailable` when no certificates can be read.
pub fn prepare(hosts: &[Endpoint], prefix: Option<&str>, ca: &str) -> Result<Vec<TlsServer>> {
    let file = match ca {
        "" => BUNDLES.into_iter().find(|p| std::path::Path::new(p).exists()),
        own => Some(own),
    };
    let hint = "name a PEM file of trusted certificates: options.ca = \"FILE\"";
    let file = file
        .ok_or_else(|| Error::unavailable("this system has no trusted certificates").hint(hint))?;
    let failed = |what: &str| {
        Error::unavailable(format!("the trusted certificates {what}")).with("file", file).hint(hint)
    };
    let text = regular::read(file).map_err(|e| failed("cannot be read").with("why", e))?;
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(CertificateDer::pem_slice_iter(&text).filter_map(|c| c.ok()));
    if roots.is_empty() {
        return Err(failed("hold none"));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| Error::internal("TLS cannot be set up").source(e))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let config = Arc::new(config);
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
    use CertificateError as Bad;
    let hint = match why {
        rustls::Error::InvalidCertificate(
            Bad::NotValidForName | Bad::NotValidForNameContext { .. },
        ) => match addressing {
            Addressing::Path => {
                "its certificate is for another name: name the server as its certificate does"
            }
            // A wildcard stands for one part of a name: none covers a bucket with a dot.
            Addressing::Virtual => {
                "its certificate does not cover BUCKET.HOST: use options.addressing = \"path\""
            }
        },
        rustls::Error::InvalidCertificate(
            Bad::Expired
            | Bad::ExpiredContext { .. }
            | Bad::NotValidYet
            | Bad::NotValidYetContext { .. },
        ) => "renew the server's certificate; or set this machine's clock",
        rustls::Error::InvalidCertificate(Bad::UnknownIssuer | Bad::BadSignature) => {
            "a server with a certificate of its own: name the authority's PEM file in options.ca"
        }
        rustls::Error::InvalidMessage(_) => "the server may speak no TLS: http://",
        _ => "see whether it is http or https, and the server's certificate",
    };
    gone.with("why", why).hint(hint)
}
