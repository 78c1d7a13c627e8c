//! Pixels in device memory.

use std::collections::VecDeque;
use std::sync::Arc;

use tiffjet::{Device, Error, Storage};

use crate::ffi::driver::{Failure, Stream};
use crate::memory::{Gpu, SLOT, Slot, is_forked};

/// DLPack's number for CUDA devices.
const CUDA: i32 = 2;
/// Slots on their way back to the host at once.
const AHEAD: usize = 4;

/// A device in DLPack's words.
pub fn device(gpu: &Gpu) -> Device {
    Device { kind: CUDA, id: gpu.info.ordinal }
}

/// Device memory that goes back to its pool when the last owner is gone.
pub struct DeviceBuffer {
    gpu: Arc<Gpu>,
    address: u64,
    length: u64,
}

impl DeviceBuffer {
    /// Memory that work after this in the stream can use.
    pub fn take(gpu: &Arc<Gpu>, stream: &Stream, length: u64) -> Result<Self, Failure> {
        let address = stream.take(gpu.pool(), length)?;
        Ok(Self { gpu: gpu.clone(), address, length })
    }

    /// Where it begins.
    pub fn address(&self) -> u64 {
        self.address
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        if is_forked() {
            return; // it is the parent's
        }
        // A driver that does not answer any more has nothing to give back to.
        let _ = self.gpu.enter().and_then(|_current| self.gpu.frees.give_back(self.address));
    }
}

impl Storage for DeviceBuffer {
    fn address(&self) -> usize {
        self.address as usize
    }

    fn length(&self) -> usize {
        self.length as usize
    }

    fn device(&self) -> Device {
        device(&self.gpu)
    }

    fn host(&self) -> Option<&[u8]> {
        None
    }

    fn to_host(&self, out: &mut [u8]) -> tiffjet::Result<()> {
        let name: Arc<str> = self.gpu.device.as_str().into();
        if out.len() as u64 != self.length {
            let what = format!("{} bytes for a copy of {}", out.len(), self.length);
            return Err(Error::invalid(&name, what));
        }
        let copied = self.gpu.enter().and_then(|_current| {
            let streams = self.gpu.take_streams()?;
            let copied = download(&self.gpu, &streams.lanes[0], self.address, out);
            self.gpu.give_streams(streams);
            copied
        });
        copied.map_err(|failure| self.gpu.refused(&name, &failure))
    }
}

/// Copies device memory to the host, behind what the stream has, through the ring.
pub fn download(gpu: &Gpu, stream: &Stream, address: u64, out: &mut [u8]) -> Result<(), Failure> {
    let mut waiting: VecDeque<(Slot, &mut [u8])> = VecDeque::new();
    let outcome = out.chunks_mut(SLOT).enumerate().try_for_each(|(i, piece)| {
        if waiting.len() == AHEAD {
            land(gpu, &mut waiting)?;
        }
        let mut slot = slot(gpu, &mut waiting)?;
        let copied = stream
            .download(address + (i * SLOT) as u64, &mut slot.memory, piece.len())
            .and_then(|()| slot.copied(stream, gpu.is_shared()));
        waiting.push_back((slot, piece));
        copied
    });
    while !waiting.is_empty() {
        let landed = land(gpu, &mut waiting);
        if outcome.is_ok() {
            landed?;
        }
    }
    outcome
}

/// A slot for one copy more. Where there is none, those that are waited for go back first.
fn slot(gpu: &Gpu, waiting: &mut VecDeque<(Slot, &mut [u8])>) -> Result<Slot, Failure> {
    while !waiting.is_empty() {
        if let Some(slot) = gpu.ring.take_free()? {
            return Ok(slot);
        }
        land(gpu, waiting)?;
    }
    gpu.ring.take()
}

/// Takes the oldest copy out of its slot.
fn land(gpu: &Gpu, waiting: &mut VecDeque<(Slot, &mut [u8])>) -> Result<(), Failure> {
    let Some((mut slot, piece)) = waiting.pop_front() else { return Ok(()) };
    let settled = slot.settle();
    if settled.is_ok() {
        piece.copy_from_slice(&slot.memory.bytes()[..piece.len()]);
    }
    gpu.ring.give_back(slot);
    settled
}
