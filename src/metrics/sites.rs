//! Recognition of requests that a page of another site makes a browser send.

use hyper::HeaderMap;
use hyper::header::{HOST, ORIGIN};

const SITE: &str = "sec-fetch-site";

/// Returns true if a browser says that a page of another origin makes it send a request. A client that is no browser
/// says nothing.
pub(super) fn is_of_other_page(headers: &HeaderMap) -> bool {
    let is_at = |host: &str| {
        let origin = only(headers, ORIGIN.as_str()).and_then(|origin| origin.split_once("://"));
        origin.is_some_and(|(scheme, at)| ["http", "https"].contains(&scheme) && at.eq_ignore_ascii_case(host))
    };
    (headers.contains_key(SITE) && !matches!(only(headers, SITE), Some("same-origin" | "none")))
        || (headers.contains_key(ORIGIN) && !only(headers, HOST.as_str()).is_some_and(is_at))
}

/// Returns true if a browser says that its user asks, by an address or a bookmark, and no page.
pub(super) fn is_of_no_page(headers: &HeaderMap) -> bool {
    only(headers, SITE) == Some("none")
}

/// Returns true if a browser says that it follows a link, to show the answer in place of the page.
pub(super) fn is_link(headers: &HeaderMap) -> bool {
    only(headers, "sec-fetch-mode") == Some("navigate") && only(headers, "sec-fetch-dest") == Some("document")
}

/// Returns a header, unless there are several of its name.
pub(super) fn only<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    values.next().filter(|_| values.next().is_none()).and_then(|value| value.to_str().ok())
}
