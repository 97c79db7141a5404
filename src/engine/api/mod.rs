//! The part of etcd's API that the engine uses, version 3: gRPC calls with declared messages, so that a build needs
//! neither the API's definition nor a compiler for it. The client of one member: a connection that reconnects by itself,
//! the calls, and the token of a user.

pub(crate) mod messages;

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes};
use http::uri::PathAndQuery;
use prost::Message;
use tokio::sync::{Mutex, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::metadata::AsciiMetadataValue;
use tonic::transport::{Channel, ClientTlsConfig, Endpoint};
use tonic::{Code, Request, Response, Status, Streaming};

use messages::{
    AuthenticateRequest, AuthenticateResponse, LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest,
    LeaseKeepAliveResponse, LeaseRevokeRequest, LeaseRevokeResponse, MemberListRequest, MemberListResponse,
    RangeRequest, RangeResponse, StatusRequest, StatusResponse, TxnRequest, TxnResponse, WatchProgressRequest,
    WatchRequest, WatchResponse, WatchUnion,
};

/// Interval of keep-alive pings on a connection with a watch, and time limit of their answers. etcd closes a connection
/// that pings more often than every five seconds.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(6), Duration::from_secs(2));
/// The largest message that is received, in bytes: a page of keys, or the changes that a watch was behind.
const MESSAGE_MAX: usize = 256 << 20;
/// Number of requests that may wait on a stream.
const REQUESTS_MAX: usize = 4;

/// Options of the connections to members.
#[derive(Clone, Default)]
pub(crate) struct MemberAccess {
    /// Name and password of a user of etcd.
    pub(crate) user: Option<(String, String)>,
    /// TLS configuration for members whose URL begins with https.
    pub(crate) tls: Option<ClientTlsConfig>,
    /// Time limit for a connection attempt.
    pub(crate) connect_timeout: Duration,
}

#[derive(Debug)]
pub(crate) enum CallError {
    /// The member, or the connection to it, has returned an error.
    Status(Status),
    /// The settings name no member that can be connected.
    Settings(String),
    /// The lease is over.
    NoLease,
}

impl Display for CallError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            CallError::Status(status) => write!(f, "{status}"),
            CallError::Settings(reason) => write!(f, "{reason}"),
            CallError::NoLease => write!(f, "the lease is over"),
        }
    }
}

impl From<Status> for CallError {
    fn from(status: Status) -> Self {
        CallError::Status(status)
    }
}

/// A user of etcd, and the token that its last authentication has given.
struct Login {
    request: AuthenticateRequest,
    token: Mutex<AsciiMetadataValue>,
}

/// A client of a member; clones share its connection.
#[derive(Clone)]
pub(crate) struct MemberClient {
    grpc: Grpc<Channel>,
    login: Option<Arc<Login>>,
}

impl MemberClient {
    /// Creates the client of a member, and authenticates its user.
    pub(crate) async fn connect(url: &str, access: &MemberAccess) -> Result<Self, CallError> {
        let settings = |error: &dyn Display| CallError::Settings(format!("{url}: {error}"));
        let mut endpoint = Endpoint::from_shared(url.to_owned()).map_err(|error| settings(&error))?;
        if let Some(tls) = access.tls.clone().filter(|_| url.starts_with("https://")) {
            endpoint = endpoint.tls_config(tls).map_err(|error| settings(&error))?;
        }
        let endpoint = endpoint
            .connect_timeout(access.connect_timeout)
            .http2_keep_alive_interval(KEEP_ALIVE.0)
            .keep_alive_timeout(KEEP_ALIVE.1)
            .keep_alive_while_idle(false);
        let grpc = Grpc::new(endpoint.connect_lazy()).max_decoding_message_size(MESSAGE_MAX);
        let mut client = MemberClient { grpc, login: None };
        if let Some((name, password)) = access.user.clone() {
            let request = AuthenticateRequest { name, password };
            let token = Mutex::new(client.authenticate(request.clone()).await?);
            client.login = Some(Arc::new(Login { request, token }));
        }
        Ok(client)
    }

    /// Sends a transaction.
    pub(crate) async fn txn(&self, request: TxnRequest) -> Result<TxnResponse, CallError> {
        self.unary("/etcdserverpb.KV/Txn", request).await
    }

    /// Reads a range of keys.
    pub(crate) async fn range(&self, request: RangeRequest) -> Result<RangeResponse, CallError> {
        self.unary("/etcdserverpb.KV/Range", request).await
    }

    /// Grants a new lease of `ttl` seconds.
    pub(crate) async fn lease_grant(&self, ttl: i64) -> Result<LeaseGrantResponse, CallError> {
        self.unary("/etcdserverpb.Lease/LeaseGrant", LeaseGrantRequest { ttl }).await
    }

    pub(crate) async fn lease_revoke(&self, id: i64) -> Result<LeaseRevokeResponse, CallError> {
        self.unary("/etcdserverpb.Lease/LeaseRevoke", LeaseRevokeRequest { id }).await
    }

    /// Renews a lease, by a stream of one request.
    ///
    /// # Errors
    /// [`CallError::NoLease`] if the lease is over.
    pub(crate) async fn lease_keep_alive(&self, id: i64) -> Result<(), CallError> {
        let request = LeaseKeepAliveRequest { id };
        let (_, mut stream) = self.open("/etcdserverpb.Lease/LeaseKeepAlive", request).await?;
        let answer = stream.message().await?;
        let answer = answer.ok_or_else(|| Status::unavailable("the stream has ended"))?;
        let answer: LeaseKeepAliveResponse = decoded(answer)?;
        if answer.ttl > 0 { Ok(()) } else { Err(CallError::NoLease) }
    }

