//! Servers that break the rules: an error that says so, or right pixels, and never a long wait.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use tiffjet::{Error, Image, Limits, OpenOptions, Window};

use crate::server::{Fate, Reply, Request, Server};
use crate::{File, cog, open, quick};

/// Longer than anything here may take, even on a busy machine.
const BOUND: Duration = Duration::from_secs(20);

/// Opens and reads all of a file from a server that answers as told, within bounds.
fn read(
    file: &File,
    reply: impl Fn(&Request, Reply) -> Reply + Send + Sync + 'static,
) -> (tiffjet::Result<Vec<u8>>, Server) {
    let bytes = file.bytes.clone();
    let server = Server::start(move |request| reply(request, Reply::part(request, &bytes, "\"one\"")));
    let begun = Instant::now();
    let all = || -> tiffjet::Result<Vec<u8>> {
        let image = open(&server.url("a.tif"))?;
        Ok(image.read(&Window::default())?.bytes().unwrap_or_default().to_vec())
    };
    let outcome = all();
    assert!(begun.elapsed() < BOUND, "{:?}", begun.elapsed());
    (outcome, server)
}

fn file() -> File {
    cog(256, 512, |_| ())
}

fn kind(outcome: &tiffjet::Result<Vec<u8>>) -> ErrorKind {
    match outcome {
        Err(Error::Io { source, .. }) => source.kind(),
        other => panic!("{other:?}"),
    }
}

/// What is wrong the first time for each part, and right the next.
fn once(wrong: impl Fn(Reply) -> Reply + Send + Sync + 'static) -> impl Fn(&Request, Reply) -> Reply + Send + Sync {
    let seen = std::sync::Mutex::new(std::collections::HashSet::new());
    move |request, reply| {
        let (_, end) = request.range().unwrap();
        if seen.lock().unwrap().insert(end) { wrong(reply) } else { reply }
    }
}

#[test]
fn what_ends_too_early_is_asked_for_again_from_there() {
    let file = file();
    let half = file.bytes.len() / 2;
    for fate in [Fate::Closed(0), Fate::Closed(1000), Fate::Reset(1000), Fate::Closed(half), Fate::Reset(half)] {
        let (outcome, server) = read(&file, once(move |reply| reply.fate(fate)));
        assert!(outcome.unwrap() == file.pixels, "{fate:?}");
        let log = server.log();
        assert!(log.len() <= 4, "{fate:?}: {} requests", log.len());
        if let Fate::Closed(1000) = fate {
            assert_eq!(log[3].range().unwrap().0, log[2].range().unwrap().0 + 1000);
        }
    }
    let (outcome, server) = read(&file, |_, reply| reply.fate(Fate::Closed(100)));
    assert_eq!(kind(&outcome), ErrorKind::UnexpectedEof);
    assert_eq!(server.log().len(), 4);
}

#[test]
fn a_server_that_falls_silent_is_given_up() {
    let file = file();
    let long = Duration::from_secs(30);
    let (outcome, _) = read(&file, once(move |reply| reply.fate(Fate::Stalled(50, long))));
    assert_eq!(outcome.unwrap(), file.pixels);
    let (outcome, server) = read(&file, move |_, reply| reply.fate(Fate::Stalled(50, long)));
    assert_eq!(kind(&outcome), ErrorKind::TimedOut);
    assert_eq!(server.log().len(), 4);
}

#[test]
fn a_server_that_drips_is_given_up_too() {
    // A byte comes long before the time is up, for ever.
    let file = file();
    let bytes = file.bytes.clone();
    let server = Server::start(move |request| {
        Reply::part(request, &bytes, "\"one\"").fate(Fate::Dripping(Duration::from_millis(50)))
    });
    let begun = Instant::now();
    let outcome = Image::open(server.url("a.tif"), &quick(&[("retries", "0")])).map(|_| Vec::new());
    assert_eq!(kind(&outcome), ErrorKind::TimedOut);
    assert!(begun.elapsed() < BOUND);
}

