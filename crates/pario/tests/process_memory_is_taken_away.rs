//! A process that may no longer use the memory of others, in the middle of its work, carries its
//! collectives out all the same.
//!
//! Ranks are threads that pretend to be processes: they have the system copy between them. A filter
//! of system calls holds for the thread that installs it, so that each run begins without one.
#![allow(unsafe_code, clippy::unwrap_used)]

use pario::{Communicator, Datatype, File, Threads, View};

/// Lets the system calls that copy between processes fail in this thread, with an error number.
fn refuse(errno: u32) {
    const LOAD: u16 = 0x20;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    let rule = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let number = |call: libc::c_long| u32::try_from(call).unwrap();
    let mut rules = [
        rule(LOAD, 0, 0, 0),
        rule(JUMP_IF_EQUAL, 1, 0, number(libc::SYS_process_vm_readv)),
        rule(JUMP_IF_EQUAL, 0, 1, number(libc::SYS_process_vm_writev)),
        rule(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | errno),
        rule(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog { len: 5, filter: rules.as_mut_ptr() };
    // SAFETY: both only concern this thread; the rules are valid while the call lasts.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::SECCOMP_MODE_FILTER;
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const filter), 0);
    }
}

const RANKS: u32 = 4;
const PIECE: u64 = 1024;
const PIECES: u64 = 64;

fn byte(rank: u32, round: u8, at: u64) -> u8 {
    (u64::from(rank) * 31 + at * 7 % 251).to_le_bytes()[0].wrapping_add(round)
}

/// Every rank writes and reads pieces that alternate with those of the others.
fn exchange(file: &File, comm: &dyn Communicator, round: u8) {
    let len = PIECE * PIECES;
    let data: Vec<u8> = (0..len).map(|at| byte(comm.rank(), round, at)).collect();
    assert_eq!(file.write_all(0, &data[..]).unwrap().bytes, len);
    let mut back = vec![0; data.len()];
    assert_eq!(file.read_all(0, &mut back[..]).unwrap().bytes, len);
    assert!(back == data, "round {round}");
}

fn open(comm: &dyn Communicator, path: &str, strategy: &str) -> File {
    let options = File::options().read(true).write(true).create(true);
    let options = options.hint("pario_strategy", strategy).hint("cb_buffer_size", "16384");
    let file = options.open(comm, path).unwrap();
    let piece = Datatype::contiguous(PIECE, &Datatype::byte()).unwrap();
    let turn = Datatype::resized(0, (PIECE * u64::from(RANKS)).cast_signed(), &piece).unwrap();
    let start = u64::from(comm.rank()) * PIECE;
    file.set_view(&View::new(start, &Datatype::byte(), &turn)).unwrap();
    file
}

#[test]
fn collectives_go_on_when_process_memory_is_refused_later() {
    for strategy in ["two-phase", "multi-phase", "gather"] {
        for victims in [0..1, 2..3, 0..RANKS] {
            for errno in [libc::EPERM, libc::ENOSYS] {
                let path = format!("memory:taken_away_{strategy}_{victims:?}_{errno}");
                Threads::new(RANKS).as_processes().run(|comm| {
                    let file = open(&*comm, &path, strategy);
                    exchange(&file, &*comm, 1);
                    if victims.contains(&comm.rank()) {
                        refuse(errno.unsigned_abs());
                    }
                    exchange(&file, &*comm, 2);
                    exchange(&file, &*comm, 3);
                    let again = open(&*comm, &format!("{path}_again"), strategy);
                    exchange(&again, &*comm, 4);
                    again.close().unwrap();
                    file.close().unwrap();
                });
                for path in [path.clone(), format!("{path}_again")] {
                    File::delete(&path).unwrap();
                }
            }
        }
    }
}
