//! The node and its cluster: what NODES, SLOTS, SHARDS, INFO and their kin reply.

use crate::command::cluster::address::AddressBook;
use crate::command::cluster::describe;
use crate::dispatch::Call;
use crate::error::{Error, Result};
use crate::topology::{ClusterView, NodeIdentity, NodeView};

/// Returns the node of the caller.
///
/// # Errors
/// A server that is not a cluster.
pub(super) fn own_node<'a>(call: &Call<'a>) -> Result<&'a NodeIdentity> {
    call.namespace.node().ok_or(Error::other("This instance has cluster support disabled"))
}

/// Returns the cluster as the node of the caller sees it: that of whoever knows other nodes, and otherwise the node alone.
///
/// # Errors
/// A server that is not a cluster.
pub(super) fn cluster_view(call: &Call<'_>) -> Result<ClusterView> {
    let node = own_node(call)?;
    if let Some(member) = call.namespace.member()
        && let Some(view) = member.topology().and_then(|topology| topology.view(member.number, call.now()))
    {
        return Ok(view);
    }
    let of_engine = || call.namespace.engine().and_then(|engine| engine.cluster_view());
    let mut view = of_engine().unwrap_or_else(|| ClusterView::of_one(node));
    if let Some(own) = view.nodes.get_mut(view.own) {
        own.offset = call.namespace.log.end();
    }
    Ok(view)
}

pub(super) fn my_id(call: &mut Call<'_>) -> Result<()> {
    let view = cluster_view(call)?;
    call.reply.bulk(view.own().id.as_bytes());
    Ok(())
}

pub(super) fn my_shard_id(call: &mut Call<'_>) -> Result<()> {
    let view = cluster_view(call)?;
    call.reply.bulk(view.own().shard_id.as_bytes());
    Ok(())
}

pub(super) fn info(call: &mut Call<'_>) -> Result<()> {
    let view = cluster_view(call)?;
    call.reply.verbatim("txt", describe::info(&view).as_bytes());
    Ok(())
}

pub(super) fn links(call: &mut Call<'_>) -> Result<()> {
    let view = cluster_view(call)?;
    describe::write_links(&mut call.reply, &view);
    Ok(())
}

/// Replies to SAVECONFIG: the file has what it had at the start.
pub(super) fn save_config(call: &mut Call<'_>) -> Result<()> {
    own_node(call)?;
    call.reply.ok();
    Ok(())
}

pub(super) fn count_failure_reports(call: &mut Call<'_>) -> Result<()> {
    let view = cluster_view(call)?;
    let count = read_node(call, &view)?.failure_reports;
    call.reply.int(count as i64);
    Ok(())
}

pub(super) fn replicas(call: &mut Call<'_>) -> Result<()> {
    let (view, addresses) = (cluster_view(call)?, AddressBook::for_caller(call));
    let node = read_node(call, &view)?;
    if node.primary.is_some() {
        return Err(Error::other("The specified node is not a master"));
    }
    let lines: Vec<String> = view.replicas_of(node).map(|replica| describe::line(&view, replica, &addresses)).collect();
    call.reply.array(lines.len());
    for line in lines {
        call.reply.bulk(line.as_bytes());
    }
    Ok(())
}

/// Reads the id of a node.
fn read_node<'v>(call: &mut Call<'_>, view: &'v ClusterView) -> Result<&'v NodeView> {
    let id = call.args.bytes()?;
    let unknown = || Error::other(format!("Unknown node {}", String::from_utf8_lossy(id)));
    view.nodes.iter().find(|node| node.id.as_bytes() == id).ok_or_else(unknown)
}

pub(super) fn nodes(call: &mut Call<'_>) -> Result<()> {
    let (view, addresses) = (cluster_view(call)?, AddressBook::for_caller(call));
    let lines = view.nodes.iter().map(|node| describe::line(&view, node, &addresses) + "\n");
    call.reply.verbatim("txt", lines.collect::<String>().as_bytes());
    Ok(())
}

pub(super) fn slots(call: &mut Call<'_>) -> Result<()> {
    let (view, addresses) = (cluster_view(call)?, AddressBook::for_caller(call));
    describe::write_slots(&mut call.reply, &view, &addresses);
    Ok(())
}

pub(super) fn shards(call: &mut Call<'_>) -> Result<()> {
    let (view, addresses) = (cluster_view(call)?, AddressBook::for_caller(call));
    describe::write_shards(&mut call.reply, &view, &addresses);
    Ok(())
}
