//! Types of any depth: built, asked, used and dropped on a stack of 256 KiB.

#![allow(clippy::expect_used, clippy::unwrap_used)]

use std::sync::Arc;

use pario::storage::Memory;
use pario::{Datatype, Element, Field, File, Representation, Solo, Source, Target, Threads, View};

const LEVELS: usize = 100_000;
/// What threads get that a program makes with a small stack.
const STACK_BYTES: usize = 256 << 10;

fn on_a_small_stack(test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(test);
    thread.expect("starts").join().expect("ends well");
}

fn field(displacement: i64, datatype: &Datatype) -> Field {
    Field { block_len: 1, displacement, datatype: datatype.clone() }
}

/// Distance from one piece to the next, without a period.
fn gap(level: usize) -> i64 {
    5 + i64::try_from(level * level % 11 + level.trailing_zeros() as usize).expect("small")
}

/// Where pieces of such a type lie: each level adds one after those of the level below.
fn places(levels: usize) -> Vec<i64> {
    let mut end = 0;
    let place = |level: usize| {
        end += gap(level);
        end
    };
    std::iter::once(0).chain((1..=levels).map(place)).collect()
}

fn element(level: usize) -> Element {
    [Element::I16, Element::I32, Element::F32][level % 3]
}

/// A structure whose first member is a structure whose first member is one, and so on.
fn growing(levels: usize) -> Datatype {
    let places = places(levels);
    (1..=levels).fold(Datatype::element(element(0)), |inner, level| {
        let piece = Datatype::element(element(level));
        Datatype::structure(&[field(0, &inner), field(places[level], &piece)]).expect("fits")
    })
}

fn data_offsets(levels: usize) -> Vec<i64> {
    let bytes = |(level, place): (usize, i64)| {
        let size = i64::try_from(element(level).size()).expect("small");
        place..place + size
    };
    places(levels).into_iter().enumerate().flat_map(bytes).collect()
}

fn offsets(datatype: &Datatype) -> Vec<i64> {
    datatype.runs().flat_map(|(offset, len)| offset..offset + len.cast_signed()).collect()
}

#[test]
fn a_structure_of_many_levels_has_the_bytes_of_its_pieces() {
    on_a_small_stack(|| {
        let deep = growing(LEVELS);
        let expected = data_offsets(LEVELS);
        assert_eq!(offsets(&deep), expected);
        assert_eq!(deep.external_size(), deep.size());
        let last = expected.len() - 1;
        assert_eq!(deep.offset_of(u64::try_from(last).unwrap()), Some(expected[last]));
    });
}

#[test]
fn levels_that_change_nothing_cost_nothing() {
    on_a_small_stack(|| {
        let start = Datatype::of::<u32>();
        let end = (0..LEVELS).fold(start.clone(), |inner, level| match level % 3 {
            0 => inner.dup(),
            1 => Datatype::contiguous(1, &inner).expect("fits"),
            _ => Datatype::resized(0, 4, &inner).expect("fits"),
        });
        assert_eq!(end.fingerprint(), start.fingerprint());
    });
}

#[test]
fn deep_types_are_written_and_read() {
    on_a_small_stack(|| {
        let deep = growing(3000);
        let reach = usize::try_from(deep.extent()).unwrap();
        let memory: Vec<u8> = (0..reach).map(|byte| (byte % 251) as u8).collect();
        let data: Vec<u8> =
            data_offsets(3000).iter().map(|&at| memory[usize::try_from(at).unwrap()]).collect();
        for representation in [Representation::Native, Representation::External32] {
            let storage = Arc::new(Memory::new());
            let options = File::options().read(true).write(true).create(true).driver(storage);
            let file = options.open(&*Solo::new(), "f").expect("opens");
            let view = View::new(3, &deep, &deep).with_representation(representation);
            file.set_view(&view).expect("a view");
            let source = Source::typed(&memory, 0, 1, &deep).expect("inside");
            assert_eq!(file.write_all(0, source).expect("writes").bytes, deep.size());
            let mut back = vec![0; reach];
            let target = Target::typed(&mut back, 0, 1, &deep).expect("inside");
            assert_eq!(file.read_all(0, target).expect("reads").bytes, deep.size());
            assert_eq!(deep.pack(1, &back, 0).unwrap(), data);
        }
    });
}

#[test]
fn deep_views_of_several_ranks_interleave() {
    let levels = 1000;
    let storage = Memory::new();
    let options = File::options().read(true).write(true).create(true);
    let options = options.driver(Arc::new(storage.clone()));
    Threads::new(2).share_memory(false).run(|comm| {
        let file = options.clone().open(&*comm, "f").expect("opens");
        let byte = Datatype::byte();
        // Pieces of two bytes; those of rank 1 follow those of rank 0.
        let places = places(levels);
        let piece = Datatype::contiguous(2, &byte).expect("small");
        let deep = (1..=levels).fold(piece.clone(), |inner, level| {
            Datatype::structure(&[field(0, &inner), field(places[level], &piece)]).expect("fits")
        });
        let shift = 2 * u64::from(comm.rank());
        file.set_view(&View::new(shift, &byte, &deep)).expect("a view");
        let data = vec![u8::try_from(comm.rank() + 1).unwrap(); 2 * (levels + 1)];
        file.write_all(0, &data).expect("writes");
    });
    let file_bytes = storage.contents("f").expect("is there");
    for place in places(levels).into_iter().map(|place| usize::try_from(place).unwrap()) {
        assert_eq!(file_bytes[place..place + 4], [1, 1, 2, 2], "at {place}");
    }
}

/// Each level has the level below twice: as many pieces as no list could hold.
#[test]
fn doubling_takes_time_by_levels_not_by_pieces() {
    let pair =
        Datatype::structure(&[field(0, &Datatype::of::<i32>()), field(8, &Datatype::of::<f64>())]);
    let deep = (0..50).fold(pair.expect("fits"), |inner, _| {
        let behind = inner.extent() + 16;
        Datatype::structure(&[field(0, &inner), field(behind, &inner)]).expect("fits")
    });
    assert_eq!(deep.size(), 12 << 50);
    assert_eq!(deep.external_size(), 12 << 50);
}
