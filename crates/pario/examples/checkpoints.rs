//! A simulation that writes its array again and again: the first write makes a plan, the others use
//! it (paper 002: the inspector runs once, the executor often).
//!
//!     cargo run --release -p pario --example checkpoints [STRATEGY [STEPS [MIB]]]
//!
//! It writes 20 times 16 MiB, unless told otherwise, to a file in the temporary directory, which it
//! deletes at the end.

use pario::{Datatype, File, Threads, View};

const RANKS: u32 = 16;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, default: u64| {
        words.get(index).and_then(|word| word.parse().ok()).unwrap_or(default)
    };
    let strategy = words.first().map_or("inspector-executor", String::as_str);
    let (steps, mebibytes) = (number(1, 20), number(2, 16));
    println!("{strategy}: {steps} writes of {mebibytes} MiB by {RANKS} ranks");
    let path = std::env::temp_dir().join(format!("pario-checkpoints-{}", std::process::id()));
    let results = Threads::new(RANKS).run(|comm| -> pario::Result<()> {
        let file = File::options()
            .write(true)
            .create(true)
            .delete_on_close(true)
            .hint("pario_strategy", strategy)
            .open(&*comm, &path)?;
        // Every sixteenth float is this rank's.
        let float = Datatype::of::<f32>();
        let every_16th = Datatype::resized(0, 4 * i64::from(RANKS), &float)?;
        file.set_view(&View::new(4 * u64::from(comm.rank()), &float, &every_16th))?;
        let count = usize::try_from((mebibytes << 20) / 4 / u64::from(RANKS)).unwrap_or(0);
        let mut cells = vec![0f32; count];
        let begin = std::time::Instant::now();
        let (mut planned, mut planning) = (0, std::time::Duration::ZERO);
        let mut synchronisation = std::time::Duration::ZERO;
        for step in 0..steps {
            // What a simulation would compute.
            cells[0] = step as f32;
            let began = std::time::Instant::now();
            file.write_all(0, &cells)?;
            let call = file.last_call();
            planned += u32::from(call.planned);
            planning += call.planning;
            synchronisation += call.synchronisation;
            if comm.rank() == 0 {
                let way = if call.planned { "planned" } else { "by the kept plan" };
                println!("step {step}: {:.1} ms, {way}", began.elapsed().as_secs_f64() * 1e3);
            }
        }
        if comm.rank() == 0 {
            let total = begin.elapsed();
            let share =
                |time: std::time::Duration| 100.0 * time.as_secs_f64() / total.as_secs_f64();
            println!(
                "{:.3} s in all; planned {planned} times; {:.2} % of the time in planning, {:.2} % \
                 waiting for the other ranks to come",
                total.as_secs_f64(),
                share(planning),
                share(synchronisation)
            );
        }
        file.close()
    });
    for error in results.into_iter().filter_map(Result::err) {
        eprintln!("{error}");
    }
}
