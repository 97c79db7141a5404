//! Subcommands that change slots, nodes and roles: possible at the nodes of a topology, and refused where the server is alone.

use crate::command::cluster::node::own_node;
use crate::command::topology::perform;
use crate::dispatch::Call;
use crate::dispatch::args::is_word;
use crate::error::{Error, Result};
use crate::namespace::member::{NodeCommand, Operation};
use crate::resp::parse_int;
use crate::topology::cluster::{FailoverMode, SetSlot};
use crate::topology::{SLOT_COUNT, Slot};

/// Reads a change and has the topology make it.
fn change(call: &mut Call<'_>, read: fn(&mut Call<'_>) -> Result<NodeCommand>) -> Result<()> {
    own_node(call)?;
    let Some((at, topology)) = call.namespace.member().and_then(|member| Some((member.number, member.topology()?)))
    else {
        let reason = match call.namespace.engine() {
            Some(_) => "the nodes are the processes with this data in etcd, to which the slots are dealt",
            None => "this server is a cluster of one node, which has all slots",
        };
        let text = format!("'{}' is not possible: {reason}", call.command.name);
        return Err(Error::other(text));
    };
    let command = read(call)?;
    if call.args.left() > 0 {
        let name = call.command.name.rsplit('|').next().unwrap_or_default().to_ascii_uppercase();
        let text = format!("unknown subcommand or wrong number of arguments for '{name}'. Try CLUSTER HELP.");
        return Err(Error::other(text));
    }
    perform(call, topology, Operation::Command { at, command })
}

pub(super) fn meet(call: &mut Call<'_>) -> Result<()> {
    change(call, |call| {
        let (host, port) = (call.args.bytes()?, call.args.bytes()?);
        let bus_port = call.args.next_arg();
        let number = |text: &[u8], what: &str| {
            let invalid =
                || Error::other(format!("Invalid TCP {what} port specified: {}", String::from_utf8_lossy(text)));
            parse_int(text).ok_or_else(invalid)
        };
        let number_of_port = number(port, "base")?;
        let bus_port = bus_port.map(|bus_port| number(bus_port, "bus")).transpose()?;
        let is_bus_port = bus_port.is_none_or(|port| (0..=65535).contains(&port));
        let is_address = std::str::from_utf8(host).is_ok_and(|host| host.parse::<std::net::IpAddr>().is_ok());
        match u16::try_from(number_of_port) {
            Ok(port @ 1..) if is_address && is_bus_port => Ok(NodeCommand::Meet { port }),
            _ => {
                let (host, port) = (String::from_utf8_lossy(host), String::from_utf8_lossy(port));
                Err(Error::other(format!("Invalid node address specified: {host}:{port}")))
            }
        }
    })
}

/// Reads a slot.
fn read_slot(text: &[u8]) -> Result<Slot> {
    let slot = parse_int(text).and_then(|number| Slot::try_from(number).ok()).filter(|slot| *slot < SLOT_COUNT);
    slot.ok_or(Error::other("Invalid or out of range slot"))
}

fn read_slots(call: &mut Call<'_>) -> Result<Vec<Slot>> {
    std::iter::from_fn(|| call.args.next_arg()).map(read_slot).collect()
}

fn read_ranges(call: &mut Call<'_>) -> Result<Vec<Slot>> {
    if !call.args.left().is_multiple_of(2) {
        return Err(Error::WrongArity(call.command.shown_name().to_owned().into()));
    }
    let mut slots = Vec::new();
    while let Some(first) = call.args.next_arg() {
        let (first, last) = (read_slot(first)?, read_slot(call.args.bytes()?)?);
        if first > last {
            return Err(Error::other(format!("start slot number {first} is greater than end slot number {last}")));
        }
        // A slot that is named twice is refused later; more names than there are slots need not be kept for that.
        slots.extend((first..=last).take(usize::from(SLOT_COUNT) + 1 - slots.len().min(usize::from(SLOT_COUNT) + 1)));
    }
    Ok(slots)
}

pub(super) fn add_slots(call: &mut Call<'_>) -> Result<()> {
    change(call, |call| read_slots(call).map(NodeCommand::AddSlots))
}

pub(super) fn add_ranges(call: &mut Call<'_>) -> Result<()> {
    change(call, |call| read_ranges(call).map(NodeCommand::AddSlots))
}

pub(super) fn del_slots(call: &mut Call<'_>) -> Result<()> {
    change(call, |call| read_slots(call).map(NodeCommand::DelSlots))
}

pub(super) fn del_ranges(call: &mut Call<'_>) -> Result<()> {
    change(call, |call| read_ranges(call).map(NodeCommand::DelSlots))
}

pub(super) fn flush_slots(call: &mut Call<'_>) -> Result<()> {
    change(call, |_| Ok(NodeCommand::FlushSlots))
}

pub(super) fn set_slot(call: &mut Call<'_>) -> Result<()> {
    change(call, |call| {
        let slot = read_slot(call.args.bytes()?)?;
        let (action, id) = (call.args.bytes()?, call.args.next_arg());
        let text = |id: &[u8]| String::from_utf8_lossy(id).into_owned();
        let change = match id {
            None if is_word(action, "STABLE") => SetSlot::Stable,
            Some(id) if is_word(action, "MIGRATING") => SetSlot::Migrating(text(id)),
            Some(id) if is_word(action, "IMPORTING") => SetSlot::Importing(text(id)),
            Some(id) if is_word(action, "NODE") => SetSlot::Node(text(id)),
            _ => {
                let text = "Invalid CLUSTER SETSLOT action or number of arguments. Try CLUSTER HELP";
                return Err(Error::other(text));
            }
        };
        Ok(NodeCommand::SetSlot(slot, change))
    })
}

/// Reads the id of a node.
fn read_id(call: &mut Call<'_>) -> Result<String> {
    Ok(String::from_utf8_lossy(call.args.bytes()?).into_owned())
}

pub(super) fn forget(call: &mut Call<'_>) -> Result<()> {
    change(call, |call| read_id(call).map(NodeCommand::Forget))
}

pub(super) fn replicate(call: &mut Call<'_>) -> Result<()> {
    change(call, |call| read_id(call).map(NodeCommand::Replicate))
}

pub(super) fn failover(call: &mut Call<'_>) -> Result<()> {
    change(call, |call| {
        let mode = match call.args.next_arg() {
            None => FailoverMode::Normal,
            Some(word) if is_word(word, "FORCE") => FailoverMode::Force,
            Some(word) if is_word(word, "TAKEOVER") => FailoverMode::Takeover,
            Some(_) => return Err(Error::Syntax),
        };
        Ok(NodeCommand::Failover(mode))
    })
}

pub(super) fn reset(call: &mut Call<'_>) -> Result<()> {
    change(call, |call| {
        let is_hard = match call.args.next_arg() {
            None => false,
            Some(word) if is_word(word, "SOFT") => false,
            Some(word) if is_word(word, "HARD") => true,
            Some(_) => return Err(Error::Syntax),
        };
        Ok(NodeCommand::Reset { is_hard })
    })
}

pub(super) fn set_config_epoch(call: &mut Call<'_>) -> Result<()> {
    change(call, |call| call.args.int().map(NodeCommand::SetConfigEpoch))
}

pub(super) fn bump_epoch(call: &mut Call<'_>) -> Result<()> {
    change(call, |_| Ok(NodeCommand::BumpEpoch))
}
