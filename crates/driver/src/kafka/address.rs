//! Where the brokers listen and which topic is the run's: `kafka://HOST[:PORT][,HOST[:PORT]...][/TOPIC]`. Never a
//! password.

use taillight_core::{Error, Result};

/// Port when none is given.
const PORT: u16 = 9092;
/// The topic when none is named.
const TOPIC: &str = "taillight";
const SCHEME: &str = "kafka://";
/// Longest name of a topic.
const NAME_MAX: usize = 249;

/// Brokers to begin with, and a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KafkaAddress {
    /// As the library takes them: HOST:PORT,HOST:PORT.
    pub servers: String,
    pub topic: String,
}

impl KafkaAddress {
    /// Reads `target.path`; `topic` is the one of the options. Errors: `Usage` when it is no address, carries a
    /// password, or names another topic.
    pub fn parse(path: Option<&str>, topic: &str) -> Result<KafkaAddress> {
        let wrong = |what: &str| {
            Error::usage(what.to_owned())
                .hint("--path kafka://127.0.0.1:9092/TOPIC; several brokers: kafka://HOST:9092,HOST:9092/TOPIC")
        };
        let path = path.filter(|p| !p.is_empty());
        let path = path.ok_or_else(|| wrong("driver `kafka` needs the address of a broker"))?;
        let rest = path.strip_prefix(SCHEME).ok_or_else(|| wrong("not the address of a broker"))?;
        if rest.contains('@') {
            // Not shown: it holds a secret.
            return Err(Error::usage("no user or password in the address of a server").hint(
                "leave it out: the user is options.config.\"sasl.username\", the password KAFKA_PASSWORD",
            ));
        }
        let (hosts, named) = rest.split_once('/').unwrap_or((rest, ""));
        if !named.is_empty() && !topic.is_empty() && named != topic {
            return Err(wrong("the address names another topic than options.topic"));
        }
        let topic = [named, topic, TOPIC].into_iter().find(|t| !t.is_empty()).unwrap_or(TOPIC);
        check_topic(topic)?;
        let mut servers = Vec::new();
        for host in hosts.split(',') {
            let (name, port) = match host.rsplit_once(':') {
                Some((name, port)) if !port.ends_with(']') => {
                    (name, port.parse().map_err(|_| wrong("the port is not a number"))?)
                }
                _ => (host, PORT),
            };
            if name.is_empty() {
                return Err(wrong("no host in the address of a broker"));
            }
            servers.push(format!("{name}:{port}"));
        }
        Ok(KafkaAddress { servers: servers.join(","), topic: topic.to_owned() })
    }

    /// As it is shown; also what `--destroy` names.
    pub fn to_text(&self) -> String {
        format!("{SCHEME}{}/{}", self.servers, self.topic)
    }

    /// The path of a rank's own topic. Errors: `Usage` where the path names no topic.
    pub fn of_rank(path: &str, rank: &str) -> Result<String> {
        let named = path.strip_prefix(SCHEME).is_some_and(|rest| rest.contains('/'));
        if !named {
            return Err(Error::usage("each rank needs a topic of its own")
                .with("path", path)
                .hint(
                    "name the topic in the path, kafka://HOST:9092/TOPIC, and not in options.topic",
                ));
        }
        Ok(format!("{path}.{rank}"))
    }
}

/// Errors: `Usage` for a name that no broker takes, or that is a broker's own.
fn check_topic(topic: &str) -> Result<()> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let whole = topic.len() <= NAME_MAX && topic.chars().all(plain);
    if whole && topic != "." && topic != ".." && !topic.starts_with("__") {
        return Ok(());
    }
    Err(Error::usage("wrong name of a topic").of_field("topic").with("topic", topic).hint(
        "1 to 249 of the characters a-z A-Z 0-9 . _ -; those that begin with __ are the broker's",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (path, topic, shown) in [
            ("kafka://h", "", "kafka://h:9092/taillight"),
            ("kafka://h:7/t", "", "kafka://h:7/t"),
            ("kafka://h:7,i/t", "t", "kafka://h:7,i:9092/t"),
            ("kafka://[::1]:7", "t.1", "kafka://[::1]:7/t.1"),
        ] {
            assert_eq!(KafkaAddress::parse(Some(path), topic).unwrap().to_text(), shown);
        }
        for (bad, topic) in [
            ("", ""),
            ("h:1", ""),
            ("kafka://", ""),
            ("kafka://h,,i", ""),
            ("kafka://h:x", ""),
            ("kafka://h/a", "b"),
            ("kafka://h/a/b", ""),
            ("kafka://h", "__consumer_offsets"),
            ("kafka://h", ".."),
            ("kafka://h", "a b"),
        ] {
            assert!(KafkaAddress::parse(Some(bad), topic).is_err(), "{bad} {topic}");
        }
        assert_eq!(
            KafkaAddress::of_rank("kafka://h/t", "rank-0001").unwrap(),
            "kafka://h/t.rank-0001"
        );
        assert!(KafkaAddress::of_rank("kafka://h", "rank-0001").is_err());
    }

    #[test]
    fn a_password_is_refused_and_not_shown() {
        let e = KafkaAddress::parse(Some("kafka://u:secret@h/b"), "").unwrap_err();
        assert!(!e.to_string().contains("secret"), "{e}");
    }
}
