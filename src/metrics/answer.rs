//! Answers to HTTP requests.
//!
//! The peer may be anybody's browser, also one that a hostile page makes send requests. So a request at a loopback
//! address must name the host by an address or as localhost, or a page of another site could read the answer under a
//! name that resolves to this machine (DNS rebinding); no other site may embed the page or ask for its event stream,
//! which takes one of few places; and the page may load and run nothing but itself.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{
    ACCEPT, ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderName, HeaderValue,
    REFERRER_POLICY, RETRY_AFTER, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use tokio_util::sync::CancellationToken;

use crate::client::info::Peer;
use crate::metrics::auth::{METRICS, PAGE, PageVisitor, Refusal, releaser};
use crate::metrics::exposition::{self, ExpositionFormat};
use crate::metrics::page::HTML;
use crate::metrics::release::{self, ReleaseError};
use crate::metrics::sites::{is_link, is_of_other_page};
use crate::metrics::{Body, Metrics};

/// Path of the event stream that the page follows.
const EVENTS: &str = "/events";

const TEXT: &str = "text/plain; charset=utf-8";

/// Connection over which requests come.
pub(crate) struct HttpPeer {
    pub(crate) peer: Peer,
    pub(crate) ip: IpAddr,
    /// True if the peer is on this machine.
    pub(crate) is_local: bool,
    /// True if the peer has connected to a loopback address.
    pub(crate) is_at_loopback: bool,
    /// Token that closes the connection.
    pub(crate) cut: CancellationToken,
}

impl Metrics {
    pub(crate) async fn answer(self: &Arc<Self>, request: Request<Incoming>, visit: &HttpPeer) -> Response<Body> {
        let (request, body) = request.into_parts();
        let mut answer = match self.obstacle(&request, visit) {
            Some(reason) => reason,
            None if request.method == Method::POST => self.answer_release(&request, body, visit).await,
            None => self.answer_unguarded(request, visit).await,
        };
        let headers = answer.headers_mut();
        headers.insert(CONTENT_SECURITY_POLICY, self.page.policy());
        let fixed = [
            (CACHE_CONTROL, "no-store"),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (REFERRER_POLICY, "no-referrer"),
            (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
            (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
            (HeaderName::from_static("x-frame-options"), "DENY"),
        ];
        headers.extend(fixed.map(|(name, value)| (name, HeaderValue::from_static(value))));
        answer
    }

    async fn answer_release(self: &Arc<Self>, request: &Parts, body: Incoming, visit: &HttpPeer) -> Response<Body> {
        match self.release(request, body, visit.peer.clone()).await {
            Ok(()) => text(StatusCode::OK, "The lock is released."),
            // A realm other than the page's: the browser asks for another user.
            Err(ReleaseError::Unknown) => unknown("keylatch release", "The user of metrics-release-user is needed."),
            Err(ReleaseError::Because(status, reason)) => text(status, reason),
        }
    }

    async fn answer_unguarded(self: &Arc<Self>, request: Parts, visit: &HttpPeer) -> Response<Body> {
        let (namespace, headers) = (&self.namespace, &request.headers);
        let (path, is_head) = (request.uri.path(), request.method == Method::HEAD);
        let sources = match path {
            "/metrics" => METRICS,
            "/" | EVENTS => PAGE,
            _ => return text(StatusCode::NOT_FOUND, "There is /metrics for Prometheus, and / for browsers."),
        };
        let authorization = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
        let based = (sources, &self.guesses);
        let visitor = match PageVisitor::admit(namespace, authorization, visit.peer.clone(), based) {
            Ok(visitor) => visitor,
            Err(refusal) => return refused(refusal),
        };
        match path {
            "/" => whole("text/html; charset=utf-8", HTML),
            "/metrics" => {
                let accept = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
                let format = ExpositionFormat::preferred(&accept.collect::<Vec<_>>().join(","));
                let metrics = move |of: &Metrics| exposition::metrics(&of.namespace, of.handlers, format);
                let metrics = self.collect(metrics).await;
                metrics.map_or_else(busy, |metrics| whole(format.content_type(), metrics))
            }
            _ if is_head => whole("text/event-stream", ""),
            _ => match self.begin_to_follow(visitor, visit.ip, visit.cut.clone()).await {
                Some(events) => with_type(Response::new(events), "text/event-stream"),
                None => busy(),
            },
        }
    }

    /// Returns the answer that rejects a request, whatever user it names, if there is a reason.
    fn obstacle(&self, request: &Parts, visit: &HttpPeer) -> Option<Response<Body>> {
        let instance = &self.namespace.instance;
        let releases = request.uri.path() == release::PATH && releaser(&self.namespace).is_some();
        let (methods, allowed): (&[Method], _) =
            if releases { (&[Method::POST], "POST") } else { (&[Method::GET, Method::HEAD], "GET, HEAD") };
        if !methods.contains(&request.method) {
            let reason = if releases { "Locks are released by POST." } else { "There is nothing to be changed here." };
            let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, reason);
            answer.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
            return Some(answer);
        }
        if request.uri.authority().is_some() {
            return Some(text(StatusCode::BAD_REQUEST, "This is no proxy."));
        }
        if visit.is_at_loopback && !names_loopback(&request.headers) {
            let reason = "At a loopback address, the host must be named by its address or as localhost.";
            return Some(text(StatusCode::FORBIDDEN, reason));
        }
        // A release has its own, stricter check. A link may lead to the page or the metrics, but not to the event
        // stream.
        let is_shown = is_link(&request.headers) && request.uri.path() != EVENTS;
        if !releases && is_of_other_page(&request.headers) && !is_shown {
            return Some(text(StatusCode::FORBIDDEN, "Pages of other sites may not ask for this."));
        }
        let needs_no_password = instance.acl.default_user().needs_no_password();
        if !visit.is_local && needs_no_password && instance.settings.current().protected_mode {
            let reason = "Protected mode: without a password for the default user, only this machine is served. Set \
                          requirepass, or protected-mode to no.";
            return Some(text(StatusCode::FORBIDDEN, reason));
        }
        None
    }
}

/// Returns true if a request names its host by an address or as localhost, or not at all, as no browser does.
fn names_loopback(headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(HOST).iter();
    let Some(host) = hosts.next() else { return true };
    let Some(host) = host.to_str().ok().filter(|_| hosts.next().is_none()) else { return false };
    let is_port = |port: &str| port.bytes().all(|digit| digit.is_ascii_digit());
    let host = match host.rsplit_once(':') {
        Some((host, port)) if is_port(port) => host,
        _ => host,
    };
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let name = host.trim_end_matches('.').to_ascii_lowercase();
    bare.parse::<IpAddr>().is_ok() || name == "localhost" || name.ends_with(".localhost")
}

/// Returns the answer that makes a browser ask for a user.
fn unknown(realm: &str, reason: &str) -> Response<Body> {
    let mut answer = text(StatusCode::UNAUTHORIZED, reason);
    let scheme = HeaderValue::from_str(&format!("Basic realm=\"{realm}\", charset=\"UTF-8\""));
    if let Ok(scheme) = scheme {
        answer.headers_mut().insert(WWW_AUTHENTICATE, scheme);
    }
    answer
}

fn refused(refusal: Refusal) -> Response<Body> {
    match refusal {
        Refusal::Unknown | Refusal::NoPassword => unknown("keylatch", "A user's name and password are needed."),
        Refusal::Forbidden(command) => {
            let reason = format!("This user has no permission for '{command}', on which this is based.");
            text(StatusCode::FORBIDDEN, reason)
        }
        Refusal::TooMany => {
            text(StatusCode::TOO_MANY_REQUESTS, "Too many wrong passwords were tried; try again later.")
        }
    }
}

fn busy() -> Response<Body> {
    let reason = "A script keeps the server busy, or too many pages follow it already.";
    let mut answer = text(StatusCode::SERVICE_UNAVAILABLE, reason);
    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("5"));
    answer
}

