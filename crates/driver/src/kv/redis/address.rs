//! Reads and shows the address of a Redis server: `redis://HOST[:PORT][/DB]`, `HOST:PORT`, `unix:/PATH`; no password.

use taillight_core::{Error, Result};

use crate::net::ServerAddress;

/// Port when none is given.
const PORT: u16 = 6379;

/// A server and the number of a database in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseAddress {
    pub server: ServerAddress,
    /// Number of the database, for SELECT; 0 for a unix socket.
    pub db: u32,
}

impl DatabaseAddress {
    /// Reads `target.path`. Errors: `Usage` when it is no address, or has a user or password.
    pub fn parse(path: Option<&str>) -> Result<DatabaseAddress> {
        let wrong = |what: &str| {
            Error::usage(what.to_owned())
                .hint("--path redis://127.0.0.1:6379/0, or --path unix:/run/redis/redis.sock")
        };
        let path = path.filter(|p| !p.is_empty());
        let path = path.ok_or_else(|| wrong("driver `redis` needs the address of a server"))?;
        if let Some(file) = path.strip_prefix("unix:") {
            if !file.starts_with('/') {
                return Err(wrong("the path of a unix socket begins with /"));
            }
            let server = ServerAddress::Unix(file.to_owned());
            return Ok(DatabaseAddress { server, db: 0 });
        }
        let rest = match path.strip_prefix("redis://") {
            Some(rest) => rest,
            // HOST:PORT, as other tools take it.
            None if path.contains(':') && !path.contains('/') => path,
            None => return Err(wrong("not the address of a Redis server")),
        };
        if rest.contains('@') {
            // Not shown: it holds a secret.
            return Err(Error::usage("no user or password in the address of a server")
                .hint("leave it out, and put the password into REDIS_PASSWORD"));
        }
        let (host, db) = rest.split_once('/').unwrap_or((rest, ""));
        let db = match db {
            "" => 0,
            db => db.parse().map_err(|_| wrong("the database is not a number"))?,
        };
        let (host, port) = match host.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => {
                let port = port.parse().map_err(|_| wrong("the port is not a number"))?;
                (host, port)
            }
            _ => (host, PORT),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() {
            return Err(wrong("no host in the address of a server"));
        }
        let server = ServerAddress::Tcp(host.to_owned(), port);
        Ok(DatabaseAddress { server, db })
    }

    /// The whole address, as messages show it and as `--destroy` names it.
    pub fn to_text(&self) -> String {
        match &self.server {
            ServerAddress::Unix(file) => format!("unix:{file}"),
            ServerAddress::Tcp(host, port) if host.contains(':') => {
                format!("redis://[{host}]:{port}/{}", self.db)
            }
            ServerAddress::Tcp(host, port) => format!("redis://{host}:{port}/{}", self.db),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (path, shown) in [
            ("redis://h", "redis://h:6379/0"),
            ("redis://127.0.0.1:7/3", "redis://127.0.0.1:7/3"),
            ("h:1", "redis://h:1/0"),
            ("redis://[::1]:7", "redis://[::1]:7/0"),
            ("redis://[::1]", "redis://[::1]:6379/0"),
            ("unix:/run/r.sock", "unix:/run/r.sock"),
        ] {
            assert_eq!(DatabaseAddress::parse(Some(path)).unwrap().to_text(), shown);
        }
        for bad in ["", "h", "h:1/0", "redis://", "redis://h:x", "redis://h/x", "unix:r"] {
            assert!(DatabaseAddress::parse(Some(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_password_is_refused_and_not_shown() {
        let e = DatabaseAddress::parse(Some("redis://:secret@h")).unwrap_err();
        assert!(!e.to_string().contains("secret"), "{e}");
    }
}
