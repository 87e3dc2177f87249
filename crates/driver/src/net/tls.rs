//! Which certificates TLS trusts: those of the user's own CA file, else the system's certificates; and what to do
//! about a server that is not trusted.

use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{CertificateError, ClientConfig, RootCertStore};
use taillight_core::{Error, Result, regular};

/// Where systems keep their bundle.
const BUNDLES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// Certificates of the file `ca`, or where it is empty the system's. Errors: `Unavailable` when they cannot be
/// read.
pub fn roots(ca: &str) -> Result<RootCertStore> {
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
    Ok(roots)
}

/// How connections are made that trust `roots`.
pub fn config(roots: RootCertStore) -> Result<Arc<ClientConfig>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| Error::internal("TLS cannot be set up").source(e))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// What to do about a server that TLS does not trust; where its certificate is for another name, that is
/// `other_name`, and where it speaks no TLS, `no_tls`.
pub fn hint(why: &rustls::Error, other_name: &'static str, no_tls: &'static str) -> &'static str {
    use CertificateError as Bad;
    match why {
        rustls::Error::InvalidCertificate(
            Bad::NotValidForName | Bad::NotValidForNameContext { .. },
        ) => other_name,
        rustls::Error::InvalidCertificate(
            Bad::Expired
            | Bad::ExpiredContext { .. }
            | Bad::NotValidYet
            | Bad::NotValidYetContext { .. },
        ) => "renew the server's certificate; or set this machine's clock",
        rustls::Error::InvalidCertificate(Bad::UnknownIssuer | Bad::BadSignature) => {
            "a server with a certificate of its own: name the authority's PEM file in options.ca"
        }
        rustls::Error::InvalidMessage(_) => no_tls,
        _ => "see whether the server speaks TLS, and its certificate",
    }
}
