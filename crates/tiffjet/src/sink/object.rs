//! An object of an object store, uploaded in parts while it is written.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use super::{Patches, Sink};
use crate::error::{Error, Result};
use crate::interrupt::wanted;
use crate::net::{Bucket, Condition, Failure, Origin, Part, Watch, persist};
use crate::source::{Remote, lanes, redacted};

/// Parts under way at once.
const AT_ONCE: usize = 4;
/// Bytes of an object that tell it from others.
const FIRST: usize = 64 << 10;
/// Stores take ten thousand parts; after so many of one size, parts are twice as large.
const OF_ONE_SIZE: usize = 1250;

/// Uploads an object in parts. It appears when all are there and the upload is completed; dropped before that, the parts go.
/// The parts with the first bytes are sent last, so that what was written first can be written over.
pub struct ObjectSink {
    name: Arc<str>,
    bucket: Arc<Bucket>,
    remote: Remote,
    /// The first parts, as many as the first write reached into.
    held: Vec<u8>,
    /// Bytes of them, once that is known.
    hold: Option<usize>,
    /// The part that is being filled.
    open: Vec<u8>,
    /// Its number.
    number: usize,
    /// Bytes that can be written over.
    patchable: usize,
    /// Bytes written.
    length: u64,
    /// The first bytes, where they are on their way already.
    first: Vec<u8>,
    upload: Option<Upload>,
}

/// An upload that has begun.
struct Upload {
    id: String,
    /// The process whose lanes send.
    process: u32,
    stop: Arc<AtomicBool>,
    sender: Sender<(usize, Result<Part>)>,
    receiver: Receiver<(usize, Result<Part>)>,
    under_way: usize,
    parts: Vec<Option<Part>>,
    completed: bool,
}

impl std::fmt::Debug for ObjectSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ObjectSink").field("name", &self.name).finish_non_exhaustive()
    }
}

