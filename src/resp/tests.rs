//! Tests of the wire as a whole: any stream, split anywhere, gives the same requests and the same error; claimed
//! lengths allocate nothing; frames survive encoding and decoding. Without a server: expectations were recorded from
//! Redis 7.0.15 with the same bytes.

use bytes::{BufMut, Bytes, BytesMut};
use proptest::collection::vec;
use proptest::prelude::*;
use tokio_util::codec::{Decoder, Encoder};

use crate::resp::large::{FIRST_ROOM, LARGE_LEN};
use crate::resp::*;

/// The result of decoding a stream: the requests, then the error if there was one.
type Outcome = (Vec<Vec<Vec<u8>>>, Option<ProtocolError>);

const STRANGER: RequestLimits = RequestLimits { bulk_len_max: 512 * 1024 * 1024, authenticated: false };

/// Feeds `pieces` to one decoder, as reads from a socket would.
fn decode_pieces<'a>(limits: RequestLimits, pieces: impl IntoIterator<Item = &'a [u8]>) -> Outcome {
    let (mut decoder, mut src) = (RequestDecoder::new(limits), BytesMut::new());
    let (mut requests, mut batch) = (Vec::new(), Batch::default());
    for piece in pieces {
        src.extend_from_slice(piece);
        loop {
            match decoder.decode_into(&mut src, &mut batch) {
                Ok(true) => {
                    assert!(!batch.is_empty() && batch.len() <= BATCH_REQUESTS_MAX);
                    assert!(limits.authenticated || batch.len() == 1);
                    let owned = |request: Request<'_>| request.args().map(<[u8]>::to_vec).collect();
                    requests.extend(batch.iter().map(owned));
                    batch.recycle(&mut src);
                }
                Ok(false) => break,
                Err(DecodeError::Protocol(err)) => return (requests, Some(err)),
                Err(DecodeError::Io(err)) => panic!("a buffer does no IO: {err}"),
            }
        }
        assert_eq!(decoder.is_mid_request(), !src.is_empty());
    }
    (requests, None)
}

fn decode_whole(stream: &[u8]) -> Outcome {
    decode_pieces(RequestLimits::default(), [stream])
}

fn requests(requests: &[&[&str]]) -> Vec<Vec<Vec<u8>>> {
    let args = |args: &&[&str]| args.iter().map(|arg| arg.as_bytes().to_vec()).collect();
    requests.iter().map(args).collect()
}

/// Cuts `stream` at the given positions, taken modulo its length.
fn cut_at<'a>(stream: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (stream.len() + 1)).collect();
    cuts.extend([0, stream.len()]);
    cuts.sort_unstable();
    cuts.windows(2).map(|pair| &stream[pair[0]..pair[1]]).collect()
}

fn multibulk(args: &[Vec<u8>]) -> Vec<u8> {
    let mut wire = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        wire.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        wire.extend_from_slice(arg);
        wire.extend_from_slice(b"\r\n");
    }
    wire
}

/// Quotes every argument as a user of `redis-cli` would type it.
fn inline(args: &[Vec<u8>]) -> Vec<u8> {
    let quoted = |arg: &Vec<u8>| -> String {
        let escaped: String = arg.iter().map(|byte| format!("\\x{byte:02x}")).collect();
        format!("\"{escaped}\"")
    };
    let words: Vec<String> = args.iter().map(quoted).collect();
    format!("{}\r\n", words.join(" ")).into_bytes()
}

#[test]
fn odd_but_valid_streams_are_read_as_redis_reads_them() {
    let ping: &[&str] = &["PING"];
    let cases: &[(&[u8], &[&[&str]])] = &[
        (b"*1\r\n$4\r\nPING\r\n", &[ping]),
        (b"*1\rX$4\rXPINGzzPING\n", &[ping, ping]),
        (b"*0\r\n*-1\r\n*-99999999999\r\nPING\r\n", &[ping]),
        (b"\r\n\n  \r\nPING\n", &[ping]),
        (b"*1\r\n$0\r\n\r\n\"\"\n", &[&[""], &[""]]),
        (b" *1\n", &[&["*1"]]),
        (b"*2147483647\r\n$536870912\r\n", &[]),
        (b"*1\r", &[]),
        (b"ECHO a\x00b\nPING\n", &[]),
        (b"*1\n\x00*x\r\n", &[]),
    ];
    for (stream, expected) in cases {
        assert_eq!(decode_whole(stream), (requests(expected), None), "{}", stream.escape_ascii());
    }
}

