//! Where statistics are wanted, the close of a file prints on stderr what all ranks did.

#![allow(clippy::unwrap_used)]

use pario::{Datatype, File, Position, Threads, View};

/// Five ranks write every fifth number together, and one of them once more alone.
fn program() {
    let results = Threads::new(5).run(|comm| -> pario::Result<()> {
        let options = File::options().write(true).create(true).hint("cb_node", "3");
        let file = options.open(&*comm, "memory:told")?;
        let number = Datatype::of::<u32>();
        let every_fifth = Datatype::resized(0, 20, &number)?;
        file.set_view(&View::new(u64::from(comm.rank()) * 4, &number, &every_fifth))?;
        file.write_all(Position::Individual, &vec![comm.rank(); 256])?;
        if comm.rank() == 3 {
            file.write(0, &[7u32; 2])?;
        }
        file.close()
    });
    results.into_iter().for_each(|result| result.unwrap());
}

/// Stderr belongs to the whole process, so the test runs itself again.
#[test]
fn one_summary_for_all_ranks_is_printed_on_stderr() {
    if std::env::var_os("PARIO_STATS").is_some() {
        return program();
    }
    let mut again = std::process::Command::new(std::env::current_exe().unwrap());
    again.args(["one_summary_for_all_ranks_is_printed_on_stderr", "--exact", "--nocapture"]);
    let output = again.env("PARIO_STATS", "1").output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stderr).unwrap();
    let expected = [
        "pario: told: 5 ranks on 1 node, write create\n",
        "  calls       1 write_all by two-phase: 5.0 KiB of 5.0 KiB (predicted fastest: the",
        "\n              1 write by ",
        ": 8 bytes of 8 bytes (predicted fastest: moving holes costs more than storage calls)\n",
        "\n  predicted   ",
        " ms storage, each of the slowest rank\n",
        "\n  ignored     cb_node=3 (program): unknown hint; did you mean cb_nodes?\n",
    ];
    for part in expected {
        assert_eq!(text.matches(part).count(), 1, "{part:?} in\n{text}");
    }
    assert!(!text.contains("defaults") && !text.contains("pario_statistics"), "{text}");
}
