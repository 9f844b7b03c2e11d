//! Every communicator keeps the contract of communicators.

use pario::model::clock::{Machine, Storage};
use pario::model::presets::{Device, Link};
use pario::{Simulated, Solo, Threads};
use pario_testkit::{conformance, seed, watchdog::Watchdog};

const LONG: [usize; 3] = [1 << 20, (1 << 20) + 1, 5_000_000];

#[test]
fn solo_conforms() {
    conformance::communicator(Solo::new(), seed::first_seed(), &LONG);
}

#[test]
fn threads_conform_with_shared_memory_and_without() {
    let seed = seed::first_seed();
    let watchdog = Watchdog::new("threads_conform_with_shared_memory_and_without");
    for size in 1..=5 {
        for (nodes, share) in [(1, true), (1, false), (2, true), (3, false)] {
            watchdog.step(format!("{size} ranks on {nodes} nodes, PARIO_SEED={seed}"));
            let threads = Threads::new(size).nodes(nodes).share_memory(share);
            threads.run(|comm| conformance::communicator(comm, seed, &LONG));
        }
        let threads = Threads::new(size);
        threads.run(|comm| conformance::communicator(comm, seed, &LONG));
        let threads = Threads::new(size).nodes(2).shared_bytes(100);
        threads.run(|comm| conformance::communicator(comm, seed, &LONG));
    }
}

#[test]
fn simulated_conforms_in_many_orders() {
    let first = seed::first_seed();
    let watchdog = Watchdog::new("simulated_conforms_in_many_orders");
    for (size, share) in [(1, true), (2, false), (3, true), (4, false)] {
        for seed in first..=first.saturating_add(2) {
            watchdog.step(format!("{size} ranks, PARIO_SEED={seed}"));
            let simulated = Simulated::new(size, seed).shared_bytes(if share { 100 } else { 0 });
            simulated.run(|comm| conformance::communicator_steps(comm, seed, &[1000]));
        }
    }
}

#[test]
fn simulated_conforms_on_machines() {
    let seed = seed::first_seed();
    let watchdog = Watchdog::new("simulated_conforms_on_machines");
    for (nodes, ranks_per_node) in [(1, 1), (1, 3), (2, 1), (2, 2)] {
        watchdog.step(format!("{nodes} nodes of {ranks_per_node}, PARIO_SEED={seed}"));
        let machine = Machine {
            nodes,
            ranks_per_node,
            cores_per_node: 2,
            node_link: Link::ETHERNET_100G,
            network: Link::GIGABIT_ETHERNET,
            storage: Storage::local(Device::NVM),
        };
        Simulated::on(machine).run(|comm| conformance::communicator_steps(comm, seed, &[1000]));
    }
}
