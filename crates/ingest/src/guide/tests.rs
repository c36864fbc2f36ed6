//! What clients are told.

use bucksaw_doors::Doors;
use prometheus_client::registry::Registry;

use super::advice::NAMED;
use super::*;

const FAST: Port = Port::Tcp(Durability::Fast);

fn guide(level: u8, refuses: bool, others: &[(u8, u64)]) -> Guide {
    let guide = Guide::new(Metrics::new(&mut Registry::default()));
    let other = |(number, (level, spare)): (usize, &(u8, u64))| Other {
        level: *level,
        spare: *spare,
        fast: Some(format!("n{number}:1")),
        ..Other::default()
    };
    let others = others.iter().enumerate().map(other).collect();
    guide.advise(Advice { level, refuses, bytes_per_second: 100, others, ..Advice::default() });
    guide.offer(100);
    guide
}

#[test]
fn what_newcomers_hear() {
    let entropy = Doors::real().entropy;
    let check = |level, refuses, others: &[(u8, u64)], want: &str| {
        let guide = guide(level, refuses, others);
        let heard = match guide.greeting(FAST, &*entropy) {
            Greeting::Welcome => "welcome".to_owned(),
            Greeting::Suggested(others) => format!("suggested {}", others.join(",")),
            Greeting::Refused(others) => format!("refused {}", others.join(",")),
        };
        let shuts = if guide.shuts(FAST) { ", shut" } else { "" };
        assert_eq!(format!("{heard}{shuts}"), want, "{level} {refuses} {others:?}");
        // Nobody else listens for these.
        assert_eq!(guide.greeting(Port::Http, &*entropy), Greeting::Welcome);
        assert!(!guide.shuts(Port::Http));
    };
    check(0, false, &[(0, 1)], "welcome");
    check(1, true, &[(0, 1)], "suggested n0:1");
    check(1, true, &[(1, 9), (2, 9)], "welcome");
    check(2, false, &[(1, 1), (2, 9)], "suggested n0:1");
    check(2, true, &[(2, 9), (1, 1)], "refused n1:1");
    check(2, true, &[], "welcome");
    check(3, false, &[(2, 1)], "suggested n0:1");
    check(3, true, &[(2, 1)], "refused n0:1, shut");
    check(3, true, &[(3, 1), (3, 1)], "welcome");
}

#[test]
fn who_has_to_go() {
    let entropy = Doors::real().entropy;
    let check = |level, refuses, others: &[(u8, u64)], want: Option<How>, heirs: usize| {
        let guide = guide(level, refuses, others);
        assert_eq!(guide.turn(FAST, Some(50), &*entropy).map(|(how, _)| how), want);
        assert_eq!(guide.heirs(FAST, &*entropy).len(), heirs);
    };
    check(1, true, &[(0, 1)], Some(How::Suggested), 1);
    check(3, false, &[(0, 1)], Some(How::Suggested), 1);
    check(3, true, &[(0, 1), (1, 1)], Some(How::LetGo), 1);
    check(3, true, &[(3, 1), (3, 1)], None, 2);
    check(0, false, &[(2, 1); 5], None, NAMED);
    check(0, false, &[], None, 0);
}

#[test]
fn the_odds_are_by_what_is_spare() {
    let entropy = Doors::real().entropy;
    let guide = guide(1, false, &[(0, 0), (0, 900), (0, 100)]);
    let mut firsts = [0; 3];
    for _ in 0..4_000 {
        let Greeting::Suggested(others) = guide.greeting(FAST, &*entropy) else { panic!("nothing suggested") };
        assert_eq!(others.len(), 3);
        let first = others[0][1..2].parse::<usize>().unwrap();
        firsts[first] += 1;
    }
    // 90, 10 and 0.1 per cent; five standard deviations are under 2.5 per cent.
    assert!((3_500..3_700).contains(&firsts[1]) && (300..500).contains(&firsts[2]), "{firsts:?}");
}