    /// Requests the state of a member.
    pub(crate) async fn status(&self) -> Result<StatusResponse, CallError> {
        self.unary("/etcdserverpb.Maintenance/Status", StatusRequest {}).await
    }

    /// Requests the list of members.
    pub(crate) async fn member_list(&self) -> Result<MemberListResponse, CallError> {
        self.unary("/etcdserverpb.Cluster/MemberList", MemberListRequest {}).await
    }

    /// Opens a watch with its first request.
    pub(crate) async fn watch(&self, first: WatchRequest) -> Result<Watching, CallError> {
        let (requests, answers) = self.open("/etcdserverpb.Watch/Watch", first).await?;
        Ok(Watching { requests, answers })
    }

    /// Opens a stream with its first request.
    async fn open(
        &self,
        path: &'static str,
        first: impl Message,
    ) -> Result<(mpsc::Sender<Bytes>, Streaming<Bytes>), CallError> {
        self.authenticated(encoded(&first), |client, first| async move {
            let (requests, stream) = mpsc::channel(REQUESTS_MAX);
            let request = first.map(|first| {
                let _ = requests.try_send(first); // the channel has room
                ReceiverStream::new(stream)
            });
            Ok((requests, client.stream(path, request).await?))
        })
        .await
    }

    /// Sends a call, with the token of the user.
    pub(crate) async fn unary<A: Message + Default>(
        &self,
        path: &'static str,
        message: impl Message,
    ) -> Result<A, CallError> {
        let call = self.authenticated(encoded(&message), |client, request| client.unary_once(path, request));
        Ok(decoded(call.await?)?)
    }

    /// Sends a call; repeats it with a new token, if etcd does not know the former one.
    async fn authenticated<A, F>(
        &self,
        message: Bytes,
        call: impl Fn(Self, Request<Bytes>) -> F,
    ) -> Result<A, CallError>
    where
        F: Future<Output = Result<A, Status>>,
    {
        let Some(login) = &self.login else { return Ok(call(self.clone(), request(message, None)).await?) };
        let token = login.token.lock().await.clone();
        match call(self.clone(), request(message.clone(), Some(token.clone()))).await {
            Err(status) if status.code() == Code::Unauthenticated => {
                let mut present = login.token.lock().await;
                if *present == token {
                    *present = self.authenticate(login.request.clone()).await?;
                }
                let token = present.clone();
                drop(present);
                Ok(call(self.clone(), request(message, Some(token))).await?)
            }
            answer => Ok(answer?),
        }
    }

    async fn authenticate(&self, user: AuthenticateRequest) -> Result<AsciiMetadataValue, Status> {
        let user = request(encoded(&user), None);
        let answer: AuthenticateResponse =
            decoded(self.clone().unary_once("/etcdserverpb.Auth/Authenticate", user).await?)?;
        answer.token.parse().map_err(|_| Status::internal("the token is no ASCII text"))
    }

    async fn unary_once(mut self, path: &'static str, request: Request<Bytes>) -> Result<Bytes, Status> {
        self.ready().await?;
        self.grpc.unary(request, PathAndQuery::from_static(path), BytesCodec).await.map(Response::into_inner)
    }

    async fn stream(
        mut self,
        path: &'static str,
        requests: Request<ReceiverStream<Bytes>>,
    ) -> Result<Streaming<Bytes>, Status> {
        self.ready().await?;
        self.grpc.streaming(requests, PathAndQuery::from_static(path), BytesCodec).await.map(Response::into_inner)
    }

    async fn ready(&mut self) -> Result<(), Status> {
        self.grpc.ready().await.map_err(|error| Status::from_error(Box::new(error)))
    }
}

pub(crate) struct Watching {
    requests: mpsc::Sender<Bytes>,
    answers: Streaming<Bytes>,
}

impl Watching {
    /// Waits for the next answer; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Result<Option<WatchResponse>, CallError> {
        Ok(self.answers.message().await?.map(decoded).transpose()?)
    }

    /// Requests the revision up to which all changes were sent.
    pub(crate) fn ask_progress(&self) {
        let union = WatchUnion::ProgressRequest(WatchProgressRequest {});
        let request = WatchRequest { request_union: Some(union) };
        let _ = self.requests.try_send(encoded(&request)); // fails if the channel is full or closed
    }
}

/// Wraps a message in a request that only a member with a leader answers.
fn request(message: Bytes, token: Option<AsciiMetadataValue>) -> Request<Bytes> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("hasleader", AsciiMetadataValue::from_static("true"));
    if let Some(token) = token {
        request.metadata_mut().insert("token", token);
    }
    request
}

fn encoded(message: &impl Message) -> Bytes {
    message.encode_to_vec().into()
}

fn decoded<A: Message + Default>(bytes: Bytes) -> Result<A, Status> {
    A::decode(bytes).map_err(|error| Status::internal(error.to_string()))
}

/// Codec of messages that are bytes to gRPC, so that its code is there once and not for each message.
#[derive(Clone, Copy)]
struct BytesCodec;

impl Codec for BytesCodec {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        BytesCodec
    }

    fn decoder(&mut self) -> Self {
        BytesCodec
    }
}

impl Encoder for BytesCodec {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(message);
        Ok(())
    }
}

impl Decoder for BytesCodec {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}
