//! The rings and doorbells of the ranks of a node (`node/ring.rs` and `node/doorbell.rs`).

use std::time::Duration;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use crate::every_order::{self as sync, AtomicU64, Ordering};

/// What a doorbell takes for the system's futex. Time does not pass: who is not woken sleeps for
/// ever.
mod futex {
    use std::time::Duration;

    use loom::sync::{Condvar, Mutex};

    use crate::every_order::{AtomicU32, Ordering};

    #[derive(Default)]
    pub(super) struct Futex {
        number: AtomicU32,
        sleepers: Mutex<()>,
        woken: Condvar,
    }

    impl Futex {
        pub(super) fn load(&self, order: Ordering) -> u32 {
            self.number.load(order)
        }

        pub(super) fn fetch_add(&self, added: u32, order: Ordering) -> u32 {
            self.number.fetch_add(added, order)
        }

        pub(super) fn wait(&self, expected: u32, _: Duration) {
            let sleepers = self.sleepers.lock().unwrap();
            if self.number.load(Ordering::Relaxed) == expected {
                drop(self.woken.wait(sleepers).unwrap());
            }
        }

        pub(super) fn wake_all(&self) {
            let _sleepers = self.sleepers.lock().unwrap();
            self.woken.notify_all();
        }
    }
}

/// What a ring takes for memory.
mod shared_bytes {
    use std::ops::Range;

    use loom::cell::UnsafeCell;

    #[derive(Clone, Copy)]
    pub(super) struct SharedBytes<'a>(pub(super) &'a [UnsafeCell<u8>]);

    #[allow(unsafe_code)]
    impl SharedBytes<'_> {
        pub(super) fn len(&self) -> usize {
            self.0.len()
        }

        pub(super) unsafe fn write(&self, start: usize, source: &[u8]) {
            for (cell, value) in self.0[start..][..source.len()].iter().zip(source) {
                // SAFETY: the model checker panics if another thread uses it now.
                cell.with_mut(|byte| unsafe { *byte = *value });
            }
        }

        pub(super) unsafe fn read(&self, range: Range<usize>, target: &mut Vec<u8>) {
            // SAFETY: the model checker panics if another thread changes it now.
            target.extend(self.0[range].iter().map(|cell| cell.with(|byte| unsafe { *byte })));
        }
    }
}

#[path = "../../pario-mpi/src/node/doorbell.rs"]
#[allow(dead_code, unreachable_pub)]
mod doorbell;
#[path = "../../pario-mpi/src/node/ring.rs"]
#[allow(dead_code, unreachable_pub, unsafe_code)]
mod ring;

use doorbell::Doorbell;
use ring::{Control, Ring};
use shared_bytes::SharedBytes;

type Result<T> = std::result::Result<T, String>;

fn broken(what: &str) -> String {
    what.to_owned()
}

const LONG: Duration = Duration::MAX;

/// A ring and the doorbells of its writer and of its reader.
struct Pair {
    control: Control,
    bytes: Vec<UnsafeCell<u8>>,
    writer: Doorbell,
    reader: Doorbell,
}

impl Pair {
    fn new(capacity: usize) -> Pair {
        Pair {
            control: Control::default(),
            bytes: (0..capacity).map(|_| UnsafeCell::new(0)).collect(),
            writer: Doorbell::default(),
            reader: Doorbell::default(),
        }
    }

    #[allow(unsafe_code)]
    fn ring(&self) -> Ring<'_> {
        // SAFETY: the bytes are of this ring only, which each thread uses from its side.
        unsafe { Ring::new(&self.control, SharedBytes(&self.bytes)) }
    }

    /// Writes what there is room for, as `Traffic::push` does; how much that was.
    fn push(&self, bytes: &[u8]) -> usize {
        let (ring, mut sent, mut wanting) = (self.ring(), 0, false);
        loop {
            sent += ring.write([&bytes[sent..], &[]]).unwrap();
            if sent == bytes.len() {
                ring.want_nothing();
                return sent;
            } else if wanting {
                return sent;
            }
            ring.want_room();
            wanting = true;
        }
    }

    fn send(&self, bytes: &[u8]) {
        let mut sent = 0;
        while sent < bytes.len() {
            let listening = self.writer.listen();
            let count = self.push(&bytes[sent..]);
            sent += count;
            if count > 0 {
                self.reader.ring();
            } else {
                listening.sleep(LONG);
            }
        }
    }

    /// Reads what there is, as `Traffic::drain` does.
    fn drain(&self, taken: &mut Vec<u8>) {
        let ring = self.ring();
        loop {
            let mut reading = ring.read().unwrap();
            if reading.len() == 0 {
                return;
            }
            reading.take(reading.len(), taken);
            drop(reading);
            if ring.is_room_wanted() {
                self.writer.ring();
            }
        }
    }

    fn receive(&self, len: usize) -> Vec<u8> {
        let mut taken = Vec::new();
        loop {
            let listening = self.reader.listen();
            let before = taken.len();
            self.drain(&mut taken);
            match taken.len() {
                now if now == len => return taken,
                now if now == before => listening.sleep(LONG),
                _ => {}
            }
        }
    }
}

/// Sends messages of these lengths. Bytes come out in order and whole, no side touches a byte of
/// the other one, and neither sleeps for ever.
fn check(capacity: usize, lens: &'static [usize]) {
    crate::check(2, move || {
        let pair = Arc::new(Pair::new(capacity));
        let all: Vec<u8> = (1u8..).take(lens.iter().sum()).collect();
        let writer = {
            let (pair, all) = (pair.clone(), all.clone());
            thread::spawn(move || {
                let mut left = &all[..];
                for len in lens {
                    let (message, others) = left.split_at(*len);
                    pair.send(message);
                    left = others;
                }
            })
        };
        assert_eq!(pair.receive(all.len()), all);
        writer.join().unwrap();
    });
}

#[test]
fn a_message_that_fits() {
    check(2, &[2]);
}

#[test]
fn a_message_longer_than_its_ring() {
    check(1, &[2]);
}

#[test]
fn a_message_that_wraps_around() {
    check(2, &[3]);
}

#[test]
fn a_message_into_a_full_ring() {
    check(1, &[1, 1]);
}

/// A rank that listens before it looks is woken by what it looks for.
#[test]
fn no_ring_of_a_doorbell_is_lost() {
    crate::check(3, || {
        let shared = Arc::new((Doorbell::default(), AtomicU64::new(0)));
        let ringer = {
            let shared = shared.clone();
            thread::spawn(move || {
                for published in 1..=2 {
                    shared.1.store(published, Ordering::Relaxed);
                    shared.0.ring();
                }
            })
        };
        let (doorbell, published) = &*shared;
        for awaited in 1..=2 {
            while published.load(Ordering::Relaxed) < awaited {
                let listening = doorbell.listen();
                if published.load(Ordering::Relaxed) < awaited {
                    listening.sleep(LONG);
                }
            }
        }
        ringer.join().unwrap();
    });
}
