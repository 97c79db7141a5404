//! The locks by the list that the helpers of all languages run, and what is Rust's own. `KEYLATCH_SERVERS=host:port` names
//! the server, which has to be in test mode, and is emptied.

mod admin;
mod modes;
mod moving;
mod own;
mod scenario;
