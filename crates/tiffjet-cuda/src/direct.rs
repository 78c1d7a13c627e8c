//! Bytes from storage straight to device memory: which files can, what is asked for, and what came short.

use std::sync::Arc;

use tiffjet::{Error, Fallback, Io, ReadJob, ReadOptions, Result};

use crate::ffi::cufile::{Batches, CuFile, OpenFile, Request, WANTED};
use crate::memory::{Gpu, unavailable_library};

/// The files of a read that go straight to the device.
pub struct Direct {
    /// What reads them.
    pub library: &'static CuFile,
    files: Vec<Arc<OpenFile>>,
    /// For each job its file.
    file_of: Vec<Option<usize>>,
    /// How many reads it takes in batches, where it takes some.
    pub batches: Option<Batches>,
}

impl Direct {
    /// Looks which files of a read can go that way; where they were asked to and can't, says why.
    pub fn new(gpu: &Gpu, jobs: &[ReadJob<'_>], options: &ReadOptions) -> Result<(Option<Self>, Vec<String>)> {
        let asked = options.io == Io::Direct;
        // Copies by way of the host are what staging does, and does faster.
        if !asked && (options.io == Io::Staged || !CuFile::is_direct()) {
            return Ok((None, Vec::new()));
        }
        let refused = |error: Error, why: String| match (asked, options.fallback) {
            (true, Fallback::Forbid) => Err(error),
            (true, Fallback::Allow) => Ok((None, vec![format!("all bytes read by the host: {why}")])),
            _ => Ok((None, Vec::new())),
        };
        let library = match CuFile::get() {
            Ok(library) => library,
            Err(missing) => return refused(unavailable_library(missing), missing.to_string()),
        };
        let opened = gpu.enter().and_then(|_current| library.open());
        if let Err(failure) = opened {
            return refused(gpu.refused(jobs[0].source.name(), &failure), failure.to_string());
        }
        let mut direct = Self { library, files: Vec::new(), file_of: Vec::new(), batches: library.batches() };
        let mut notes = Vec::new();
        for (i, job) in jobs.iter().enumerate() {
            let same = |before: &ReadJob<'_>| std::ptr::addr_eq(before.source, job.source);
            let found = match jobs[..i].iter().rposition(same) {
                Some(before) => direct.file_of[before],
                None => match direct.open(gpu, job) {
                    Ok(file) => Some(file),
                    Err(error) if asked && options.fallback == Fallback::Forbid => return Err(error),
                    Err(error) => {
                        notes.extend(asked.then(|| format!("read by the host: {error}")));
                        None
                    }
                },
            };
            direct.file_of.push(found);
        }
        if asked && !CuFile::is_direct() && !direct.files.is_empty() {
            let copies = "this machine has no GPUDirect Storage, so it copies by way of the host";
            notes.push(format!("bytes read by {}: {copies}", WANTED.name));
        }
        Ok(((!direct.files.is_empty()).then_some(direct), notes))
    }

    fn open(&mut self, gpu: &Gpu, job: &ReadJob<'_>) -> Result<usize> {
        let name = job.source.name();
        let Some(file) = job.source.file() else {
            return Err(Error::unsupported(name, format!("reading it by {}", WANTED.name), "it is no plain file"));
        };
        let opened = gpu.enter().and_then(|_current| self.library.file(file));
        self.files.push(Arc::new(opened.map_err(|failure| gpu.refused(name, &failure))?));
        Ok(self.files.len() - 1)
    }

    /// The file of a job.
    pub fn file_of(&self, job: usize) -> Option<usize> {
        self.file_of[job]
    }

    /// All files, for a transfer.
    pub fn files(&self) -> Vec<Arc<OpenFile>> {
        self.files.clone()
    }
}

/// What is missing of reads that came short: file, first byte and end.
pub fn missing(requests: &[Request], read: &[isize]) -> Vec<(usize, u64, u64)> {
    let short = |(request, read): (&Request, &isize)| {
        let got = u64::try_from(*read).unwrap_or(0);
        (got < request.length).then_some((request.file, request.start + got, request.start + request.length))
    };
    requests.iter().zip(read).filter_map(short).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_short_is_known_to_the_byte() {
        let request = |start, length| Request { file: 3, start, length, at: 0 };
        let requests = [request(0, 8192), request(8192, 8192), request(16384, 100), request(20480, 4096)];
        assert_eq!(missing(&requests, &[8192, 5000, 100, -5]), [(3, 13192, 16384), (3, 20480, 24576)]);
    }
}
