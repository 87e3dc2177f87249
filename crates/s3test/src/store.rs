//! Objects, uploads and checksums in memory. No HTTP.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest, Sha256};

use crate::text;

/// Smallest part of an upload but the last.
pub const PART_MIN: usize = 5 << 20;

/// Checksums that are understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyChecksum {
    /// CRC-32C.
    Crc32c,
    /// SHA-256.
    Sha256,
}

impl BodyChecksum {
    /// All, each with its header and the word for it.
    pub const ALL: [(BodyChecksum, &'static str, &'static str); 2] = [
        (BodyChecksum::Crc32c, "x-amz-checksum-crc32c", "CRC32C"),
        (BodyChecksum::Sha256, "x-amz-checksum-sha256", "SHA256"),
    ];

    /// The checksum of these bytes, in base64.
    pub fn of(self, bytes: &[u8]) -> String {
        match self {
            BodyChecksum::Crc32c => {
                let crc = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes);
                BASE64_STANDARD.encode((crc as u32).to_be_bytes())
            }
            BodyChecksum::Sha256 => BASE64_STANDARD.encode(Sha256::digest(bytes)),
        }
    }

    /// The one with this word, as in `CRC32C`.
    pub fn named(word: &str) -> Option<BodyChecksum> {
        let found = BodyChecksum::ALL.iter().find(|(_, _, w)| *w == word);
        found.map(|(sum, ..)| *sum)
    }
}

/// An object or a part.
#[derive(Debug, Clone)]
pub struct StoredObject {
    pub data: Arc<[u8]>,
    pub etag: String,
    /// Metadata of the user, by header.
    pub metadata: Vec<(String, String)>,
}

impl StoredObject {
    /// An object or part of these bytes, without metadata. The ETag is the first half of their
    /// SHA-256: that it is an MD5, as of AWS, no client must rely on.
    pub fn new(data: Vec<u8>) -> StoredObject {
        let etag = format!("\"{}\"", &text::sha256(&data)[..32]);
        StoredObject { data: Arc::from(data), etag, metadata: Vec::new() }
    }
}

/// An upload in parts under way.
#[derive(Debug)]
pub struct PartUpload {
    /// Name of the object that it will be.
    pub key: String,
    /// Checksum that parts must have.
    pub sum: Option<BodyChecksum>,
    /// Parts by number, each with its checksum.
    pub parts: BTreeMap<u32, (StoredObject, String)>,
    /// Metadata of the object that it will be.
    pub metadata: Vec<(String, String)>,
}

/// A bucket.
#[derive(Debug, Default)]
pub struct Bucket {
    pub objects: BTreeMap<String, StoredObject>,
    pub uploads: BTreeMap<String, PartUpload>,
    /// Number of the last upload.
    last: u64,
}

/// A part as the request that completes names it.
pub struct NamedPart {
    pub number: u32,
    pub etag: String,
    /// Checksum, if it says one.
    pub sum: Option<String>,
}

impl Bucket {
    /// Begins an upload; its id.
    pub fn begin(&mut self, key: &str, sum: Option<BodyChecksum>) -> String {
        self.last += 1;
        // Characters that a client must encode when it sends it back.
        let id = format!("upload/{}=", self.last);
        let upload =
            PartUpload { key: key.to_owned(), sum, parts: BTreeMap::new(), metadata: Vec::new() };
        self.uploads.insert(id.clone(), upload);
        id
    }

    /// Makes an object of an upload.
    pub fn complete(
        &mut self,
        id: &str,
        named: &[NamedPart],
    ) -> Result<StoredObject, &'static str> {
        let upload = self.uploads.get(id).ok_or("NoSuchUpload")?;
        if named.is_empty() {
            return Err("MalformedXML");
        }
        if !named.is_sorted_by(|a, b| a.number < b.number) {
            return Err("InvalidPartOrder");
        }
        let mut all = Vec::new();
        for (n, part) in named.iter().enumerate() {
            let (object, sum) = upload.parts.get(&part.number).ok_or("InvalidPart")?;
            let differs = part.sum.as_ref().is_some_and(|s| s != sum);
            let lacks = upload.sum.is_some() && part.sum.is_none();
            if object.etag != part.etag || differs || lacks {
                return Err("InvalidPart");
            }
            if n + 1 < named.len() && object.data.len() < PART_MIN {
                return Err("EntityTooSmall");
            }
            all.extend_from_slice(&object.data);
        }
        let metadata = upload.metadata.clone();
        let object = StoredObject { metadata, ..StoredObject::new(all) };
        let key = upload.key.clone();
        self.objects.insert(key, object.clone());
        self.uploads.remove(id);
        Ok(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_the_standards() {
        // Check values of CRC-32C and SHA-256 for "123456789".
        assert_eq!(BodyChecksum::Crc32c.of(b"123456789"), "4waSgw==");
        assert!(BodyChecksum::Sha256.of(b"123456789").starts_with("FeKw08M4"));
        assert_eq!(
            (BodyChecksum::named("CRC32C"), BodyChecksum::named("MD5")),
            (Some(BodyChecksum::Crc32c), None)
        );
    }

    #[test]
    fn uploads_keep_their_rules() {
        let mut bucket = Bucket::default();
        let id = bucket.begin("k", Some(BodyChecksum::Crc32c));
        let name = |number: u32, o: &StoredObject, sum: &str| NamedPart {
            number,
            etag: o.etag.clone(),
            sum: Some(sum.to_owned()).filter(|s| !s.is_empty()),
        };
        let (large, small) = (StoredObject::new(vec![1; PART_MIN]), StoredObject::new(vec![2; 3]));
        let parts = &mut bucket.uploads.get_mut(&id).expect("it is there").parts;
        parts.insert(1, (large.clone(), "a".to_owned()));
        for number in [2, 4] {
            parts.insert(number, (small.clone(), "b".to_owned()));
        }
        for (named, word) in [
            (vec![], "MalformedXML"),
            (vec![name(2, &small, "b"), name(4, &small, "b")], "EntityTooSmall"),
            (vec![name(2, &small, "b"), name(1, &large, "a")], "InvalidPartOrder"),
            (vec![name(1, &large, "a"), name(3, &small, "b")], "InvalidPart"),
            (vec![name(1, &large, "x"), name(2, &small, "b")], "InvalidPart"),
            (vec![name(1, &large, ""), name(2, &small, "b")], "InvalidPart"),
        ] {
            assert_eq!(bucket.complete(&id, &named).err(), Some(word));
        }
        let whole = bucket.complete(&id, &[name(1, &large, "a"), name(2, &small, "b")]);
        assert_eq!(whole.expect("complete").data.len(), PART_MIN + 3);
        assert_eq!(bucket.complete(&id, &[]).err(), Some("NoSuchUpload"));
    }
}