#[test]
fn protocol_errors_follow_the_requests_before_them() {
    use ProtocolError::*;
    let long = |start: &str, len: usize| [start, &"1".repeat(len)].concat().into_bytes();
    let cases: Vec<(Vec<u8>, ProtocolError)> = vec![
        (b"*\r\n".to_vec(), InvalidMultibulkLength),
        (b"*+1\r\n".to_vec(), InvalidMultibulkLength),
        (b"*01\r\n".to_vec(), InvalidMultibulkLength),
        (b"*-0\r\n".to_vec(), InvalidMultibulkLength),
        (b"* 1\r\n".to_vec(), InvalidMultibulkLength),
        (b"*2147483648\r\n".to_vec(), InvalidMultibulkLength),
        (b"*99999999999999999999\r\n".to_vec(), InvalidMultibulkLength),
        (b"*1\r\nPING\r\n".to_vec(), ExpectedBulk(b'P')),
        (b"*1\r\nP12\r\n".to_vec(), ExpectedBulk(b'P')),
        (b"*1\r\n\r\n".to_vec(), ExpectedBulk(b'\r')),
        (b"*1\r\n\x01\xff\r\n".to_vec(), ExpectedBulk(1)),
        (b"*1\r\n$-1\r\n".to_vec(), InvalidBulkLength),
        (b"*1\r\n$\r\n".to_vec(), InvalidBulkLength),
        (b"*1\r\n$536870913\r\n".to_vec(), InvalidBulkLength),
        (long("*", 65536), TooBigMultibulkCount),
        (long("*1\r\n$", 65536), TooBigBulkCount),
        (long("*1\r\nA", 65536), TooBigBulkCount),
        (long("a", 65536), TooBigInline),
        (long("\x00\n", 65535), TooBigInline),
        (b"ECHO \"a\n".to_vec(), UnbalancedQuotes),
    ];
    for (stream, expected) in cases {
        let stream = [b"PING\r\n*1\r\n$1\r\nx\r\n", &stream[..]].concat();
        let outcome = (requests(&[&["PING"], &["x"]]), Some(expected));
        assert!(decode_whole(&stream) == outcome, "{expected} in one piece");
        let bytewise = decode_pieces(RequestLimits::default(), stream.chunks(1));
        assert!(bytewise == outcome, "{expected} byte by byte");
    }
}

#[test]
fn lines_of_exactly_the_limit_pass() {
    let name = "a".repeat(65536);
    let stream = format!("{name}\n");
    assert!(decode_whole(stream.as_bytes()) == (requests(&[&[&name]]), None));
    let header = format!("*{}", "1".repeat(65535));
    assert!(decode_whole(header.as_bytes()) == (vec![], None));
}

#[test]
fn unauthenticated_clients_may_send_little() {
    let ten = multibulk(&vec![vec![b'x'; 16384]; 10]);
    let (accepted, error) = decode_pieces(STRANGER, [[&ten[..], b"PING\r\n"].concat().as_slice()]);
    assert_eq!((accepted.len(), error), (2, None));
    let outcome = |stream: &[u8]| decode_pieces(STRANGER, [stream]).1;
    let too_many = Some(ProtocolError::UnauthenticatedMultibulkLength);
    assert_eq!(outcome(b"*11\r\n"), too_many);
    let too_long = Some(ProtocolError::UnauthenticatedBulkLength);
    assert_eq!(outcome(b"*1\r\n$16385\r\n"), too_long);
    let invalid = Some(ProtocolError::InvalidBulkLength);
    assert_eq!(outcome(b"*1\r\n$536870913\r\n"), invalid);
}

#[test]
fn limits_changed_between_batches_hold_for_the_next_request() {
    let mut src = BytesMut::from(&b"AUTH secret\r\n*11\r\n"[..]);
    let mut decoder = RequestDecoder::new(STRANGER);
    let batch = decoder.decode(&mut src).ok().flatten().expect("AUTH is complete");
    assert_eq!(batch.get(0).name(), b"AUTH");
    decoder.set_limits(RequestLimits::default());
    assert!(matches!(decoder.decode(&mut src), Ok(None)));
}

