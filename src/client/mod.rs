//! One client: its session, what others may see of it, and what they leave for it.

pub mod backlog;

pub mod outbox;
pub mod pause;
pub mod registry;
pub mod session;
