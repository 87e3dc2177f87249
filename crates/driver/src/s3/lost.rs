//! Uploads in parts that no answer has ended: remembered while the load runs, aborted when it is over, since they
//! take space that no listing of objects shows. Also those that an earlier run left under the prefix. Called by the
//! target and by `prefix`; housekeeping's requests are `client`'s.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use taillight_core::{Error, Result};

use super::client::S3Client;
use super::multipart::LostUpload;
use super::request::{S3Request, encoded};
use super::xml;

/// Listings that are asked for, one after the other, at most: an answer need not hold all uploads.
const ROUNDS: u32 = 64;

/// Lost uploads of all sessions.
#[derive(Debug, Default)]
pub struct LostUploads(Mutex<BTreeSet<LostUpload>>);

impl LostUploads {
    pub fn note(&self, lost: LostUpload) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(lost);
    }

    /// Aborts them; no session is there any more. Errors: `Unavailable`, with how many are left and where.
    pub fn abort(&self, store: &S3Client) -> Result<()> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if held.is_empty() {
            return Ok(());
        }
        store.detach_from_stop().map_err(|e| left(store, held.len(), e))?;
        let mut failed = None;
        held.retain(|lost| match abort(store, lost) {
            Ok(()) => false,
            Err(e) => {
                failed.get_or_insert(e);
                true
            }
        });
        failed.map_or(Ok(()), |e| Err(left(store, held.len(), e)))
    }
}

fn left(store: &S3Client, number: usize, e: Error) -> Error {
    e.with("leftovers", format!("{number} unfinished uploads under {}", store.location.to_text()))
        .hint("abort them (aws s3api list-multipart-uploads shows them), or let the bucket's lifecycle rules do it")
}

fn abort(store: &S3Client, lost: &LostUpload) -> Result<()> {
    if let Some(id) = &lost.id {
        return abort_one(store, &lost.name, id);
    }
    // Begun by a request without an answer: the run has written this name, so that what is begun for it is the run's.
    abort_all(store, &lost.name, |name| name == lost.name).map(drop)
}

/// `id` as a query has it. One that is not there any more has ended.
fn abort_one(store: &S3Client, name: &str, id: &str) -> Result<()> {
    let query = format!("uploadId={id}");
    let request = S3Request { query: &query, ..S3Request::new("DELETE", name.as_bytes()) };
    let answer = store.call(&request)?;
    match answer.code {
        200..300 | 404 => Ok(()),
        _ => Err(store.refusal("abort an upload", &answer)),
    }
}

/// Names and ids of uploads whose names begin like this, and whether there are more.
fn listed(store: &S3Client, prefix: &str) -> Result<(Vec<[String; 2]>, bool)> {
    let query = format!("prefix={}&uploads=", encoded(prefix));
    let answer = store.call(&S3Request { query: &query, ..S3Request::new("GET", b"") })?;
    if answer.code != 200 {
        return Err(store.refusal("list unfinished uploads", &answer));
    }
    let more = xml::first(&answer.text, "IsTruncated").is_some_and(|more| more == "true");
    Ok((xml::each(&answer.text, "Upload", ["Key", "UploadId"])?, more))
}

/// Aborts what a killed run, or whoever the prefix was taken from, has left unfinished; `goes` says which names go. How
/// many, or none where the store does not list them.
pub fn abort_unfinished(store: &S3Client, goes: impl Fn(&str) -> bool) -> Option<u64> {
    let prefix = &store.location.prefix;
    abort_all(store, prefix, |name| name.starts_with(prefix) && goes(name)).ok()
}

/// Aborts those uploads whose names begin like this that `goes` names; how many.
fn abort_all(store: &S3Client, prefix: &str, goes: impl Fn(&str) -> bool) -> Result<u64> {
    let mut aborted = 0;
    for _ in 0..ROUNDS {
        let (uploads, more) = listed(store, prefix)?;
        let gone: Vec<_> = uploads.into_iter().filter(|[name, _]| goes(name)).collect();
        gone.iter().try_for_each(|[name, id]| abort_one(store, name, &encoded(id)))?;
        aborted += gone.len() as u64;
        if !more || gone.is_empty() {
            break;
        }
    }
    Ok(aborted)
}
