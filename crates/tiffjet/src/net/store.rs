//! Objects of object stores. `object_store` knows credentials, signatures and dialects; requests go over connections of
//! this crate, and bodies of objects past `object_store` straight into the caller's memory.

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::ops::Range;
use std::pin::pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use bytes::Bytes;
use http_body::Body as _;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{ClientConfigKey, ClientOptions, GetOptions, GetRange, ObjectStore, PutOptions, RetryConfig};
use url::Url;

use super::http::{Body, Request, Response, exchange};
use super::origin::{Answer, Condition, Failure, Origin};
use super::profile;
use super::watch::{Watch, is_cancelled};
use super::web::{AGENT, host};
use crate::error::{Error, Result};
use crate::source::Remote;

/// Bytes of a response that is no object, at most: lists of parts, tokens, errors.
const SMALL: usize = 16 << 20;

/// Time for a connection to one who, if there at all, is near.
const NEIGHBOUR: Duration = Duration::from_secs(1);

trait Store: ObjectStore + MultipartStore {}
impl<T: ObjectStore + MultipartStore> Store for T {}

/// A part of an upload that has arrived.
pub(crate) struct Part(PartId);

impl Part {
    /// One that another process has sent, from what stands for it.
    pub(crate) fn known(token: &str) -> Self {
        Self(PartId { content_id: token.to_owned() })
    }

    /// What stands for it in other processes.
    pub(crate) fn token(self) -> String {
        self.0.content_id
    }
}

/// An object of a store, there or to be.
pub(crate) struct Bucket {
    name: Arc<str>,
    url: Url,
    path: Path,
    remote: Remote,
    store: RwLock<Arc<dyn Store>>,
}

impl Bucket {
    /// Makes no request.
    pub(crate) fn new(name: &Arc<str>, url: &str, remote: &Remote) -> Result<Self> {
        let wrong = |what: String| Error::invalid(name, what);
        let mut url = Url::parse(url).map_err(|e| wrong(format!("that is no URL: {e}")))?;
        if url.scheme() == "gcs" {
            // It has no rules of its own, so it can become another.
            let _ = url.set_scheme("gs");
        }
        url.set_query(None);
        url.set_fragment(None);
        let path = Path::from_url_path(url.path()).map_err(|e| wrong(format!("that is no name of an object: {e}")))?;
        if path.as_ref().is_empty() || url.host_str().is_none_or(str::is_empty) {
            return Err(wrong(format!("{}://BUCKET/NAME is meant", url.scheme())));
        }
        let store = build(name, &url, remote, None)?;
        Ok(Self { name: name.clone(), url, path, remote: remote.clone(), store: RwLock::new(store) })
    }

