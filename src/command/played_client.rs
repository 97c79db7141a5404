//! A client in the library's own tests of requests that wait: the test takes the place of its connection, and decides
//! when it continues.

use bytes::BytesMut;
use tokio_util::codec::Decoder;

use crate::client::info::Peer;
use crate::client::registry::Unblocked;
use crate::client::session::Client;
use crate::command::handlers;
use crate::dispatch::batch::BatchRun;
use crate::dispatch::plan::Plan;
use crate::dispatch::{Continuation, Env, Next};
use crate::namespace::Namespace;
use crate::resp::{Codec, Output, RequestLimits};

/// The result of sending a request.
pub(super) enum SendResult {
    Replied(String),
    Waits(Box<dyn Continuation>),
}

/// A client whose connection is simulated by the test.
pub(super) struct PlayedClient(Client);

impl PlayedClient {
    pub(super) fn new(namespace: &Namespace) -> Self {
        let peer = Peer { addr: "played:0".into(), laddr: "played:0".into(), fd: -1, is_unix: true };
        let info = namespace.clients.admit(peer, namespace.clock.now(), usize::MAX).expect("there is room");
        PlayedClient(Client::new(info, &namespace.acl))
    }

    /// Sends a request, whose words contain no spaces.
    pub(super) fn send(&mut self, namespace: &Namespace, line: &str) -> SendResult {
        let mut text = format!("*{}\r\n", line.split(' ').count());
        line.split(' ').for_each(|word| text += &format!("${}\r\n{word}\r\n", word.len()));
        let mut codec = Codec::new(RequestLimits { bulk_len_max: usize::MAX >> 1, authenticated: true });
        let batch = codec.decode(&mut BytesMut::from(text.as_bytes())).expect("a request").expect("all of it");
        let (next, reply) = self.with_batch(namespace, |run, client, out| {
            let mut plan = Plan::default();
            run.plan(&batch, 0, client.caller.db, &mut plan);
            run.execute(client, plan.of(&batch, 0), &mut 0, out)
        });
        match next {
            Next::Continue(rest) => {
                assert_eq!(reply, "", "{line}");
                SendResult::Waits(rest)
            }
            _ => SendResult::Replied(reply),
        }
    }

    /// Continues a request that has waited; returns its reply, unless it waits again.
    pub(super) fn resume(
        &mut self,
        namespace: &Namespace,
        rest: &mut dyn Continuation,
        woken: Unblocked,
    ) -> Option<String> {
        let (is_finished, reply) =
            self.with_batch(namespace, |run, client, out| run.resume(rest, &mut client.caller, woken, out));
        assert!(is_finished || reply.is_empty(), "{reply}");
        is_finished.then_some(reply)
    }

    fn with_batch<T>(
        &mut self,
        namespace: &Namespace,
        act: impl FnOnce(&mut BatchRun<'_>, &mut Client, &mut Output) -> T,
    ) -> (T, String) {
        let client = &mut self.0;
        client.caller.follow_users(&namespace.acl);
        Env::with_present(namespace, handlers(), client.caller.info.id, |env| {
            let (mut run, mut out) = (BatchRun::new(env, namespace.store.generation(), client), Output::new());
            run.set_up_extra_work(client);
            let result = act(&mut run, client, &mut out);
            let text = String::from_utf8(out.into_bytes().to_vec()).expect("the tests use ASCII");
            (result, text.trim_end().replace("\r\n", " "))
        })
    }
}
