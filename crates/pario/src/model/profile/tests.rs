//! Profiles are read as written, and nonsense is refused by name.

use std::fs;

use super::*;
use crate::model::Direction;

fn ssd() -> Profile {
    Profile::built_in("ssd").unwrap()
}

#[test]
fn built_in_profiles_make_sense_and_differ() {
    let all: Vec<Profile> = Profile::built_in_names()
        .map(|name| Profile::built_in(name).unwrap_or_else(|| panic!("{name}")))
        .collect();
    assert_eq!(all.len(), 5);
    for (index, one) in all.iter().enumerate() {
        assert!(all.iter().skip(index + 1).all(|other| one != other));
    }
    assert_eq!(Profile::built_in("floppy"), None);
}

#[test]
fn file_systems_have_a_built_in_profile() {
    let cases = [
        (("tmpfs", false), "tmpfs"),
        (("ext4", false), "ssd"),
        (("xfs", true), "hdd"),
        (("nfs", true), "nfs"),
        (("gpfs", false), "lustre"),
        (("anything", false), "ssd"),
    ];
    for ((file_system, rotational), name) in cases {
        assert_eq!(Profile::built_in_name(file_system, rotational), name);
        assert!(Profile::built_in(name).is_some(), "{name}");
    }
}

#[test]
fn a_profile_is_read_as_it_was_stored() {
    let directory = std::env::temp_dir().join(format!("pario-profile-{}", std::process::id()));
    let path = directory.join("deeper").join("profile.toml");
    let mut profile = ssd();
    profile.defaults.insert("messages.network".to_owned(), "one node".to_owned());
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, profile.to_text().unwrap()).unwrap();
    assert_eq!(Profile::load(&path).unwrap(), profile);
    fs::write(&path, "version = 7").unwrap();
    let error = Profile::load(&path).unwrap_err();
    assert_eq!(error.file(), Some(path.as_path()));
    fs::write(&path, "#".repeat(70_000)).unwrap();
    assert!(Profile::load(&path).unwrap_err().text().contains("longer than 65536 bytes"));
    fs::remove_dir_all(&directory).unwrap();
    assert_eq!(Profile::load(&path).unwrap_err().class(), ErrorClass::NoSuchFile);
}

/// The reason why a changed profile is refused.
fn reason(change: impl FnOnce(&mut Profile)) -> String {
    let mut profile = ssd();
    change(&mut profile);
    let error = profile.check().unwrap_err();
    assert_eq!(error.class(), ErrorClass::InfoValue);
    assert_eq!(profile.to_text().unwrap_err().text(), error.text());
    error.text().to_owned()
}

#[test]
fn nonsense_is_refused_with_its_key() {
    let cases = [
        (reason(|profile| profile.version = 2), "version: is 2, this pario reads 1"),
        (reason(|profile| profile.machine.cores = 0), "machine.cores: must be at least 1"),
        (reason(|profile| profile.storage.read.call_us = -1.0), "storage.read.call_us: -1 is not"),
        (reason(|profile| profile.planning.piece_us = f64::NAN), "planning.piece_us: NaN is not"),
        (
            reason(|profile| profile.memory.reused.bytes = vec![1]),
            "memory.reused.bytes: has 1 values, bytes_per_s has 0",
        ),
        (
            reason(|profile| {
                let (bytes, bytes_per_s) = (vec![1, 2], vec![1e9, 2e9]);
                profile.storage.read.reused = Reuse { bytes, bytes_per_s };
            }),
            "storage.read.reused.bytes_per_s: must not rise",
        ),
        (
            reason(|profile| profile.messages.node.bytes_per_s = 0.0),
            "messages.node.bytes_per_s: 0 is not",
        ),
        (
            reason(|profile| profile.messages.network.latency_us = f64::INFINITY),
            "messages.network.latency_us: inf is not",
        ),
        (
            reason(|profile| profile.memory.gather.bytes_per_s[1] = 1e14),
            "memory.gather.bytes_per_s: 16 bytes would take",
        ),
        (reason(|profile| profile.memory.scatter.bytes.clear()), "memory.scatter.bytes: is empty"),
        (reason(|profile| profile.memory.scatter.bytes[0] = 0), "memory.scatter.bytes: must be"),
        (
            reason(|profile| profile.storage.write.sequential.bytes.swap(0, 1)),
            "storage.write.sequential.bytes: must rise",
        ),
        (
            reason(|profile| profile.storage.write.concurrent.bytes_per_s.truncate(2)),
            "storage.write.concurrent.ranks: has 3 values, bytes_per_s has 2",
        ),
        (
            reason(|profile| {
                profile.storage.write.concurrent.ranks.remove(0);
                profile.storage.write.concurrent.bytes_per_s.remove(0);
            }),
            "storage.write.concurrent.ranks: must begin with 1",
        ),
        (
            reason(|profile| profile.storage.read.new_file = Some(Curve::default())),
            "storage.read.new_file: is for writes only",
        ),
    ];
    for (text, expected) in cases {
        assert!(text.contains(expected), "{text}: {expected}");
    }
}