#[test]
fn busy_servers_are_asked_again_and_not_for_ever() {
    let file = file();
    for status in [500, 502, 503, 504, 429, 408] {
        let (outcome, server) = read(&file, once(move |_| Reply::status(status)));
        assert_eq!(outcome.unwrap(), file.pixels, "{status}");
        assert_eq!(server.log().len(), 4, "{status}");
    }
    let (outcome, server) = read(&file, |_, _| Reply::status(503));
    assert!(
        outcome.as_ref().unwrap_err().to_string().contains("503 Service Unavailable (tried 4 times)"),
        "{outcome:?}"
    );
    assert_eq!(server.log().len(), 4);
    // A burst in the middle.
    let (outcome, _) =
        read(&file, |request, reply| if (1..4).contains(&request.number) { Reply::status(503) } else { reply });
    assert_eq!(outcome.unwrap(), file.pixels);
}

#[test]
fn how_long_to_wait_is_the_servers_word() {
    let file = file();
    let begun = Instant::now();
    let (outcome, _) = read(&file, once(|_| Reply::status(503).header("retry-after", "1")));
    assert_eq!(outcome.unwrap(), file.pixels);
    assert!(begun.elapsed() >= Duration::from_secs(2));
}

#[test]
fn refusals_are_told_at_once_by_their_kind() {
    let file = file();
    for (status, expected) in [
        (401, ErrorKind::PermissionDenied),
        (403, ErrorKind::PermissionDenied),
        (404, ErrorKind::NotFound),
        (410, ErrorKind::NotFound),
        (418, ErrorKind::Other),
    ] {
        let (outcome, server) = read(&file, move |_, _| Reply::status(status));
        assert_eq!(kind(&outcome), expected);
        assert_eq!(server.log().len(), 1);
    }
}

#[test]
fn a_whole_file_instead_of_a_part_is_refused_unless_it_is_small() {
    let file = file();
    let bytes = file.bytes.clone();
    let (outcome, _) = read(&file, move |_, _| Reply::status(200).body(bytes.to_vec()));
    assert!(matches!(outcome, Err(Error::Unsupported { .. })), "{outcome:?}");
    let small = cog(64, 64, |_| ());
    let bytes = small.bytes.clone();
    let (outcome, server) = read(&small, move |_, _| Reply::status(200).body(bytes.to_vec()));
    assert_eq!(outcome.unwrap(), small.pixels);
    assert_eq!(server.log().len(), 1);
    // In the middle of reading, too.
    let bytes = file.bytes.clone();
    let (outcome, _) = read(&file, move |request, reply| match request.number {
        0 => reply,
        _ => Reply::status(200).body(bytes.to_vec()),
    });
    assert!(matches!(outcome, Err(Error::Unsupported { .. })), "{outcome:?}");
}

#[test]
fn bodies_that_are_longer_shorter_or_elsewhere_are_refused() {
    let file = file();
    let (outcome, _) = read(&file, |_, mut reply| {
        reply.body.push(0);
        reply
    });
    assert_eq!(kind(&outcome), ErrorKind::InvalidData);
    let (outcome, _) = read(&file, |_, mut reply| {
        reply.body.pop();
        reply
    });
    assert_eq!(kind(&outcome), ErrorKind::UnexpectedEof);
    let (outcome, _) = read(&file, |_, mut reply| {
        reply.body.push(0);
        reply.chunked = true;
        reply
    });
    assert_eq!(kind(&outcome), ErrorKind::InvalidData);
    for wrong in
        ["bytes 1-65536/200000", "bytes 0-65535/*", "bytes x", "bytes 0-18446744073709551615/18446744073709551615"]
    {
        let (outcome, _) = read(&file, move |_, mut reply| {
            reply.headers.retain(|(name, _)| name != "content-range");
            reply.header("content-range", wrong)
        });
        assert_eq!(kind(&outcome), ErrorKind::InvalidData, "{wrong}");
    }
    let (outcome, _) = read(&file, |_, reply| reply.header("content-encoding", "gzip"));
    assert_eq!(kind(&outcome), ErrorKind::InvalidData);
}

