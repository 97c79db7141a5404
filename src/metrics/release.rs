//! Release of a lock from the page: the one request that changes something, where the settings name a user for it.
//!
//! Browsers send a password again by themselves once they know it. So the request must be one that no other site can
//! make them send: it has a header and a content type that only a page of this origin may add, and if the browser says
//! where the request comes from, that is this page; under another host name that leads here, the browser knows no
//! password. The request names what the page has shown, the fence and no token, so that a later holder never loses the
//! lock. The lock is released by LOCK.RELEASE, through the checks.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Buf;
use hyper::body::{Body as _, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::http::request::Parts;
use hyper::{HeaderMap, StatusCode};
use serde_json::Value;
use tokio::time::timeout;

use crate::client::caller::Caller;
use crate::client::info::Peer;
use crate::command::lock::holder_id::{HolderNotFound, NamedHolder};
use crate::dispatch::visit::call_for_visitor;
use crate::metrics::Metrics;
use crate::metrics::auth::{Refusal, admit_to_release};
use crate::metrics::sites::{is_of_no_page, is_of_other_page, only};

/// Path to which a page posts; the browser sends the user's name to no other path by itself.
pub(super) const PATH: &str = "/release/lock";
/// Maximum length of the body of a request, in bytes.
const BODY_MAX: usize = 4096;

/// Time for which the answer waits for the append-only file.
const WRITTEN_WITHIN: Duration = Duration::from_secs(5);

/// Reason for which a lock is not released.
pub(super) enum ReleaseError {
    /// Name or password of the user are missing or wrong.
    Unknown,
    /// Another reason, with its HTTP status.
    Because(StatusCode, String),
}

/// Lock that a page asks to release.
#[derive(Debug, PartialEq, Eq)]
struct ReleaseRequest {
    db: usize,
    key: Vec<u8>,
    fence: i64,
    number: Option<u64>,
}

impl Metrics {
    /// Releases the lock that a request names.
    ///
    /// # Errors
    /// The reason for which the lock is not released.
    pub(super) async fn release(
        self: &Arc<Self>,
        request: &Parts,
        body: Incoming,
        peer: Peer,
    ) -> Result<(), ReleaseError> {
        let because = |status, reason: &str| Err(ReleaseError::Because(status, reason.to_owned()));
        let Some(body) = whole(body).await else {
            return because(StatusCode::PAYLOAD_TOO_LARGE, "The request is too long, or was cut off.");
        };
        if !is_of_this_page(&request.headers) {
            return because(StatusCode::FORBIDDEN, "Only the page of this server may ask for this.");
        }
        let authorization = request.headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
        let caller = admit_to_release(&self.namespace, authorization, peer, &self.guesses).map_err(refused)?;
        let databases = self.namespace.settings.current().databases as usize;
        let Some(wanted) = ReleaseRequest::read(&body).filter(|wanted| wanted.db < databases) else {
            return because(StatusCode::BAD_REQUEST, "The request does not name a lock and its holder.");
        };
        match self.collect(move |metrics| Some(metrics.release_now(caller, &wanted))).await {
            // The answer, as every reply, waits until the log record of the release is confirmed.
            Some(outcome) => match timeout(WRITTEN_WITHIN, self.namespace.log.confirmation()).await {
                Ok(()) => outcome,
                Err(_) => because(StatusCode::SERVICE_UNAVAILABLE, "This cannot be written to the append-only file."),
            },
            None => because(StatusCode::SERVICE_UNAVAILABLE, "This was interrupted. Look whether the lock is held."),
        }
    }

    fn release_now(&self, mut caller: Caller, wanted: &ReleaseRequest) -> Result<(), ReleaseError> {
        let named = NamedHolder { fence: wanted.fence, number: wanted.number };
        caller.db = wanted.db;
        let call = ("LOCK.RELEASE", &wanted.key[..]);
        let outcome =
            call_for_visitor(&self.namespace, self.handlers, &mut caller, call, |view, key| named.token(view, key));
        let (status, reason) = match outcome {
            Ok(Ok(reply)) if reply.as_slice() == Some(b":1\r\n") => return Ok(()),
            Ok(Ok(_) | Err(HolderNotFound::Free)) => {
                (StatusCode::NOT_FOUND, "This lock is not held any longer.".to_owned())
            }
            Ok(Err(HolderNotFound::Others)) => {
                (StatusCode::CONFLICT, "Somebody else holds this lock by now.".to_owned())
            }
            Err(refused) if refused.is_forbidden => (StatusCode::FORBIDDEN, refused.line),
            Err(refused) => (StatusCode::SERVICE_UNAVAILABLE, refused.line),
        };
        Err(ReleaseError::Because(status, reason))
    }
}

fn refused(refusal: Refusal) -> ReleaseError {
    let (status, reason) = match refusal {
        Refusal::Unknown => return ReleaseError::Unknown,
        Refusal::Forbidden(command) => (
            StatusCode::FORBIDDEN,
            format!("This user has no permission for '{command}'; all commands of @admin are needed."),
        ),
        Refusal::NoPassword => (StatusCode::FORBIDDEN, "This user has no password.".to_owned()),
        Refusal::TooMany => {
            (StatusCode::TOO_MANY_REQUESTS, "Too many wrong passwords were tried; try again later.".to_owned())
        }
    };
    ReleaseError::Because(status, reason)
}

/// Reads the body of a request, unless it is too long.
async fn whole(mut body: Incoming) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    if body.size_hint().lower() > BODY_MAX as u64 {
        return None;
    }
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let data = frame.ok()?.into_data().unwrap_or_default();
        if bytes.len() + data.remaining() > BODY_MAX {
            return None;
        }
        bytes.extend_from_slice(&data);
    }
    Some(bytes)
}

