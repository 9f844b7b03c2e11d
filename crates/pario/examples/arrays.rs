//! The field of the example `halo` as arrays of the crate ndarray: view and memory are slices.
//!
//!     cargo run --release -p pario --features ndarray --example arrays

use ndarray::{Array2, s};
use pario::{File, Source, Threads, View};

/// Cells of the whole field, and of a rank's part, along each side.
const FIELD: usize = 2048;
const PART: usize = FIELD / 2;

fn main() {
    let path = std::env::temp_dir().join(format!("pario-arrays-{}", std::process::id()));
    let results = Threads::new(4).run(|comm| -> pario::Result<()> {
        let (row, column) = ((comm.rank() / 2) as usize * PART, comm.rank() as usize % 2 * PART);
        let field = Array2::from_elem((PART + 2, PART + 2), f64::from(comm.rank()));

        let options = File::options().write(true).create(true).delete_on_close(true);
        let file = options.open(&*comm, &path)?;
        let slice = s![row..row + PART, column..column + PART];
        file.set_view(&View::of_slice::<f64>(&[FIELD, FIELD], slice)?)?;
        let inside = field.slice(s![1..=PART, 1..=PART]);
        file.write_all(0, Source::of_array(&inside)?)?;
        if comm.rank() == 0 {
            print!("{}", file.last_call());
        }
        file.close()
    });
    for error in results.into_iter().filter_map(Result::err) {
        eprintln!("{error}");
    }
}