#[test]
fn ranges_that_are_refused_mean_an_empty_or_another_file() {
    let file = file();
    let (outcome, _) = read(&file, |_, _| Reply::status(416).header("content-range", "bytes */0"));
    assert!(matches!(outcome, Err(Error::Malformed { .. })), "{outcome:?}");
    let (outcome, _) = read(&file, |request, reply| if request.number == 0 { reply } else { Reply::status(416) });
    assert!(matches!(outcome, Err(Error::Changed { .. })), "{outcome:?}");
}

#[test]
fn a_file_that_changes_is_an_error_and_never_a_mixture() {
    let file = file();
    let other = cog(256, 512, |_| ()).bytes;
    // A server that knows conditions, one that does not, and ones without ETags.
    let (outcome, _) = read(&file, {
        let other = other.clone();
        move |request, reply| if request.number == 0 { reply } else { Reply::part(request, &other, "\"two\"") }
    });
    assert!(matches!(outcome, Err(Error::Changed { .. })), "{outcome:?}");
    let etag = |reply: Reply, etag: Option<&str>| {
        let mut reply = reply;
        reply.headers.retain(|(name, _)| name != "etag");
        match etag {
            Some(etag) => reply.header("etag", etag),
            None => reply,
        }
    };
    let (outcome, _) = read(&file, move |request, reply| etag(reply, (request.number > 0).then_some("\"two\"")));
    assert!(outcome.is_ok(), "it had no ETag at first: {outcome:?}");
    let (outcome, _) = read(&file, move |request, reply| {
        etag(reply, Some(if request.number == 0 { "W/\"one\"" } else { "W/\"two\"" }))
    });
    assert!(matches!(outcome, Err(Error::Changed { .. })), "{outcome:?}");
    let (outcome, _) = read(&file, move |request, reply| {
        let mut reply = etag(reply, None);
        if request.number > 0 {
            reply.headers.retain(|(name, _)| name != "last-modified");
            return reply.header("last-modified", "Mon, 16 Nov 2026 10:00:00 GMT");
        }
        reply
    });
    assert!(matches!(outcome, Err(Error::Changed { .. })), "{outcome:?}");
    let mut longer = file.bytes.to_vec();
    longer.push(0);
    let (outcome, _) = read(&file, move |request, reply| match request.number {
        0 => etag(reply, None),
        _ => etag(Reply::part(request, &longer, ""), None),
    });
    assert!(matches!(outcome, Err(Error::Changed { .. })), "{outcome:?}");
}

#[test]
fn what_is_no_http_is_refused() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        use std::io::Write;
        for mut stream in listener.incoming().flatten() {
            // A head without an end.
            std::thread::spawn(move || while stream.write_all(b"HTTP/1.1 200 OK\r\nx: y\r\nno line at all").is_ok() {});
        }
    });
    let begun = Instant::now();
    let error = open(&format!("http://127.0.0.1:{port}/a.tif")).unwrap_err();
    assert!(matches!(&error, Error::Io { source, .. } if source.kind() == ErrorKind::InvalidData), "{error}");
    assert!(begun.elapsed() < BOUND);
}

#[test]
fn redirects_are_followed_once_and_loops_are_not() {
    let file = file();
    let bytes = file.bytes.clone();
    let server = Server::start(move |request| match request.target.as_str() {
        "/old.tif" => Reply::status(302).header("location", "/new.tif"),
        "/loop.tif" => Reply::status(307).header("location", "/loop.tif"),
        "/nowhere.tif" => Reply::status(301),
        "/ftp.tif" => Reply::status(301).header("location", "ftp://127.0.0.1/x"),
        _ => Reply::part(request, &bytes, "\"one\""),
    });
    let image = open(&server.url("old.tif")).unwrap();
    assert_eq!(image.read(&Window::default()).unwrap().bytes().unwrap(), file.pixels);
    assert_eq!(server.take_log().iter().filter(|r| r.target == "/old.tif").count(), 1);
    for wrong in ["loop.tif", "nowhere.tif", "ftp.tif"] {
        let error = open(&server.url(wrong)).unwrap_err();
        assert!(matches!(&error, Error::Io { source, .. } if source.kind() == ErrorKind::InvalidData), "{error}");
        assert!(server.take_log().len() <= 6, "{wrong}");
    }
}

