//! The error type of the workspace: a kind for code, context pairs and a source for people, a hint to act on.
//!
//! An `Error` means "the run, or the command, cannot start or go on". A failed I/O is not an error: it is a
//! [`crate::Record`] with a status. `Display` is one line without the hint; [`Error::exit`] is the exit code, and
//! printing and exiting are left to `cli`.

use std::fmt;

use crate::exit::Exit;
use crate::units::readable::{bounded, foreign, system_words, visible};

/// Shorthand used across the workspace.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, as far as code needs to know. Each kind has one exit code; two kinds share 4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Bad command line, job or plan; nothing was touched. Exit 2.
    Usage,
    /// Refused by the guard; nothing was touched. Exit 3.
    Refused,
    /// Not possible here (rights, library, space, path, server); nothing measured. Exit 4.
    Unavailable,
    /// The target failed during the run; partial results are kept. Exit 5.
    Target,
    /// A run directory or input file is corrupt or of an unknown version. Exit 4.
    Corrupt,
    /// A bug in Taillight. Exit 1.
    Internal,
}

/// An error with everything a person needs to act on it. One pointer wide, so that results stay
/// cheap in the hot loop.
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    message: String,
    context: Vec<(&'static str, String)>,
    hint: Option<String>,
    field: Option<String>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// A new error of `kind` saying `message` (plain, one sentence, no full stop needed).
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            context: Vec::new(),
            hint: None,
            field: None,
            source: None,
        }))
    }
    /// Bad command line, job or plan.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Usage, message)
    }
    /// Refused by the guard.
    pub fn refused(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Refused, message)
    }
    /// Not possible on this machine or target.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unavailable, message)
    }
    /// The target failed in the run.
    pub fn target(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Target, message)
    }
    /// A corrupt or unknown input file.
    pub fn corrupt(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Corrupt, message)
    }
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, message)
    }
    /// Adds a context pair, for example `("path", "/mnt/x")`.
    #[must_use]
    pub fn with(mut self, key: &'static str, value: impl fmt::Display) -> Self {
        self.0.context.push((key, value.to_string()));
        self
    }
    /// Adds a context pair, if there is something to say.
    #[must_use]
    pub fn with_some(self, key: &'static str, value: Option<impl fmt::Display>) -> Self {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }
    /// Says what the user should do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }
    /// Says what the user should do next, if that is known.
    #[must_use]
    pub fn hint_some(mut self, hint: Option<impl Into<String>>) -> Self {
        if let Some(hint) = hint {
            self.0.hint = Some(hint.into());
        }
        self
    }
    /// Attaches the underlying error.
    #[must_use]
    pub fn source(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }
    /// Names the option or field it is about, for the caller that knows where it was written.
    #[must_use]
    pub fn of_field(mut self, field: impl Into<String>) -> Self {
        self.0.field = Some(field.into());
        self
    }
    /// The option or field it is about, if it names one.
    pub fn field(&self) -> Option<&str> {
        self.0.field.as_deref()
    }
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }
    /// The message alone, without context.
    pub fn message(&self) -> &str {
        &self.0.message
    }
    /// What to do next, if known.
    pub fn hint_text(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }
    /// The documented process exit code of this error.
    pub fn exit(&self) -> Exit {
        match self.0.kind {
            ErrorKind::Usage => Exit::Usage,
            ErrorKind::Refused => Exit::Refused,
            ErrorKind::Unavailable | ErrorKind::Corrupt => Exit::Unavailable,
            ErrorKind::Target => Exit::TargetFailed,
            ErrorKind::Internal => Exit::Internal,
        }
    }
}

/// Most characters of a source that `Display` shows.
const MOST_SOURCE: usize = 4000;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A name with a line break would forge lines of its own.
        f.write_str(&foreign(system_words(&self.0.message)))?;
        for (i, (key, value)) in self.0.context.iter().enumerate() {
            write!(f, "{}{key}: {}", if i == 0 { " (" } else { ", " }, foreign(value))?;
        }
        if !self.0.context.is_empty() {
            write!(f, ")")?;
        }
        if let Some(source) = &self.0.source {
            // Parsers say in several lines what they mean.
            let source = source.to_string();
            write!(f, ": {}", bounded(&visible(&system_words(&source)), MOST_SOURCE))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|e| e as &(dyn std::error::Error + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_has_message_context_and_source() {
        let e = Error::usage("size does not divide")
            .with("size", "10KiB")
            .with("block_size", "4KiB")
            .source(std::io::Error::other("why"));
        assert_eq!(e.to_string(), "size does not divide (size: 10KiB, block_size: 4KiB): why");
        assert_eq!(e.exit(), Exit::Usage);
    }

    #[test]
    fn the_words_of_the_system_come_without_its_number() {
        let system = || std::io::Error::from_raw_os_error(2);
        let e = Error::usage(format!("no: {}", system())).source(system());
        assert_eq!(e.to_string(), "no: No such file or directory: No such file or directory");
        for text in ["a (os error x) b", "a (os error ) b", "a (os error 2", "plain"] {
            assert_eq!(system_words(text), text);
        }
        assert_eq!(system_words("a (os error 2) at (os error 13), b"), "a at, b");
    }

    #[test]
    fn foreign_text_is_bounded_and_holds_no_secret() {
        let long = "x".repeat(100_000);
        let e = Error::usage(long.clone()).with("path", &long).source(std::io::Error::other(long));
        let text = e.to_string();
        // Message and context by `foreign`, the source by its own, larger bound.
        assert!(text.len() < MOST_SOURCE + 3_000, "{} characters", text.len());
        assert_eq!(text.matches("99000 characters left out").count(), 2, "{text}");
        assert_eq!(text.matches("96000 characters left out").count(), 1, "{text}");
        let e = Error::usage("no `redis://:pw1@h`").with("url", "http://me:pw2@h/?token=pw3");
        let e = e.source(std::io::Error::other("password = pw4"));
        assert!(!e.to_string().contains("pw"), "{e}");
    }
}