#[test]
fn error_texts_are_those_of_redis() {
    let got = ProtocolError::ExpectedBulk(0xff);
    assert_eq!(got.wire_text(), b"ERR Protocol error: expected '$', got '\xff'");
    assert_eq!(got.to_string(), r"Protocol error: expected '$', got '\xff'");
    let quotes = ProtocolError::UnbalancedQuotes;
    assert_eq!(quotes.wire_text(), format!("ERR {quotes}").as_bytes());
    assert_eq!(quotes.to_string(), "Protocol error: unbalanced quotes in request");
}

#[test]
fn claims_allocate_nothing_until_bytes_arrive() {
    let mut src = BytesMut::from(&b"*2147483647\r\n$536870912\r\n"[..]);
    let mut decoder = RequestDecoder::new(RequestLimits::default());
    for _ in 0..100 {
        assert!(matches!(decoder.decode(&mut src), Ok(None)));
        src.extend_from_slice(&[0; 1000]);
    }
    let room = decoder.large_buffer().expect("an argument that is not complete").get_ref().capacity();
    assert!(room <= FIRST_ROOM && src.capacity() <= 2000, "{room} and {}", src.capacity());
    assert_eq!(decoder.unparsed_len(&src), 100_000);
}

#[test]
fn a_large_argument_has_room_for_all_of_it_after_a_megabyte_and_counts_as_what_has_arrived() {
    const LEN: usize = 64 * FIRST_ROOM;
    let mut src = BytesMut::from(format!("*2\r\n$3\r\nGET\r\n${LEN}\r\n").as_bytes());
    let mut decoder = RequestDecoder::new(RequestLimits::default());
    let mut counted = Vec::new();
    for _ in 0..3 {
        src.extend_from_slice(&vec![0; FIRST_ROOM]);
        assert!(matches!(decoder.decode(&mut src), Ok(None)));
        counted.push(decoder.pending_args().1 / FIRST_ROOM);
    }
    let room = decoder.large_buffer().expect("an argument that is not complete").get_ref().capacity();
    assert!(room >= LEN, "{room}");
    assert_eq!(counted, [1, 2, 3]);
}

/// Feeds `pieces` to a decoder as a connection does, which reads large arguments into their own buffers; returns the
/// requests, and the number of arguments with such a buffer.
fn decode_as_read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Vec<Vec<u8>>>, usize) {
    let (mut decoder, mut src) = (RequestDecoder::default(), BytesMut::new());
    let (mut requests, mut whole, mut batch) = (Vec::new(), 0, Batch::default());
    for mut piece in pieces {
        while !piece.is_empty() {
            let taken = match decoder.large_buffer() {
                Some(mut buffer) => {
                    let len = piece.len().min(buffer.remaining_mut());
                    buffer.put_slice(&piece[..len]);
                    len
                }
                None => {
                    src.extend_from_slice(piece);
                    piece.len()
                }
            };
            piece = &piece[taken..];
            while decoder.decode_into(&mut src, &mut batch).expect("no protocol error") {
                for request in batch.iter() {
                    whole += (0..request.len()).filter(|at| request.shared(*at).is_some()).count();
                    let owned = request.to_owned();
                    assert!(owned.as_request().args().eq(request.args()));
                    requests.push(request.args().map(<[u8]>::to_vec).collect());
                }
                batch.recycle(&mut src);
            }
        }
    }
    assert!(src.is_empty() && decoder.is_between_requests());
    (requests, whole)
}

#[test]
fn an_argument_that_does_not_arrive_at_once_has_a_buffer_of_its_own_if_it_is_large() {
    let short = vec![vec![b's'; LARGE_LEN - 1]; 3];
    assert_eq!(decode_as_read(multibulk(&short).chunks(1000)), (vec![short], 0));
    // Lengths for which the allocator needs as much memory with the line end, or more.
    for len in [LARGE_LEN, LARGE_LEN + 1, 20 * 1024 - 1, 20 * 1024, 100_000, FIRST_ROOM - 1, FIRST_ROOM, 3 * FIRST_ROOM]
    {
        let args = vec![b"MSET".to_vec(), b"k".to_vec(), vec![b'v'; len], b"l".to_vec(), vec![b'w'; len]];
        let (wire, sent) = (multibulk(&args).repeat(2), vec![args.clone(), args]);
        assert!(decode_as_read(wire.chunks(5000)) == (sent, 4), "{len}");
    }
}