/// What becomes of a client that brings so much, of a node with 100 bytes a second and five connections.
fn turn(brings: u64, offered: u64, level: u8, others: &[(u8, u64, u64)]) -> Option<Vec<String>> {
    let guide = Guide::new(Metrics::new(&mut Registry::default()));
    let other = |(number, (level, bytes_per_second, connections)): (usize, &(u8, u64, u64))| Other {
        level: *level,
        bytes_per_second: *bytes_per_second,
        connections: *connections,
        fast: Some(format!("n{number}:1")),
        ..Other::default()
    };
    let others = others.iter().enumerate().map(other).collect();
    guide.advise(Advice { level, refuses: false, bytes_per_second: 100, connections: 5, others });
    let _movable: Vec<_> = (0..5).map(|_| guide.movable()).collect();
    guide.offer(offered);
    let told = guide.turn(FAST, Some(brings), &*Doors::real().entropy);
    assert_eq!(guide.turn(Port::Http, None, &*Doors::real().entropy), None);
    told.map(|(how, others)| {
        assert_eq!(how, How::Suggested);
        others
    })
}

#[test]
fn only_those_go_whose_going_helps() {
    let check = |brings, level, others: &[(u8, u64, u64)], want: &[&str]| {
        let mut have = turn(brings, 1_000, level, others).unwrap_or_default();
        have.sort();
        assert_eq!(have, want, "{brings} {level} {others:?}");
    };
    check(20, 0, &[(0, 0, 0), (0, 68, 0), (0, 69, 0), (0, 200, 0)], &["n0:1", "n1:1"]);
    // The one client of a node, and one of two.
    check(100, 0, &[(0, 0, 0)], &[]);
    check(62, 0, &[(0, 0, 0)], &["n0:1"]);
    check(63, 0, &[(0, 0, 0)], &[]);
    // What is small is no help.
    check(5, 0, &[(0, 0, 0)], &["n0:1"]);
    check(4, 0, &[(0, 0, 0)], &[]);
    // Who takes little from more connections may be slow; a busy node sends there all the same.
    check(20, 0, &[(0, 0, 5), (0, 0, 6)], &["n0:1"]);
    check(20, 1, &[(0, 0, 5), (0, 0, 6)], &["n0:1", "n1:1"]);
    check(20, 1, &[(1, 0, 5), (2, 0, 0), (0, 90, 0)], &["n0:1"]);
    check(u64::MAX, 0, &[(0, 0, 0)], &[]);
}

#[test]
fn no_more_go_than_is_offered() {
    let entropy = Doors::real().entropy;
    let guide = guide(0, false, &[(0, 1)]);
    guide.advise(Advice { bytes_per_second: 1_000, others: guide.advice().others.clone(), ..Advice::default() });
    let _movable: Vec<_> = (0..10).map(|_| guide.movable()).collect();
    let turns = |brings| (0..10).filter(|_| guide.turn(FAST, Some(brings), &*entropy).is_some()).count();
    for (offer, brings, want) in [(0, 100, 0), (300, 100, 3), (400, 200, 2), (300, 50, 3)] {
        guide.offer(offer);
        assert_eq!(turns(brings), want, "{offer} {brings}");
    }
    guide.offer(300);
    guide.offer(0);
    assert_eq!(turns(100), 0);
}

#[test]
fn of_answers_to_http_few_name_others() {
    let entropy = Doors::real().entropy;
    let guide = Guide::new(Metrics::new(&mut Registry::default()));
    let others = vec![Other { http: Some("n0:1".into()), ..Other::default() }];
    guide.advise(Advice { bytes_per_second: 1_600, others, ..Advice::default() });
    guide.offer(400);
    let named = (0..1_000).filter(|_| guide.turn(Port::Http, None, &*entropy).is_some()).count();
    assert_eq!(named, 4);
}