/// Returns true if no page of another site can make a browser send a request with these headers.
fn is_of_this_page(headers: &HeaderMap) -> bool {
    only(headers, "x-keylatch") == Some("release")
        && only(headers, CONTENT_TYPE.as_str()) == Some("application/json")
        && !is_of_other_page(headers)
        && !is_of_no_page(headers)
}

impl ReleaseRequest {
    /// Reads `{"db":0,"key":"<base64>","fence":"17","number":null}`, where the fence is a text because it may have more
    /// digits than a number of a browser.
    fn read(body: &[u8]) -> Option<Self> {
        let wanted: Value = serde_json::from_slice(body).ok()?;
        let fields = wanted.as_object().filter(|fields| fields.len() == 4)?;
        let number = match fields.get("number")? {
            Value::Null => None,
            number => Some(number.as_u64()?),
        };
        Some(ReleaseRequest {
            db: fields.get("db")?.as_u64()?.try_into().ok()?,
            key: STANDARD.decode(fields.get("key")?.as_str()?).ok()?,
            fence: fields.get("fence")?.as_str()?.parse().ok()?,
            number,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_database_key_fence_and_holder_and_nothing_else() {
        let read = |body: &str| ReleaseRequest::read(body.as_bytes());
        let wanted = |number| Some(ReleaseRequest { db: 3, key: b"\xffk".to_vec(), fence: 17, number });
        assert_eq!(read(r#"{"db":3,"key":"/2s=","fence":"17","number":null}"#), wanted(None));
        assert_eq!(read(r#"{"number":2,"db":3,"key":"/2s=","fence":"17"}"#), wanted(Some(2)));
        for wrong in [
            "",
            "null",
            "[]",
            r#"{"db":3,"key":"/2s=","fence":"17"}"#,
            r#"{"db":3,"key":"/2s=","fence":17,"number":null}"#,
            r#"{"db":-1,"key":"/2s=","fence":"17","number":null}"#,
            r#"{"db":3,"key":"k","fence":"17","number":null}"#,
            r#"{"db":3,"key":"/2s=","fence":"17","number":1.5}"#,
            r#"{"db":3,"key":"/2s=","fence":"17","number":null,"token":"t"}"#,
            r#"{"db":3,"key":"/2s=","fence":"17","number":null}}"#,
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn only_a_page_of_the_same_origin_may_ask() {
        let asks = |more: &[(&'static str, &'static str)], less: &str| {
            let base = [("x-keylatch", "release"), ("content-type", "application/json"), ("host", "h:9121")];
            let mut headers = HeaderMap::new();
            for (name, value) in base.iter().chain(more).filter(|(name, _)| *name != less) {
                headers.append(*name, HeaderValue::from_static(value));
            }
            is_of_this_page(&headers)
        };
        assert!(asks(&[], "") && asks(&[("origin", "http://h:9121"), ("sec-fetch-site", "same-origin")], ""));
        assert!(asks(&[("origin", "https://H:9121")], ""));
        for less in ["x-keylatch", "content-type"] {
            assert!(!asks(&[], less), "{less}");
        }
        for more in [
            ("origin", "http://evil.example"),
            ("origin", "null"),
            ("origin", "http://h:9122"),
            ("origin", "file://h:9121"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
            ("sec-fetch-site", "none"),
            ("content-type", "text/plain"),
            ("x-keylatch", "release"),
        ] {
            assert!(!asks(&[more], ""), "{more:?}");
        }
        assert!(!asks(&[("origin", "http://h:9121"), ("origin", "http://h:9121")], ""), "twice");
        assert!(!asks(&[("origin", "http://h:9121")], "host"), "without a host");
    }
}