    fn store(&self) -> Arc<dyn Store> {
        self.store.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Does something with the store, and says what became of it. Where the store says that it is in another region, it is
    /// asked there.
    fn run<T, F>(&self, watch: &Watch, work: impl Fn(Arc<dyn Store>) -> F) -> Result<(T, Exchange), Failure>
    where
        F: Future<Output = object_store::Result<T>>,
    {
        let (outcome, mut seen) = with_exchange(watch, work(self.store()));
        let Some(region) = seen.region.take().filter(|_| outcome.is_err() && self.url.scheme().starts_with("s3"))
        else {
            return outcome.map_err(|error| self.failure(error, &mut seen)).map(|value| (value, seen));
        };
        let store = build(&self.name, &self.url, &self.remote, Some(&region)).map_err(Failure::Final)?;
        *self.store.write().unwrap_or_else(PoisonError::into_inner) = store.clone();
        let (outcome, mut seen) = with_exchange(watch, work(store));
        outcome.map_err(|error| self.failure(error, &mut seen)).map(|value| (value, seen))
    }

    /// What a failure means. Texts of `object_store` can hold addresses with signatures: where the server has spoken, that is
    /// what is told.
    fn failure(&self, error: object_store::Error, seen: &mut Exchange) -> Failure {
        if let Some(error) = seen.failed.take() {
            return Failure::of(&self.name, error);
        }
        match (error, seen.status) {
            (_, 304) => Failure::Unmodified,
            (_, 412) => Failure::Changed,
            (_, status @ 300..) => Failure::status(&self.name, status, &seen.said, seen.after),
            (object_store::Error::Generic { .. }, 200) => Failure::Final(Error::unsupported(
                &self.name,
                "a server that sends whole files where a part is asked for",
                "download the file",
            )),
            // No server has spoken: credentials are missing, or make no sense.
            (error, _) => Failure::Final(Error::io(&self.name, io::Error::other(error.to_string()))),
        }
    }

    /// Writes the whole object at once.
    pub(crate) fn put(&self, bytes: Bytes, watch: &Watch) -> Result<(), Failure> {
        self.run(watch, |store| {
            let (path, bytes) = (self.path.clone(), bytes.clone());
            async move { store.put_opts(&path, bytes.into(), PutOptions::default()).await }
        })?;
        Ok(())
    }

    /// Begins an upload in parts.
    pub(crate) fn begin(&self, watch: &Watch) -> Result<String, Failure> {
        let id = self.run(watch, |store| {
            let path = self.path.clone();
            async move { store.create_multipart(&path).await }
        })?;
        Ok(id.0)
    }

    /// Sends a part, counted from 0; in any order.
    pub(crate) fn part(&self, id: &str, number: usize, bytes: Bytes, watch: &Watch) -> Result<Part, Failure> {
        let part = self.run(watch, |store| {
            let (path, id, bytes) = (self.path.clone(), id.to_owned(), bytes.clone());
            async move { store.put_part(&path, &id, number, bytes.into()).await }
        })?;
        Ok(Part(part.0))
    }

    /// Makes an object of the parts.
    pub(crate) fn complete(&self, id: &str, parts: &[Part], watch: &Watch) -> Result<(), Failure> {
        self.run(watch, |store| {
            let (path, id) = (self.path.clone(), id.to_owned());
            let parts: Vec<PartId> = parts.iter().map(|part| part.0.clone()).collect();
            async move { store.complete_multipart(&path, &id, parts).await }
        })?;
        Ok(())
    }

    /// Gives up: the parts go.
    pub(crate) fn abort(&self, id: &str, watch: &Watch) -> Result<(), Failure> {
        self.run(watch, |store| {
            let (path, id) = (self.path.clone(), id.to_owned());
            async move { store.abort_multipart(&path, &id).await }
        })?;
        Ok(())
    }
}

impl Origin for Bucket {
    fn get(&self, range: Range<u64>, condition: Condition<'_>, watch: &Watch) -> Result<Answer, Failure> {
        let options = || {
            let mut options = GetOptions { range: Some(GetRange::Bounded(range.clone())), ..GetOptions::default() };
            match condition {
                Condition::Any => {}
                Condition::Same(etag) => options.if_match = Some(etag.to_owned()),
                Condition::Other(etag) => options.if_none_match = Some(etag.to_owned()),
            }
            options.extensions.insert(Straight);
            options
        };
        let outcome = self.run(watch, |store| {
            let (path, options) = (self.path.clone(), options());
            async move { store.get_opts(&path, options).await }
        });
        let (result, seen) = outcome.map_err(|failure| match failure {
            // It was inside the file when that was opened.
            Failure::Final(Error::Io { source, .. }) if source.to_string().contains(" says 416") => match range.start {
                0 => Failure::Final(Error::malformed(&self.name, 0, "the file is empty")),
                _ => Failure::Changed,
            },
            other => other,
        })?;
        let body = seen
            .body
            .ok_or_else(|| Failure::Final(Error::io(&self.name, io::Error::other("the store gave no body"))))?;
        let modified = Some(result.meta.last_modified.to_rfc3339());
        Ok(Answer { range: result.range, total: result.meta.size, etag: result.meta.e_tag, modified, body })
    }
}

/// Builds the client of a store from the environment, profile files and settings, the later the stronger.
fn build(name: &Arc<str>, url: &Url, remote: &Remote, region: Option<&str>) -> Result<Arc<dyn Store>> {
    let wrong = |e: object_store::Error| Error::invalid(name, format!("storage options: {e}"));
    // Retries are made by who asked: then nothing here needs a runtime.
    let retry = RetryConfig { max_retries: 0, ..RetryConfig::default() };
    let connector = Connector { connect: remote.connect_timeout, stall: remote.timeout };
    Ok(match url.scheme() {
        "s3" | "s3a" => {
            let mut builder = AmazonS3Builder::from_env();
            for (key, value) in from_profile(&builder, remote) {
                builder = builder.with_config(key, value);
            }
            if let Some(region) = region {
                builder = builder.with_region(region);
            }
            for (key, value) in known(name, remote, s3_alias, |key: &AmazonS3ConfigKey| match key {
                AmazonS3ConfigKey::Client(key) => allows(key),
                AmazonS3ConfigKey::Region | AmazonS3ConfigKey::DefaultRegion => region.is_none(),
                _ => true,
            })? {
                builder = builder.with_config(key, value);
            }
            let builder = builder.with_url(url.as_str()).with_retry(retry).with_http_connector(connector);
            Arc::new(builder.build().map_err(wrong)?)
        }
        "gs" => {
            let mut builder = GoogleCloudStorageBuilder::from_env();
            for (key, value) in known(name, remote, google_alias, |key: &GoogleConfigKey| match key {
                GoogleConfigKey::Client(key) => allows(key),
                _ => true,
            })? {
                builder = builder.with_config(key, value);
            }
            let builder = builder.with_url(url.as_str()).with_retry(retry).with_http_connector(connector);
            Arc::new(builder.build().map_err(wrong)?)
        }
        _ => {
            let mut builder = MicrosoftAzureBuilder::from_env();
            for (key, value) in known(name, remote, azure_alias, |key: &AzureConfigKey| match key {
                AzureConfigKey::Client(key) => allows(key),
                _ => true,
            })? {
                builder = builder.with_config(key, value);
            }
            let builder = builder.with_url(url.as_str()).with_retry(retry).with_http_connector(connector);
            Arc::new(builder.build().map_err(wrong)?)
        }
    })
}

/// Settings of connections are those of [`Remote`]; this one says what an endpoint says already.
fn allows(key: &ClientConfigKey) -> bool {
    matches!(key, ClientConfigKey::AllowHttp)
}

/// The settings by the names `object_store` has for them; what it does not know is an error that names it.
fn known<K: std::str::FromStr + PartialEq>(
    name: &Arc<str>,
    remote: &Remote,
    alias: fn(&str) -> &str,
    take: impl Fn(&K) -> bool,
) -> Result<Vec<(K, String)>> {
    let mut found = Vec::new();
    for (key, value) in remote.settings().iter().filter(|(key, _)| *key != "profile") {
        match alias(key).parse::<K>() {
            Ok(parsed) if take(&parsed) => found.push((parsed, value.clone())),
            // A region that the store has corrected.
            Ok(_) if key.ends_with("region") || key.ends_with("region_name") => {}
            _ => return Err(Error::invalid(name, format!("storage options: {key} is not known here"))),
        }
    }
    Ok(found)
}

/// Short names, and those of fsspec.
fn s3_alias(key: &str) -> &str {
    match key {
        "anon" | "anonymous" | "no_sign_request" => "skip_signature",
        "key" => "access_key_id",
        "secret" => "secret_access_key",
        "region_name" => "region",
        "requester_pays" => "request_payer",
        "virtual_hosted_style" => "virtual_hosted_style_request",
        other => other,
    }
}

fn google_alias(key: &str) -> &str {
    match key {
        "anon" | "anonymous" => "skip_signature",
        "endpoint" | "endpoint_url" => "base_url",
        "token" => "bearer_token",
        other => other,
    }
}

fn azure_alias(key: &str) -> &str {
    match key {
        "anon" | "anonymous" => "skip_signature",
        "endpoint_url" => "endpoint",
        other => other,
    }
}

/// What a profile adds to the environment: keys only where that has none and the user gives none.
fn from_profile(builder: &AmazonS3Builder, remote: &Remote) -> Vec<(AmazonS3ConfigKey, String)> {
    let settings = remote.settings();
    let named = settings.get("profile").map(String::as_str);
    let given = |key: &AmazonS3ConfigKey| builder.get_config_value(key).is_some();
    let is_key = |key: &AmazonS3ConfigKey| {
        matches!(key, AmazonS3ConfigKey::AccessKeyId | AmazonS3ConfigKey::SecretAccessKey | AmazonS3ConfigKey::Token)
    };
    let has_keys = given(&AmazonS3ConfigKey::AccessKeyId) && named.is_none();
    profile::settings(named)
        .into_iter()
        .filter_map(|(key, value)| Some((key.parse::<AmazonS3ConfigKey>().ok()?, value)))
        .filter(|(key, _)| if is_key(key) { !has_keys } else { named.is_some() || !given(key) })
        .collect()
}

/// Marks a request whose body goes past `object_store`.
#[derive(Debug, Clone)]
struct Straight;

/// What went over the wire while a future ran. It runs in one thread from beginning to end, so that is where it is kept.
#[derive(Default)]
struct Exchange {
    watch: Option<Watch>,
    status: u16,
    /// Code and message of an error, from its body.
    said: String,
    region: Option<String>,
    after: Option<Duration>,
    failed: Option<io::Error>,
    body: Option<Body>,
}

thread_local! {
    static EXCHANGE: RefCell<Exchange> = RefCell::default();
}

fn with_exchange<T>(watch: &Watch, future: impl Future<Output = T>) -> (T, Exchange) {
    EXCHANGE.set(Exchange { watch: Some(watch.clone()), ..Exchange::default() });
    let value = block_on(future);
    (value, EXCHANGE.take())
}

/// Runs a future in this thread. Its requests block; all else that it may wait for is another thread that has the same
/// token to fetch.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// Gives `object_store` its connections.
#[derive(Debug, Clone)]
struct Connector {
    connect: Duration,
    stall: Duration,
}

impl HttpConnector for Connector {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[async_trait::async_trait]
impl HttpService for Connector {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        self.exchange(request).map_err(|error| {
            let kind =
                if error.kind() == io::ErrorKind::TimedOut { HttpErrorKind::Timeout } else { HttpErrorKind::Request };
            let told = io::Error::new(error.kind(), error.to_string());
            EXCHANGE.with_borrow_mut(|seen| seen.failed = Some(error));
            HttpError::new(kind, told)
        })
    }
}

impl Connector {
    fn exchange(&self, request: HttpRequest) -> io::Result<HttpResponse> {
        let (parts, body) = request.into_parts();
        let url = Url::parse(&parts.uri.to_string()).map_err(io::Error::other)?;
        let host = host(&url, false).ok_or_else(|| io::Error::other("the address of the store has no host"))?;
        let body = pieces(body)?;
        let body: Vec<&[u8]> = body.iter().map(|piece| &piece[..]).collect();
        let length: u64 = body.iter().map(|piece| piece.len() as u64).sum();
        let watch = EXCHANGE
            .with_borrow(|seen| seen.watch.clone())
            .unwrap_or_else(|| Watch::new(&url.as_str().into(), &Arc::default(), self.stall, length));
        let mut headers: Vec<(&str, &[u8])> = vec![("user-agent", AGENT.as_bytes())];
        // The name of the host is part of what is signed, but it is the same as that of the connection; the length too.
        let named =
            parts.headers.iter().filter(|(name, _)| !matches!(name.as_str(), "host" | "content-length" | "user-agent"));
        headers.extend(named.map(|(name, value)| (name.as_str(), value.as_bytes())));
        let target = &url[url::Position::BeforePath..url::Position::AfterQuery];
        let request = Request { method: parts.method.as_str(), target, headers, body: &body };
        let response = match gives_credentials(&host.name) {
            false => exchange(&host, &request, self.connect, &watch)?,
            true => exchange(&host, &request, self.connect.min(NEIGHBOUR), &watch).map_err(no_credentials)?,
        };
        self.pass_on(response, parts.extensions.get::<Straight>().is_some())
    }

