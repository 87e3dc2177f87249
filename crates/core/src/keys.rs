//! Names of keys: writes a key number as the bytes a store sees, without allocation, into the caller's
//! buffer. YCSB's hash and its two namings and db_bench's binary naming are followed bit by bit, so that a
//! data set loaded by YCSB can be read here, and one loaded here by YCSB.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Longest key, bytes: the limit of S3.
pub const KEY_MAX: usize = 1024;

/// Length of the longest number: 20 digits, or a sign and the 19 of a hash.
const DIGITS_MAX: usize = 20;

/// Up to this size the padding of a binary key is written whole, behind a shorter key too.
const BINARY_SHORT: usize = 24;

/// YCSB's key hash: FNV over the eight octets of `n`, lowest first, XOR before multiplying, then
/// the absolute value as a signed number.
///
/// `i64::MIN` has no absolute value and stays negative, as in YCSB.
#[inline]
pub fn hash(n: u64) -> i64 {
    const START: u64 = 0xCBF2_9CE4_8422_2325;
    const PRIME: u64 = 1_099_511_628_211;
    let octets = n.to_le_bytes();
    let step = |state: u64, octet: &u8| (state ^ u64::from(*octet)).wrapping_mul(PRIME);
    let [low @ .., 0, 0, 0] = &octets else {
        return (octets.iter().fold(START, step) as i64).wrapping_abs();
    };
    // Three octets of zero only multiply: numbers below 2^40 take six multiplications, not eight.
    let state = low.iter().fold(START, step);
    (state.wrapping_mul(const { PRIME.wrapping_pow(3) }) as i64).wrapping_abs()
}

/// How a key number is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum KeyNaming {
    /// Prefix and the decimal [`hash`] of the number: YCSB's `insertorder=hashed`.
    Hashed,
    /// Prefix and the number itself in decimal: YCSB's `insertorder=ordered`.
    Ordered,
    /// Eight octets, highest first, then ASCII `0` up to the size: db_bench. No prefix.
    Binary,
}

/// The form of all keys of a data set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyFormat {
    naming: KeyNaming,
    prefix: Box<str>,
    digits: usize,
    size: usize,
}

impl KeyFormat {
    /// Decimal keys: `prefix`, then the digits, padded with zeros to at least `digits`. Errors:
    /// `Usage` when a key could be longer than [`KEY_MAX`], or the naming is binary.
    pub fn decimal(naming: KeyNaming, prefix: &str, digits: u32) -> Result<KeyFormat> {
        if naming == KeyNaming::Binary {
            return Err(Error::usage("binary keys have a size, not digits")
                .hint("use the naming hashed or ordered, or give a key size"));
        }
        let digits = digits as usize;
        let longest = prefix.len().saturating_add(digits.max(DIGITS_MAX));
        if longest > KEY_MAX {
            return Err(Error::usage("the keys would be too long")
                .with("longest", longest)
                .with("limit", KEY_MAX)
                .hint("shorten the prefix or ask for fewer digits"));
        }
        Ok(KeyFormat { naming, prefix: prefix.into(), digits, size: 0 })
    }

    /// Binary keys of `size` bytes. Errors: `Usage` when the size is below 8 or above [`KEY_MAX`].
    pub fn binary(size: u32) -> Result<KeyFormat> {
        let size = size as usize;
        if !(8..=KEY_MAX).contains(&size) {
            return Err(Error::usage("a binary key has 8 to 1024 bytes")
                .with("size", size)
                .hint("db_bench's default is 16"));
        }
        Ok(KeyFormat { naming: KeyNaming::Binary, prefix: "".into(), digits: 0, size })
    }

    /// How numbers are written.
    pub fn naming(&self) -> KeyNaming {
        self.naming
    }

    /// Length that no key it writes exceeds, bytes.
    pub fn longest(&self) -> usize {
        match self.naming {
            KeyNaming::Binary => self.size,
            _ => self.prefix.len() + self.digits.max(DIGITS_MAX),
        }
    }

