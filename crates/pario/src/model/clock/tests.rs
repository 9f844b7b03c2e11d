//! Times of the clock, each computed by hand.

use super::*;

/// 1 GB/s, 100 us.
const LINK: Link = Link { latency_us: 100.0, bytes_per_s: 1e9 };

/// 1 ms of positioning, 1 GB/s.
const DISK: Device = Device {
    positioning_us: 1000.0,
    latency_us: 0.0,
    read_bytes_per_s: 1e9,
    write_bytes_per_s: 1e9,
};

fn machine(nodes: u32, ranks_per_node: u32, storage: Storage) -> Machine {
    let (node_link, network) = (Link { latency_us: 1.0, bytes_per_s: 10e9 }, LINK);
    Machine { nodes, ranks_per_node, cores_per_node: 2, node_link, network, storage }
}

fn local(nodes: u32, ranks_per_node: u32) -> Clock {
    Clock::new(machine(nodes, ranks_per_node, Storage::local(DISK)))
}

fn access(direction: Direction, offset: u64, bytes: u64) -> Access {
    Access { direction, offset, bytes, regions: 1 }
}

fn write(offset: u64, bytes: u64) -> Access {
    access(Direction::Write, offset, bytes)
}

#[track_caller]
fn near(value_s: f64, expected_us: f64) {
    assert!((value_s * 1e6 - expected_us).abs() < 1e-3, "{} us, not {expected_us}", value_s * 1e6);
}

#[test]
fn oversubscribed_ranks_wait_for_a_core() {
    let mut clock = local(2, 3);
    let ends = [0, 1, 2].map(|rank| clock.compute(rank, 10.0, 0.0).end_s * 1e6);
    assert_eq!(ends, [10.0, 10.0, 20.0]);
    // Another node has cores of its own.
    near(clock.compute(3, 10.0, 5e-6).end_s, 15.0);
    near(clock.busy().cores_s, 40.0);
    near(clock.total_s(), 20.0);
}

#[test]
fn ranks_of_a_node_share_its_link_and_both_ways_are_apart() {
    let mut clock = local(3, 2);
    near(clock.message(0, 2, 1_000_000, 0.0).end_s, 1100.0);
    // The same link out: the latency passes meanwhile.
    near(clock.message(1, 4, 1_000_000, 0.0).end_s, 2100.0);
    // The other way is free.
    near(clock.message(3, 0, 1_000_000, 0.0).end_s, 1100.0);
    // Within a node: 1 us and 100 us, on a core.
    near(clock.message(0, 1, 1_000_000, 0.0).end_s, 101.0);
    near(clock.busy().links_s, 6000.0);
}

#[test]
fn direct_exchange_of_one_sender_is_the_sum_of_its_messages() {
    let mut clock = local(4, 1);
    let mut end_s = 0.0;
    for to in 1..4 {
        end_s = clock.message(0, to, 1_000_000, end_s).end_s;
    }
    near(end_s, 3.0 * 1100.0);
}

#[test]
fn a_disk_positions_unless_an_access_continues_the_last_one() {
    let mut clock = local(1, 1);
    near(clock.access(0, write(0, 1_000_000), 0.0).end_s, 2000.0);
    near(clock.access(0, write(1_000_000, 1_000_000), 0.0).end_s, 3000.0);
    near(clock.access(0, write(0, 1_000_000), 0.0).end_s, 5000.0);
    let list = Access { regions: 3, ..write(5_000_000, 1_000_000) };
    near(clock.access(0, list, 0.01).end_s, 14000.0);
    near(clock.busy().devices_s, 9000.0);
}

#[test]
fn latencies_of_an_ssd_overlap_and_its_bytes_do_not() {
    let ssd = Device { positioning_us: 0.0, latency_us: 50.0, ..DISK };
    let mut clock = Clock::new(machine(1, 2, Storage::local(ssd)));
    near(clock.access(0, write(0, 10_000), 0.0).end_s, 60.0);
    near(clock.access(1, write(500_000, 10_000), 0.0).end_s, 70.0);
}

#[test]
fn striped_servers_work_at_the_same_time() {
    let storage = Storage {
        servers: 4,
        stripe_bytes: 250_000,
        request_us: 100.0,
        region_us: 10.0,
        ..Storage::local(DISK)
    };
    let mut clock = Clock::new(machine(1, 1, storage));
    // Each: 110 us of work, 1 ms of positioning, 250 us for a quarter of the bytes.
    near(clock.access(0, write(0, 1_000_000), 0.0).end_s, 1360.0);
    near(clock.busy().servers_s, 440.0);
    // Eight regions are two for each server; the arm goes to each of them, the first continues.
    let list = Access { regions: 8, ..write(1_000_000, 1_000_000) };
    near(clock.access(0, list, 0.01).end_s, 10_000.0 + 120.0 + 1000.0 + 250.0);
}

