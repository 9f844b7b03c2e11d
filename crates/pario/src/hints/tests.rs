//! Tests of the way from text to [`Hints`]; those of single steps are in the files of the steps.

use super::*;

fn resolve(given: &HintSet, environment: &str) -> (Hints, HintReport) {
    let environment = Environment { hints: Some(environment.to_owned()), ..Environment::default() };
    given.resolve(Path::new("run/out.dat"), &environment)
}

fn reasons(report: &HintReport) -> Vec<(&str, &str)> {
    report.ignored.iter().map(|hint| (hint.name.as_str(), hint.reason.as_str())).collect()
}

/// A source of garbage; its seed is printed and can be set with `PARIO_SEED`.
struct Garbage {
    state: u64,
}

impl Garbage {
    const PIECES: [&str; 32] = [
        "cb_nodes",
        "cb_config_list",
        "pario_strategy",
        "romio_cb_read",
        "collective_buffering",
        "pario_phases",
        "striping_unit",
        "romio_lustre_x",
        "=",
        "=",
        "=",
        ":",
        ":",
        ":",
        ",",
        ",",
        "#",
        "*",
        "*:*",
        "?",
        " ",
        "\n",
        "\t",
        "\0",
        "ä",
        "\u{1f980}",
        "4",
        "18446744073709551615",
        "K",
        "-1",
        "enable",
        "sieve",
    ];

