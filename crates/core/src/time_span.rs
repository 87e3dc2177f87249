//! A span of time, by its two ends: how long something was under way, or the part of a run that is looked at. How long
//! without when is `units::Span`.

/// From one stamp to another, ns of the clock that both are of (CLOCK_MONOTONIC, or virtual time). Spans are ordered by
/// their begins. Nothing is refused: one that ends before it begins has a negative length, and meets nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TimeSpan {
    pub from: i64,
    pub to: i64,
}

impl TimeSpan {
    /// From the first of two stamps to the second.
    pub const fn new(from: i64, to: i64) -> TimeSpan {
        TimeSpan { from, to }
    }

    /// How long it is, ns.
    pub const fn length(self) -> i64 {
        self.to - self.from
    }

    /// The part of it that lies in another one; it ends before it begins where none does.
    #[must_use]
    pub fn within(self, other: TimeSpan) -> TimeSpan {
        TimeSpan::new(self.from.max(other.from), self.to.min(other.to))
    }

    /// How long that part is, ns; 0 where there is none.
    pub fn shared_ns(self, other: TimeSpan) -> i64 {
        self.within(other).length().max(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_share_what_lies_in_both() {
        let (one, other) = (TimeSpan::new(10, 30), TimeSpan::new(20, 50));
        assert_eq!(one.within(other), TimeSpan::new(20, 30));
        assert_eq!((one.shared_ns(other), one.length()), (10, 20));
        let later = TimeSpan::new(40, 50);
        assert_eq!((one.within(later).length(), one.shared_ns(later)), (-10, 0));
    }
}
