//! Object stores: a small one that speaks the dialect of S3.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use tiffjet::sink::{self, MemorySink, Sink};
use tiffjet::source::Remote;
use tiffjet::{Blocks, DType, Error, Image, OpenOptions, RowsView, Window, WriteOptions, Writer};

use crate::cog;
use crate::server::{Fate, Reply, Request, Server};

/// Objects, and parts of those that are being uploaded, by upload and number.
#[derive(Default)]
struct Store {
    objects: HashMap<String, Vec<u8>>,
    uploads: HashMap<String, BTreeMap<usize, Vec<u8>>>,
    begun: usize,
    /// Numbers of parts in the order they came.
    order: Vec<usize>,
}

type Shared = Arc<Mutex<Store>>;

fn query<'a>(target: &'a str, name: &str) -> Option<&'a str> {
    let (_, query) = target.split_once('?')?;
    query.split('&').find_map(|pair| {
        let (n, value) = pair.split_once('=').unwrap_or((pair, ""));
        (n == name).then_some(value)
    })
}

fn answer(store: &Shared, request: &Request) -> Reply {
    let mut store = store.lock().unwrap();
    let path = request.target.split('?').next().unwrap().to_owned();
    let upload = query(&request.target, "uploadId").map(str::to_owned);
    match (request.method.as_str(), upload) {
        ("GET", _) => match store.objects.get(&path) {
            Some(object) => Reply::part(request, object, &format!("\"{}\"", object.len())),
            None => Reply::status(404).body("<Error><Code>NoSuchKey</Code><Message>It is not there.</Message></Error>"),
        },
        ("POST", None) => {
            store.begun += 1;
            let id = format!("u{}", store.begun);
            store.uploads.insert(id.clone(), BTreeMap::new());
            Reply::status(200).body(format!(
                "<InitiateMultipartUploadResult><UploadId>{id}</UploadId></InitiateMultipartUploadResult>"
            ))
        }
        ("PUT", Some(id)) => {
            let number: usize = query(&request.target, "partNumber").unwrap().parse().unwrap();
            store.order.push(number);
            match store.uploads.get_mut(&id) {
                Some(parts) => {
                    parts.insert(number, request.body.clone());
                    Reply::status(200).header("etag", format!("\"p{number}\""))
                }
                None => Reply::status(404),
            }
        }
        ("POST", Some(id)) => {
            let Some(parts) = store.uploads.remove(&id) else { return Reply::status(404) };
            // As the real one: numbers in the list must be those that came.
            let listed = String::from_utf8_lossy(&request.body).matches("<PartNumber>").count();
            assert_eq!(listed, parts.len());
            assert!(parts.values().rev().skip(1).all(|part| part.len() >= 5 << 20), "parts are too small");
            store.objects.insert(path, parts.into_values().collect::<Vec<_>>().concat());
            Reply::status(200)
                .body("<CompleteMultipartUploadResult><ETag>\"whole\"</ETag></CompleteMultipartUploadResult>")
        }
        ("DELETE", Some(id)) => {
            store.uploads.remove(&id);
            Reply::status(204)
        }
        ("PUT", None) => {
            store.objects.insert(path, request.body.clone());
            Reply::status(200).header("etag", "\"put\"")
        }
        _ => Reply::status(400),
    }
}

fn s3(change: impl Fn(&Request) -> Option<Reply> + Send + Sync + 'static) -> (Shared, Server) {
    let store = Shared::default();
    let inner = store.clone();
    let server = Server::start(move |request| change(request).unwrap_or_else(|| answer(&inner, request)));
    (store, server)
}

fn settings(server: &Server, more: &[(&str, &str)]) -> Remote {
    let endpoint = format!("http://127.0.0.1:{}", server.port);
    let all = [
        ("endpoint", endpoint.as_str()),
        ("region", "eu-central-1"),
        ("key", "AKIA"),
        ("secret", "hush"),
        ("timeout", "2"),
        ("retries", "3"),
        ("backoff", "0.01"),
        ("part_bytes", "5242880"),
    ];
    Remote::new(all.iter().chain(more).copied()).unwrap()
}

/// Pixels and how to write them; 24 MiB, more than four parts.
fn large(change: impl FnOnce(&mut WriteOptions)) -> (WriteOptions, Vec<u8>) {
    let mut options = WriteOptions::new([1, 3072, 4096], DType::UInt16);
    options.blocks = Blocks::Tiles { width: 512, height: 512 };
    options.compression = "none".into();
    change(&mut options);
    let pixels =
        (0..3072u32 * 4096).flat_map(|i| (i.wrapping_mul(2654435761) >> 16).to_le_bytes()[..2].to_vec()).collect();
    (options, pixels)
}

