//! What gateways say of those who are inside.

use std::collections::BTreeMap;

use tidegate_core::session::Name;

use super::word::Report;

/// The gateways that have reported of late.
#[derive(Debug, Default)]
pub(super) struct Crowd {
    gateways: BTreeMap<Name, Report>,
    /// How many have gone in since this is listened to without having been called by a leader.
    let_in: u64,
}

impl Crowd {
    /// Takes in all reports that there are now. Of a gateway that was not heard of before nothing counts that was before.
    pub(super) fn hear(&mut self, reports: &[(Name, Vec<u8>)]) {
        let read = reports
            .iter()
            .filter_map(|(name, bytes)| Some((name.clone(), Report::decode(bytes)?)));
        let latest: BTreeMap<_, _> = read.collect();
        for (name, report) in &latest {
            let before = self.gateways.get(name);
            if let Some(before) = before.filter(|before| before.life == report.life) {
                self.let_in += report.let_in.saturating_sub(before.let_in);
            }
        }
        self.gateways = latest;
    }

    /// Whether nobody has reported.
    pub(super) fn is_empty(&self) -> bool {
        self.gateways.is_empty()
    }

    /// Who is inside.
    pub(super) fn active(&self) -> u64 {
        let active = self.gateways.values().map(|report| report.active);
        active.fold(0, u64::saturating_add)
    }

    /// Their requests per second.
    pub(super) fn rps(&self) -> f64 {
        self.gateways.values().map(|report| report.rps).sum()
    }

    /// How many went in by themselves.
    pub(super) const fn let_in(&self) -> u64 {
        self.let_in
    }

    /// How many gateways take part, and how they are called.
    pub(super) fn names(&self) -> (u32, Vec<String>) {
        let names: Vec<_> = self.gateways.keys().map(Name::to_string).collect();
        let count = u32::try_from(names.len()).unwrap_or(u32::MAX);
        (count.max(1), names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(name: &str, life: u64, let_in: u64) -> (Name, Vec<u8>) {
        let report = Report::new(life, 10, 2.5, let_in);
        (Name::new(name).unwrap(), report.encode())
    }

    #[test]
    fn what_all_say_is_added_up() {
        let mut crowd = Crowd::default();
        assert!(crowd.is_empty());

        let odd = (Name::new("gw3").unwrap(), b"?".to_vec());
        crowd.hear(&[says("gw1", 1, 500), says("gw2", 2, 300), odd]);

        assert_eq!((crowd.active(), crowd.rps()), (20, 5.0));
        let names = vec!["gw1".to_owned(), "gw2".to_owned()];
        assert_eq!(crowd.names(), (2, names));
        assert_eq!(crowd.let_in(), 0, "it was before");
    }

    #[test]
    fn who_goes_in_by_themselves_counts_once_and_over_a_restart() {
        let mut crowd = Crowd::default();
        crowd.hear(&[says("gw1", 1, 500), says("gw2", 2, 300)]);

        crowd.hear(&[says("gw1", 1, 504), says("gw2", 2, 300)]);
        crowd.hear(&[says("gw1", 1, 504)]);
        assert_eq!(crowd.let_in(), 4);

        crowd.hear(&[says("gw1", 9, 2)]);
        crowd.hear(&[says("gw1", 9, 5)]);
        assert_eq!(crowd.let_in(), 7);
    }
}
