//! Sixteen ranks write every sixteenth float of one file each; the README's first program.

use pario::{Datatype, File, Position, Threads, View};

fn main() {
    // Sixteen ranks, as threads; each owns every sixteenth float of one file.
    let results = Threads::new(16).run(|comm| -> pario::Result<()> {
        let file = File::options().write(true).create(true).open(&*comm, "floats.dat")?;

        let float = Datatype::of::<f32>();
        let every_16th = Datatype::resized(0, 64, &float)?;
        file.set_view(&View::new(u64::from(comm.rank()) * 4, &float, &every_16th))?;

        let mine = vec![comm.rank() as f32; 1_000_000];
        let status = file.write_all(Position::Individual, &mine)?;
        assert_eq!(status.count::<f32>(), 1_000_000);

        if comm.rank() == 0 {
            print!("{}", file.last_call()); // strategy, rounds, bytes, times
        }
        file.close()
    });
    for result in results {
        if let Err(error) = result {
            eprintln!("{error}"); // what, which file, at which offset, on which rank
        }
    }
}
