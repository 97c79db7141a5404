//! Leaving of a namespace: at the end of a connection, or to enter another namespace.

use bytes::Bytes;

use crate::client::info::ChannelKind;
use crate::client::outbox::{LATE, PUSHED};
use crate::client::session::Client;
use crate::dispatch::denials::record_refused_entry;
use crate::dispatch::serve::serve_remaining_keys;
use crate::dispatch::{Destination, NamespaceEntry, NewReplica, NewTopology};
use crate::error::{Error, Result};
use crate::namespace::member::{Member, NodeReport};
use crate::namespace::{Admitted, Namespace, Reception};
use crate::net::connection::{BUSY_PAUSE, Connection, IDLE_LEN};
use crate::net::tenancy::TOO_MANY;
use crate::net::topologies;
use crate::resp::Reply;
use crate::store::{Cx, Origin};
use crate::topology::slot_of;

impl<S> Connection<S> {
    /// Ends the client's subscriptions and watches, and releases the locks bound to the connection; they are released
    /// at once if the client leaves for another namespace.
    pub(super) async fn leave(&mut self, is_farewell: bool) {
        self.unsubscribe();
        while self.client.session.is_known_to_shards() && self.namespace.store.busy_flag().is_occupied() {
            // Boxed, because otherwise every connection would have room for the timer all its life.
            Box::pin(tokio::time::sleep(BUSY_PAUSE)).await;
        }
        self.unwatch();
        self.end_session(is_farewell);
        serve_remaining_keys(&self.namespace, self.pool.handlers);
    }

    /// Enters another namespace, unless that is refused; subscriptions, watches and locks in the present one end.
    pub(super) async fn enter(&mut self, entry: &mut NamespaceEntry) {
        let tenancy = self.pool.tenancy.clone();
        let admitted = tenancy.and_then(|tenancy| tenancy.admit(&entry.destination, &self.client.caller.info));
        let Some(Admitted { namespace, info, .. }) = admitted else {
            entry.refusal = Some(Error::other(TOO_MANY));
            return;
        };
        let access = match &entry.destination {
            Destination::Main(access) => access.clone(),
            Destination::Private { user, password } => match namespace.admit_user(user, password) {
                Some(access) => access,
                None => {
                    namespace.clients.remove(info.id);
                    record_refused_entry(&self.namespace, &self.config, &self.client.caller, user);
                    entry.refusal = Some(Error::WrongPass);
                    return;
                }
            },
        };
        let (name, protocol) = std::mem::take(&mut entry.chosen);
        let name = name.map_or_else(|| info.names().name, Into::into);
        entry.refusal = self.refusal_of_entry(&namespace, &name);
        if entry.refusal.is_some() {
            namespace.clients.remove(info.id);
            return;
        }
        info.update_names(|names| names.name = name);
        self.take_all_pushed();
        self.leave(true).await;
        self.deregister();
        namespace.store.memory_account().report_outside(0, IDLE_LEN);
        self.namespace = namespace;
        self.read_settings();
        (self.counted, self.reported, self.is_throttled) = (0, 0, false);
        self.client.session.is_monitor = false;
        self.client.caller.enter(info, access);
        if let Some(protocol) = protocol {
            self.client.caller.set_protocol(protocol, None);
        }
        if !self.namespace.store.may_use(self.client.caller.db) {
            self.client.caller.select(0);
        }
        self.catch_up();
    }

    /// Returns the reason for which a private namespace does not receive the client under this name, if any.
    fn refusal_of_entry(&mut self, namespace: &Namespace, name: &str) -> Option<Error> {
        if !namespace.tenant.is_private() {
            return None; // connections to the main namespace were received before
        }
        match namespace.reception(name) {
            Reception::Served => None,
            Reception::Late(time) => {
                self.client.delay_reply(time);
                None
            }
            Reception::Refused(line) => Some(Error::Injected(line)),
            Reception::Reset => {
                self.client.lose_reply(); // so this error is not sent
                Some(Error::other("the connection is reset"))
            }
        }
    }

    /// Creates a namespace that replicates the present one.
    pub(super) async fn make_replica(&mut self, replica: &mut NewReplica) {
        let Some(tenancy) = self.pool.tenancy.clone() else {
            replica.refusal = Some(Error::other(TOO_MANY));
            return;
        };
        let primary = self.namespace.clone();
        // Boxed, as nearly no connection needs the room.
        replica.refusal = Box::pin(tenancy.make_replica(&primary, &replica.name)).await.err();
    }

