//! Positions, units and distances in requests and replies.

use crate::command::geo::position::Position;
use crate::dispatch::Args;
use crate::dispatch::args::is_word;
use crate::error::{Error, Result};
use crate::resp::Reply;

/// Reads a longitude and a latitude.
pub(super) fn read_position(args: &mut Args<'_>) -> Result<Position> {
    let position = Position { longitude: args.double()?, latitude: args.double()? };
    if position.is_valid() {
        Ok(position)
    } else {
        let Position { longitude, latitude } = position;
        Err(Error::other(format!("invalid longitude,latitude pair {longitude:.6},{latitude:.6}")))
    }
}

/// Returns the length of a unit in metres.
pub(super) fn read_unit(word: &[u8]) -> Result<f64> {
    const UNITS: [(&str, f64); 4] = [("M", 1.0), ("KM", 1000.0), ("FT", 0.3048), ("MI", 1609.34)];
    let found = UNITS.iter().find(|(name, _)| is_word(word, name));
    found.map(|(_, length_m)| *length_m).ok_or(Error::other("unsupported unit provided. please use M, KM, FT, MI"))
}

/// Replies with a distance with four decimals, as a string in either protocol.
pub(super) fn reply_distance(reply: &mut Reply<'_>, distance: f64) {
    reply.bulk(format!("{distance:.4}").as_bytes());
}

pub(super) fn reply_position(reply: &mut Reply<'_>, position: Position) {
    reply.array(2);
    reply.double(position.longitude);
    reply.double(position.latitude);
}
