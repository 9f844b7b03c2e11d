//! Four ranks own a quarter of a field each, with a halo of one cell around it in memory, and
//! write it to one file without the halo.
//!
//!     cargo run --release -p pario --example halo

use pario::{Datatype, File, Order, Source, Threads, View};

/// Cells of the whole field, and of a rank's part, along each side.
const FIELD: u64 = 2048;
const PART: u64 = FIELD / 2;
/// A rank's part with its halo.
const ROOM: u64 = PART + 2;

fn main() {
    let path = std::env::temp_dir().join(format!("pario-halo-{}", std::process::id()));
    let results = Threads::new(4).run(|comm| -> pario::Result<()> {
        let (row, column) = (u64::from(comm.rank()) / 2, u64::from(comm.rank()) % 2);
        let cells = vec![f64::from(comm.rank()); usize::try_from(ROOM * ROOM).unwrap_or(0)];

        // In the file: this rank's quarter. In memory: the part inside the halo.
        let start = [row * PART, column * PART];
        let in_file = View::subarray::<f64>(&[FIELD, FIELD], &[PART, PART], &start)?;
        let number = Datatype::of::<f64>();
        let in_memory =
            Datatype::subarray(&[ROOM, ROOM], &[PART, PART], &[1, 1], Order::C, &number)?;

        let options = File::options().write(true).create(true).delete_on_close(true);
        let file = options.open(&*comm, &path)?;
        file.set_view(&in_file)?;
        file.write_all(0, Source::typed(&cells, 0, 1, &in_memory)?)?;
        if comm.rank() == 0 {
            print!("{}", file.last_call());
        }
        file.close()
    });
    for error in results.into_iter().filter_map(Result::err) {
        eprintln!("{error}");
    }
}
