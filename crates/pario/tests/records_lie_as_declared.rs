//! Structs that are records go to the file field by field, without their padding, and come back.

#![allow(clippy::unwrap_used)]

use pario::access::Records;
use pario::{
    Datatype, Field, File, Position, Record, Representation, Source, Target, Threads, View,
};

const RANKS: u32 = 4;
const COUNT: u32 = 37;
/// Bytes of data in a cell, and of a cell.
const PACKED_BYTES: usize = 30;
const BYTES: usize = 48;

/// 2 bytes of padding after the tag.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Record)]
struct Corner {
    tag: u16,
    at: [f32; 2],
}

/// 7 bytes of padding after the kind, and 7 at the end.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Record)]
struct Cell {
    kind: u8,
    id: u64,
    corners: [[Corner; 1]; 2],
    level: i8,
}

impl Cell {
    fn new(rank: u32, index: u32) -> Cell {
        let corner = |tag, at: u32| Corner { tag, at: [at as f32 + 0.5, -(index as f32)] };
        Cell {
            kind: 7,
            id: u64::from(rank) << 40 | u64::from(index),
            corners: [[corner(0x0102, rank)], [corner(0x0304, index)]],
            level: -3,
        }
    }

    fn all_of(rank: u32) -> Vec<Cell> {
        (0..COUNT).map(|index| Cell::new(rank, index)).collect()
    }

    /// The bytes of each field, with its offset in memory.
    fn fields(&self, representation: Representation) -> Vec<(usize, Vec<u8>)> {
        macro_rules! bytes {
            ($value:expr) => {
                match representation {
                    Representation::External32 => $value.to_be_bytes().to_vec(),
                    _ => $value.to_ne_bytes().to_vec(),
                }
            };
        }
        let corner = |at: usize, corner: &Corner| {
            let [x, y] = corner.at;
            [(at, bytes!(corner.tag)), (at + 4, bytes!(x)), (at + 8, bytes!(y))]
        };
        let [[first], [second]] = &self.corners;
        let mut fields = vec![(0, bytes!(self.kind)), (8, bytes!(self.id))];
        fields.extend(corner(16, first));
        fields.extend(corner(28, second));
        fields.push((40, bytes!(self.level)));
        fields
    }
}

/// A cell in a file without gaps.
fn packed() -> Datatype {
    let parts = [
        (0, 1, Datatype::of::<u8>()),
        (1, 1, Datatype::of::<u64>()),
        (9, 1, Datatype::of::<u16>()),
        (11, 2, Datatype::of::<f32>()),
        (19, 1, Datatype::of::<u16>()),
        (21, 2, Datatype::of::<f32>()),
        (29, 1, Datatype::of::<i8>()),
    ];
    let fields = parts.map(|(displacement, block_len, datatype)| Field {
        block_len,
        displacement,
        datatype,
    });
    Datatype::resized(0, PACKED_BYTES as i64, &Datatype::structure(&fields).unwrap()).unwrap()
}

/// Ranks write their cells in turn, collectively, and read them back; returns the file.
fn written(name: &str, cell: &Datatype, representation: Representation) -> Vec<u8> {
    let files = Threads::new(RANKS).run(|comm| {
        let options = File::options().read(true).write(true).create(true);
        let file = options.open(&*comm, format!("memory:{name}")).unwrap();
        let every = cell.extent() * i64::from(RANKS);
        let filetype = Datatype::resized(0, every, cell).unwrap();
        let start = u64::from(comm.rank()) * cell.extent().unsigned_abs();
        let view = View::new(start, cell, &filetype).with_representation(representation);
        file.set_view(&view).unwrap();

        let cells = Cell::all_of(comm.rank());
        let status = file.write_all(Position::Individual, Source::records(&cells).unwrap());
        assert_eq!(status.unwrap().records::<Cell>(), u64::from(COUNT));
        let mut found = vec![Cell::default(); cells.len()];
        file.read_all(0, Target::records(&mut found).unwrap()).unwrap();
        assert_eq!(found, cells);

        file.set_view(&View::bytes()).unwrap();
        let mut bytes = vec![0xaau8; file.size().unwrap() as usize];
        file.read_all(0, &mut bytes).unwrap();
        file.close().unwrap();
        bytes
    });
    files.into_iter().next().unwrap()
}

