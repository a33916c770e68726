//! Tests of [`Oracle`]: what it accepts and what it rejects.

use super::*;

fn spot(key: &str) -> Spot {
    (Arc::from("k"), key.as_bytes().to_vec())
}

fn value(text: &str) -> Value {
    Some(Arc::from(format!("{text}: long enough to be unique").as_bytes()))
}

fn oracle() -> Oracle {
    let mut oracle = Oracle::default();
    oracle.keyspace_created(&Arc::from("k"));
    oracle
}

/// A write of one value to some keys.
fn write(oracle: &mut Oracle, keys: &[&str], text: &str) -> WriteId {
    let label = format!("write {text}");
    oracle.begin(label, keys.iter().map(|key| (spot(key), value(text))).collect::<Vec<_>>())
}

fn committed(oracle: &mut Oracle, keys: &[&str], text: &str, seq: u64, durable: bool) {
    let id = write(oracle, keys, text);
    oracle.acknowledge(id, Some(seq), durable).unwrap();
}

fn recovered(oracle: &mut Oracle, found: &[(&str, &str)], survival: Survival) -> Result<(), String> {
    let found = found.iter().map(|(key, text)| (spot(key), value(text).unwrap())).collect();
    oracle.check_recovered(&["k".to_string()], found, survival)
}

#[test]
fn any_prefix_of_buffered_writes_is_accepted_and_nothing_else() {
    let history = || {
        let mut oracle = oracle();
        committed(&mut oracle, &["a"], "1", 1, false);
        committed(&mut oracle, &["b"], "2", 2, false);
        committed(&mut oracle, &["a", "c"], "3", 4, false);
        oracle
    };
    for found in [&[][..], &[("a", "1")], &[("a", "1"), ("b", "2")], &[("a", "3"), ("b", "2"), ("c", "3")]] {
        assert_eq!(recovered(&mut history(), found, Survival::Promised), Ok(()));
    }
    for found in [
        &[("b", "2")][..],
        &[("a", "3"), ("c", "3")],
        &[("a", "3"), ("b", "2")],
        &[("a", "1"), ("b", "2"), ("c", "3")],
        &[("a", "1"), ("z", "1")],
        &[("a", "9")],
    ] {
        assert!(recovered(&mut history(), found, Survival::Promised).unwrap_err().starts_with("no prefix"));
    }
}

#[test]
fn what_was_promised_must_be_there() {
    let history = |persisted: bool| {
        let mut oracle = oracle();
        committed(&mut oracle, &["a"], "1", 1, false);
        committed(&mut oracle, &["b"], "2", 2, true);
        committed(&mut oracle, &["c"], "3", 3, false);
        if persisted {
            oracle.promised(oracle.newest());
        }
        oracle
    };
    let two = [("a", "1"), ("b", "2")];
    assert_eq!(recovered(&mut history(false), &two, Survival::Promised), Ok(()));
    for (persisted, found, survival) in [
        (false, &two[..1], Survival::Promised),
        (true, &two[..], Survival::Promised),
        (false, &two[..], Survival::Acknowledged),
    ] {
        assert!(recovered(&mut history(persisted), found, survival).unwrap_err().starts_with("a promise is lost"));
    }
}

#[test]
fn a_write_under_way_is_there_as_a_whole_or_not_at_all() {
    let history = || {
        let mut oracle = oracle();
        committed(&mut oracle, &["a"], "1", 1, false);
        write(&mut oracle, &["b", "c"], "2");
        oracle
    };
    assert_eq!(recovered(&mut history(), &[("a", "1")], Survival::Promised), Ok(()));
    assert_eq!(recovered(&mut history(), &[("a", "1"), ("b", "2"), ("c", "2")], Survival::Promised), Ok(()));
    let torn = recovered(&mut history(), &[("a", "1"), ("b", "2")], Survival::Promised);
    assert!(torn.unwrap_err().contains("is torn"));
    let hole = recovered(&mut history(), &[("b", "2"), ("c", "2")], Survival::Promised);
    assert!(hole.unwrap_err().contains("came before it"));
}

#[test]
fn a_write_under_way_may_be_hidden_by_one_beside_it() {
    let mut oracle = oracle();
    let slow = write(&mut oracle, &["a", "b"], "slow");
    committed(&mut oracle, &["a"], "1", 1, false);
    oracle.fail(slow);
    assert_eq!(recovered(&mut oracle, &[("a", "1"), ("b", "slow")], Survival::Promised), Ok(()));
}

#[test]
fn a_refused_write_must_not_appear() {
    let mut oracle = oracle();
    let refused = write(&mut oracle, &["a"], "1");
    oracle.refuse(refused);
    assert!(oracle.check_read(&spot("a"), value("1").as_deref(), 9, 10).is_err());
    assert!(recovered(&mut oracle, &[("a", "1")], Survival::Promised).is_err());
}

#[test]
fn what_was_recovered_may_not_be_lost_later() {
    let mut oracle = oracle();
    committed(&mut oracle, &["a"], "1", 1, false);
    assert_eq!(recovered(&mut oracle, &[("a", "1")], Survival::Promised), Ok(()));
    committed(&mut oracle, &["b"], "2", 2, false);
    assert!(recovered(&mut oracle, &[], Survival::Promised).is_err());
}

#[test]
fn a_read_gives_the_newest_value_before_it_or_a_later_one() {
    let mut oracle = oracle();
    committed(&mut oracle, &["a"], "1", 1, false);
    committed(&mut oracle, &["a"], "2", 2, false);
    let began = oracle.tick();
    committed(&mut oracle, &["a"], "3", 3, false);
    let ended = oracle.tick();
    committed(&mut oracle, &["a"], "4", 4, false);
    let check = |text| oracle.check_read(&spot("a"), value(text).as_deref(), began, ended);
    assert!(check("1").is_err() && check("2").is_ok() && check("3").is_ok() && check("4").is_err());
    assert!(oracle.check_read(&spot("a"), None, began, ended).is_err());
    assert!(oracle.check_read(&spot("b"), None, began, ended).is_ok());
}

#[test]
fn a_sequence_number_below_an_earlier_one_is_told() {
    let mut oracle = oracle();
    committed(&mut oracle, &["a"], "1", 5, false);
    let late = write(&mut oracle, &["a"], "2");
    assert!(oracle.acknowledge(late, Some(5), false).is_err());
}

#[test]
fn keyspaces_are_there_as_told() {
    let name: Arc<str> = Arc::from("t");
    let check = |oracle: &mut Oracle, found: &[&str]| {
        let found: Vec<String> = found.iter().map(|name| name.to_string()).collect();
        oracle.check_recovered(&found, BTreeMap::new(), Survival::Promised)
    };
    let mut oracle = oracle();
    assert!(check(&mut oracle, &["k", "t"]).is_err(), "never created");
    oracle.keyspace_begins(&name);
    assert_eq!(check(&mut oracle, &["k", "t"]), Ok(()));
    assert!(check(&mut oracle, &["k"]).is_err(), "lost");
    oracle.keyspace_begins(&name);
    assert_eq!(check(&mut oracle, &["k"]), Ok(()));
    assert!(check(&mut oracle, &["k", "t"]).is_err(), "came back");
}
