//! The client's side of SCRAM-SHA-256 (RFC 7677): proves a password without sending it, and that the server knows it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use taillight_core::{Error, Result};

use crate::net::digest::hmac;

/// Rounds that a server may ask for at most: a false one could keep a client busy for hours.
const ROUNDS_MAX: u32 = 10_000_000;

/// A dialogue that has begun.
pub struct ScramDialogue<'a> {
    password: &'a str,
    nonce: &'a str,
    /// The client's first message, without its head, which is about channel binding.
    first: String,
    /// The signature that the server has to send at the end.
    signature: [u8; 32],
}

impl<'a> ScramDialogue<'a> {
    /// Begins with a `nonce`, which must be random. For PostgreSQL, which knows the user already, `user` is empty.
    pub fn new(user: &str, password: &'a str, nonce: &'a str) -> ScramDialogue<'a> {
        let first = format!("n={user},r={nonce}");
        ScramDialogue { password, nonce, first, signature: [0; 32] }
    }

    /// The client's first message.
    pub fn first(&self) -> String {
        format!("n,,{}", self.first)
    }

    /// The proof, as the answer to the server's first message. Errors: `Unavailable` when that is not SCRAM, does not
    /// continue the nonce, or asks for no or too many rounds.
    pub fn proof(&mut self, server: &[u8]) -> Result<String> {
        let wrong = || Error::unavailable("the server's SCRAM is not understood");
        let server = std::str::from_utf8(server).map_err(|_| wrong())?;
        let part = |name: &str| server.split(',').find_map(|part| part.strip_prefix(name));
        let nonce = part("r=").ok_or_else(wrong)?;
        let salt = STANDARD.decode(part("s=").ok_or_else(wrong)?).map_err(|_| wrong())?;
        let rounds: u32 = part("i=").and_then(|i| i.parse().ok()).ok_or_else(wrong)?;
        if nonce == self.nonce
            || !nonce.starts_with(self.nonce)
            || rounds == 0
            || rounds > ROUNDS_MAX
        {
            return Err(wrong());
        }
        let salted = salted(self.password.as_bytes(), &salt, rounds);
        let client = hmac(&salted, &[b"Client Key"]);
        let stored: [u8; 32] = Sha256::digest(client).into();
        let last = format!("c=biws,r={nonce}");
        let said = format!("{},{server},{last}", self.first);
        let signature = hmac(&stored, &[said.as_bytes()]);
        let proof: Vec<u8> = client.iter().zip(signature).map(|(a, b)| a ^ b).collect();
        self.signature = hmac(&hmac(&salted, &[b"Server Key"]), &[said.as_bytes()]);
        Ok(format!("{last},p={}", STANDARD.encode(proof)))
    }

    /// Checks that the server's last message proves that it knows the password. Errors: `Unavailable`.
    pub fn verify(&self, server: &[u8]) -> Result<()> {
        let said = server.strip_prefix(b"v=").and_then(|v| STANDARD.decode(v).ok());
        match said.as_deref() == Some(&self.signature[..]) {
            true => Ok(()),
            false => Err(Error::unavailable("the server does not know the password itself")
                .hint("something else answers in its place: check the address")),
        }
    }
}

/// PBKDF2 with HMAC-SHA-256, one block.
fn salted(password: &[u8], salt: &[u8], rounds: u32) -> [u8; 32] {
    let mut last = hmac(password, &[salt, &[0, 0, 0, 1]]);
    let mut all = last;
    for _ in 1..rounds {
        last = hmac(password, &[&last]);
        all.iter_mut().zip(last).for_each(|(a, b)| *a ^= b);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The dialogue of RFC 7677, section 3.
    #[test]
    fn the_example_of_the_standard() {
        let mut dialogue = ScramDialogue::new("user", "pencil", "rOprNGfwEbeRWgbNEkqO");
        assert_eq!(dialogue.first(), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let server = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
            s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        let proof = dialogue.proof(server).unwrap();
        assert!(proof.ends_with(",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="), "{proof}");
        dialogue.verify(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=").unwrap();
        for wrong in [&b"v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="[..], b"v=", b"e=no"] {
            assert!(dialogue.verify(wrong).is_err());
        }
    }

    #[test]
    fn wrong_first_messages_of_a_server_are_refused() {
        for server in [
            "",
            "r=abc,s=!!,i=1",
            "r=other,s=QQ==,i=1",
            "r=abc,s=QQ==,i=1",
            "r=abcd,s=QQ==,i=0",
            "r=abcd,s=QQ==,i=4000000000",
        ] {
            assert!(
                ScramDialogue::new("", "x", "abc").proof(server.as_bytes()).is_err(),
                "{server}"
            );
        }
    }

    #[test]
    fn salted_passwords_are_pbkdf2() {
        // RFC 7914, section 11: the first 32 bytes.
        let hex: String =
            salted(b"passwd", b"salt", 1).iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, "55ac046e56e3089fec1691c22544b605f94185216dde0465e68b9d57c20dacbc");
    }
}