/// All cells in the order of the file.
fn in_turn() -> impl Iterator<Item = Cell> {
    (0..COUNT).flat_map(|index| (0..RANKS).map(move |rank| Cell::new(rank, index)))
}

#[test]
fn records_without_gaps_are_their_fields_one_after_the_other() {
    for representation in [Representation::Native, Representation::External32] {
        let bytes = written(representation.name(), &packed(), representation);
        let fields = in_turn().flat_map(|cell| cell.fields(representation));
        let expected: Vec<u8> = fields.flat_map(|(_, bytes)| bytes).collect();
        assert_eq!(bytes, expected, "{}", representation.name());
    }
}

#[test]
fn a_record_as_filetype_leaves_the_gaps_of_memory() {
    assert_eq!(size_of::<Cell>(), BYTES);
    for representation in [Representation::Native, Representation::External32] {
        let name = format!("gaps-{}", representation.name());
        let bytes = written(&name, &Cell::datatype(), representation);
        let mut expected = vec![0; BYTES * (RANKS * COUNT) as usize];
        for (cell, room) in in_turn().zip(expected.chunks_mut(BYTES)) {
            for (offset, field) in cell.fields(representation) {
                room[offset..offset + field.len()].copy_from_slice(&field);
            }
        }
        // The file ends with the last field.
        expected.truncate(bytes.len());
        assert_eq!(bytes.len(), BYTES * (RANKS * COUNT) as usize - 7);
        assert_eq!(bytes, expected, "{name}");
    }
}

#[test]
fn only_data_is_in_the_datatype_of_a_record() {
    let cell = Cell::datatype();
    assert_eq!((cell.size(), cell.extent()), (PACKED_BYTES as u64, BYTES as i64));
    let offsets: Vec<i64> = (0..cell.size()).filter_map(|byte| cell.offset_of(byte)).collect();
    let data = (0..1).chain(8..18).chain(20..30).chain(32..41);
    assert!(offsets.iter().copied().eq(data), "{offsets:?}");
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Record)]
struct Pair<T>(T, u8);

#[repr(C, packed)]
#[derive(Clone, Copy, Record)]
struct Tight {
    r#type: u8,
    number: u64,
}

#[test]
fn generic_and_packed_structs_are_records() {
    let pair = <Pair<Pair<i32>>>::datatype();
    assert_eq!((pair.size(), pair.extent()), (6, 12));
    let offsets: Vec<Option<i64>> = (0..6).map(|byte| pair.offset_of(byte)).collect();
    assert_eq!(offsets, [0, 1, 2, 3, 4, 8].map(Some));
    let tight = Tight::datatype();
    assert_eq!((tight.size(), tight.extent(), tight.pieces()), (9, 9, 1));
}

#[test]
fn records_go_in_the_background() {
    Threads::new(RANKS).run(|comm| {
        let options = File::options().read(true).write(true).create(true);
        let file = options.open(&*comm, "memory:background").unwrap();
        let start = u64::from(comm.rank() * COUNT) * PACKED_BYTES as u64;
        let cells = Records(Cell::all_of(comm.rank()));
        let (status, cells) = file.iwrite_all(start, cells).wait();
        assert_eq!(status.unwrap().records::<Cell>(), u64::from(COUNT));
        let room = Records(vec![Cell::default(); COUNT as usize]);
        let (status, found) = file.iread_all(start, room).wait();
        assert_eq!(status.unwrap().records::<Cell>(), u64::from(COUNT));
        assert_eq!(found, cells);
        file.close().unwrap();
    });
}
