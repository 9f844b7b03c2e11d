//! A collective of one rank with one run of bytes is one storage call, without a plan; hints that
//! want windows, and calls that were handed over before it, count as for every collective.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;

use pario::hints::Strategy;
use pario::storage::{Call, Driver, Layer, Memory, Operation, Proceed, Trace, TraceEvent, Wrapper};
use pario::{File, OpenOptions, Position, Result, Solo};
use pario_testkit::watchdog::Watchdog;

const BYTES: u64 = 8;

fn options() -> OpenOptions {
    File::options().read(true).write(true).create(true)
}

/// Writes and reads 8 bytes at `position`, which is byte 0; what storage saw of each call.
fn write_and_read(file: &File, trace: &Trace, position: Position) -> [Vec<TraceEvent>; 2] {
    file.seek(std::io::SeekFrom::Start(0)).unwrap();
    trace.clear();
    assert_eq!(file.write_all(position, &[7u8; 8]).unwrap().bytes, BYTES);
    let written = trace.events();
    file.seek(std::io::SeekFrom::Start(0)).unwrap();
    trace.clear();
    let mut back = [0u8; 8];
    assert_eq!(file.read_all(position, &mut back).unwrap().bytes, BYTES);
    assert_eq!(back, [7; 8]);
    [written, trace.events()]
}

fn open(hints: &[(&str, &str)]) -> (File, Trace) {
    let trace = Trace::new(Arc::new(Memory::new()), 1000);
    let options = options().driver(Arc::new(trace.clone()));
    let options = hints.iter().fold(options, |options, &(key, value)| options.hint(key, value));
    (options.open(&*Solo::new(), "f").unwrap(), trace)
}

#[test]
fn one_run_of_bytes_is_one_storage_call() {
    let _watchdog = Watchdog::new("one_run_of_bytes_is_one_storage_call");
    for position in [Position::At(0), Position::Individual] {
        let (file, trace) = open(&[]);
        let event = |operation| vec![TraceEvent { operation, offset: 0, len: BYTES }];
        let expected = [Operation::Write, Operation::Read].map(event);
        assert_eq!(write_and_read(&file, &trace, position), expected, "{position:?}");
        let moved = if position == Position::Individual { BYTES } else { 0 };
        assert_eq!(file.position(), moved);
        let calls = file.statistics();
        assert_eq!((calls.served.len(), calls.served[0].calls), (2, 1));
        assert_eq!((calls.total.moved_bytes, calls.total.rounds), (2 * BYTES, 0));
        // No plan was made, nor a kept one looked for.
        let last = file.last_call();
        assert!(!last.planned && last.planning.is_zero(), "{last:?}");
        assert_eq!((last.call, last.strategy), ("read_all", Strategy::Direct));
    }
}

#[test]
fn hints_decide_how_one_run_of_bytes_is_served() {
    let _watchdog = Watchdog::new("hints_decide_how_one_run_of_bytes_is_served");
    let served = |hints: &[(&str, &str)]| {
        let (file, trace) = open(hints);
        write_and_read(&file, &trace, Position::At(0));
        let one = |call: &str| {
            let served = file.statistics().served;
            let served = served.into_iter().find(|served| served.call == call).unwrap();
            (served.strategy, served.reason.into_owned())
        };
        [one("write_all"), one("read_all")]
    };
    let run = (Strategy::Direct, "one run of bytes".to_owned());
    let on = (Strategy::TwoPhase, "collective buffering is switched on".to_owned());
    assert_eq!(served(&[("romio_cb_write", "enable")]), [on.clone(), run.clone()]);
    assert_eq!(served(&[("romio_cb_read", "enable")]), [run, on]);
    for (name, strategy) in [("two-phase", Strategy::TwoPhase), ("list", Strategy::List)] {
        let asked = (strategy, "asked for by a hint".to_owned());
        assert_eq!(served(&[("pario_strategy", name)]), [asked.clone(), asked]);
    }
}

/// Lets others run before a write of the first byte alone.
#[derive(Clone, Default)]
struct Slow(Memory);

impl Layer for Slow {
    fn pass(&self, call: &Call<'_>, proceed: &mut Proceed<'_>) -> Result<u64> {
        if call.operation == Operation::Write && call.len == 1 {
            (0..10_000).for_each(|_| std::thread::yield_now());
        }
        proceed(call.len)
    }
}

impl Wrapper for Slow {
    fn inner(&self) -> &dyn Driver {
        &self.0
    }

    fn layer(&self, _: &Path) -> Arc<dyn Layer> {
        Arc::new(self.clone())
    }
}

#[test]
fn earlier_calls_end_first() {
    let _watchdog = Watchdog::new("earlier_calls_end_first");
    let driver = Arc::new(Slow::default());
    let file = options().driver(driver).open(&*Solo::new(), "f").unwrap();
    let earlier = file.iwrite(0, vec![1u8]);
    file.write_all(0, &[2u8; 8]).unwrap();
    assert!(earlier.is_done());
    let mut back = [0u8; 8];
    file.read_all(0, &mut back).unwrap();
    assert_eq!(back, [2; 8]);
}
