//! A message that is not as the plan says is an error of all ranks: none waits for ever (the
//! simulator panics then).

#![allow(clippy::expect_used)]

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use pario::comm::{Condition, Group, Lane, RankClock, Region, Tag, Task, Watchdog};
use pario::storage::Memory;
use pario::{Communicator, Datatype, ErrorClass, File, Result, Simulated, View};
use pario_testkit::seed::first_seed;

/// A rank whose messages with users' bytes are changed on their way.
struct Changed {
    inner: Arc<dyn Communicator>,
    change: Change,
}

#[deny(clippy::missing_trait_methods)]
impl Communicator for Changed {
    fn group(&self) -> &Group {
        self.inner.group()
    }

    fn watchdog(&self) -> &Watchdog {
        self.inner.watchdog()
    }

    fn now(&self) -> Duration {
        self.inner.now()
    }

    fn clock(&self) -> Option<&RankClock> {
        self.inner.clock()
    }

    fn rank(&self) -> u32 {
        self.inner.rank()
    }

    fn size(&self) -> u32 {
        self.inner.size()
    }

    fn transport(&self) -> &'static str {
        self.inner.transport()
    }

    fn node(&self, rank: u32) -> u32 {
        self.inner.node(rank)
    }

    fn cores(&self, node: u32) -> u32 {
        self.inner.cores(node)
    }

    fn duplicate(&self) -> Result<Arc<dyn Communicator>> {
        Ok(Arc::new(Changed { inner: self.inner.duplicate()?, change: self.change }))
    }

    fn send(&self, to: u32, tag: Tag, mut bytes: Vec<u8>) -> Result<()> {
        if tag.lane == Lane::Data {
            (self.change)(&mut bytes);
        }
        self.inner.send(to, tag, bytes)
    }

    fn poll_receive(
        &self,
        from: u32,
        tag: Tag,
        context: &mut Context<'_>,
    ) -> Poll<Result<Vec<u8>>> {
        self.inner.poll_receive(from, tag, context)
    }

    fn counter_add(&self, delta: u64) -> Result<u64> {
        self.inner.counter_add(delta)
    }

    fn counter_set(&self, value: u64) -> Result<()> {
        self.inner.counter_set(value)
    }

    fn region(&self) -> Option<&Region> {
        self.inner.region()
    }

    fn poll_until(
        &self,
        condition: &mut dyn Condition,
        context: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        self.inner.poll_until(condition, context)
    }

    fn wake(&self, rank: u32) {
        self.inner.wake(rank);
    }

    fn spawn(&self, task: Task) {
        self.inner.spawn(task);
    }

    fn block_on(&self, task: Pin<&mut (dyn Future<Output = ()> + Send)>) {
        self.inner.block_on(task);
    }
}

const RANKS: u32 = 3;
const PIECE: usize = 16;
const PIECES: usize = 24;

/// Every rank has bytes in every window; there are several rounds.
async fn call(
    comm: Arc<dyn Communicator>,
    file: Memory,
    strategy: &str,
    writes: bool,
) -> Result<()> {
    let options = File::options().read(true).write(true).driver(Arc::new(file));
    let options = options.hint("pario_strategy", strategy).hint("cb_nodes", "3");
    let file = options.hint("cb_buffer_size", "128").open_async(&*comm, "f").await?;
    let piece = Datatype::contiguous(PIECE as u64, &Datatype::byte())?;
    let every = Datatype::resized(0, (PIECE as u64 * u64::from(RANKS)).cast_signed(), &piece)?;
    let start = PIECE as u64 * u64::from(comm.rank());
    file.handle().set_view(&View::new(start, &Datatype::byte(), &every)).await?;
    let mut data = [7; PIECE * PIECES];
    match writes {
        true => file.handle().write_all(0, &data).await.map(|_| ()),
        false => file.handle().read_all(0, &mut data[..]).await.map(|_| ()),
    }
}

type Change = fn(&mut Vec<u8>);

#[test]
fn all_ranks_get_an_error_for_a_message_that_was_changed() {
    let (cut, empty, longer): (Change, Change, Change) =
        (|bytes| bytes.truncate(bytes.len() - 1), Vec::clear, |bytes| bytes.push(0));
    for (strategy, writes, change) in [
        ("two-phase", true, cut),
        ("two-phase", true, empty),
        ("two-phase", true, longer),
        // A message that was cut is one from the end of the file.
        ("two-phase", false, empty),
        ("two-phase", false, longer),
        ("multi-phase", true, cut),
        ("multi-phase", true, empty),
        ("multi-phase", true, longer),
        ("multi-phase", false, cut),
        ("multi-phase", false, empty),
        ("multi-phase", false, longer),
    ] {
        for seed in (0..10).map(|more| first_seed().wrapping_add(more)) {
            let memory = Memory::new();
            memory.put("f", &[7; RANKS as usize * PIECE * PIECES]);
            let results = Simulated::new(RANKS, seed).run(|comm| {
                let comm = Arc::new(Changed { inner: comm, change });
                call(comm, memory.clone(), strategy, writes)
            });
            let case = format!("{strategy}, writes: {writes}, PARIO_SEED={seed}");
            for result in results {
                let error = result.expect_err(&case);
                assert_eq!(error.class(), ErrorClass::Intern, "{case}: {error}");
                assert!(error.to_string().contains("malformed piece of data"), "{case}: {error}");
            }
        }
    }
}
