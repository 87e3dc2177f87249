//! What the machine did: environment, availability, host samples.
