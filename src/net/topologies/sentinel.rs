//! The answers of a sentinel to SENTINEL, and to what else it answers otherwise than a server.

use crate::error::{Error, Result};
use crate::glob::Pattern;
use crate::namespace::Namespace;
use crate::namespace::member::{Question, SentinelReply};
use crate::net::topologies::Deployment;
use crate::net::topologies::model::Model;
use crate::time::clock::Now;
use crate::topology::cluster::NodeNumber;
use crate::topology::sentinel::{
    CachedInfo, DownRequest, FAILURE_NAMES, HELP, MonitorRequest, ReplyFields, SentinelError, Sentinels,
};

impl Deployment {
    /// Answers what a sentinel was asked or told.
    ///
    /// # Errors
    /// The errors of Redis' Sentinel.
    pub(super) fn ask_sentinel(
        &self,
        at: NodeNumber,
        question: Question,
        (words, host): (&[String], &str),
        now: Now,
    ) -> Result<SentinelReply> {
        let rest: Vec<&str> = words.iter().map(String::as_str).collect();
        let infos = if question == Question::InfoCache { self.infos() } else { Vec::new() };
        let ports = self.ports();
        let address = move |node: NodeNumber| (host.to_owned(), ports.get(node).copied().unwrap_or_default());
        let answered = self.with_state(now, |state, moment| {
            let Model::Sentinels(sentinels) = state else {
                return Err(SentinelError::NoMaster);
            };
            sentinels.tick(moment.now_ms, moment.offsets);
            let asked = Asked { at, question, rest: &rest, now_ms: moment.now_ms, infos: &infos };
            match asked.view(sentinels, &address)? {
                Some(value) => Ok(value),
                None => asked.change(sentinels, &address),
            }
        });
        answered.map_err(|error| Error::ComposedLine(error.to_string()))
    }

    /// Returns the INFO texts of all nodes.
    fn infos(&self) -> Vec<String> {
        let text = |namespace: &Namespace| {
            let read = crate::dispatch::introspection::read(namespace, self.tenancy.handlers, &[b"INFO"]);
            let bytes = read.map(|bytes| bytes.to_vec()).unwrap_or_default();
            let text = String::from_utf8_lossy(&bytes).into_owned();
            text.split_once("\r\n").map(|(_, rest)| rest.trim_end_matches("\r\n").to_owned()).unwrap_or_default()
        };
        self.namespaces().iter().map(|namespace| text(namespace)).collect()
    }
}

type Answered<T> = std::result::Result<T, SentinelError>;

/// A subcommand that a sentinel was sent.
struct Asked<'a> {
    at: NodeNumber,
    question: Question,
    rest: &'a [&'a str],
    now_ms: u64,
    /// The INFO texts of all nodes, where they are needed.
    infos: &'a [String],
}

/// First word of SENTINEL CONFIG where it reads.
const READS: &str = "get";

type Addresses<'a> = &'a dyn crate::topology::sentinel::Addresses;

