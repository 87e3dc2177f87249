//! Functions for serde about fields that a plan may leave out: what their absence means, and whether a value is left
//! out.

pub(super) fn one() -> u32 {
    1
}
pub(super) fn is_one(n: &u32) -> bool {
    *n == 1
}
pub(super) fn is_zero(n: &u32) -> bool {
    *n == 0
}
pub(super) fn is_no_time(time: &crate::units::Span) -> bool {
    time.0 == 0
}
pub(super) fn yes() -> bool {
    true
}
pub(super) fn is_yes(b: &bool) -> bool {
    *b
}
pub(super) fn is_no(b: &bool) -> bool {
    !*b
}
