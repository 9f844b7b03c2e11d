//! Tests of `ring`, beside it because a model checker includes that file as it is.

use super::ring::{Control, Ring};
use super::shared_bytes::SharedBytes;
use super::sync::Ordering;

const CAPACITY: usize = 64;

fn with_ring(test: impl FnOnce(&Control, Ring<'_>)) {
    let (control, mut bytes) = (Control::default(), [0u8; CAPACITY]);
    // SAFETY: the memory outlives the ring and is used by nobody else.
    let ring = unsafe { Ring::new(&control, SharedBytes::new(bytes.as_mut_ptr(), CAPACITY)) };
    test(&control, ring);
}

#[test]
fn bytes_come_out_in_order_around_the_end() {
    with_ring(|_, ring| {
        let (mut written, mut read) = (0u8, 0u8);
        for len in (0..50).chain([CAPACITY, 1, CAPACITY]) {
            let bytes: Vec<u8> = (0..len).map(|index| written.wrapping_add(index as u8)).collect();
            let (one, two) = bytes.split_at(len / 3);
            assert_eq!(ring.write([one, two]).unwrap(), len);
            written = written.wrapping_add(len as u8);
            let mut reading = ring.read().unwrap();
            let mut taken = Vec::new();
            reading.take(len / 2, &mut taken);
            reading.take(reading.len(), &mut taken);
            assert_eq!(taken, bytes);
            read = read.wrapping_add(len as u8);
        }
        assert_eq!(written, read);
    });
}

#[test]
fn a_full_ring_takes_no_more_until_it_is_read() {
    with_ring(|_, ring| {
        assert_eq!(ring.write([&[1; 40], &[2; 40]]).unwrap(), CAPACITY);
        assert_eq!(ring.write([&[3; 40], &[]]).unwrap(), 0);
        assert!(!ring.is_room_wanted());
        ring.want_room();
        let mut taken = Vec::new();
        ring.read().unwrap().take(10, &mut taken);
        assert!(ring.is_room_wanted());
        assert_eq!(ring.write([&[3; 40], &[]]).unwrap(), 10);
        ring.want_nothing();
        assert!(!ring.is_room_wanted());
        let mut reading = ring.read().unwrap();
        reading.take(reading.len(), &mut taken);
        assert_eq!(taken, [vec![1; 40], vec![2; 24], vec![3; 10]].concat());
    });
}

#[test]
fn numbers_that_make_no_sense_are_an_error() {
    with_ring(|control, ring| {
        control.written.tail.store(CAPACITY as u64 + 1, Ordering::Relaxed);
        assert!(ring.read().is_err() && ring.write([&[1], &[]]).is_err());
        control.read.head.store(CAPACITY as u64 + 2, Ordering::Relaxed);
        assert!(ring.read().is_err() && ring.write([&[1], &[]]).is_err());
    });
}
