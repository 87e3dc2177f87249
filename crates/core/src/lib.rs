//! Vocabulary of Taillight: units, clock, operations, records, plan, errors.
