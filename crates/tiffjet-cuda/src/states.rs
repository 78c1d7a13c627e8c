//! States of libraries, kept from read to read. Each has memory of its own, so there are as many as work at once.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};

use crate::ffi::lend::Refusal;
use crate::ffi::{nvjpeg, nvjpeg2k};

/// What makes states: a decoder or an encoder.
pub trait Maker: Send + Sync {
    /// What decodes or encodes one thing at a time.
    type State: Send;

    /// A new one.
    fn make(&self) -> Result<Self::State, Refusal>;

    /// Whether its last work is done, so that taking it waits for nothing.
    fn is_settled(state: &Self::State) -> bool;

    /// Bytes of the largest work it had: for as much it has memory.
    fn room(state: &Self::State) -> usize;
}

/// States that are looked at for the one that fits best.
const LOOKED_AT: usize = 4;

/// Makers of libraries, with their states.
macro_rules! makers {
    ($($maker:ty => $state:ty),* $(,)?) => {$(
        impl Maker for $maker {
            type State = $state;

            fn make(&self) -> Result<Self::State, Refusal> {
                self.state()
            }

            fn is_settled(state: &Self::State) -> bool {
                state.is_settled()
            }

            fn room(state: &Self::State) -> usize {
                state.room()
            }
        }
    )*};
}

makers! {
    nvjpeg2k::Decoder => nvjpeg2k::State,
    nvjpeg2k::Encoder => nvjpeg2k::EncodeState,
    nvjpeg::Decoder => nvjpeg::State,
    nvjpeg::Encoder => nvjpeg::EncodeState,
}

/// The states of one maker.
pub struct States<M: Maker> {
    maker: M,
    most: usize,
    kept: Mutex<Kept<M::State>>,
    back: Condvar,
}

struct Kept<S> {
    /// Given back, the oldest first: its work is done soonest.
    idle: VecDeque<S>,
    made: usize,
}

impl<S> Kept<S> {
    /// Of the oldest that are done, the smallest that is large enough, or the largest.
    fn fitting<M: Maker<State = S>>(&self, bytes: usize) -> Option<usize> {
        let settled = self.idle.iter().enumerate().take(LOOKED_AT).filter(|(_, state)| M::is_settled(state));
        let room = |state: &S| match M::room(state) {
            room if room >= bytes => (false, room),
            room => (true, usize::MAX - room),
        };
        settled.min_by_key(|(_, state)| room(state)).map(|(at, _)| at)
    }
}

impl<M: Maker> States<M> {
    /// At most so many.
    pub fn new(maker: M, most: usize) -> Self {
        let kept = Mutex::new(Kept { idle: VecDeque::new(), made: 0 });
        Self { maker, most, kept, back: Condvar::new() }
    }

    /// Takes one for work of so many bytes, best one that had as much before: it need not ask for memory. It waits for its
    /// own last work when it is next used, and for nothing else.
    pub fn take(&self, bytes: usize) -> Result<M::State, Refusal> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let oldest = (kept.made >= self.most).then_some(0);
            if let Some(state) = kept.fitting::<M>(bytes).or(oldest).and_then(|at| kept.idle.remove(at)) {
                return Ok(state);
            }
            if kept.made < self.most {
                kept.made += 1;
                drop(kept);
                return self.maker.make().inspect_err(|_| self.lose());
            }
            kept = self.back.wait(kept).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Takes one more where that waits for nothing: who has one already must not wait for another.
    pub fn take_free(&self) -> Result<Option<M::State>, Refusal> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.idle.front().is_some_and(M::is_settled) {
            return Ok(kept.idle.pop_front());
        }
        if kept.made >= self.most {
            return Ok(None);
        }
        kept.made += 1;
        drop(kept);
        self.maker.make().map(Some).inspect_err(|_| self.lose())
    }

    /// Gives it back.
    pub fn give_back(&self, state: M::State) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).idle.push_back(state);
        self.back.notify_one();
    }

    fn lose(&self) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).made -= 1;
        self.back.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[derive(Default)]
    struct Counter(AtomicUsize);

    impl Maker for Counter {
        /// Number, whether it is done, and room.
        type State = (usize, bool, usize);

        fn make(&self) -> Result<Self::State, Refusal> {
            Ok((self.0.fetch_add(1, Ordering::Relaxed), false, 0))
        }

        fn is_settled(state: &Self::State) -> bool {
            state.1
        }

        fn room(state: &Self::State) -> usize {
            state.2
        }
    }

    #[test]
    fn a_settled_one_goes_before_a_new_one_and_a_new_one_before_a_wait() {
        let states = States::new(Counter::default(), 2);
        states.give_back(states.take(0).unwrap());
        let second = states.take(0).unwrap();
        assert_eq!(second.0, 1, "the first one is still at work");
        states.give_back((1, true, 0));
        // The oldest is waited for when there are enough, but not by one who need not.
        assert_eq!(states.take_free().unwrap(), None);
        // The first is not done, but the second is.
        assert_eq!(states.take(0).unwrap().0, 1);
        assert_eq!(states.take(0).unwrap().0, 0);
    }

    #[test]
    fn the_smallest_that_is_large_enough_is_taken_or_the_largest() {
        let states = States::new(Counter::default(), 3);
        for number in 0..3 {
            assert_eq!(states.take(0).unwrap().0, number);
        }
        [(0, true, 30), (1, true, 10), (2, true, 20)].into_iter().for_each(|state| states.give_back(state));
        assert_eq!(states.take(15).unwrap().0, 2);
        assert_eq!(states.take(15).unwrap().0, 0);
        assert_eq!(states.take(15).unwrap().0, 1);
    }
}
