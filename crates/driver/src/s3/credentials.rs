//! The credentials that sign requests: from the environment or the AWS credentials file, and from
//! nowhere else. Neither `Debug` nor an error shows a value of them.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use taillight_core::{Error, Result, regular};

/// An access key, its secret, perhaps a session token.
#[derive(Clone)]
pub struct Credentials(Arc<Secret>);

struct Secret {
    id: String,
    secret: String,
    token: Option<String>,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Credentials(hidden)")
    }
}

/// Where they came from, for people.
pub type Origin = String;

impl Credentials {
    pub fn new(id: &str, secret: &str, token: Option<&str>) -> Credentials {
        Credentials(Arc::new(Secret {
            id: id.to_owned(),
            secret: secret.to_owned(),
            token: token.map(str::to_owned),
        }))
    }
    /// The access key id.
    pub fn id(&self) -> &str {
        &self.0.id
    }
    /// The secret access key.
    pub fn secret(&self) -> &str {
        &self.0.secret
    }
    /// The session token of temporary credentials.
    pub fn token(&self) -> Option<&str> {
        self.0.token.as_deref()
    }

    /// The environment's, else those of `profile` (empty: `AWS_PROFILE`, else `default`) in the
    /// credentials file. A profile that is named goes before the environment. Errors: `Unavailable`
    /// when there are none.
    pub fn find(profile: &str) -> Result<(Credentials, Origin)> {
        Credentials::find_in(profile, &|name| std::env::var(name).ok().filter(|v| !v.is_empty()))
    }

    /// [`Credentials::find`] with an environment that tests can make up. Errors: `Unavailable` when
    /// there are none.
    pub fn find_in(
        profile: &str,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<(Credentials, Origin)> {
        if profile.is_empty() {
            match (env("AWS_ACCESS_KEY_ID"), env("AWS_SECRET_ACCESS_KEY")) {
                (Some(id), Some(secret)) => {
                    let token = env("AWS_SESSION_TOKEN");
                    let found = Credentials::new(&id, &secret, token.as_deref());
                    return checked(found, "environment".to_owned());
                }
                (None, None) => {}
                _ => {
                    return Err(Error::unavailable(
                        "only one of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY is set",
                    )
                    .hint("set both, or neither and use the credentials file"));
                }
            }
        }
        let profile = match profile {
            "" => env("AWS_PROFILE").unwrap_or_else(|| "default".to_owned()),
            named => named.to_owned(),
        };
        let path = match env("AWS_SHARED_CREDENTIALS_FILE") {
            Some(path) => PathBuf::from(path),
            None => match env("HOME") {
                Some(home) => PathBuf::from(home).join(".aws/credentials"),
                None => return Err(none("no home directory", &profile)),
            },
        };
        let shown = path.display().to_string();
        let text = regular::read_to_string(&path)
            .map_err(|e| none("no credentials file can be read", &profile).with("why", e))?;
        let values = section(&text, &profile);
        let get = |name: &str| values.get(name).map(String::as_str);
        match (get("aws_access_key_id"), get("aws_secret_access_key")) {
            (Some(id), Some(secret)) => checked(
                Credentials::new(id, secret, get("aws_session_token")),
                format!("profile {profile} of {shown}"),
            ),
            _ => Err(none("the profile has no key and secret", &profile).with("file", shown)),
        }
    }
}

/// They go into header lines: control characters would break those.
fn checked(found: Credentials, origin: Origin) -> Result<(Credentials, Origin)> {
    let plain = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
    let whole = plain(found.id()) && plain(found.secret()) && found.token().is_none_or(plain);
    if whole {
        return Ok((found, origin));
    }
    Err(Error::unavailable("the credentials hold characters that no key has")
        .with("from", origin)
        .hint("set them again, without quotes, blanks or line ends"))
}

fn none(what: &str, profile: &str) -> Error {
    Error::unavailable(format!("no credentials for the object store: {what}"))
        .with("profile", profile)
        .hint(
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or write them into \
             ~/.aws/credentials; they are never taken from a job file",
        )
}

/// The values of `[name]` in an INI file.
fn section(text: &str, name: &str) -> HashMap<String, String> {
    let mut inside = false;
    let mut values = HashMap::new();
    for line in text.lines().map(str::trim) {
        if let Some(head) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            inside = head.trim() == name;
        } else if inside
            && !line.starts_with(['#', ';'])
            && let Some((key, value)) = line.split_once('=')
        {
            values.insert(key.trim().to_ascii_lowercase(), value.trim().to_owned());
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(pairs: &'static [(&'static str, &'static str)]) -> impl Fn(&str) -> Option<String> {
        move |name| {
            let found = pairs.iter().find(|(n, _)| *n == name);
            found.map(|(_, v)| (*v).to_owned())
        }
    }

    #[test]
    fn the_environment_goes_first_and_must_be_whole() {
        let both = env(&[
            ("AWS_ACCESS_KEY_ID", "id"),
            ("AWS_SECRET_ACCESS_KEY", "s3cr3t"),
            ("AWS_SESSION_TOKEN", "tok"),
        ]);
        let (found, origin) = Credentials::find_in("", &both).unwrap();
        assert_eq!((found.id(), found.secret()), ("id", "s3cr3t"));
        assert_eq!((found.token(), origin.as_str()), (Some("tok"), "environment"));
        assert!(!format!("{found:?}").contains("s3cr3t"));
        let half = env(&[("AWS_ACCESS_KEY_ID", "id")]);
        let e = Credentials::find_in("", &half).unwrap_err();
        assert!(e.to_string().contains("only one"), "{e}");
    }

    #[test]
    fn errors_do_not_show_values() {
        let broken =
            env(&[("AWS_ACCESS_KEY_ID", "my id"), ("AWS_SECRET_ACCESS_KEY", "s3cr3t\r\nx: y")]);
        let e = Credentials::find_in("", &broken).unwrap_err();
        assert!(!format!("{e} {:?}", e.hint_text()).contains("s3cr3t"));
        let e = Credentials::find_in("", &env(&[])).unwrap_err();
        assert!(e.hint_text().unwrap().contains("AWS_ACCESS_KEY_ID"));
    }

    #[test]
    fn profiles_of_the_file() {
        let text = "[default]\naws_access_key_id = a\n[ two ]\n# no\nAWS_ACCESS_KEY_ID=b\n\
                    aws_secret_access_key = c=d\n";
        assert_eq!(section(text, "default").len(), 1);
        let two = section(text, "two");
        assert_eq!(
            (two["aws_access_key_id"].as_str(), two["aws_secret_access_key"].as_str()),
            ("b", "c=d")
        );
        assert!(section(text, "three").is_empty());
    }
}
