//! An answer on its way from the application to a client that may be slower.
//!
//! The writing side reads ahead of the client up to a bound per answer and one over all answers of
//! an application, so that a slow client holds memory and not a worker. Past either bound the
//! writer waits until the client has taken something.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::Frame;

use super::{BodyError, footprint};

/// Memory for answers that are read ahead, over all clients of an application.
#[derive(Debug)]
pub(crate) struct Budget {
    used: AtomicUsize,
    total_max: usize,
    /// With an eighth for what frames take beside their bytes, so that an answer as long as the
    /// bound fits.
    each_max: usize,
}

/// The side that reads from the application.
pub(crate) struct Writer(Arc<Pipe>);

/// The side that the client reads from.
pub struct Reader(Arc<Pipe>);

/// Whether the writer may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// There is room.
    Free,
    /// Nobody reads any more.
    Gone,
}

/// Memory in use for a part of an answer; given back when this is dropped.
struct Charge {
    pipe: Arc<Pipe>,
    bytes: usize,
}

/// A part of an answer on its way to a client's socket. The engine gathers some of them before it
/// writes, and they are in memory all the while.
struct Charged {
    bytes: Bytes,
    _charge: Charge,
}

struct Pipe {
    budget: Arc<Budget>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    frames: VecDeque<Frame<Bytes>>,
    /// What they take, and what the client's socket has not taken of those that were read.
    bytes: usize,
    end: Option<Result<(), BodyError>>,
    gone: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Budget {
    /// At most `each_max` bytes for one answer and `total_max` for all.
    pub(crate) fn new(each_max: usize, total_max: usize) -> Self {
        Self {
            used: AtomicUsize::new(0),
            total_max,
            each_max: each_max + each_max / 8,
        }
    }

    /// Bytes in use now.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

/// A pipe that begins with `frames`.
pub(crate) fn pipe(budget: &Arc<Budget>, frames: VecDeque<Frame<Bytes>>) -> (Writer, Reader) {
    let bytes = frames.iter().map(footprint).sum();
    budget.used.fetch_add(bytes, Ordering::Relaxed);
    let state = State {
        frames,
        bytes,
        ..State::default()
    };
    let pipe = Arc::new(Pipe {
        budget: Arc::clone(budget),
        state: Mutex::new(state),
    });
    (Writer(Arc::clone(&pipe)), Reader(pipe))
}

impl Writer {
    /// Whether another frame may be read; pending while the client is behind by too much.
    pub(crate) fn poll_room(&self, context: &Context<'_>) -> Poll<Room> {
        let budget = &self.0.budget;
        let mut state = self.0.lock();
        if state.gone {
            return Poll::Ready(Room::Gone);
        }
        // An answer of which nothing is buffered may always go on, so that an exhausted total slows
        // everybody down and stops nobody. It overshoots by a frame per answer.
        let is_over = state.bytes >= budget.each_max || budget.used() >= budget.total_max;
        if state.bytes > 0 && is_over {
            state.writer = Some(context.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(Room::Free)
    }

    /// Resolves when nobody reads any more; to be polled beside a wait for the application.
    pub(crate) fn poll_gone(&self, context: &Context<'_>) -> Poll<()> {
        let mut state = self.0.lock();
        if state.gone {
            return Poll::Ready(());
        }
        state.writer = Some(context.waker().clone());
        Poll::Pending
    }

    /// Adds a frame.
    pub(crate) fn push(&self, mut frame: Frame<Bytes>) {
        let bytes = footprint(&frame);
        let reader = {
            let mut state = self.0.lock();
            if state.gone {
                return;
            }
            if state.bytes > 0 {
                // It will stay for a while, and as it is it holds on to all of the buffer that it
                // was read into, which may be many times its size.
                frame = frame.map_data(|data| Bytes::copy_from_slice(&data));
            }
            state.frames.push_back(frame);
            state.bytes += bytes;
            self.0.budget.used.fetch_add(bytes, Ordering::Relaxed);
            state.reader.take()
        };
        wake(reader);
    }

    /// There is nothing more to come.
    pub(crate) fn end(self, how: Result<(), BodyError>) {
        self.0.end(how);
    }
}

impl Drop for Writer {
    /// A writer that just goes away leaves half an answer.
    fn drop(&mut self) {
        self.0.end(Err(BodyError::Broken));
    }
}

impl Reader {
    pub(super) fn poll_frame(
        &self,
        context: &Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let frame = {
            let mut state = self.0.lock();
            let Some(frame) = state.frames.pop_front() else {
                return match state.end {
                    Some(Ok(())) => Poll::Ready(None),
                    Some(Err(error)) => Poll::Ready(Some(Err(error))),
                    None => {
                        state.reader = Some(context.waker().clone());
                        Poll::Pending
                    }
                };
            };
            frame
        };
        let _charge = Charge {
            pipe: Arc::clone(&self.0),
            bytes: footprint(&frame),
        };
        let frame = frame.map_data(|bytes| Bytes::from_owner(Charged { bytes, _charge }));
        Poll::Ready(Some(Ok(frame)))
    }

    pub(super) fn is_at_end(&self) -> bool {
        let state = self.0.lock();
        state.frames.is_empty() && state.end == Some(Ok(()))
    }
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Reader")
            .field("bytes", &self.0.lock().bytes)
            .finish()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let frames = {
            let mut state = self.0.lock();
            state.gone = true;
            std::mem::take(&mut state.frames)
        };
        // Wakes the writer, too, that waits for room or for the news that nobody reads any more.
        self.0.give_back(frames.iter().map(footprint).sum());
    }
}

impl AsRef<[u8]> for Charged {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.pipe.give_back(self.bytes);
    }
}

impl Pipe {
    fn give_back(&self, bytes: usize) {
        let writer = {
            let mut state = self.lock();
            state.bytes -= bytes;
            self.budget.used.fetch_sub(bytes, Ordering::Relaxed);
            state.writer.take()
        };
        wake(writer);
    }

    fn end(&self, how: Result<(), BodyError>) {
        let reader = {
            let mut state = self.lock();
            if state.end.is_some() {
                return;
            }
            state.end = Some(how);
            state.reader.take()
        };
        wake(reader);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame that takes so many bytes of memory.
    fn data(bytes: usize) -> Frame<Bytes> {
        Frame::data(Bytes::from(vec![
            b'x';
            bytes
                - footprint(&Frame::data(Bytes::new()))
        ]))
    }

    fn room(writer: &Writer) -> Poll<Room> {
        writer.poll_room(&Context::from_waker(Waker::noop()))
    }

    fn read(reader: &Reader) -> Poll<Option<Result<usize, BodyError>>> {
        let frame = reader.poll_frame(&Context::from_waker(Waker::noop()));
        frame.map(|frame| frame.map(|frame| frame.map(|frame| footprint(&frame))))
    }

    #[test]
    fn a_writer_waits_once_its_answer_is_ahead_by_the_bound() {
        let budget = Arc::new(Budget::new(1000, 100_000));
        let (writer, reader) = pipe(&budget, VecDeque::new());

        writer.push(data(600));
        assert_eq!(room(&writer), Poll::Ready(Room::Free));
        writer.push(data(600));
        assert_eq!(room(&writer), Poll::Pending);

        assert_eq!(read(&reader), Poll::Ready(Some(Ok(600))));
        assert_eq!(room(&writer), Poll::Ready(Room::Free));
    }

    #[test]
    fn an_exhausted_total_slows_answers_down_and_stops_none() {
        let budget = Arc::new(Budget::new(10_000, 1000));
        let (greedy, _slow) = pipe(&budget, VecDeque::new());
        let (writer, reader) = pipe(&budget, VecDeque::new());
        greedy.push(data(5000));

        assert_eq!(
            room(&writer),
            Poll::Ready(Room::Free),
            "nothing of it is buffered"
        );
        writer.push(data(500));
        assert_eq!(room(&writer), Poll::Pending);

        assert_eq!(read(&reader), Poll::Ready(Some(Ok(500))));
        assert_eq!(room(&writer), Poll::Ready(Room::Free));
    }

    #[test]
    fn every_byte_is_given_back() {
        let budget = Arc::new(Budget::new(10_000, 10_000));
        let (writer, reader) = pipe(&budget, VecDeque::from([data(700)]));
        writer.push(data(900));
        assert_eq!(budget.used(), 1600);

        assert_eq!(read(&reader), Poll::Ready(Some(Ok(700))));
        drop(reader);
        assert_eq!(budget.used(), 0);

        writer.push(data(900));
        assert_eq!(budget.used(), 0, "nobody reads it");
        assert_eq!(room(&writer), Poll::Ready(Room::Gone));
    }

    #[test]
    fn what_was_read_is_charged_for_until_it_is_written() {
        let budget = Arc::new(Budget::new(1000, 10_000));
        let (writer, reader) = pipe(&budget, VecDeque::from([data(1200)]));

        let Poll::Ready(Some(Ok(frame))) = reader.poll_frame(&Context::from_waker(Waker::noop()))
        else {
            panic!("a frame is there");
        };
        assert_eq!(room(&writer), Poll::Pending);
        assert_eq!(budget.used(), 1200);

        // The engine lets go of a body before it has written all of it.
        drop(reader);
        assert_eq!(budget.used(), 1200);
        drop(frame);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn half_an_answer_never_looks_whole() {
        let budget = Arc::new(Budget::new(10_000, 10_000));
        let (writer, reader) = pipe(&budget, VecDeque::from([data(700)]));

        drop(writer);

        assert_eq!(read(&reader), Poll::Ready(Some(Ok(700))));
        assert!(!reader.is_at_end());
        assert_eq!(read(&reader), Poll::Ready(Some(Err(BodyError::Broken))));
    }
}
