//! keylatch as the primary of a real `redis-server`, and of clients that only send a replica's requests; and as a
//! replica of both.

mod acknowledgements;
mod backlog;
mod behind;
mod beside;
mod callers;
mod chains;
mod clocks;
mod corners;
mod expired;
mod histories;
mod instances;
mod killed;
mod links;
mod links_cut;
mod locks;
mod members;
mod moving;
mod nodes;
mod observed;
mod parties;
mod protocol;
mod reloads;
mod roles;
mod shutdown;
mod slow;
mod snapshots;
mod stream;
mod test_mode;
mod tools;
mod untrusted;
mod visible;
