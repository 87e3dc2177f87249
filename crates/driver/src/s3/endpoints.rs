//! Checks that several endpoints all lead to one store: one look at each before anything is written, another
//! after the owner mark was. `OwnedPrefix::take` calls it; nothing is watched during the run.
//!
//! A store that is not the first one would be written to without its prefix having been looked at,
//! and nothing would be cleaned up there.

use taillight_core::{Error, Result};

use super::client::S3Client;
use super::request::{S3Request, encoded};
use super::xml;

/// The beginning of a listing of the prefix.
struct ListingPage {
    names: Vec<String>,
    /// There is more behind it.
    more: bool,
}

impl S3Client {
    fn page(&self, server: usize) -> Result<ListingPage> {
        let query = format!("list-type=2&prefix={}", encoded(&self.location.prefix));
        let request = S3Request { query: &query, ..S3Request::new("GET", b"") };
        let answer = self.call_on(server, &request)?;
        self.listed(&answer).map_err(|e| e.with("endpoint", self.endpoint(server)))?;
        Ok(ListingPage {
            names: xml::all(&answer.text, "Key")
                .map_err(|e| e.with("endpoint", self.endpoint(server)))?,
            more: xml::first(&answer.text, "NextContinuationToken").is_some(),
        })
    }

    /// Lists the prefix through every further server: one that is gone, that serves something else,
    /// or that has objects there which the first has not, is told before anything is written.
    /// Errors: `Unavailable` or `Refused`, naming the server.
    pub fn check_endpoints(&self) -> Result<()> {
        if self.servers() == 1 {
            return Ok(());
        }
        let first = self.page(0)?;
        for server in 1..self.servers() {
            let there = self.page(server)?;
            let known = |name: &String| {
                // What lies behind the first one's page is not known of it.
                let behind = first.more && first.names.last().is_some_and(|last| name > last);
                behind || first.names.contains(name)
            };
            if let Some(name) = there.names.iter().find(|name| !known(name)) {
                return Err(self.other_store(server).with("object only there", name));
            }
        }
        Ok(())
    }

    /// Whether every further server gives the object `name` with just this text, which was written
    /// through the first one. Errors: `Refused`, naming the server that does not; `Unavailable`
    /// when one gives no answer.
    pub fn check_same_store(&self, name: &str, text: &[u8]) -> Result<()> {
        for server in 1..self.servers() {
            let answer = self.call_on(server, &S3Request::new("GET", name.as_bytes()))?;
            match answer.code {
                200 if answer.text.as_bytes() == text => {}
                200 => return Err(self.other_store(server)),
                404 if answer.error_code() == "NoSuchKey" => return Err(self.other_store(server)),
                _ => {
                    let refusal = self.refusal("read its owner mark", &answer);
                    return Err(refusal.with("endpoint", self.endpoint(server)));
                }
            }
        }
        Ok(())
    }

    fn other_store(&self, server: usize) -> Error {
        Error::refused("an endpoint leads to another store than the first one")
            .with("endpoint", self.endpoint(server))
            .with("first", self.endpoint(0))
            .hint(
                "options.endpoints names servers of one store: a bucket of the same name elsewhere \
                 would be written to and not cleaned up",
            )
    }
}
