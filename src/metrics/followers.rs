//! The pages that follow the server: how many there may be at a time, in all and of one peer.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use parking_lot::Mutex;

/// How many pages may follow at a time.
const FOLLOWERS_MAX: usize = 16;
/// How many of them may be of the same peer, so that none keeps all others out.
const OF_PEER_MAX: usize = FOLLOWERS_MAX / 2;

/// The places of the pages that follow, by their peers.
#[derive(Default)]
pub(super) struct Followers(Mutex<Vec<IpAddr>>);

/// The place of a page, until it is dropped.
pub(super) struct Place {
    followers: Arc<Followers>,
    peer: IpAddr,
}

impl Followers {
    /// Takes a place for a page of a peer, if there is one.
    pub(super) fn enter(self: &Arc<Self>, ip: IpAddr) -> Option<Place> {
        let peer = peer_at(ip);
        let mut taken = self.0.lock();
        let of_peer = taken.iter().filter(|other| **other == peer).count();
        if taken.len() >= FOLLOWERS_MAX || of_peer >= OF_PEER_MAX {
            return None;
        }
        taken.push(peer);
        Some(Place { followers: self.clone(), peer })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.followers.0.lock();
        let place = taken.iter().position(|peer| *peer == self.peer);
        place.into_iter().for_each(|place| _ = taken.swap_remove(place));
    }
}

/// Returns what a peer is known by: all addresses of a network of IPv6 are those of one.
fn peer_at(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64).into(),
        ip => ip,
    }
}
