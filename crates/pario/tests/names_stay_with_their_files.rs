//! Which file a name means: through symbolic links, and after the program has gone elsewhere.
//!
//! The working directory is the process's: one test goes elsewhere, others use whole paths.

#![allow(clippy::expect_used, clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use pario::{ErrorClass, File, OpenOptions, Result, Threads};
use pario_testkit::scratch::Scratch;

fn temporary() -> OpenOptions {
    File::options().write(true).create(true).delete_on_close(true)
}

/// Opens, does something on rank 0 while the file is open, and closes.
fn while_open(name: &str, meanwhile: impl Fn() + Sync) -> Vec<Result<()>> {
    Threads::new(2).run(|comm| {
        let file = temporary().open(&*comm, name).expect("opens");
        file.sync().expect("all have it open");
        if comm.rank() == 0 {
            meanwhile();
        }
        file.close()
    })
}

#[test]
fn the_file_that_was_opened_is_the_one_that_is_deleted() {
    let scratch = Scratch::new();
    let enter = |name: &str| {
        fs::create_dir_all(scratch.path(name)).unwrap();
        std::env::set_current_dir(scratch.path(name)).unwrap();
    };
    // The program goes where another file has the same name.
    fs::create_dir(scratch.path("b")).unwrap();
    fs::write(scratch.path("b/data"), b"precious").unwrap();
    enter("a");
    let closed = while_open("data", || enter("b"));
    assert!(closed.iter().all(Result::is_ok), "{closed:?}");
    assert!(!scratch.path("a/data").exists());
    assert_eq!(fs::read(scratch.path("b/data")).unwrap(), b"precious");

    // The directory gets another name.
    enter("c");
    let closed = while_open("data", || {
        fs::rename(scratch.path("c"), scratch.path("d")).unwrap();
    });
    assert!(closed.iter().all(Result::is_ok), "{closed:?}");
    assert!(!scratch.path("d/data").exists());

    // Another file takes the name; the one that was opened has a new one.
    enter("e");
    let closed = while_open("data", || {
        fs::rename("data", "kept").unwrap();
        fs::write("data", b"precious").unwrap();
    });
    for closed in closed {
        assert_eq!(closed.unwrap_err().class(), ErrorClass::NoSuchFile);
    }
    assert_eq!(fs::read("data").unwrap(), b"precious");
    assert!(Path::new("kept").exists());

    // A link is deleted, not what it points to.
    fs::write("target", b"precious").unwrap();
    symlink("target", "link").unwrap();
    let closed = while_open("link", || ());
    assert!(closed.iter().all(Result::is_ok), "{closed:?}");
    assert!(fs::symlink_metadata("link").is_err());
    assert_eq!(fs::read("target").unwrap(), b"precious");
    std::env::set_current_dir("/").unwrap();
}

/// As `open(2)` does it, and so other MPI-IO.
#[test]
fn a_file_is_created_through_a_link() {
    let scratch = Scratch::new();
    let link = scratch.path("dangling");
    symlink(scratch.path("new"), &link).unwrap();
    let open = |exclusive| {
        Threads::new(2).run(|comm| {
            let options = File::options().write(true).create(true).exclusive(exclusive);
            let file = options.open(&*comm, &link)?;
            file.write_all(u64::from(comm.rank()), &[7u8])?;
            file.close()
        })
    };
    for refused in open(true) {
        assert_eq!(refused.unwrap_err().class(), ErrorClass::FileExists);
    }
    assert!(!scratch.path("new").exists());
    let created = open(false);
    assert!(created.iter().all(Result::is_ok), "{created:?}");
    assert_eq!(fs::read(scratch.path("new")).unwrap(), [7, 7]);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    // One that points to where nothing can be made, and one to itself.
    symlink(scratch.path("nowhere/new"), scratch.path("lost")).unwrap();
    symlink(scratch.path("loop"), scratch.path("loop")).unwrap();
    for name in ["lost", "loop"] {
        let refused = Threads::new(2).run(|comm| {
            File::options().write(true).create(true).open(&*comm, scratch.path(name)).map(drop)
        });
        let classes: Vec<ErrorClass> =
            refused.into_iter().map(|refused| refused.unwrap_err().class()).collect();
        assert_eq!(classes[0], classes[1], "{name}");
    }
}