#[test]
fn a_huge_request_in_tiny_pieces_is_scanned_once() {
    // Rescanning from the start for each of 600,000 bytes would take minutes.
    let args = vec![b"abc".to_vec(); 60_000];
    let outcome = decode_pieces(RequestLimits::default(), multibulk(&args).chunks(1));
    assert!(outcome == (vec![args], None));
}

#[test]
fn bare_newlines_do_not_pile_up() {
    let (mut decoder, mut src) = (RequestDecoder::default(), BytesMut::new());
    for _ in 0..1000 {
        src.extend_from_slice(b"\r\n*0\r\n");
        assert!(matches!(decoder.decode(&mut src), Ok(None)));
        assert!(src.is_empty());
    }
}

#[test]
fn batches_are_bounded_and_their_lists_and_buffer_are_used_again() {
    let (mut decoder, mut src, mut batch) = (RequestDecoder::default(), BytesMut::new(), Batch::default());
    let mut next = |sent: &str| {
        batch.recycle(&mut src);
        src.extend_from_slice(sent.as_bytes());
        assert!(decoder.decode_into(&mut src, &mut batch).expect("no protocol error"));
        (batch.len(), batch.spans.as_ptr(), batch.get(0).name().as_ptr())
    };
    let (len, list, _) = next(&"PING\n".repeat(BATCH_REQUESTS_MAX + 1));
    assert_eq!(len, BATCH_REQUESTS_MAX);
    let (len, _, buffer) = next("");
    assert_eq!(len, 1);
    assert_eq!(next("PING\n"), (1, list, buffer));
}

#[test]
fn it_is_known_where_empty_requests_were_however_the_stream_is_split() {
    // `-` for an empty request, `+` for another one, a blank between reads.
    for (stream, seen) in
        [("++", "++"), ("-+-+-", "-+-+-"), ("+- +", "+-+"), ("+ -+", "+-+"), ("--+---", "-+-"), ("+-", "+-")]
    {
        let (mut decoder, mut src, mut found) = (RequestDecoder::default(), BytesMut::new(), String::new());
        for piece in stream.split(' ') {
            src.extend_from_slice(piece.replace('-', "*0\r\n").replace('+', "PING\r\n").as_bytes());
            while let Some(batch) = decoder.decode(&mut src).expect("no protocol error") {
                for index in 0..batch.len() {
                    found.push_str(if batch.follows_empty(index) { "-+" } else { "+" });
                }
            }
            found.push_str(if decoder.take_empties() { "-" } else { "" });
            assert!(decoder.is_between_requests());
        }
        assert_eq!(found, seen, "{stream}");
    }
}

#[test]
fn a_request_cut_short_by_the_end_of_the_stream_is_dropped() {
    let (mut decoder, mut src) = (RequestDecoder::default(), BytesMut::new());
    src.extend_from_slice(b"*2\r\n$4\r\nECHO\r\n$9\r\nabc");
    assert!(matches!(decoder.decode_eof(&mut src), Ok(None)));
    assert!(matches!(decoder.decode_eof(&mut src), Ok(None)));
    assert!(src.is_empty() && !decoder.is_mid_request());
}

