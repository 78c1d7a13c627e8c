//! Talking to other machines: HTTP over blocking sockets, straight into the caller's memory.
//!
//! A thread that waits for a socket sleeps, and requests are few and large: threads serve them as well as an event loop
//! would, and bytes go from the socket to their place without a buffer between. Object stores are spoken to by
//! `object_store`, which knows credentials, signatures and dialects, and gets its connections from here.

mod connection;
mod hosts;
mod http;
mod origin;
mod profile;
mod store;
mod watch;
mod web;

pub(crate) use origin::{Answer, Condition, Failure, Origin, origin, persist};
pub(crate) use store::{Bucket, Part};
pub(crate) use watch::Watch;
