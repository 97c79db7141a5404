//! The part of etcd's API that the engine uses, version 3: gRPC calls with declared messages, so that a build needs
//! neither the API's definition nor a compiler for it.

mod client;
pub(crate) mod messages;

pub(super) use client::{CallError, MemberAccess, MemberClient};
