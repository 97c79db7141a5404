//! The declared messages beside those that are generated from etcd's own definition: same bytes, same names.

use std::collections::BTreeSet;
use std::fmt::Debug;

use etcd_client::proto;
use prost::Message;

use super::messages::*;

/// Returns the names of fields with their values, of fields that are no messages.
fn leaves(message: &impl Debug) -> BTreeSet<String> {
    let text = format!("{message:?}");
    let fields = text.split([',', '{', '}', '(', ')']).map(str::trim);
    fields.filter(|field| field.contains(": ") && !field.ends_with(": Some")).map(str::to_owned).collect()
}

/// Asserts that their message reads ours, every field under the same name, and writes the same bytes.
fn assert_same<Ours: Message + Default + PartialEq + Debug, Theirs: Message + Default + Debug>(ours: Ours) {
    let bytes = ours.encode_to_vec();
    let theirs = Theirs::decode(&bytes[..]).expect("they can read it");
    assert_eq!(theirs.encode_to_vec(), bytes, "{ours:?} is {theirs:?}");
    assert_eq!(leaves(&ours).difference(&leaves(&theirs)).collect::<Vec<_>>(), Vec::<&String>::new(), "{theirs:?}");
    assert_eq!(Ours::decode(&bytes[..]).expect("we can read it"), ours);
}

fn key_value() -> KeyValue {
    KeyValue { key: b"k".to_vec(), mod_revision: 7, version: 8, value: b"v".to_vec() }
}

fn header() -> Option<ResponseHeader> {
    Some(ResponseHeader { revision: 9 })
}

fn range() -> RangeRequest {
    RangeRequest { key: b"a".to_vec(), range_end: b"b".to_vec(), limit: 3, revision: 4, count_only: true }
}

fn compare(result: CompareResult, target: CompareTarget, value: TargetUnion) -> Compare {
    Compare { result: result.into(), target: target.into(), key: b"c".to_vec(), target_union: Some(value) }
}

#[test]
fn requests_are_encoded_as_etcd_defines_them() {
    let put = PutRequest { key: b"p".to_vec(), value: b"v".to_vec(), lease: 11 };
    let delete = DeleteRangeRequest { key: b"d".to_vec(), range_end: b"e".to_vec() };
    let operations =
        [Request::RequestRange(range()), Request::RequestPut(put.clone()), Request::RequestDeleteRange(delete.clone())];
    let operations = operations.map(|request| RequestOp { request: Some(request) });
    assert_same::<_, proto::PbRangeRequest>(range());
    assert_same::<_, proto::PbPutRequest>(put);
    assert_same::<_, proto::PbDeleteRequest>(delete);
    assert_same::<_, proto::PbTxnRequest>(TxnRequest {
        compare: vec![
            compare(CompareResult::Equal, CompareTarget::Mod, TargetUnion::ModRevision(5)),
            compare(CompareResult::Greater, CompareTarget::Version, TargetUnion::Version(6)),
            compare(CompareResult::Equal, CompareTarget::Value, TargetUnion::Value(b"7".to_vec())),
        ],
        success: operations[..2].to_vec(),
        failure: operations[2..].to_vec(),
    });
    let create = WatchCreateRequest { key: b"w".to_vec(), range_end: b"x".to_vec(), start_revision: 12 };
    for union in [WatchUnion::CreateRequest(create), WatchUnion::ProgressRequest(WatchProgressRequest {})] {
        assert_same::<_, proto::PbWatchRequest>(WatchRequest { request_union: Some(union) });
    }
    assert_same::<_, proto::PbLeaseGrantRequest>(LeaseGrantRequest { ttl: 13 });
    assert_same::<_, proto::PbLeaseRevokeRequest>(LeaseRevokeRequest { id: 14 });
    assert_same::<_, proto::PbLeaseKeepAliveRequest>(LeaseKeepAliveRequest { id: 15 });
    assert_same::<_, proto::PbStatusRequest>(StatusRequest {});
    assert_same::<_, proto::PbAuthenticateRequest>(AuthenticateRequest { name: "n".into(), password: "p".into() });
}

#[test]
fn responses_are_read_as_etcd_defines_them() {
    let range = RangeResponse { header: header(), kvs: vec![key_value(), key_value()], more: true };
    let responses = [
        Response::ResponseRange(range.clone()),
        Response::ResponsePut(PutResponse {}),
        Response::ResponseDeleteRange(DeleteRangeResponse {}),
    ];
    let responses = responses.map(|response| ResponseOp { response: Some(response) }).to_vec();
    assert_same::<_, proto::PbRangeResponse>(range);
    assert_same::<_, proto::PbPutResponse>(PutResponse {});
    assert_same::<_, proto::PbDeleteResponse>(DeleteRangeResponse {});
    assert_same::<_, proto::PbTxnResponse>(TxnResponse { header: header(), succeeded: true, responses });
    let event = |kind: EventType| Event { r#type: kind.into(), kv: Some(key_value()) };
    assert_same::<_, proto::PbWatchResponse>(WatchResponse {
        header: header(),
        created: true,
        canceled: true,
        compact_revision: 17,
        cancel_reason: "reason".into(),
        events: vec![event(EventType::Put), event(EventType::Delete)],
    });
    assert_same::<_, proto::PbLeaseGrantResponse>(LeaseGrantResponse { id: 18 });
    assert_same::<_, proto::PbLeaseRevokeResponse>(LeaseRevokeResponse {});
    assert_same::<_, proto::PbLeaseKeepAliveResponse>(LeaseKeepAliveResponse { ttl: 19 });
    let status = StatusResponse { version: "3.5.13".into(), db_size: 20, leader: 21 };
    assert_same::<_, proto::PbStatusResponse>(status);
    assert_same::<_, proto::PbAuthenticateResponse>(AuthenticateResponse { token: "t".into() });
}

#[test]
fn the_values_of_enumerations_are_those_of_etcd() {
    assert_eq!(proto::PbCompareTarget::Version as i32, CompareTarget::Version as i32);
    assert_eq!(proto::PbCompareTarget::Mod as i32, CompareTarget::Mod as i32);
    assert_eq!(proto::PbCompareTarget::Value as i32, CompareTarget::Value as i32);
    assert_eq!(etcd_client::CompareOp::Equal as i32, CompareResult::Equal as i32);
    assert_eq!(etcd_client::CompareOp::Greater as i32, CompareResult::Greater as i32);
    assert_eq!(etcd_client::EventType::Put as i32, EventType::Put as i32);
    assert_eq!(etcd_client::EventType::Delete as i32, EventType::Delete as i32);
}