fn text(status: StatusCode, reason: impl Into<String>) -> Response<Body> {
    let mut answer = whole(TEXT, reason.into() + "\n");
    *answer.status_mut() = status;
    answer
}

fn whole(content_type: &'static str, content: impl Into<Bytes>) -> Response<Body> {
    with_type(Response::new(Body::Whole(content.into())), content_type)
}

fn with_type(mut answer: Response<Body>, content_type: &'static str) -> Response<Body> {
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_and_localhost_name_a_loopback_address() {
        let named = |hosts: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for host in hosts {
                headers.append(HOST, HeaderValue::from_static(host));
            }
            names_loopback(&headers)
        };
        for host in ["127.0.0.1:9121", "127.0.0.1", "[::1]:9121", "[::1]", "localhost", "LOCALHOST:1", "a.localhost."] {
            assert!(named(&[host]), "{host}");
        }
        for host in
            ["", "evil.example", "evil.example:9121", "localhost.evil.example", "127.0.0.1.evil.example", "[::1"]
        {
            assert!(!named(&[host]), "{host}");
        }
        assert!(named(&[]) && !named(&["localhost", "evil.example"]));
    }

    #[test]
    fn the_page_has_one_script_and_one_style_and_asks_for_nothing_else() {
        assert_eq!((HTML.matches("<script").count(), HTML.matches("<style").count()), (1, 1));
        for word in ["http://", "https://", "@import", "src=", "innerHTML", "eval(", " style=", "onclick="] {
            assert!(!HTML.replace("http://www.w3.org/2000/svg", "").contains(word), "{word}");
        }
    }
}