#[test]
fn redirects_to_another_host_take_no_credentials_along() {
    let file = file();
    let bytes = file.bytes.clone();
    let elsewhere = Server::start(move |request| Reply::part(request, &bytes, "\"one\""));
    let location = format!("http://localhost:{}/new.tif", elsewhere.port);
    let server = Server::start(move |_| Reply::status(302).header("location", location.clone()));
    let url = format!("http://me:word@127.0.0.1:{}/old.tif", server.port);
    let image = Image::open(&url, &quick(&[("header.x-key", "hush")])).unwrap();
    assert_eq!(image.read(&Window::default()).unwrap().bytes().unwrap(), file.pixels);
    let log = server.log();
    assert_eq!(log[0].header("authorization"), Some("Basic bWU6d29yZA=="));
    assert_eq!(log[0].header("x-key"), Some("hush"));
    assert!(elsewhere.log().iter().all(|r| r.header("authorization").is_none() && r.header("x-key").is_none()));
}

#[test]
fn private_addresses_are_refused_where_limits_say_so() {
    let file = file();
    let bytes = file.bytes.clone();
    let server = Server::start(move |request| Reply::part(request, &bytes, "\"one\""));
    let limits = Limits { private_hosts: false, ..Limits::default() };
    let strict = OpenOptions { limits, ..quick(&[]) };
    // A connection that others have left open is none of its business either.
    open(&server.url("a.tif")).unwrap();
    server.take_log();
    for host in ["127.0.0.1", "localhost", "[::1]", "0x7f.1", "169.254.169.254", "[::ffff:127.0.0.1]"] {
        let error = Image::open(format!("http://{host}:{}/a.tif", server.port), &strict).unwrap_err();
        assert!(
            matches!(&error, Error::Io { source, .. } if source.kind() == ErrorKind::PermissionDenied),
            "{host}: {error}"
        );
    }
    assert_eq!(server.log().len(), 0);
}

#[test]
fn secrets_are_in_no_text() {
    let server = Server::start(|_| Reply::status(403));
    let url = format!("http://me:word@127.0.0.1:{}/a.tif?X-Amz-Signature=hush", server.port);
    let options = quick(&[("header.x-key", "hush"), ("bearer_token", "hush")]);
    let error = Image::open(&url, &options).unwrap_err();
    for text in [format!("{error}"), format!("{error:?}"), format!("{options:?}")] {
        assert!(!text.contains("hush") && !text.contains("me:word"), "{text}");
    }
    assert!(server.log()[0].target.contains("X-Amz-Signature=hush"));
    // What makes a header of a line break is refused.
    let options = quick(&[("header.x-key", "a\r\nx-other: b")]);
    assert!(Image::open(server.url("a.tif"), &options).is_err());
    assert_eq!(server.log().len(), 1);
}

#[test]
fn nobody_waits_for_what_is_wanted_no_more() {
    // One request, and several in lanes.
    for file in [file(), cog(256, 16384, |_| ())] {
        let bytes = file.bytes.clone();
        let server = Server::start(move |request| match request.number {
            0 => Reply::part(request, &bytes, "\"one\""),
            _ => Reply::part(request, &bytes, "\"one\"").fate(Fate::Stalled(10, Duration::from_secs(60))),
        });
        let patient = quick(&[("timeout", "60")]);
        let image = Image::open(server.url("a.tif"), &patient).unwrap();
        let begun = Instant::now();
        let late = move || begun.elapsed() > Duration::from_millis(300);
        let outcome = tiffjet::interruptible(late, || image.read(&Window::default()));
        assert!(matches!(outcome, Err(Error::Cancelled { .. })), "{outcome:?}");
        assert!(begun.elapsed() < Duration::from_secs(10));
    }
}
