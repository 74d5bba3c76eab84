//! The near end of a log: from events to chunks of bytes.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};

use tidegate_core::admission::Action;
use tidegate_core::journal::{END_BYTES_MAX, Encoder, End, Event, Header, Outcome};
use tidegate_core::time::Mono;

use super::Progress;

/// A chunk is handed on when it is as long as this.
const CHUNK_BYTES: usize = 64 * 1024;

/// Room in a chunk beyond that for the event that fills it.
const CHUNK_SPARE_BYTES: usize = 1024;

/// Chunks that may wait to be written. With 40 bytes a request, 8 MiB are 200,000 requests.
const CHUNKS_MAX: usize = 128;

/// Turns events into chunks and hands these on.
pub(super) struct Recorder {
    /// `None` once the log has ended.
    encoder: Option<Encoder>,
    chunk: Vec<u8>,
    /// `None` once the last chunk has been handed on.
    chunks: Option<SyncSender<Vec<u8>>>,
    /// What may still be encoded, the end included.
    bytes_left: u64,
    progress: Arc<Progress>,
}

impl Recorder {
    /// A log of at most `bytes_max`, and where its chunks come out.
    pub(super) fn start(header: &Header, bytes_max: u64) -> (Self, Receiver<Vec<u8>>) {
        let (chunks, taken) = mpsc::sync_channel(CHUNKS_MAX);
        let mut chunk = Vec::with_capacity(CHUNK_BYTES + CHUNK_SPARE_BYTES);
        let encoder = Encoder::begin(header, &mut chunk);
        let recorder = Self {
            encoder: Some(encoder),
            bytes_left: bytes_max.saturating_sub(chunk.len() as u64),
            chunk,
            chunks: Some(chunks),
            progress: Arc::default(),
        };
        (recorder, taken)
    }

    pub(super) fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    pub(super) fn record(
        &mut self,
        now: Mono,
        event: &Event,
        outcome: &Outcome,
        actions: &[Action],
        limit: u32,
    ) {
        let Some(encoder) = &mut self.encoder else {
            return;
        };
        let before = (encoder.clone(), self.chunk.len());
        encoder.record(now, event, outcome, actions, limit, &mut self.chunk);
        let bytes = (self.chunk.len() - before.1) as u64;
        if bytes + END_BYTES_MAX as u64 > self.bytes_left {
            self.encoder = Some(before.0);
            self.chunk.truncate(before.1);
            self.end(End::Full);
            return;
        }
        self.bytes_left -= bytes;
        if self.chunk.len() >= CHUNK_BYTES && !self.hand_on() {
            self.end(End::Behind);
        }
    }

    /// Hands on what there is, if it can be taken now: so that the file is never far behind, and
    /// for the last chunk.
    pub(super) fn flush(&mut self) {
        if (self.chunk.is_empty() || self.hand_on()) && self.encoder.is_none() {
            self.chunks = None;
        }
    }

    /// Nothing more is recorded. The last chunk goes with the next [`Recorder::flush`] if it cannot
    /// go now.
    pub(super) fn end(&mut self, end: End) {
        if let Some(encoder) = self.encoder.take() {
            encoder.end(end, &mut self.chunk);
            self.progress.ended(end);
        }
        self.flush();
    }