impl ObjectSink {
    /// For the object of an address. Makes no request: an object that fits into one part is sent with the only one.
    pub fn create(url: &str, remote: &Remote) -> Result<Self> {
        let name: Arc<str> = redacted(url).into();
        let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme).to_ascii_lowercase();
        if matches!(scheme.as_str(), "http" | "https") {
            let hint = "write to a file, or to s3://, gs:// or az://";
            return Err(Error::unsupported(&name, format!("writing to {scheme}://"), hint));
        }
        let bucket = Arc::new(Bucket::new(&name, url, remote)?);
        let remote = remote.clone();
        Ok(Self {
            name,
            bucket,
            remote,
            held: Vec::new(),
            hold: None,
            open: Vec::new(),
            number: 0,
            patchable: 0,
            length: 0,
            first: Vec::new(),
            upload: None,
        })
    }

    fn part_bytes(&self, number: usize) -> usize {
        self.remote.part_bytes << (number / OF_ONE_SIZE).min(7)
    }

    /// A request with its retries.
    fn ask<T>(&self, stop: &Arc<AtomicBool>, once: impl Fn(&Watch) -> Result<T, Failure>) -> Result<T> {
        let watch = || Watch::new(&self.name, stop, self.remote.timeout, 0);
        persist(&self.remote, &watch(), || once(&watch())).map_err(|failure| failure.error(&self.name))
    }

    /// The upload, begun when its first part is there.
    fn upload(&mut self) -> Result<&mut Upload> {
        if self.upload.is_none() {
            let id = self.ask(&Arc::default(), |watch| self.bucket.begin(watch))?;
            let (sender, receiver) = channel();
            let (stop, process) = (Arc::default(), std::process::id());
            let parts = Vec::new();
            self.upload = Some(Upload { id, process, stop, sender, receiver, under_way: 0, parts, completed: false });
        }
        self.upload.as_mut().ok_or_else(|| Error::Cancelled { name: self.name.clone() })
    }

    /// Sends a part as soon as one of those under way has arrived.
    fn send(&mut self, number: usize, bytes: Vec<u8>) -> Result<()> {
        let (name, bucket, remote) = (self.name.clone(), self.bucket.clone(), self.remote.clone());
        let upload = self.upload()?;
        while upload.under_way >= AT_ONCE {
            upload.wait(&name)?;
        }
        let (id, stop, sender) = (upload.id.clone(), upload.stop.clone(), upload.sender.clone());
        upload.under_way += 1;
        upload.parts.resize_with(upload.parts.len().max(number + 1), || None);
        let bytes = bytes::Bytes::from(bytes);
        lanes()?.spawn(move || {
            let watch = || Watch::new(&name, &stop, remote.timeout, bytes.len() as u64);
            let sent = persist(&remote, &watch(), || bucket.part(&id, number, bytes.clone(), &watch()));
            // Nobody listens where the sink is gone.
            drop(sender.send((number, sent.map_err(|failure| failure.error(&name)))));
        });
        Ok(())
    }

    /// Makes an object of the parts. Stores may take minutes for it. Where the answer to a try is lost and the next one finds no
    /// such upload, the object itself tells whether it is the one.
    fn complete(&self, id: &str, parts: &[Part], first: &[u8]) -> Result<()> {
        let stall = self.remote.timeout.saturating_mul(10);
        let watch = || Watch::new(&self.name, &Arc::default(), stall, 0);
        let tries = Cell::new(0);
        let outcome = persist(&self.remote, &watch(), || {
            tries.set(tries.get() + 1);
            self.bucket.complete(id, parts, &watch())
        });
        match outcome.map_err(|failure| failure.error(&self.name)) {
            Err(Error::Io { source, .. })
                if source.kind() == std::io::ErrorKind::NotFound && tries.get() > 1 && self.begins_with(first) =>
            {
                Ok(())
            }
            outcome => outcome,
        }
    }

    /// Whether the object there is has these bytes first, and as many as were written. Directories stand among them, which
    /// name the place of every tile.
    fn begins_with(&self, first: &[u8]) -> bool {
        let answer = self.ask(&Arc::default(), |watch| self.bucket.get(0..first.len() as u64, Condition::Any, watch));
        let Ok(mut answer) = answer else { return false };
        let mut bytes = vec![0; first.len()];
        let mut filled = 0;
        while let Some(room) = bytes.get_mut(filled..).filter(|room| !room.is_empty())
            && let Ok(n @ 1..) = answer.body.read(room)
        {
            filled += n;
        }
        answer.total == self.length && bytes == first
    }

    /// The part that is being filled is full: sends it, or keeps it where it may still be written over.
    fn close(&mut self) -> Result<()> {
        let bytes = std::mem::take(&mut self.open);
        let number = self.number;
        self.number += 1;
        if self.held.len() < self.hold.unwrap_or(0) {
            self.held.extend(bytes);
            return Ok(());
        }
        self.send(number, bytes)
    }
}

/// Sends a part of an upload that another process has begun.
pub(super) fn send_part(url: &str, remote: &Remote, id: &str, number: usize, bytes: Vec<u8>) -> Result<String> {
    let sink = ObjectSink::create(url, remote)?;
    let bytes = bytes::Bytes::from(bytes);
    let watch = || Watch::new(&sink.name, &Arc::default(), remote.timeout, bytes.len() as u64);
    let sent = persist(remote, &watch(), || sink.bucket.part(id, number, bytes.clone(), &watch()));
    Ok(sent.map_err(|failure| failure.error(&sink.name))?.token())
}

impl Upload {
    /// Waits for one part.
    fn wait(&mut self, name: &Arc<str>) -> Result<()> {
        loop {
            match self.receiver.recv_timeout(Duration::from_millis(100)) {
                Ok((number, sent)) => {
                    self.under_way -= 1;
                    self.parts[number] = Some(sent?);
                    return Ok(());
                }
                Err(RecvTimeoutError::Timeout) => wanted(name)?,
                Err(RecvTimeoutError::Disconnected) => return Err(Error::Cancelled { name: name.clone() }),
            }
        }
    }