#[test]
fn an_owned_request_equals_the_one_it_was_made_from() {
    let mut src = BytesMut::from(&b"SET key \"\" 'a b'\n"[..]);
    let batch = RequestDecoder::default().decode(&mut src).ok().flatten().expect("one request");
    let owned = batch.get(0).to_owned();
    let request = owned.as_request();
    assert!(request.args().eq(batch.get(0).args()));
    assert_eq!((request.len(), request.bytes_len()), (4, 9));
    assert_eq!(format!("{owned:?}"), r#"["SET", "key", "", "a b"]"#);
}

#[test]
fn integers_are_parsed_strictly() {
    for (text, value) in [
        ("0", Some(0)),
        ("-1", Some(-1)),
        ("9223372036854775807", Some(i64::MAX)),
        ("-9223372036854775808", Some(i64::MIN)),
        ("9223372036854775808", None),
        ("-9223372036854775809", None),
        ("", None),
        ("-", None),
        ("-0", None),
        ("+1", None),
        ("01", None),
        ("1 ", None),
        ("--1", None),
    ] {
        assert_eq!(parse_int(text.as_bytes()), value, "{text:?}");
    }
}

#[test]
fn nesting_beyond_the_limit_is_refused_at_once() {
    let nested = |depth: usize| BytesMut::from(format!("{}:1\r\n", "*1\r\n".repeat(depth)).as_str());
    let decode = |mut src: BytesMut| FrameDecoder::new().decode(&mut src);
    assert!(matches!(decode(nested(FRAME_DEPTH_MAX)), Ok(Some(Frame::Array(_)))));
    assert!(matches!(decode(nested(FRAME_DEPTH_MAX + 1)), Err(FrameError::TooDeep)));
}

fn decode_frames(pieces: &[&[u8]]) -> (Vec<Frame>, bool) {
    let (mut decoder, mut src) = (FrameDecoder::new(), BytesMut::new());
    let mut frames = Vec::new();
    for piece in pieces {
        src.extend_from_slice(piece);
        loop {
            match decoder.decode(&mut src) {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(_) => return (frames, true),
            }
        }
    }
    (frames, false)
}

fn any_args() -> impl Strategy<Value = Vec<Vec<u8>>> {
    vec(vec(any::<u8>(), 0..40), 1..6)
}

fn any_valid_request() -> impl Strategy<Value = (Vec<u8>, Option<Vec<Vec<u8>>>)> {
    prop_oneof![
        4 => any_args().prop_map(|args| (multibulk(&args), Some(args))),
        4 => any_args().prop_map(|args| (inline(&args), Some(args))),
        1 => Just((b"\r\n".to_vec(), None)),
        1 => Just((b"*0\r\n".to_vec(), None)),
        1 => Just((b"*-1\r\n".to_vec(), None)),
    ]
}

/// Bytes that are often significant to the decoder, mixed with others.
fn any_garbage() -> impl Strategy<Value = Vec<u8>> {
    let pieces = prop::sample::select(vec![
        &b"*"[..],
        b"$",
        b"\r\n",
        b"\r",
        b"\n",
        b"\0",
        b" ",
        b"\"",
        b"'",
        b"\\",
        b"\\x4",
        b"0",
        b"1",
        b"2",
        b"-",
        b"+",
        b"*2\r\n",
        b"$3\r\nabc\r\n",
        b"*1\r\n$4\r\nPING\r\n",
        b"PING\r\n",
        b"%1\r\n",
        b":1\r\n",
        b"_\r\n",
        b",1.5\r\n",
        b"=5\r\ntxt:a\r\n",
        b"~1\r\n",
        b"#t\r\n",
    ]);
    let piece = prop_oneof![
        8 => pieces.prop_map(<[u8]>::to_vec),
        1 => vec(any::<u8>(), 0..4),
        1 => Just(vec![b'1'; 40_000]),
    ];
    vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

fn any_line() -> impl Strategy<Value = Bytes> {
    let byte = any::<u8>().prop_map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte });
    vec(byte, 0..20).prop_map(Bytes::from)
}

fn any_bulk() -> impl Strategy<Value = Bytes> {
    prop_oneof![
        9 => vec(any::<u8>(), 0..40).prop_map(Bytes::from),
        1 => Just(Bytes::from(vec![b'x'; SHARED_MIN])),
    ]
}