    /// Whether the chunk could be handed on. When nobody takes chunks any more the log is over.
    fn hand_on(&mut self) -> bool {
        let Some(chunks) = &self.chunks else {
            return false;
        };
        match chunks.try_send(std::mem::take(&mut self.chunk)) {
            Ok(()) => {
                if self.encoder.is_some() {
                    self.chunk.reserve_exact(CHUNK_BYTES + CHUNK_SPARE_BYTES);
                }
                true
            }
            Err(TrySendError::Full(chunk)) => {
                self.chunk = chunk;
                false
            }
            Err(TrySendError::Disconnected(_)) => {
                self.progress.ended(End::Failed);
                self.encoder = None;
                self.chunks = None;
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::time::Duration;

    use tidegate_core::admission::Config;
    use tidegate_core::bulkhead::Bulkheads;
    use tidegate_core::journal::{Decoder, Item};
    use tidegate_core::limit::Kind;
    use tidegate_core::queue::Discipline;
    use tidegate_core::time::Wall;

    use super::*;

    const LARGE: u64 = 1 << 40;

    fn header() -> Header {
        Header {
            writer: "test".to_owned(),
            app: "shop".to_owned(),
            started: Wall::default(),
            config: Config {
                hold: Duration::from_millis(200),
                queue_max: 10,
                queue_bytes_max: 1000,
                discipline: Discipline::Fifo,
                bulkheads: Bulkheads::default(),
                routes: 1,
                escape: false,
                level: false,
            },
            limit: Kind::Static(NonZeroU32::MIN),
            seed: 1,
            learnt: None,
        }
    }

    fn poll(recorder: &mut Recorder, at: u64) {
        let now = Mono::from_millis(at);
        recorder.record(now, &Event::Poll, &Outcome::Nothing, &[], 1);
    }

    /// How many events are in the log, and how it ended.
    fn read(log: &[u8]) -> (usize, Option<End>) {
        let mut decoder = Decoder::default();
        decoder.push(log);
        let (mut events, mut end) = (0, None);
        while let Some(item) = decoder.read().unwrap() {
            match item {
                Item::Header(_) => {}
                Item::Record(_) => events += 1,
                Item::End(reason) => end = Some(reason),
            }
        }
        decoder.finish().unwrap();
        (events, end)
    }

    #[test]
    fn what_is_recorded_comes_out_in_order_and_ends_once() {
        let (mut recorder, chunks) = Recorder::start(&header(), LARGE);
        (0..50_000).for_each(|at| poll(&mut recorder, at));
        recorder.end(End::Finished);
        recorder.end(End::Full);
        poll(&mut recorder, 50_000);

        let log: Vec<u8> = chunks.iter().flatten().collect();

        assert_eq!(read(&log), (50_000, Some(End::Finished)));
        assert_eq!(recorder.progress.end(), Some(End::Finished));
    }

    #[test]
    fn a_log_is_never_longer_than_it_may_be_and_says_that_it_is_full() {
        let (mut recorder, chunks) = Recorder::start(&header(), 1000);
        (0..1000).for_each(|at| poll(&mut recorder, at));
        drop(recorder);

        let log: Vec<u8> = chunks.iter().flatten().collect();

        assert!((980..=1000).contains(&log.len()), "{}", log.len());
        let (events, end) = read(&log);
        assert_eq!(end, Some(End::Full));
        assert!(events > 100);
    }

    #[test]
    fn a_writer_that_does_not_keep_up_ends_the_log_and_stops_nobody() {
        let (mut recorder, chunks) = Recorder::start(&header(), LARGE);
        let mut at = 0;
        while recorder.progress.end().is_none() {
            poll(&mut recorder, at);
            at += 1;
        }
        let behind = at;
        (0..1000).for_each(|more| poll(&mut recorder, at + more));

        // It catches up at last: the end of the log is still to be had.
        let mut log: Vec<u8> = chunks.try_iter().flatten().collect();
        recorder.flush();
        log.extend(chunks.iter().flatten());

        assert_eq!(read(&log), (behind as usize, Some(End::Behind)));
        assert!(log.len() <= (CHUNKS_MAX + 1) * (CHUNK_BYTES + CHUNK_SPARE_BYTES));
    }

    #[test]
    fn without_a_writer_the_log_is_over() {
        let (mut recorder, chunks) = Recorder::start(&header(), LARGE);
        drop(chunks);

        recorder.flush();
        poll(&mut recorder, 1);

        assert_eq!(recorder.progress.end(), Some(End::Failed));
        assert!(recorder.chunk.is_empty());
    }
}