    /// Whether a key could be one of these. Of decimal keys prefix and digits are looked at, not how many digits.
    pub fn could_be(&self, key: &[u8]) -> bool {
        if self.naming == KeyNaming::Binary {
            return key.len() == self.size && key[8..].iter().all(|b| *b == b'0');
        }
        let Some(padded) = key.strip_prefix(self.prefix.as_bytes()) else { return false };
        let zeros = padded.iter().take_while(|b| **b == b'0').count();
        let number = &padded[zeros..];
        let digits = number.strip_prefix(b"-").unwrap_or(number);
        !padded.is_empty() && digits.iter().all(u8::is_ascii_digit)
    }

    /// Writes the key of number `n` and returns it.
    #[inline]
    pub fn write<'a>(&self, n: u64, out: &'a mut [u8; KEY_MAX]) -> &'a [u8] {
        match self.naming {
            KeyNaming::Hashed => {
                let hash = hash(n);
                self.number(hash.unsigned_abs(), hash < 0, out)
            }
            KeyNaming::Ordered => self.number(n, false, out),
            KeyNaming::Binary => {
                out[..8].copy_from_slice(&n.to_be_bytes());
                // Of a length that the compiler knows: no call for a few bytes.
                match self.size {
                    ..=BINARY_SHORT => out[8..BINARY_SHORT].fill(b'0'),
                    size => out[8..size].fill(b'0'),
                }
                &out[..self.size]
            }
        }
    }

    #[inline]
    fn number<'a>(&self, n: u64, negative: bool, out: &'a mut [u8; KEY_MAX]) -> &'a [u8] {
        let prefix = self.prefix.as_bytes();
        out[..prefix.len()].copy_from_slice(prefix);
        let mut written = itoa::Buffer::new();
        let number = written.format(n).as_bytes();
        let length = number.len() + usize::from(negative);
        let start = prefix.len() + self.digits.saturating_sub(length);
        let end = start + length;
        // A whole number's worth of zeros at once, where there is room: no call for a few bytes.
        match out[prefix.len()..].first_chunk_mut::<DIGITS_MAX>() {
            Some(few) if self.digits <= DIGITS_MAX => *few = [b'0'; DIGITS_MAX],
            _ => out[prefix.len()..start].fill(b'0'),
        }
        if negative {
            out[start] = b'-';
        }
        out[end - number.len()..end].copy_from_slice(number);
        &out[..end]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn keys_are_known_by_their_form() {
        let decimal = |naming, digits| KeyFormat::decimal(naming, "user", digits).unwrap();
        let hashed = decimal(KeyNaming::Hashed, 1);
        let padded = decimal(KeyNaming::Ordered, 8);
        let binary = KeyFormat::binary(16).unwrap();
        let mut out = [0; KEY_MAX];
        for format in [&hashed, &padded, &binary] {
            for n in [0, 1, 10, 99_999, 1 << 40] {
                assert!(format.could_be(format.write(n, &mut out)), "{format:?} {n}");
            }
        }
        for key in ["user", "userx1", "user1x", "mine", "us", "user12-3"] {
            assert!(!hashed.could_be(key.as_bytes()) && !binary.could_be(key.as_bytes()), "{key}");
        }
    }

    /// Number and hash, from a run of YCSB's own classes.
    const HASHES: [(u64, i64); 16] = [
        (0, 6_284_781_860_667_377_211),
        (1, 8_517_097_267_634_966_620),
        (2, 1_820_151_046_732_198_393),
        (3, 4_052_466_453_699_787_802),
        (4, 3_232_700_585_171_816_769),
        (5, 1_000_385_178_204_227_360),
        (6, 7_697_331_399_106_995_587),
        (7, 5_465_015_992_139_406_178),
        (8, 6_873_002_678_636_213_555),
        (9, 9_105_318_085_603_802_964),
        (255, 8_064_062_821_143_829_734),
        (256, 2_056_600_594_528_442_646),
        (999, 2_071_219_101_098_386_137),
        (1_000_000, 1_011_632_231_655_643_464),
        (4_294_967_296, 634_246_865_027_890_484),
        (10_000_000_000, 1_201_321_332_300_452_516),
    ];

    fn key(format: &KeyFormat, n: u64) -> String {
        let mut out = [0xAA; KEY_MAX];
        String::from_utf8(format.write(n, &mut out).to_vec()).unwrap()
    }

    #[test]
    fn hash_is_ycsb_s() {
        for (n, expected) in HASHES {
            assert_eq!(hash(n), expected, "hash of {n}");
        }
        // Three octets of zero take a short cut; on both sides of its end the plain way is right.
        for n in [(1 << 40) - 1, 1 << 40, (1 << 40) + 255, 1 << 63, u64::MAX] {
            let plain = n.to_le_bytes().iter().fold(0xCBF2_9CE4_8422_2325_u64, |state, octet| {
                (state ^ u64::from(*octet)).wrapping_mul(1_099_511_628_211)
            });
            assert_eq!(hash(n), (plain as i64).wrapping_abs(), "hash of {n}");
        }
        let modulo = |m: i64| (0..10).map(|n| hash(n) % m).collect::<Vec<_>>();
        assert_eq!(modulo(1001), [144, 610, 213, 679, 10, 545, 942, 476, 436, 902]);
        assert_eq!(
            modulo(1_000_001),
            [
                801_320, 216_074, 971_811, 386_565, 464_295, 49_540, 293_804, 879_050, 407_915,
                822_670
            ]
        );
    }

    #[test]
    fn keys_are_ycsb_s() {
        let hashed = KeyFormat::decimal(KeyNaming::Hashed, "user", 1).unwrap();
        for (n, digits) in HASHES {
            assert_eq!(key(&hashed, n), format!("user{digits}"));
        }
        let padded = KeyFormat::decimal(KeyNaming::Hashed, "user", 24).unwrap();
        assert_eq!(key(&padded, 0), "user000006284781860667377211");
        let ordered = KeyFormat::decimal(KeyNaming::Ordered, "user", 8).unwrap();
        assert_eq!(key(&ordered, 0), "user00000000");
        assert_eq!(key(&ordered, 1), "user00000001");
        assert_eq!(key(&ordered, 123_456_789), "user123456789");
    }

    #[test]
    fn binary_keys_are_db_bench_s() {
        let binary = KeyFormat::binary(16).unwrap();
        let mut out = [0xAA; KEY_MAX];
        assert_eq!(binary.write(258, &mut out), b"\0\0\0\0\0\0\x01\x0200000000");
        assert_eq!(KeyFormat::binary(8).unwrap().write(u64::MAX, &mut out), [0xFF; 8]);
        for size in [9, BINARY_SHORT, BINARY_SHORT + 1, KEY_MAX] {
            let mut out = [0xAA; KEY_MAX];
            let key = KeyFormat::binary(size as u32).unwrap().write(u64::MAX, &mut out).to_vec();
            assert_eq!(key.len(), size);
            assert_eq!(key, [vec![0xFF; 8], vec![b'0'; size - 8]].concat());
        }
    }

    #[test]
    fn a_negative_hash_is_written_like_java_does() {
        let format = KeyFormat::decimal(KeyNaming::Hashed, "user", 22).unwrap();
        let mut out = [0; KEY_MAX];
        let written = format.number(i64::MIN.unsigned_abs(), true, &mut out);
        assert_eq!(written, b"user00-9223372036854775808");
    }

    #[test]
    fn lengths_are_checked() {
        for bad in [
            KeyFormat::decimal(KeyNaming::Ordered, &"p".repeat(1005), 1),
            KeyFormat::decimal(KeyNaming::Hashed, "user", 1021),
            KeyFormat::decimal(KeyNaming::Hashed, "user", u32::MAX),
            KeyFormat::decimal(KeyNaming::Binary, "", 1),
            KeyFormat::binary(7),
            KeyFormat::binary(1025),
        ] {
            let error = bad.unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::Usage);
            assert!(error.hint_text().is_some());
        }
        let longest = KeyFormat::decimal(KeyNaming::Ordered, &"p".repeat(1004), 1).unwrap();
        assert_eq!(longest.longest(), KEY_MAX);
        assert_eq!(key(&longest, u64::MAX).len(), KEY_MAX);
        assert_eq!(KeyFormat::binary(1024).unwrap().longest(), KEY_MAX);
    }

    proptest! {
        #[test]
        fn decimal_is_what_the_standard_library_prints(n: u64, shift in 0u32..64, digits in 0u32..30) {
            let n = n >> shift;
            let format = KeyFormat::decimal(KeyNaming::Ordered, "k", digits).unwrap();
            prop_assert_eq!(key(&format, n), format!("k{n:0width$}", width = digits as usize));
        }
    }
}