#[test]
fn text_that_is_no_profile_is_refused_with_its_line() {
    let good = ssd().to_text().unwrap();
    let cases = [
        (good.replace("call_us = 0.54", "call_us = \"fast\""), "`call_us = \"fast\"`"),
        (good.replace("call_us = 0.54", "call_ms = 0.54"), "call_ms"),
        (good.replace("call_us = 0.54", ""), "call_us"),
        (good.replace("cores = 1", "cores = -1"), "`cores = -1`"),
        ("version = ".to_owned(), "line 1"),
    ];
    for (text, expected) in cases {
        assert_ne!(text, good, "{expected}");
        let error = Profile::parse(&text).unwrap_err();
        assert!(error.text().contains(expected), "{error}: {expected}");
    }
}

#[test]
fn ranks_slow_each_other_down_in_bytes_and_not_in_calls() {
    let profile = ssd();
    let access = |bytes, ranks| Access { bytes, ranks, ..Access::default() };
    let write = |access| profile.access_us(Direction::Write, access);
    assert!((write(access(4, 4)) / write(access(4, 1)) - 1.0).abs() < 0.02);
    let slower = write(access(1 << 20, 4)) / write(access(1 << 20, 1));
    assert!(slower > 4.0 && slower < 5.0, "{slower}");
}

#[test]
fn patterns_have_their_own_times() {
    let profile = Profile::built_in("hdd").unwrap();
    let us = |direction, pattern| {
        profile.access_us(direction, Access { bytes: 4096, pattern, ..Access::default() })
    };
    let sequential = us(Direction::Write, Pattern::Sequential);
    assert!(sequential < us(Direction::Write, Pattern::Scattered));
    assert!(sequential < us(Direction::Write, Pattern::NewFile));
    assert!(sequential < us(Direction::Write, Pattern::Contiguous));
    assert!(us(Direction::Read, Pattern::Aligned) < us(Direction::Read, Pattern::Scattered));
    assert!(us(Direction::Write, Pattern::Direct) > 1000.0 * sequential);
    assert_eq!(us(Direction::Read, Pattern::NewFile), us(Direction::Read, Pattern::Sequential));
}

#[test]
fn barriers_grow_with_steps_and_then_with_ranks() {
    let mut profile = ssd();
    profile.machine.cores = 4;
    profile.synchronisation =
        Synchronisation { barrier_step_us: 1.0, oversubscribed_rank_us: 5.0, wake_us: 9.0 };
    let times = [1, 2, 3, 4, 8, 16].map(|ranks| profile.barrier_us(ranks));
    assert_eq!(times, [0.0, 1.0, 2.0, 2.0, 10.0, 20.0]);
    profile.planning = Planning { rank_us: 2.0, piece_us: 0.5 };
    assert_eq!(profile.planning_us(16, 10), 37.0);
    assert_eq!(profile.gather_us(0, 8, 1), 0.0);
    assert!(profile.gather_us(1 << 20, 4, 1) > profile.gather_us(1 << 20, 4096, 1));
}
