//! How a line moves before a fleet that it loads.

mod room_site;

use room_site::Site;

#[test]
fn what_is_to_spare_is_filled_and_not_passed() {
    for comes in [1.0, 0.7] {
        let mut site = Site::new(comes, 9);
        site.run(600);

        let (mut most, mut sum) = (0.0_f64, 0.0);
        for _ in 0..2_400 {
            site.step();
            most = most.max(site.used());
            sum += site.used();
        }

        let mean = sum / 2_400.0;
        println!("{comes}: used {mean:.3} on average, {most:.3} at most");
        assert!(mean >= 0.75 && most <= 1.0, "{comes}: {mean} {most}");
    }
}

#[test]
fn when_a_visitor_brings_twice_as_much_half_as_many_are_let_in_within_half_a_minute() {
    for seed in 0..5 {
        let mut site = Site::new(0.9, seed);
        site.run(600);
        let before = site.pace(300);

        site.each *= 2.0;
        site.run(30);
        let at_once = site.pace(30);
        site.run(600);
        let after = site.pace(600);

        println!("{before:.2} a second, then {at_once:.2}, in the end {after:.2}");
        assert!(at_once <= before / 2.0, "{at_once} {before}");
        let ratio = after / before;
        assert!((0.4..=0.6).contains(&ratio), "{ratio}");
    }
}