    fn new() -> Garbage {
        let given = std::env::var("PARIO_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or(0x9e37_79b9_7f4a_7c15);
        println!("PARIO_SEED={seed}");
        Garbage { state: seed | 1 }
    }

    fn below(&mut self, limit: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        let limit = u64::try_from(limit).unwrap();
        usize::try_from(self.state % limit).unwrap()
    }

    fn text(&mut self, pieces_max: usize) -> String {
        let pieces = self.below(pieces_max + 1);
        (0..pieces).map(|_| Garbage::PIECES[self.below(Garbage::PIECES.len())]).collect()
    }
}

#[test]
fn without_hints_everything_is_default() {
    let (hints, report) = HintSet::new().resolve(Path::new("x"), &Environment::default());
    assert_eq!(hints, Hints::default());
    assert_eq!(report.ignored, []);
    assert!(report.effective.iter().all(|hint| hint.origin == HintOrigin::Default));
    assert_eq!(report.value("cb_buffer_size"), Some("16777216"));
    assert_eq!(report.value("ind_rd_buffer_size"), Some("4194304"));
    assert_eq!(report.value("ind_wr_buffer_size"), Some("524288"));
    assert_eq!(report.value("romio_cb_write"), Some("automatic"));
    assert_eq!(report.value("cb_nodes"), None);
}

#[test]
fn the_environment_overrides_the_program_and_the_program_the_hint_file() {
    let path = std::env::temp_dir().join(format!("pario-precedence-{}", std::process::id()));
    std::fs::write(&path, "cb_nodes 1\npario_phases 1\nstriping_unit 1\n").unwrap();
    let environment = Environment {
        hints: Some("*:cb_nodes=3".to_owned()),
        hint_file_path: Some(path.clone()),
        statistics: Some("1".to_owned()),
        ..Environment::default()
    };
    let given = HintSet::new().with("cb_nodes", "2").with("pario_phases", "2");
    let (hints, report) = given.resolve(Path::new("x"), &environment);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(hints.aggregators, Some(3));
    assert_eq!(hints.phases, Some(2));
    assert_eq!(hints.stripe_bytes, Some(1));
    assert_eq!(hints.statistics, Statistics::Summary);
    let origins = report.effective.iter().filter(|hint| hint.origin != HintOrigin::Default);
    let origins: Vec<_> = origins.map(|hint| (hint.name, hint.origin)).collect();
    let expected = [
        ("cb_nodes", HintOrigin::Environment),
        ("striping_unit", HintOrigin::HintFile),
        ("pario_phases", HintOrigin::Program),
        ("pario_statistics", HintOrigin::Environment),
    ];
    assert_eq!(origins, expected);
    let expected = [
        ("cb_nodes", "overridden by cb_nodes=2 from the program"),
        ("pario_phases", "overridden by pario_phases=2 from the program"),
        ("cb_nodes", "overridden by cb_nodes=3 from the environment"),
    ];
    assert_eq!(reasons(&report), expected);
}

#[test]
fn an_unusable_value_leaves_the_weaker_one_in_effect() {
    let given = HintSet::new().with("cb_nodes", "2").with("cb_buffer_size", "0");
    let (hints, report) = resolve(&given, "*:cb_nodes=many");
    assert_eq!(hints.aggregators, Some(2));
    assert_eq!(hints.collective_buffer_bytes, Hints::default().collective_buffer_bytes);
    let expected =
        [("cb_buffer_size", "not between 1 and 2147483648"), ("cb_nodes", "not a number")];
    assert_eq!(reasons(&report), expected);
}

/// `collective_buffering` must not be taken the other way round (open-mpi/ompi#13377).
#[test]
fn collective_buffering_is_not_inverted_and_stands_for_reads_and_writes() {
    let given = HintSet::new().with("collective_buffering", "true");
    let (hints, report) = resolve(&given, "");
    assert_eq!((hints.collective_read, hints.collective_write), (Switch::Enable, Switch::Enable));
    assert_eq!(report.ignored, []);
    let (hints, report) = resolve(&given.with("romio_cb_read", "disable"), "");
    assert_eq!((hints.collective_read, hints.collective_write), (Switch::Disable, Switch::Enable));
    let reason = "overridden by romio_cb_read=disable from the program";
    assert_eq!(reasons(&report), [("collective_buffering", reason)]);
    let (_, report) = resolve(&HintSet::new().with("collective_buffering", "maybe"), "");
    assert_eq!(report.ignored.len(), 1);
}

#[test]
fn every_hint_without_effect_is_listed_with_a_reason() {
    let names = [
        "cb_node",
        "romio_cb_pfr",
        "romio_lustre_co_ratio",
        "filename",
        "Cb_nodes",
        "nonsense",
        "",
    ];
    let given: HintSet = names.into_iter().map(|name| (name, "1")).collect();
    let (hints, report) = resolve(&given, "");
    assert_eq!(hints, Hints::default());
    let expected = [
        ("cb_node", "unknown hint; did you mean cb_nodes?"),
        ("romio_cb_pfr", "pario has no persistent file realms"),
        ("romio_lustre_co_ratio", "pario has no driver of its own for Lustre; use striping_unit"),
        ("filename", "for information only; the file sets it, not the caller"),
        ("Cb_nodes", "unknown hint; did you mean cb_nodes?"),
        ("nonsense", "unknown hint"),
        ("", "unknown hint"),
    ];
    assert_eq!(reasons(&report), expected);
}

#[test]
fn what_is_in_effect_has_the_same_effect_as_hints_again() {
    let given = HintSet::new().with("cb_config_list", "*:*").with("striping_unit", "1M");
    let (hints, report) = resolve(&given, "*.dat:pario_strategy=gather:cb_nodes=7");
    let again: HintSet =
        report.effective.iter().map(|hint| (hint.name, hint.value.clone())).collect();
    let (hints_again, report_again) = resolve(&again, "");
    assert_eq!(hints_again, hints);
    assert_eq!(report_again.ignored, []);
}

#[test]
fn hints_survive_the_wire() {
    let given = HintSet::new().with("cb_config_list", "*:*").with("pario_phases", "0");
    for hints in [Hints::default(), resolve(&given, "").0] {
        assert_eq!(Hints::from_wire(&hints.to_wire()).unwrap(), hints);
    }
}

#[test]
fn a_wire_that_was_cut_or_changed_is_an_internal_error() {
    let hints = Hints { aggregators: Some(4), ..Hints::default() };
    let wire = hints.to_wire();
    for len in 0..wire.len() {
        let error = Hints::from_wire(&wire[..len]).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Intern);
    }
    let text = String::from_utf8(wire.clone()).unwrap();
    let mutants = [
        text.replace("cb_nodes=4", "cb_nodes=0"),
        text.replace("cb_nodes=4", "cb_nodes= 4"),
        text.replace("cb_nodes=4", "cb_nodes=4\ncb_nodes=4"),
        text.replace("cb_nodes", "cb_node"),
        text.replace('\n', "\r\n"),
        text.clone() + "\n",
        text.clone() + "x",
    ];
    for mutant in mutants {
        assert!(Hints::from_wire(mutant.as_bytes()).is_err(), "{mutant}");
    }
    let outside = Hints { collective_buffer_bytes: 0, ..Hints::default() };
    assert!(Hints::from_wire(&outside.to_wire()).is_err());
}

