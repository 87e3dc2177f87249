//! An upload in parts as one operation: create, the parts one after the other, complete; abort
//! when one of them fails, so that nothing is left behind.

use taillight_core::Status;

use super::api::{Api, Request};
use super::lane::{Ask, Lane, Take};
use super::xml;

/// What a slot lends to its upload.
pub trait Part {
    /// Lane, upload, the slot's data, number of its server.
    fn parts(&mut self) -> (&mut Lane, &mut Upload, &[u8], usize);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Step {
    #[default]
    None,
    Create,
    Part(u64),
    Complete,
    Abort,
}

/// An upload under way.
#[derive(Default)]
pub struct Upload {
    step: Step,
    size: u64,
    part: u64,
    id: String,
    /// Names parts in the request that completes.
    list: String,
    query: String,
    /// Checksum of the part under way.
    sum: String,
    /// Why it is aborted.
    failed: Option<Status>,
}

impl Upload {
    /// Begins one of `size` bytes.
    pub fn begin(&mut self, size: u64, part: u64) {
        self.reset();
        self.size = size;
        self.part = part;
        self.step = Step::Create;
    }
    /// Whether one is under way.
    pub fn active(&self) -> bool {
        self.step != Step::None
    }
    pub fn reset(&mut self) {
        self.step = Step::None;
        self.failed = None;
        self.list.clear();
    }
    fn range(&self, part: u64) -> (usize, usize) {
        let from = (part - 1) * self.part;
        (from as usize, (from + self.part).min(self.size) as usize)
    }
}

const ANSWER_MAX: usize = 16 << 10;

/// Writes the next request.
pub fn write(slot: &mut impl Part, name: &[u8], api: &mut Api, mut ask: Ask) -> Ask {
    use std::fmt::Write as _;
    let (lane, upload, data, host) = slot.parts();
    upload.query.clear();
    let mut request = Request::new("POST", name);
    let mut own: &[u8] = &[];
    ask.take = Take::Text(ANSWER_MAX);
    match upload.step {
        Step::None | Step::Create => upload.query.push_str("uploads="),
        Step::Part(n) => {
            let _ = write!(upload.query, "partNumber={n}&uploadId={}", upload.id);
            ask.upload = upload.range(n);
            request.method = "PUT";
            request.data = true;
            request.body = &data[ask.upload.0..ask.upload.1];
        }
        Step::Complete => {
            let _ = write!(upload.query, "uploadId={}", upload.id);
            upload.list.insert_str(0, "<CompleteMultipartUpload>");
            upload.list.push_str("</CompleteMultipartUpload>");
            own = upload.list.as_bytes();
            request.body = own;
        }
        Step::Abort => {
            let _ = write!(upload.query, "uploadId={}", upload.id);
            request.method = "DELETE";
        }
    }
    request.query = &upload.query;
    request.creates = upload.step == Step::Create;
    api.write(host, &request, &mut lane.head);
    lane.head.extend_from_slice(own);
    // Other slots write requests before this one's answer comes.
    if let Some((_, sum)) = api.checksum() {
        upload.sum.clear();
        upload.sum.push_str(sum);
    }
    ask
}

/// Takes an answer; the status when the operation has ended.
pub fn answered(slot: &mut impl Part, api: &Api) -> Option<Status> {
    use std::fmt::Write as _;
    let (lane, upload, _, _) = slot.parts();
    let good = (200..300).contains(&lane.reply.code);
    let text = std::str::from_utf8(&lane.text).unwrap_or("");
    let failed = match lane.reply.code {
        404 => Status::NOT_FOUND,
        _ => Status::STORE,
    };
    upload.step = match upload.step {
        Step::Create if good => match xml::first(text, "UploadId") {
            Some(id) => {
                upload.id = super::api::encoded(&id);
                Step::Part(1)
            }
            None => return Some(Status::STORE),
        },
        Step::None | Step::Create => return Some(failed),
        Step::Part(n) if good => {
            let etag = &lane.reply.etag;
            let _ = write!(upload.list, "<Part><ETag>{}</ETag>", xml::escape(etag));
            if let Some((kind, _)) = api.checksum() {
                let sum = &upload.sum;
                let _ = write!(upload.list, "<Checksum{kind}>{sum}</Checksum{kind}>");
            }
            let _ = write!(upload.list, "<PartNumber>{n}</PartNumber></Part>");
            match upload.range(n).1 as u64 == upload.size {
                true => Step::Complete,
                false => Step::Part(n + 1),
            }
        }
        // An error can come with code 200: the store began its answer before it knew.
        Step::Complete if good && !text.contains("<Error>") => return Some(Status::OK),
        Step::Abort => return Some(upload.failed.unwrap_or(Status::STORE)),
        Step::Part(_) | Step::Complete => {
            upload.failed = Some(failed);
            Step::Abort
        }
    };
    None
}
