//! Memory for libraries: what they ask for comes from the pool of the device, and why it was refused is kept.

#![allow(unsafe_code)] // libraries call back with raw pointers

use std::ffi::{c_int, c_void};
use std::sync::{Mutex, PoisonError};

use super::driver::{Failure, Handle, Pool};

type Take = unsafe extern "C" fn(*mut c_void, *mut *mut c_void, usize, Handle) -> c_int;
type GiveBack = unsafe extern "C" fn(*mut c_void, *mut c_void, usize, Handle) -> c_int;

/// How a library takes memory and gives it back, as several of them have the struct.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Allocator {
    take: Take,
    give_back: GiveBack,
    lender: *const Lender,
}

/// Who lends. It lives as long as the process: libraries keep its address.
#[derive(Debug)]
pub struct Lender {
    pool: Pool,
    refused: Mutex<Option<Failure>>,
}

impl Lender {
    /// Lends from a pool.
    pub fn new(pool: &Pool) -> &'static Self {
        Box::leak(Box::new(Self { pool: *pool, refused: Mutex::default() }))
    }

    /// Device memory.
    pub fn device(&'static self) -> Allocator {
        Allocator { take: take_device, give_back: give_back_device, lender: self }
    }

    /// Page-locked memory.
    pub fn locked(&'static self) -> Allocator {
        Allocator { take: take_locked, give_back: give_back_locked, lender: self }
    }

    /// Why memory was refused, since this was last asked.
    pub fn refused(&self) -> Option<Failure> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn answer<T>(&self, outcome: Result<T, Failure>) -> Result<T, c_int> {
        outcome.map_err(|failure| {
            let code = failure.code;
            *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
            if code == 0 { -1 } else { code }
        })
    }
}

unsafe extern "C" fn take_device(lender: *mut c_void, out: *mut *mut c_void, length: usize, stream: Handle) -> c_int {
    // SAFETY: the library passes the lender that its allocator names, which is never dropped.
    let lender = unsafe { &*lender.cast::<Lender>() };
    match lender.answer(lender.pool.lend(length.max(1), stream)) {
        Ok(address) => {
            // SAFETY: the library gives room for an address.
            unsafe { *out = address as *mut c_void };
            0
        }
        Err(code) => code,
    }
}

unsafe extern "C" fn give_back_device(lender: *mut c_void, at: *mut c_void, _length: usize, stream: Handle) -> c_int {
    // SAFETY: as above.
    let lender = unsafe { &*lender.cast::<Lender>() };
    lender.answer(lender.pool.take_back(at as u64, stream)).err().unwrap_or(0)
}

unsafe extern "C" fn take_locked(lender: *mut c_void, out: *mut *mut c_void, length: usize, _stream: Handle) -> c_int {
    // SAFETY: as above.
    let lender = unsafe { &*lender.cast::<Lender>() };
    match lender.answer(lender.pool.lend_locked(length.max(1))) {
        Ok(address) => {
            // SAFETY: the library gives room for an address.
            unsafe { *out = address };
            0
        }
        Err(code) => code,
    }
}

unsafe extern "C" fn give_back_locked(lender: *mut c_void, at: *mut c_void, _length: usize, _stream: Handle) -> c_int {
    // SAFETY: as above.
    let lender = unsafe { &*lender.cast::<Lender>() };
    lender.answer(lender.pool.take_back_locked(at)).err().unwrap_or(0)
}

/// Why a library did not do as asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// It does not take these data: somebody else may.
    Data(Failure),
    /// It can't go on: the device or its memory failed.
    Failed(Failure),
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// What a status of nvJPEG or nvJPEG2000 means: they count alike.
pub fn checked(lender: &Lender, call: &'static str, code: c_int) -> Result<(), Refusal> {
    const ALLOCATOR_FAILURE: c_int = 5;
    let reason = match code {
        0 => return Ok(()),
        1 => "not initialised",
        2 => "invalid parameter",
        3 => "bad data",
        4 => "data that are not supported",
        ALLOCATOR_FAILURE => "no memory",
        6 => "execution failed",
        7 => "the device can't do it",
        8 => "internal error",
        9 => "not supported by the implementation",
        10 => "incomplete data",
        _ => "unknown",
    };
    let failure = Failure { call, code, reason: reason.to_owned() };
    match lender.refused().filter(|_| code == ALLOCATOR_FAILURE) {
        // What the driver said is the news, not that the library heard it.
        Some(refused) => Err(Refusal::Failed(refused)),
        None => Err(Refusal::Data(failure)),
    }
}