#[test]
fn garbage_never_panics_and_leaves_every_value_in_its_bounds() {
    let mut garbage = Garbage::new();
    for _ in 0..20_000 {
        let given: HintSet = (0..2).map(|_| (garbage.text(3), garbage.text(3))).collect();
        let environment = Environment {
            hints: Some(garbage.text(40)),
            hint_file_path: None,
            statistics: Some(garbage.text(2)),
            ..Environment::default()
        };
        let name = garbage.text(4);
        let (hints, report) = given.resolve(Path::new(&name), &environment);
        assert_eq!(Hints::from_wire(&hints.to_wire()).unwrap(), hints);
        assert_eq!(
            report.to_string().lines().count(),
            1 + report.effective.len() + report.ignored.len()
        );
    }
}

#[test]
fn a_garbled_wire_is_refused_or_says_what_it_said() {
    let mut garbage = Garbage::new();
    let whole = Hints::default().to_wire();
    for _ in 0..20_000 {
        let mut wire = whole.clone();
        for _ in 0..=garbage.below(3) {
            let index = garbage.below(wire.len());
            wire[index] = u8::try_from(garbage.below(256)).unwrap();
        }
        if let Ok(hints) = Hints::from_wire(&wire) {
            assert_eq!(hints.to_wire(), wire);
        }
    }
}

#[test]
fn variables_of_cray_work_and_are_weaker_than_those_of_pario() {
    let environment = Environment {
        cray_hints: Some("*.dat:cb_nodes=4:cb_buffer_size=64K,oops".to_owned()),
        cray_statistics: Some("2".to_owned()),
        hints: Some("*:cb_nodes=3".to_owned()),
        ..Environment::default()
    };
    let (hints, report) = HintSet::new().resolve(Path::new("run/out.dat"), &environment);
    assert_eq!((hints.aggregators, hints.collective_buffer_bytes), (Some(3), 64 << 10));
    assert_eq!(hints.statistics, Statistics::Full);
    let expected = [
        ("MPICH_MPIIO_HINTS", "no key=value after the file name"),
        ("cb_nodes", "overridden by cb_nodes=3 from the environment"),
    ];
    assert_eq!(reasons(&report), expected);
    let one = Environment { statistics: Some("1".to_owned()), ..environment };
    assert_eq!(HintSet::new().resolve(Path::new("x"), &one).0.statistics, Statistics::Summary);
}

/// ROMIO takes it as a promise that all accesses are collective, and switches buffering on.
#[test]
fn a_program_without_independent_calls_gets_collective_buffering() {
    let given = HintSet::new().with("romio_no_indep_rw", "true");
    let (hints, report) = resolve(&given, "");
    assert_eq!((hints.collective_read, hints.collective_write), (Switch::Enable, Switch::Enable));
    assert_eq!(report.value("romio_cb_read"), Some("enable"));
    assert_eq!((report.value("romio_no_indep_rw"), report.ignored.len()), (Some("true"), 0));
    // A later or stronger hint that switches it off ends the promise, as in ROMIO.
    let (hints, report) = resolve(&given, "*:romio_cb_write=disable");
    assert_eq!((hints.collective_read, hints.collective_write), (Switch::Enable, Switch::Disable));
    assert_eq!(report.value("romio_no_indep_rw"), Some("false"));
    let reason = "overridden by romio_cb_write=disable from the environment";
    assert_eq!(reasons(&report), [("romio_no_indep_rw", reason)]);
    let (hints, report) = resolve(&HintSet::new().with("romio_no_indep_rw", "false"), "");
    assert_eq!((hints, report.ignored), (Hints::default(), vec![]));
}

