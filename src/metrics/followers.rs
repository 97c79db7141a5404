//! Limits on the pages that follow the server, in all and per peer.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use parking_lot::Mutex;

/// Maximum number of pages that follow at a time.
const FOLLOWERS_MAX: usize = 16;
/// Maximum number of such pages per peer, so that no peer keeps all others out.
const OF_PEER_MAX: usize = FOLLOWERS_MAX / 2;

/// Places of the pages that follow, by peer.
#[derive(Default)]
pub(super) struct Followers(Mutex<Vec<IpAddr>>);

/// Place of a page that follows; free again when it is dropped.
pub(super) struct FollowerSlot {
    followers: Arc<Followers>,
    peer: IpAddr,
}

impl Followers {
    /// Takes a place for a page of a peer, if one is free.
    pub(super) fn enter(self: &Arc<Self>, ip: IpAddr) -> Option<FollowerSlot> {
        let peer = peer_at(ip);
        let mut taken = self.0.lock();
        let of_peer = taken.iter().filter(|other| **other == peer).count();
        if taken.len() >= FOLLOWERS_MAX || of_peer >= OF_PEER_MAX {
            return None;
        }
        taken.push(peer);
        Some(FollowerSlot { followers: self.clone(), peer })
    }
}

impl Drop for FollowerSlot {
    fn drop(&mut self) {
        let mut taken = self.followers.0.lock();
        let place = taken.iter().position(|peer| *peer == self.peer);
        if let Some(place) = place {
            taken.swap_remove(place);
        }
    }
}

/// Returns the address that stands for a peer: all addresses of a /64 network of IPv6 count as one peer.
fn peer_at(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64).into(),
        ip => ip,
    }
}