    /// Makes a topology in the present namespace.
    pub(super) async fn make_topology(&mut self, new: &NewTopology) -> Result<Vec<NodeReport>> {
        let tenancy = self.pool.tenancy.clone().ok_or(Error::other("there are no topologies here"))?;
        let (creator, owner) = (self.namespace.clone(), self.client.caller.info.id);
        // Boxed, as nearly no connection needs the room.
        Box::pin(topologies::create(&tenancy, &creator, owner, new)).await
    }

    /// Ends subscriptions to the channels of shards whose slots other nodes have now.
    #[cold]
    pub(super) fn leave_lost_shards(&mut self) {
        let Some(table) = self.namespace.member().and_then(Member::routes) else { return };
        let names = self.client.session.subscriptions.names(ChannelKind::ShardChannel);
        let is_lost = |name: &Bytes| table.owner(slot_of(name)).is_none_or(|owner| !table.is_of_shard(owner));
        for name in names.into_iter().filter(is_lost) {
            self.take_all_pushed();
            let (info, subscriptions) = (&self.client.caller.info, &mut self.client.session.subscriptions);
            self.namespace.push.hub.unsubscribe(info, subscriptions, ChannelKind::ShardChannel, &name);
            let left = info.session.subscriptions(ChannelKind::ShardChannel);
            let buffers = self.buffers.get_or_insert_with(|| self.pool.take());
            let mut reply = Reply::new(&mut buffers.output, self.client.caller.protocol);
            reply.push(3);
            reply.bulk(b"sunsubscribe");
            reply.bulk(&name);
            reply.int(left.into());
        }
    }

    /// Writes all pushed frames, also delayed ones.
    fn take_all_pushed(&mut self) {
        let outbox = &self.client.caller.info.outbox;
        if outbox.signals() & (PUSHED | LATE) != 0 {
            outbox.take_all_into(&mut self.buffers.get_or_insert_with(|| self.pool.take()).output);
        }
    }

    fn unsubscribe(&mut self) {
        self.namespace.push.hub.leave(&self.client.caller.info, &mut self.client.session.subscriptions);
        self.namespace.push.tracking.leave(&self.client.caller.info, self.namespace.store.events());
    }

    fn unwatch(&mut self) {
        let store = &self.namespace.store;
        if self.client.session.is_known_to_shards() {
            let Client { caller, session } = &mut self.client;
            let cx = Cx::new(self.namespace.clock.now(), Origin::Client(caller.info.id));
            session.stop_watching(caller, &mut store.hold(1).view(0, &[], cx), store);
        }
    }

    /// Releases the locks that are bound to the connection.
    fn end_session(&mut self, is_farewell: bool) {
        if self.client.caller.info.has_bound_locks() || self.namespace.engine().is_some() {
            let store = &self.namespace.store;
            let cx = Cx::new(self.namespace.clock.now(), Origin::Client(self.client.caller.info.id));
            let mut hold = store.hold(1);
            self.namespace.end_session(&self.client.caller.info, &mut hold.view(0, &[], cx), is_farewell);
        }
    }

    /// Removes the client from its namespace, and releases the locks bound to the connection.
    fn deregister(&mut self) {
        // The client counts as gone from here on: no lock is bound to it any more.
        self.client.caller.info.outbox.close();
        self.namespace.clients.remove(self.client.caller.info.id);
        self.namespace.observed.monitors.remove(self.client.caller.info.id);
        if self.client.session.feed.take().is_some() {
            let now = self.namespace.clock.now();
            self.namespace.replicas.remove(self.client.caller.info.id, now);
            self.namespace.follow_replicas(now);
        }
        self.namespace.store.memory_account().report_outside(IDLE_LEN + self.counted, 0);
        self.namespace.clients.set_throttled(&self.client.caller.info, false);
        self.namespace.clients.report_backlog(self.reported, 0);
        if self.held.take().is_some() {
            self.namespace.log.stop_waiting(self.client.caller.info.id);
        }
        self.end_session(false);
    }
}

impl<S> Drop for Connection<S> {
    fn drop(&mut self) {
        let panics = self.namespace.instance.panics.clone();
        for end in [Self::unsubscribe, Self::unwatch, Self::deregister] {
            panics.catch("end of a connection", || end(self));
        }
    }
}
