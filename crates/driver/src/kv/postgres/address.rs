//! Reads and shows the address of a PostgreSQL server: `postgres://HOST[:PORT][/DATABASE]` or `unix:/PATH`; one with a
//! user or password is refused. Also lists the sockets of servers on this machine.

use taillight_core::{Error, Result};

use crate::net::ServerAddress;

/// Port when none is given.
const PORT: u16 = 5432;

/// Name of the default port's socket in a directory of sockets, for a path that names only the directory.
const SOCKET: &str = ".s.PGSQL.5432";

/// A server and a database in it: that of the address, else of the options, else `postgres`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PgAddress {
    pub server: ServerAddress,
    pub database: String,
}

impl PgAddress {
    /// Reads `target.path`; `database` is the one of the options. Errors: `Usage` when it is no address, has a user,
    /// password or settings, or names another database.
    pub fn parse(path: Option<&str>, database: &str) -> Result<PgAddress> {
        let wrong = |what: &str| {
            Error::usage(what.to_owned()).hint(
                "--path postgres://127.0.0.1:5432/DATABASE, or --path unix:/run/postgresql with \
                 options.database",
            )
        };
        let path = path.filter(|p| !p.is_empty());
        let path = path.ok_or_else(|| wrong("driver `postgres` needs the address of a server"))?;
        let or_usual = |name: &str| if name.is_empty() { "postgres" } else { name }.to_owned();
        if let Some(file) = path.strip_prefix("unix:") {
            if !file.starts_with('/') {
                return Err(wrong("the path of a unix socket begins with /"));
            }
            let file = match file.rsplit('/').next().is_some_and(|f| f.starts_with(".s.PGSQL.")) {
                true => file.to_owned(),
                false => format!("{}/{SOCKET}", file.trim_end_matches('/')),
            };
            let server = ServerAddress::Unix(file);
            return Ok(PgAddress { server, database: or_usual(database) });
        }
        let schemes = ["postgres://", "postgresql://"];
        let rest = schemes.iter().find_map(|scheme| path.strip_prefix(scheme));
        let rest = rest.ok_or_else(|| wrong("not the address of a PostgreSQL server"))?;
        if rest.contains('@') {
            // Not shown: it holds a secret.
            return Err(Error::usage("no user or password in the address of a server")
                .hint("leave it out: the user is options.user, the password PGPASSWORD"));
        }
        if rest.contains('?') {
            return Err(wrong("settings in the address are not read: they are options"));
        }
        let (host, named) = rest.split_once('/').unwrap_or((rest, ""));
        if !named.is_empty() && !database.is_empty() && named != database {
            return Err(wrong("the address names another database than options.database"));
        }
        let named = or_usual(if named.is_empty() { database } else { named });
        let (host, port) = match host.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => {
                (host, port.parse().map_err(|_| wrong("the port is not a number"))?)
            }
            _ => (host, PORT),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() {
            return Err(wrong("no host in the address of a server"));
        }
        Ok(PgAddress { server: ServerAddress::Tcp(host.to_owned(), port), database: named })
    }

    /// The address as messages show it; of a unix socket without the database.
    pub fn to_text(&self) -> String {
        match &self.server {
            ServerAddress::Unix(file) => format!("unix:{file}"),
            ServerAddress::Tcp(host, port) if host.contains(':') => {
                format!("postgres://[{host}]:{port}/{}", self.database)
            }
            ServerAddress::Tcp(host, port) => format!("postgres://{host}:{port}/{}", self.database),
        }
    }
}

/// Sockets named as servers' in these directories, as `--path` takes them; whether a server listens is not looked at.
pub fn local_servers(directories: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for directory in directories {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let port = name.strip_prefix(".s.PGSQL.");
            if port.is_some_and(|port| port.parse::<u16>().is_ok()) {
                found.push(format!("unix:{directory}/{name}"));
            }
        }
    }
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_of_servers_are_found_by_their_names() {
        let dir = tempfile::tempdir().unwrap();
        for name in [".s.PGSQL.5433", ".s.PGSQL.5433.lock", "other"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        let directory = dir.path().to_str().unwrap();
        let found = local_servers(&[directory, "/nowhere"]);
        assert_eq!(found, [format!("unix:{directory}/.s.PGSQL.5433")]);
        assert!(PgAddress::parse(found.first().map(String::as_str), "").is_ok());
    }

    #[test]
    fn addresses() {
        for (path, database, shown, named) in [
            ("postgres://h", "", "postgres://h:5432/postgres", "postgres"),
            ("postgresql://h:7/b", "", "postgres://h:7/b", "b"),
            ("postgres://h:7", "b", "postgres://h:7/b", "b"),
            ("postgres://[::1]:7/b", "b", "postgres://[::1]:7/b", "b"),
            ("unix:/run/pg", "b", "unix:/run/pg/.s.PGSQL.5432", "b"),
            ("unix:/run/pg/.s.PGSQL.9", "", "unix:/run/pg/.s.PGSQL.9", "postgres"),
        ] {
            let address = PgAddress::parse(Some(path), database).unwrap();
            assert_eq!((address.to_text().as_str(), address.database.as_str()), (shown, named));
        }
        for (bad, database) in [
            ("", ""),
            ("h:1", ""),
            ("postgres://", ""),
            ("postgres://h:x", ""),
            ("postgres://h/a", "b"),
            ("postgres://h/a?sslmode=require", ""),
            ("unix:r", ""),
        ] {
            assert!(PgAddress::parse(Some(bad), database).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_password_is_refused_and_not_shown() {
        let e = PgAddress::parse(Some("postgres://u:secret@h/b"), "").unwrap_err();
        assert!(!e.to_string().contains("secret"), "{e}");
    }
}