fn write(sink: Box<dyn Sink>, options: &WriteOptions, pixels: &[u8]) -> tiffjet::Result<()> {
    let cpu = Arc::new(tiffjet::Cpu::shared()?);
    let mut writer = Writer::create_on(cpu, sink, options)?;
    let [bands, height, width] = options.shape;
    for rows in pixels.chunks(512 * width * 2) {
        writer
            .push(&RowsView::new(rows, [bands, (rows.len() / width / 2).min(height), width], options.dtype).unwrap())?;
    }
    writer.finish().map(drop)
}

fn local(options: &WriteOptions, pixels: &[u8]) -> Vec<u8> {
    let sink = MemorySink::new();
    write(Box::new(sink.clone()), options, pixels).unwrap();
    sink.take().unwrap()
}

#[test]
fn objects_are_read_with_signed_requests_and_few_of_them() {
    let file = cog(256, 2048, |_| ());
    let (store, server) = s3(|_| None);
    store.lock().unwrap().objects.insert("/bucket/a%20b/c.tif".into(), file.bytes.to_vec());
    let options = OpenOptions { remote: settings(&server, &[]), ..OpenOptions::default() };
    let image = Image::open("s3://bucket/a b/c.tif", &options).unwrap();
    assert_eq!(server.log().len(), 1);
    assert_eq!(image.read(&Window::default()).unwrap().bytes().unwrap(), file.pixels);
    let log = server.log();
    assert_eq!(log.len(), 2);
    assert!(log.iter().all(|r| r.header("authorization").is_some_and(|a| a.starts_with("AWS4-HMAC-SHA256"))));
    assert!(log[1].header("if-match").is_some());
    // Whoever needs no key sends none.
    let options = OpenOptions { remote: settings(&server, &[("anon", "true")]), ..OpenOptions::default() };
    Image::open("s3://bucket/a b/c.tif", &options).unwrap();
    assert!(server.log()[2].header("authorization").is_none());
}

#[test]
fn errors_of_a_store_are_told_without_secrets() {
    let (_, server) = s3(|_| None);
    let options = OpenOptions { remote: settings(&server, &[]), ..OpenOptions::default() };
    let error = Image::open("s3://bucket/none.tif", &options).unwrap_err();
    assert!(matches!(&error, Error::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound), "{error}");
    assert!(error.to_string().contains("NoSuchKey, It is not there."), "{error}");
    assert!(!format!("{error:?}{options:?}").contains("hush"));
    for (key, url) in
        [("no_such_option", "s3://bucket/a.tif"), ("proxy_url", "s3://bucket/a.tif"), ("region", "gs://b/a.tif")]
    {
        let options = OpenOptions { remote: Remote::new([(key, "x")]).unwrap(), ..OpenOptions::default() };
        let error = Image::open(url, &options).unwrap_err();
        assert!(matches!(&error, Error::InvalidArgument { what, .. } if what.contains(key)), "{error}");
    }
}

#[test]
fn an_object_that_changes_or_a_busy_store_is_as_with_web_servers() {
    let file = cog(256, 2048, |_| ());
    let bytes = file.bytes.clone();
    let (_, server) = s3(move |request| {
        let etag = if request.number < 2 { "\"one\"" } else { "\"two\"" };
        Some(if request.number == 0 { Reply::status(503) } else { Reply::part(request, &bytes, etag) })
    });
    let options = OpenOptions { remote: settings(&server, &[]), ..OpenOptions::default() };
    let image = Image::open("s3://bucket/a.tif", &options).unwrap();
    let outcome = image.read(&Window::default());
    assert!(matches!(outcome, Err(Error::Changed { .. })), "{outcome:?}");
    // Cut short, and whole the next time.
    let bytes = file.bytes.clone();
    let (_, server) = s3(move |request| {
        let reply = Reply::part(request, &bytes, "\"one\"");
        Some(if request.number % 2 == 0 { reply.fate(Fate::Closed(500)) } else { reply })
    });
    let options = OpenOptions { remote: settings(&server, &[]), ..OpenOptions::default() };
    let image = Image::open("s3://bucket/b.tif", &options).unwrap();
    assert_eq!(image.read(&Window::default()).unwrap().bytes().unwrap(), file.pixels);
}

#[test]
fn a_store_in_another_region_is_asked_there() {
    let file = cog(64, 64, |_| ());
    let bytes = file.bytes.clone();
    let (_, server) = s3(move |request| {
        let there = request.header("authorization").is_some_and(|a| a.contains("/us-west-2/"));
        Some(match there {
            true => Reply::part(request, &bytes, "\"one\""),
            false => Reply::status(301).header("x-amz-bucket-region", "us-west-2"),
        })
    });
    let options = OpenOptions { remote: settings(&server, &[]), ..OpenOptions::default() };
    let image = Image::open("s3://bucket/a.tif", &options).unwrap();
    assert_eq!(image.read(&Window::default()).unwrap().bytes().unwrap(), file.pixels);
    assert_eq!(server.log().len(), 2);
}