#[test]
fn remote_storage_is_as_fast_as_the_slower_of_link_and_device() {
    let link = Link { latency_us: 100.0, bytes_per_s: 0.5e9 };
    let storage = Storage { link: Some(link), ..Storage::local(DISK) };
    let mut clock = Clock::new(machine(2, 1, storage));
    // The link of the server: 100 us and 2 ms. The device is done before.
    near(clock.access(0, write(0, 1_000_000), 0.0).end_s, 2100.0);
    // Another node waits for the link of the server, which the first one has.
    near(clock.access(1, write(1_000_000, 1_000_000), 0.0).end_s, 4100.0);
    // A read: 100 us, 1 ms of positioning, then 2 ms on the link.
    let read = access(Direction::Read, 0, 1_000_000);
    near(clock.access(0, read, 0.01).end_s, 13_100.0);
}

#[test]
fn messages_do_not_hold_up_storage_with_a_network_of_its_own() {
    let storage = Storage { link: Some(LINK), ..Storage::local(DISK) };
    let end_s = |storage| {
        let mut clock = Clock::new(machine(2, 1, storage));
        clock.message(0, 1, 1_000_000, 0.0);
        clock.access(0, write(0, 1_000_000), 0.0).end_s
    };
    // The message has the link of the node for 1 ms; an arm moves and bytes are written for 2 ms.
    near(end_s(storage), 3000.0);
    near(end_s(Storage { network: Some(LINK), ..storage }), 2100.0);
}

#[test]
fn a_list_is_one_request_to_each_server() {
    let storage = Storage {
        servers: 4,
        stripe_bytes: 250_000,
        request_us: 100.0,
        region_us: 10.0,
        ..Storage::local(DISK)
    };
    let mut clock = Clock::new(machine(1, 1, storage));
    // The first server has two of the regions, and its arm goes to both.
    let regions = [write(0, 1000), write(250_000, 1000), write(1_000_000, 1000)];
    near(clock.list(0, &regions, 0.0).end_s, 120.0 + 2000.0 + 2.0);
    near(clock.busy().servers_s, 230.0);
}

#[test]
fn a_cache_hides_the_device_until_it_is_full() {
    let grain = CACHE_GRAIN_BYTES;
    let storage = Storage::local(DISK).cached(2 * grain);
    let mut clock = Clock::new(machine(1, 1, storage));
    let copy_us = real(grain) / 5e9 * 1e6;
    near(clock.access(0, write(0, 2 * grain), 0.0).end_s, 2.0 * copy_us);
    // The room of the third is that of the first: 1 ms and its bytes.
    let third = clock.access(0, write(2 * grain, grain), 0.001);
    near(third.end_s, 1000.0 + 1000.0 + real(grain) / 1e9 * 1e6);
    let flushed = clock.flush(0.01);
    // Both that are left follow the first on the device.
    near(flushed.end_s, 10_000.0 + 2.0 * real(grain) / 1e9 * 1e6);
    near(clock.flush(0.02).end_s, 20_000.0);
}

#[test]
fn a_read_that_hits_costs_a_copy() {
    let grain = CACHE_GRAIN_BYTES;
    let mut clock = Clock::new(machine(1, 1, Storage::local(DISK).cached(4 * grain)));
    let read = access(Direction::Read, 0, grain);
    near(clock.access(0, read, 0.0).end_s, 1000.0 + real(grain) / 1e9 * 1e6);
    near(clock.access(0, read, 0.01).end_s, 10_000.0 + real(grain) / 5e9 * 1e6);
}

#[test]
fn the_same_activities_have_the_same_times() {
    let run = || {
        let storage = Storage::striped(16, 65536, Device::HDD, Link::MYRINET_2000);
        let mut clock = Clock::new(machine(8, 4, storage.cached(1 << 20)));
        for step in 0..1000u32 {
            let rank = step * 7 % 32;
            let sent = clock.message(rank, (rank + 5) % 32, 10_000, f64::from(step) * 1e-4);
            clock.access(rank, write(u64::from(step) * 40_000, 30_000), sent.end_s);
        }
        (clock.total_s(), clock.busy())
    };
    assert_eq!(run(), run());
}

/// What one node announces for later does not keep the link of the receiver busy before that.
#[test]
fn a_message_arrives_between_others() {
    let network = Link { latency_us: 0.0, bytes_per_s: 1e6 };
    let mut clock = Clock::new(Machine {
        nodes: 4,
        ranks_per_node: 1,
        cores_per_node: 1,
        node_link: network,
        network,
        storage: Storage::local(Device::NVM),
    });
    // The first node sends a second to the third node and then one to the last.
    let ends =
        |clock: &mut Clock, from, to, after_s| clock.message(from, to, 1_000_000, after_s).end_s;
    assert_eq!(ends(&mut clock, 0, 2, 0.0), 1.0);
    assert_eq!(ends(&mut clock, 0, 3, 0.0), 2.0);
    assert_eq!(ends(&mut clock, 0, 2, 0.0), 3.0);
    // The link of the last node is free until then, and that of the third in between.
    assert_eq!(ends(&mut clock, 1, 3, 0.0), 1.0);
    assert_eq!(ends(&mut clock, 1, 2, 0.0), 2.0);
    // Then both are busy: the next one waits.
    assert_eq!(ends(&mut clock, 3, 2, 0.0), 4.0);
}