    /// Lets those that are under way end.
    fn settle(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // A fork has none of the threads that would say so.
        while self.under_way > 0 && self.process == std::process::id() && self.receiver.recv().is_ok() {
            self.under_way -= 1;
        }
    }
}

impl Sink for ObjectSink {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        self.length += bytes.len() as u64;
        if self.hold.is_none() && !bytes.is_empty() {
            self.patchable = bytes.len();
            self.hold = Some(bytes.len().next_multiple_of(self.remote.part_bytes));
        }
        while !bytes.is_empty() {
            let room = self.part_bytes(self.number) - self.open.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.open.extend_from_slice(now);
            bytes = later;
            // The last part waits for more: an object that ends with it needs no upload in parts.
            if self.open.len() == self.part_bytes(self.number) && (!bytes.is_empty() || self.upload.is_some()) {
                self.close()?;
            }
        }
        Ok(())
    }

    fn patches(&self) -> Patches {
        Patches::First
    }

    fn patch(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        let end = usize::try_from(at).ok().and_then(|at| at.checked_add(bytes.len()));
        let Some(end) = end.filter(|&end| end <= self.patchable) else {
            return Err(Error::io(&self.name, std::io::ErrorKind::Unsupported.into()));
        };
        // What is not held yet stands at the beginning of the open part.
        for (place, &byte) in (end - bytes.len()..end).zip(bytes) {
            match self.held.len() {
                held if place < held => self.held[place] = byte,
                held => self.open[place - held] = byte,
            }
        }
        Ok(())
    }

    fn share(&mut self) -> Result<String> {
        Ok(self.upload()?.id.clone())
    }

    fn adopt(&mut self, first: Vec<u8>, parts: &[String], bytes: u64) -> Result<()> {
        if self.length > 0 {
            return Err(Error::invalid(&self.name, "parts of others for a file that has begun"));
        }
        self.length = first.len() as u64 + bytes;
        // Nothing is written over any more.
        self.hold = Some(0);
        self.first = first[..first.len().min(FIRST)].to_vec();
        self.send(0, first)?;
        self.number = 1 + parts.len();
        let upload = self.upload()?;
        upload.parts.extend(parts.iter().map(|token| Some(Part::known(token))));
        Ok(())
    }

    fn commit(mut self: Box<Self>) -> Result<()> {
        if self.upload.is_none() && self.held.len() + self.open.len() <= self.remote.part_bytes {
            let whole = bytes::Bytes::from([std::mem::take(&mut self.held), std::mem::take(&mut self.open)].concat());
            let watch = || Watch::new(&self.name, &Arc::default(), self.remote.timeout, whole.len() as u64);
            let sent = persist(&self.remote, &watch(), || self.bucket.put(whole.clone(), &watch()));
            return sent.map_err(|failure| failure.error(&self.name));
        }
        if !self.open.is_empty() {
            let (number, bytes) = (self.number, std::mem::take(&mut self.open));
            self.send(number, bytes)?;
        }
        let held = std::mem::take(&mut self.held);
        let first = match self.hold {
            Some(0) => std::mem::take(&mut self.first),
            _ => held[..held.len().min(FIRST)].to_vec(),
        };
        for (number, part) in held.chunks(self.remote.part_bytes).enumerate() {
            self.send(number, part.to_vec())?;
        }
        let name = self.name.clone();
        let upload = self.upload()?;
        while upload.under_way > 0 {
            upload.wait(&name)?;
        }
        let parts: Option<Vec<Part>> = upload.parts.drain(..).collect();
        let parts = parts.ok_or_else(|| Error::Cancelled { name: name.clone() })?;
        let id = upload.id.clone();
        self.complete(&id, &parts, &first)?;
        self.upload()?.completed = true;
        Ok(())
    }
}

impl Drop for ObjectSink {
    fn drop(&mut self) {
        let Some(mut upload) = self.upload.take().filter(|upload| !upload.completed) else { return };
        upload.settle();
        // Where even this fails the store removes the parts by its own rules; an object there is not.
        let _ = self.ask(&Arc::default(), |watch| self.bucket.abort(&upload.id, watch));
    }
}