impl Asked<'_> {
    fn arg(&self, index: usize) -> &str {
        self.rest.get(index).copied().unwrap_or_default()
    }

    /// Returns true if settings are asked for rather than set.
    fn is_reading(&self) -> bool {
        self.arg(0).eq_ignore_ascii_case(READS)
    }

    /// Answers a subcommand that changes nothing; `None` for others.
    fn view(&self, sentinels: &Sentinels, addresses: Addresses<'_>) -> Answered<Option<SentinelReply>> {
        let Some(view) = sentinels.sentinel(self.at) else { return Err(SentinelError::NoMaster) };
        let all = |fields: Vec<ReplyFields>| SentinelReply::Array(fields.into_iter().map(map).collect());
        Ok(Some(match self.question {
            Question::Masters => all(view.masters(addresses)),
            Question::Master => map(view.master(self.arg(0), addresses)?),
            Question::Replicas => all(view.replicas(self.arg(0), addresses)?),
            Question::Sentinels => all(view.sentinels(self.arg(0), addresses)?),
            Question::Address => match view.master_address(self.arg(0), addresses) {
                Some((host, port)) => {
                    SentinelReply::Array(vec![SentinelReply::Bulk(host), SentinelReply::Bulk(port.to_string())])
                }
                None => SentinelReply::NullArray,
            },
            Question::CheckQuorum => SentinelReply::Simple(view.check_quorum(self.arg(0))?),
            Question::Id => SentinelReply::Bulk(view.id().to_owned()),
            Question::PendingScripts => SentinelReply::Array(Vec::new()),
            Question::FlushConfig => SentinelReply::ok(),
            Question::Help => help(),
            Question::Debug if self.rest.is_empty() => map(view.debug()),
            Question::Config if self.is_reading() => {
                let patterns: Vec<_> = self.rest[1..].iter().map(|text| Pattern::new(text.to_lowercase())).collect();
                map(view.config(&|name: &str| patterns.iter().any(|pattern| pattern.matches(name.as_bytes()))))
            }
            Question::InfoCache => {
                let names = if self.rest.is_empty() { None } else { Some(self.rest) };
                let groups = view.info_cache(names).into_iter();
                SentinelReply::Array(
                    groups
                        .flat_map(|group| {
                            let nodes = group.nodes.iter().map(|cached| self.cached(cached)).collect();
                            [SentinelReply::Bulk(group.master_name), SentinelReply::Array(nodes)]
                        })
                        .collect(),
                )
            }
            Question::Role => {
                let names = view.master_names().into_iter().map(|name| SentinelReply::Bulk(name.to_owned())).collect();
                SentinelReply::Array(vec![SentinelReply::Bulk("sentinel".to_owned()), SentinelReply::Array(names)])
            }
            _ => return Ok(None),
        }))
    }

    /// Returns the age of an INFO text and the text.
    fn cached(&self, cached: &CachedInfo) -> SentinelReply {
        let age = SentinelReply::Int(i64::try_from(cached.age_ms).unwrap_or(i64::MAX));
        let text = cached.node.and_then(|node| self.infos.get(node));
        SentinelReply::Array(vec![age, text.map_or(SentinelReply::Null, |text| SentinelReply::Bulk(text.clone()))])
    }

    /// Executes a subcommand that may change something.
    fn change(&self, sentinels: &mut Sentinels, addresses: Addresses<'_>) -> Answered<SentinelReply> {
        let (at, now_ms) = (self.at, self.now_ms);
        match self.question {
            Question::Failover => sentinels.force_failover(at, self.arg(0), now_ms)?,
            Question::Reset => {
                let pattern = Pattern::new(self.arg(0).to_owned());
                let count = sentinels.reset(at, &|name: &str| pattern.matches(name.as_bytes()), now_ms);
                return Ok(SentinelReply::Int(count as i64));
            }
            Question::Monitor => {
                let (name, host) = (self.arg(0), self.arg(1));
                let request = MonitorRequest { name, host, port: self.arg(2), quorum: self.arg(3) };
                sentinels.monitor(at, &request, addresses, now_ms)?;
            }
            Question::Remove => sentinels.remove(at, self.arg(0), now_ms)?,
            Question::Set => sentinels.set(at, self.arg(0), self.rest.get(1..).unwrap_or_default(), now_ms)?,
            Question::Config => {
                for pair in self.rest.get(1..).unwrap_or_default().chunks(2) {
                    sentinels.set_config(at, pair[0], pair.get(1).copied().unwrap_or_default(), now_ms)?;
                }
            }
            Question::Debug => sentinels.set_debug(at, self.rest, now_ms)?,
            Question::IsDown => {
                let (host, port) = (self.arg(0), self.arg(1));
                let request = DownRequest { host, port, epoch: self.arg(2), candidate: self.arg(3) };
                let reply = sentinels.is_master_down(at, &request, addresses, now_ms)?;
                let vote = reply.vote.unwrap_or_else(|| "*".to_owned());
                let epoch = i64::try_from(reply.vote_epoch).unwrap_or(i64::MAX);
                return Ok(SentinelReply::Array(vec![
                    SentinelReply::Int(reply.is_down.into()),
                    SentinelReply::Bulk(vote),
                    SentinelReply::Int(epoch),
                ]));
            }
            Question::SimulateFailure => {
                let names = sentinels.simulate_failure(at, self.rest)?;
                if !names.is_empty() {
                    let names = FAILURE_NAMES.iter().map(|name| SentinelReply::Bulk((*name).to_owned()));
                    return Ok(SentinelReply::Array(names.collect()));
                }
            }
            Question::Publish => {
                let receivers = sentinels.publish(at, self.arg(0), self.arg(1), addresses, now_ms)?;
                return Ok(SentinelReply::Int(i64::try_from(receivers).unwrap_or(i64::MAX)));
            }
            _ => return Err(SentinelError::NoMaster),
        }
        Ok(SentinelReply::ok())
    }
}

fn map(fields: ReplyFields) -> SentinelReply {
    SentinelReply::Map(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

fn help() -> SentinelReply {
    let first = "SENTINEL <subcommand> [<arg> [value] [opt] ...]. Subcommands are:";
    let lines = std::iter::once(first).chain(HELP).chain(["HELP", "    Print this help."]);
    SentinelReply::Array(lines.map(|line| SentinelReply::Simple(line.to_owned())).collect())
}
