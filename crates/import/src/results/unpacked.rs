//! Results that were packed: what they are is told by their first bytes, as everything else is.

use std::io::{BufRead, BufReader, Result};

/// Begin of a frame of zstd (RFC 8878, section 3.1.1).
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Begin of a file of gzip with the only method there is (RFC 1952, section 2.3.1).
const GZIP: [u8; 3] = [0x1f, 0x8b, 8];

/// The text of a result, packed with zstd or gzip or not at all. Errors: those of reading.
pub fn unpacked<'a>(mut input: impl BufRead + 'a) -> Result<Box<dyn BufRead + 'a>> {
    let head = input.fill_buf()?;
    if head.starts_with(&ZSTD) {
        return Ok(Box::new(BufReader::new(zstd::Decoder::with_buffer(input)?)));
    }
    if head.starts_with(&GZIP) {
        return Ok(Box::new(BufReader::new(flate2::bufread::MultiGzDecoder::new(input))));
    }
    Ok(Box::new(input))
}
