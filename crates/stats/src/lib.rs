//! Pure maths: distributions, percentiles, confidence, SLC.