fn any_frame(protocol: Protocol) -> BoxedStrategy<Frame> {
    let common = prop_oneof![
        any_line().prop_map(Frame::Simple),
        any_line().prop_map(Frame::Error),
        any::<i64>().prop_map(Frame::Integer),
        any_bulk().prop_map(Frame::Bulk),
        Just(Frame::Null),
    ];
    if protocol == Protocol::Resp2 {
        let leaf = prop_oneof![9 => common, 1 => Just(Frame::NullArray)];
        return leaf.prop_recursive(4, 32, 5, |item| vec(item, 0..5).prop_map(Frame::Array)).boxed();
    }
    let leaf = prop_oneof![
        common,
        any::<bool>().prop_map(Frame::Boolean),
        (any::<f64>()).prop_map(Frame::Double),
        "-?[1-9][0-9]{0,40}".prop_map(|digits| Frame::BigNumber(Bytes::from(digits))),
        any_bulk().prop_map(|text| Frame::Verbatim(*b"txt", text)),
    ];
    leaf.prop_recursive(4, 32, 5, |item| {
        prop_oneof![
            vec(item.clone(), 0..5).prop_map(Frame::Array),
            vec(item.clone(), 0..5).prop_map(Frame::Set),
            vec(item.clone(), 1..5).prop_map(Frame::Push),
            vec((item.clone(), item), 0..3).prop_map(Frame::Map),
        ]
    })
    .boxed()
}

fn any_frames() -> impl Strategy<Value = (Protocol, Vec<Frame>)> {
    prop_oneof![Just(Protocol::Resp2), Just(Protocol::Resp3)]
        .prop_flat_map(|protocol| (Just(protocol), vec(any_frame(protocol), 1..4)))
}

proptest! {
    // A failure prints its input; it becomes a line in a table above, not a file of seeds.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn valid_requests_survive_any_split(
        sent in vec(any_valid_request(), 0..20),
        cuts in vec(any::<usize>(), 0..20),
        authenticated: bool,
    ) {
        let limits = RequestLimits { authenticated, ..RequestLimits::default() };
        let stream: Vec<u8> = sent.iter().flat_map(|(wire, _)| wire.clone()).collect();
        let expected: Vec<_> = sent.into_iter().filter_map(|(_, args)| args).collect();
        let outcome = (expected, None);
        prop_assert_eq!(&decode_pieces(limits, [&stream[..]]), &outcome);
        prop_assert_eq!(&decode_pieces(limits, cut_at(&stream, &cuts)), &outcome);
        prop_assert_eq!(&decode_pieces(limits, stream.chunks(1)), &outcome);
    }

    #[test]
    fn large_arguments_survive_any_split(
        sent in vec(vec(prop_oneof![0..20usize, LARGE_LEN - 3..LARGE_LEN + 3], 1..5), 1..5),
        cuts in vec(any::<usize>(), 0..20),
    ) {
        let fill = |len: &usize| (0..*len).map(|at| at as u8).collect::<Vec<u8>>();
        let expected: Vec<Vec<Vec<u8>>> = sent.iter().map(|lens| lens.iter().map(fill).collect()).collect();
        let stream: Vec<u8> = expected.iter().flat_map(|args| multibulk(args)).collect();
        prop_assert!(decode_as_read(cut_at(&stream, &cuts)).0 == expected);
        prop_assert!(decode_pieces(RequestLimits::default(), cut_at(&stream, &cuts)) == (expected, None));
    }

    #[test]
    fn garbage_has_the_same_outcome_in_any_split(
        stream in any_garbage(),
        cuts in vec(any::<usize>(), 0..20),
        authenticated: bool,
    ) {
        let limits = RequestLimits { authenticated, ..RequestLimits::default() };
        let whole = decode_pieces(limits, [&stream[..]]);
        prop_assert!(whole == decode_pieces(limits, cut_at(&stream, &cuts)));
        // Long lines are slow byte by byte; small pieces find the same bugs.
        let piece_len = 1 + stream.len() / 2000;
        prop_assert!(whole == decode_pieces(limits, stream.chunks(piece_len)));
    }

    #[test]
    fn garbage_frames_have_the_same_outcome_in_any_split(
        stream in any_garbage(),
        cuts in vec(any::<usize>(), 0..20),
    ) {
        let whole = decode_frames(&[&stream]);
        prop_assert!(whole == decode_frames(&cut_at(&stream, &cuts)));
    }

    #[test]
    fn frames_survive_the_wire(
        (protocol, frames) in any_frames(),
        cuts in vec(any::<usize>(), 0..20),
    ) {
        let mut codec = Codec { protocol, ..Codec::default() };
        let mut wire = BytesMut::new();
        for frame in &frames {
            codec.encode(frame.clone(), &mut wire).expect("encoding does no IO");
        }
        prop_assert_eq!(decode_frames(&cut_at(&wire, &cuts)), (frames, false));
    }
}