#[test]
fn uploads_in_parts_give_the_same_bytes_as_files() {
    for cog in [true, false] {
        let (options, pixels) = large(|options| options.cog = cog);
        let (store, server) = s3(|_| None);
        let sink = sink::create("s3://bucket/out.tif", &settings(&server, &[])).unwrap();
        write(sink, &options, &pixels).unwrap();
        let store = store.lock().unwrap();
        assert!(store.objects["/bucket/out.tif"] == local(&options, &pixels), "cog: {cog}");
        assert!(store.uploads.is_empty());
        assert!(store.order.len() >= 5);
        // The part with the head, which is known last, goes last; four are under way at once.
        let place = store.order.iter().position(|&n| n == 1).unwrap();
        assert!(place + 4 >= store.order.len(), "{:?}", store.order);
    }
}

#[test]
fn small_objects_take_one_request() {
    let (store, server) = s3(|_| None);
    let file = cog(64, 64, |_| ());
    let sink = sink::create("s3://bucket/small.tif", &settings(&server, &[])).unwrap();
    write(sink, &file.options, &file.pixels).unwrap();
    assert!(store.lock().unwrap().objects["/bucket/small.tif"] == *file.bytes);
    assert_eq!(server.log().len(), 1);
}

#[test]
fn parts_that_fail_are_sent_again_or_all_is_given_up() {
    let (options, pixels) = large(|options| options.cog = true);
    // Every part fails once.
    let seen = Mutex::new(std::collections::HashSet::new());
    let (store, server) = s3(move |request| {
        let part = query(&request.target, "partNumber")?.to_owned();
        seen.lock().unwrap().insert(part).then(|| Reply::status(500))
    });
    let sink = sink::create("s3://bucket/out.tif", &settings(&server, &[])).unwrap();
    write(sink, &options, &pixels).unwrap();
    assert!(store.lock().unwrap().objects["/bucket/out.tif"] == local(&options, &pixels));
    // One fails always.
    let (store, server) = s3(|request| {
        (query(&request.target, "partNumber") == Some("3"))
            .then(|| Reply::status(403).body("<Error><Code>AccessDenied</Code></Error>"))
    });
    let sink = sink::create("s3://bucket/out.tif", &settings(&server, &[])).unwrap();
    let error = write(sink, &options, &pixels).unwrap_err();
    assert!(error.to_string().contains("AccessDenied"), "{error}");
    let store = store.lock().unwrap();
    assert!(store.objects.is_empty() && store.uploads.is_empty());
    assert!(server.log().iter().any(|r| r.method == "DELETE"));
}

#[test]
fn an_upload_whose_last_answer_is_lost_is_found_to_be_complete() {
    let (options, pixels) = large(|_| ());
    let (store, lost) = (Shared::default(), std::sync::atomic::AtomicBool::new(false));
    let inner = store.clone();
    let server = Server::start(move |request| {
        let reply = answer(&inner, request);
        let last = request.method == "POST" && query(&request.target, "uploadId").is_some();
        match last && !lost.swap(true, std::sync::atomic::Ordering::SeqCst) {
            true => reply.fate(Fate::Closed(10)),
            false => reply,
        }
    });
    let sink = sink::create("s3://bucket/out.tif", &settings(&server, &[])).unwrap();
    write(sink, &options, &pixels).unwrap();
    assert!(store.lock().unwrap().objects["/bucket/out.tif"] == local(&options, &pixels));
}

#[test]
fn an_upload_that_is_dropped_leaves_nothing() {
    let (options, pixels) = large(|_| ());
    let (store, server) = s3(|_| None);
    let sink = sink::create("s3://bucket/out.tif", &settings(&server, &[])).unwrap();
    let mut writer = Writer::create_on(Arc::new(tiffjet::Cpu::shared().unwrap()), sink, &options).unwrap();
    writer.push(&RowsView::new(&pixels[..2048 * 4096 * 2], [1, 2048, 4096], DType::UInt16).unwrap()).unwrap();
    assert_eq!(store.lock().unwrap().begun, 1);
    drop(writer);
    let store = store.lock().unwrap();
    assert!(store.objects.is_empty() && store.uploads.is_empty());
}

#[test]
fn web_servers_are_not_written_to() {
    let error = sink::create("https://example.com/a.tif", &Remote::default()).err().unwrap();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
}
