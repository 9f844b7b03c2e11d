//! What all ranks do together, written once over messages.
//!
//! `call` numbers the call: the same on all ranks, and not in use for another one at the same time.
//! Failures are those of the communicator.
//!
//! Cost: `all_gather` takes ceil(log2 P) steps of one message each; a rank sends and receives
//! every contribution once. Where ranks oversubscribe their one node, rank 0 gathers P - 1 messages
//! and broadcasts the result along a binomial tree: each rank waits once, and a rank that is woken
//! wakes its children first. (If rank 0 woke all ranks, the first of them could take its core
//! before it has woken the others.)

use super::{Communicator, Lane, Tag, oversubscribes_one_node, receive};
use crate::datatype::wire::{Reader, Writer};
use crate::error::Result;
use crate::number::narrow;

/// Gives every rank the contribution of every rank, in the order of the ranks.
///
/// # Errors
/// `PeerLost` if a rank is lost.
///
/// ```
/// use pario::comm::{block_on, collective::all_gather};
/// use pario::{Communicator, Threads};
///
/// Threads::new(3).run(|comm| {
///     let own = vec![7; comm.rank() as usize];
///     let all = block_on(&*comm, all_gather(&*comm, 0, own)).unwrap();
///     assert_eq!(all, [vec![], vec![7], vec![7, 7]]);
/// });
/// ```
pub async fn all_gather(
    communicator: &dyn Communicator,
    call: u64,
    own: Vec<u8>,
) -> Result<Vec<Vec<u8>>> {
    match oversubscribes_one_node(communicator) {
        true => through_one(communicator, call, own).await,
        false => disseminate(communicator, call, own).await,
    }
}

/// Rank 0 takes what every rank has, and gives all of it to every rank.
async fn through_one(
    communicator: &dyn Communicator,
    call: u64,
    own: Vec<u8>,
) -> Result<Vec<Vec<u8>>> {
    let (rank, size) = (communicator.rank(), communicator.size());
    let tag = Tag { call, lane: Lane::Control };
    if rank > 0 {
        communicator.send(0, tag, own)?;
        let bytes = broadcast(communicator, call, Vec::new()).await?;
        let mut reader = Reader::new(&bytes);
        let all = (0..size).map(|_| Ok(reader.text()?.to_vec())).collect::<Result<Vec<_>>>()?;
        reader.finish()?;
        return Ok(all);
    }
    let mut all = vec![own];
    for from in 1..size {
        all.push(receive(communicator, from, tag).await?);
    }
    let mut writer = Writer::default();
    all.iter().for_each(|one| writer.text(one));
    broadcast(communicator, call, writer.bytes).await?;
    Ok(all)
}

/// Dissemination: in step s each rank sends all it has to the rank 2^s below it, and receives what
/// the rank 2^s above it has.
async fn disseminate(
    communicator: &dyn Communicator,
    call: u64,
    own: Vec<u8>,
) -> Result<Vec<Vec<u8>>> {
    let (rank, size) = (communicator.rank(), communicator.size());
    let tag = Tag { call, lane: Lane::Control };
    // Contributions of rank, rank + 1, rank + 2, ... around the circle.
    let mut known = vec![own];
    let mut distance = 1;
    while distance < size {
        let missing = narrow(u64::from(size)) - known.len();
        let mut writer = Writer::default();
        known.iter().take(missing).for_each(|one| writer.text(one));
        let to = (rank + size - distance) % size;
        communicator.send(to, tag, writer.bytes)?;
        let message = receive(communicator, (rank + distance) % size, tag).await?;
        let mut reader = Reader::new(&message);
        for _ in 0..missing.min(narrow(u64::from(distance))) {
            known.push(reader.text()?.to_vec());
        }
        reader.finish()?;
        distance = distance.saturating_mul(2);
    }
    known.rotate_right(narrow(u64::from(rank)));
    Ok(known)
}

/// Gives every rank what rank 0 has.
///
/// # Errors
/// `PeerLost` if a rank is lost.
pub async fn broadcast(
    communicator: &dyn Communicator,
    call: u64,
    own: Vec<u8>,
) -> Result<Vec<u8>> {
    let rank = communicator.rank();
    let tag = Tag { call, lane: Lane::Control };
    // A binomial tree: the parent is this rank without its lowest bit.
    let bytes = match rank {
        0 => own,
        _ => receive(communicator, rank & (rank - 1), tag).await?,
    };
    let lowest = if rank == 0 { 32 } else { rank.trailing_zeros() };
    for bit in (0..lowest.min(31)).rev() {
        let child = rank | 1 << bit;
        if child < communicator.size() && child != rank {
            communicator.send(child, tag, bytes.clone())?;
        }
    }
    Ok(bytes)
}

/// Combines what all ranks have, two at a time; rank 0 gets the outcome.
pub(crate) async fn reduce(
    communicator: &dyn Communicator,
    call: u64,
    own: Vec<u8>,
    combine: impl Fn(&[u8], &[u8]) -> Vec<u8>,
) -> Result<Option<Vec<u8>>> {
    let (rank, size) = (communicator.rank(), communicator.size());
    let tag = Tag { call, lane: Lane::Control };
    let mut combined = own;
    // The tree of `broadcast`, from the leaves to the root.
    for bit in 0..31 {
        let partner = rank ^ 1 << bit;
        if partner < rank {
            communicator.send(partner, tag, combined)?;
            return Ok(None);
        }
        if partner < size {
            let message = receive(communicator, partner, tag).await?;
            combined = combine(&combined, &message);
        }
    }
    Ok(Some(combined))
}

/// Waits until every rank is here.
///
/// # Errors
/// `PeerLost` if a rank is lost.
pub async fn barrier(communicator: &dyn Communicator, call: u64) -> Result<()> {
    all_gather(communicator, call, Vec::new()).await.map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::Simulated;
    use crate::number::index;

    #[test]
    fn every_rank_learns_every_contribution() {
        for size in 1..20 {
            let gathered = Simulated::new(size, u64::from(size)).run(|comm| async move {
                let own = vec![comm.rank() as u8; index(comm.rank()) % 5];
                let all = all_gather(&*comm, 0, own).await.unwrap();
                let shared = broadcast(&*comm, 1, vec![comm.rank() as u8; 3]).await.unwrap();
                assert_eq!(shared, [0; 3]);
                barrier(&*comm, 2).await.unwrap();
                let join = |one: &[u8], other: &[u8]| [one, other].concat();
                let joined = reduce(&*comm, 3, vec![comm.rank() as u8], join).await.unwrap();
                let expected = (comm.rank() == 0).then(|| (0..size as u8).collect::<Vec<u8>>());
                assert_eq!(joined, expected);
                all
            });
            for all in gathered {
                for (rank, one) in all.iter().enumerate() {
                    assert_eq!(*one, vec![rank as u8; rank % 5]);
                }
            }
        }
    }
}