    /// Notes what was said, and makes of it what `object_store` wants.
    fn pass_on(&self, mut response: Response, straight: bool) -> io::Result<HttpResponse> {
        let region = response.header("x-amz-bucket-region").map(str::to_owned);
        let after = response.header("retry-after").and_then(|s| s.parse().ok()).map(Duration::from_secs);
        let mut out = http::Response::builder().status(response.status);
        for (name, value) in &response.headers {
            out = out.header(name, value.as_slice());
        }
        let good = (200..300).contains(&response.status);
        let mut said = String::new();
        let (body, passed) = if straight && good {
            (Some(response.body), Bytes::new())
        } else {
            let bytes = response.body.all(SMALL)?;
            if !good {
                said = message(&bytes);
            }
            (None, Bytes::from(bytes))
        };
        let status = response.status;
        EXCHANGE.with_borrow_mut(|seen| {
            let watch = seen.watch.take();
            *seen = Exchange { watch, status, said, after, body, failed: None, region: region.filter(|_| !good) };
        });
        out.body(HttpResponseBody::from(passed)).map_err(io::Error::other)
    }
}

/// Whether a host is the one that tells machines of a cloud who they are. Elsewhere there is none, and nobody answers.
fn gives_credentials(host: &str) -> bool {
    matches!(host, "169.254.169.254" | "[fd00:ec2::254]" | "metadata.google.internal" | "metadata")
}

fn no_credentials(error: io::Error) -> io::Error {
    if is_cancelled(&error) {
        return error;
    }
    let what = "no credentials are set, and this machine has none of its own (for public files set anonymous=true)";
    io::Error::new(io::ErrorKind::PermissionDenied, what)
}

/// The parts of a body, which are all there already.
fn pieces(body: object_store::client::HttpRequestBody) -> io::Result<Vec<Bytes>> {
    let mut body = pin!(body);
    let mut pieces = Vec::new();
    while let Poll::Ready(Some(frame)) = body.as_mut().poll_frame(&mut Context::from_waker(Waker::noop())) {
        if let Ok(data) = frame.map_err(io::Error::other)?.into_data() {
            pieces.push(data);
        }
    }
    Ok(pieces)
}

/// Code and message of an error in XML, which all three stores speak.
fn message(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(8 << 10)]).into_owned();
    let between = |tag: &str| {
        let (_, rest) = text.split_once(&format!("<{tag}>"))?;
        Some(rest.split('<').next()?.trim().chars().filter(|c| !c.is_control()).take(200).collect::<String>())
    };
    [between("Code"), between("Message")].into_iter().flatten().collect::<Vec<_>>().join(", ")
}
