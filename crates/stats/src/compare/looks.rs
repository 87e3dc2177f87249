//! How sure a look at pairs must be while more pairs are to come.

/// Fewest pairs that say how much pairs vary.
pub const FEWEST_PAIRS: u32 = 3;
/// Most error of one look before the last, and of all of them together.
const INTERIM: f64 = 0.001;
const INTERIM_ALL: f64 = 0.005;

/// Looks after each pair from the third on, of a number of pairs fixed beforehand: strict ones first, the
/// last nearly at the nominal level (Haybittle, British Journal of Radiology 44, 1971; Peto et al., British
/// Journal of Cancer 34, 1976). The shares of error add up to 5 %, which bounds the error of all looks
/// together whatever they share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LookPlan {
    planned: u32,
}

impl LookPlan {
    #[must_use]
    pub fn new(planned: u32) -> LookPlan {
        LookPlan { planned }
    }

    /// Share of cases in which a look before the last may err.
    #[must_use]
    pub fn interim_alpha(&self) -> f64 {
        INTERIM.min(INTERIM_ALL / self.interim_looks().max(1.0))
    }

    /// Share of cases in which the last look may err.
    #[must_use]
    pub fn final_alpha(&self) -> f64 {
        super::ALPHA - self.interim_looks() * self.interim_alpha()
    }

    /// Share of cases in which the look after so many pairs may err.
    #[must_use]
    pub fn alpha_after(&self, pairs: u32) -> f64 {
        if pairs < self.planned { self.interim_alpha() } else { self.final_alpha() }
    }

    fn interim_looks(&self) -> f64 {
        f64::from(self.planned.saturating_sub(FEWEST_PAIRS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_error_add_up_to_five_per_cent() {
        for planned in [3, 4, 6, 8, 20, 1_000] {
            let looks = LookPlan::new(planned);
            let all: f64 = (FEWEST_PAIRS..=planned).map(|pairs| looks.alpha_after(pairs)).sum();
            assert!((all - 0.05).abs() < 1e-12, "{planned}: {all}");
            assert!(looks.final_alpha() >= 0.045 && looks.interim_alpha() <= 0.001);
        }
        assert_eq!(LookPlan::new(3).alpha_after(3), 0.05);
        assert!((LookPlan::new(6).alpha_after(6) - 0.047).abs() < 1e-12);
    }
}