#[test]
fn of_two_equal_keys_in_a_hint_file_the_first_counts() {
    let path = std::env::temp_dir().join(format!("pario-first-{}", std::process::id()));
    std::fs::write(&path, "cb_nodes 1\npario_phases 2\ncb_nodes 3\n").unwrap();
    let environment = Environment { hint_file_path: Some(path.clone()), ..Environment::default() };
    let (hints, report) = HintSet::new().resolve(Path::new("x"), &environment);
    std::fs::remove_file(&path).unwrap();
    assert_eq!((hints.aggregators, hints.phases), (Some(1), Some(2)));
    assert_eq!(reasons(&report), [("cb_nodes", "an earlier line of the hint file sets it")]);
}

fn with_hint_file(name: &str, text: &str, given: &HintSet, variables: &str) -> (Hints, HintReport) {
    let path = std::env::temp_dir().join(format!("pario-{name}-{}", std::process::id()));
    std::fs::write(&path, text).unwrap();
    let hint_file_path = Some(path.clone());
    let hints = Some(variables.to_owned());
    let environment = Environment { hint_file_path, hints, ..Environment::default() };
    let resolved = given.resolve(Path::new("x"), &environment);
    std::fs::remove_file(&path).unwrap();
    resolved
}

/// ROMIO's test `syshints`: ROMIO looks at the promise last, so that the program's
/// `romio_cb_read=disable` does not count.
#[test]
fn a_promise_in_the_hint_file_counts_more_than_switches_of_the_program() {
    let file = "romio_cb_read enable\nind_rd_buffer_size 49\nromio_no_indep_rw true\n";
    let given = HintSet::new().with("romio_cb_read", "disable").with("ind_wr_buffer_size", "8192");
    let (hints, report) = with_hint_file("promise", file, &given, "");
    let values = ["romio_cb_read", "romio_cb_write", "romio_no_indep_rw", "ind_rd_buffer_size"];
    let values = values.map(|key| report.value(key).unwrap());
    assert_eq!(values, ["enable", "enable", "true", "49"]);
    assert_eq!((hints.sieve_write_buffer_bytes, hints.no_independent), (8192, true));
    let reason = "overridden by romio_no_indep_rw=true from the hint file";
    assert!(reasons(&report).contains(&("romio_cb_read", reason)), "{report}");
    // Without the promise, or with one that the program takes back, the program's hints count.
    let (hints, _) = with_hint_file("plain", "romio_cb_read enable\n", &given, "");
    assert_eq!(hints.collective_read, Switch::Disable);
    let taken_back = given.clone().with("romio_no_indep_rw", "false");
    let (hints, _) = with_hint_file("back", file, &taken_back, "");
    assert_eq!((hints.collective_read, hints.no_independent), (Switch::Disable, false));
    // Variables count more than both.
    let (hints, _) = with_hint_file("variable", file, &given, "*:romio_cb_read=disable");
    assert_eq!((hints.collective_read, hints.no_independent), (Switch::Disable, false));
}

/// Cray's timers print times when a file is closed: that is what statistics do.
#[test]
fn timers_of_cray_switch_statistics_on_unless_pario_is_told_otherwise() {
    let level = |pario: Option<&str>, cray: Option<&str>| {
        let text = |value: Option<&str>| value.map(str::to_owned);
        let environment = Environment {
            cray_timers: true,
            cray_statistics: text(cray),
            statistics: text(pario),
            ..Environment::default()
        };
        HintSet::new().resolve(Path::new("x"), &environment).0.statistics
    };
    assert_eq!(level(None, None), Statistics::Summary);
    assert_eq!(level(None, Some("0")), Statistics::Summary);
    assert_eq!(level(None, Some("2")), Statistics::Full);
    assert_eq!(level(Some("0"), None), Statistics::Off);
    assert_eq!(level(Some("full"), Some("1")), Statistics::Full);
}
