//! The beginning of a log: what an admission was made of.
//!
//! Every struct is taken apart field by field and every enum variant by variant, so that a field
//! or variant that is added there cannot be forgotten here: it does not compile.

use std::num::NonZeroU32;

use super::wire::{Cursor, Flaw, put_fixed, put_float, put_span, put_text, put_u32, put_u64};
use crate::admission::{Admission, Config};
use crate::bulkhead::{Bulkheads, Loan, Portion, Reserve};
use crate::facts::{Class, RouteId};
use crate::limit::adaptive::Settings;
use crate::limit::{Bounds, Kind, Learnt};
use crate::queue::Discipline;
use crate::time::Wall;

/// What an admission was made of, and by whom.
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    /// Which program in which version; another one may decide otherwise. At most 255 bytes.
    pub writer: String,
    /// The application that it stood in front of. At most 255 bytes.
    pub app: String,
    /// When the log was begun.
    pub started: Wall,
    /// How the application was protected.
    pub config: Config,
    /// The algorithm of its limit.
    pub limit: Kind,
    /// What the limit drew from.
    pub seed: u64,
    /// What the limit started from, if an earlier one had left something.
    pub learnt: Option<Learnt>,
}

impl Header {
    /// A fresh admission of this make.
    pub fn admission(&self) -> Admission {
        let limit = match &self.learnt {
            None => self.limit.build(self.seed),
            Some(learnt) => self.limit.resume(self.seed, learnt),
        };
        Admission::new(self.config.clone(), limit)
    }

    pub(super) fn put(&self, out: &mut Vec<u8>) {
        let Self {
            writer,
            app,
            started,
            config,
            limit,
            seed,
            learnt,
        } = self;
        put_text(out, writer);
        put_text(out, app);
        put_u64(out, started.as_micros());
        put_config(out, config);
        put_kind(out, *limit);
        put_fixed(out, *seed);
        match learnt {
            None => out.push(0),
            Some(learnt) => {
                out.push(1);
                put_learnt(out, learnt);
            }
        }
    }

    pub(super) fn take(cursor: &mut Cursor<'_>) -> Result<Self, Flaw> {
        Ok(Self {
            writer: cursor.text()?,
            app: cursor.text()?,
            started: Wall::from_micros(cursor.u64()?),
            config: config(cursor)?,
            limit: kind(cursor)?,
            seed: cursor.fixed()?,
            learnt: match cursor.byte()? {
                0 => None,
                1 => Some(learnt(cursor)?),
                _ => return Err(Flaw::Damaged("an unknown beginning")),
            },
        })
    }
}

fn put_config(out: &mut Vec<u8>, config: &Config) {
    let Config {
        hold,
        queue_max,
        queue_bytes_max,
        discipline,
        bulkheads,
        routes,
        escape,
        level,
    } = config;
    put_span(out, *hold);
    put_u32(out, *queue_max);
    put_u64(out, *queue_bytes_max);
    out.push(match discipline {
        Discipline::AdaptiveLifo => 0,
        Discipline::Fifo => 1,
        Discipline::CoDel => 2,
    });
    put_bulkheads(out, bulkheads);
    put_u32(out, u32::from(*routes));
    out.push(u8::from(*escape) | u8::from(*level) << 1);
}

fn config(cursor: &mut Cursor<'_>) -> Result<Config, Flaw> {
    let mut config = Config {
        hold: cursor.span()?,
        queue_max: cursor.u32()?,
        queue_bytes_max: cursor.u64()?,
        discipline: match cursor.byte()? {
            0 => Discipline::AdaptiveLifo,
            1 => Discipline::Fifo,
            2 => Discipline::CoDel,
            _ => return Err(Flaw::Damaged("an unknown discipline")),
        },
        bulkheads: bulkheads(cursor)?,
        routes: cursor.u16()?,
        escape: false,
        level: false,
    };
    let options = cursor.byte()?;
    if options > 3 {
        return Err(Flaw::Damaged("an unknown option"));
    }
    config.escape = options & 1 != 0;
    config.level = options & 2 != 0;
    Ok(config)
}

fn put_bulkheads(out: &mut Vec<u8>, bulkheads: &Bulkheads) {
    let Bulkheads { reserves, groups } = bulkheads;
    let reserves: &[_; Class::COUNT] = reserves;
    for reserve in reserves {
        match reserve {
            None => out.push(0),
            Some(Reserve { portion, loan }) => {
                out.push(match loan {
                    Loan::Strict => 1,
                    Loan::Lent => 2,
                });
                put_portion(out, *portion);
            }
        }
    }
    put_u64(out, groups.len() as u64);
    groups.iter().for_each(|&portion| put_portion(out, portion));
}

fn bulkheads(cursor: &mut Cursor<'_>) -> Result<Bulkheads, Flaw> {
    let mut bulkheads = Bulkheads::default();
    for reserve in &mut bulkheads.reserves {
        let loan = match cursor.byte()? {
            0 => continue,
            1 => Loan::Strict,
            2 => Loan::Lent,
            _ => return Err(Flaw::Damaged("an unknown loan")),
        };
        *reserve = Some(Reserve {
            portion: portion(cursor)?,
            loan,
        });
    }
    for _ in 0..cursor.u16()? {
        bulkheads.groups.push(portion(cursor)?);
    }
    Ok(bulkheads)
}

fn put_portion(out: &mut Vec<u8>, portion: Portion) {
    match portion {
        Portion::Share(share) => {
            out.push(0);
            put_float(out, share);
        }
        Portion::Slots(slots) => {
            out.push(1);
            put_u32(out, slots);
        }
    }
}

fn portion(cursor: &mut Cursor<'_>) -> Result<Portion, Flaw> {
    match cursor.byte()? {
        0 => cursor.float().map(Portion::Share),
        1 => cursor.u32().map(Portion::Slots),
        _ => Err(Flaw::Damaged("an unknown portion")),
    }
}

fn put_kind(out: &mut Vec<u8>, kind: Kind) {
    match kind {
        Kind::Static(limit) => {
            out.push(0);
            put_u32(out, limit.get());
        }
        Kind::Aimd(bounds) => {
            out.push(1);
            put_bounds(out, bounds);
        }
        Kind::Vegas(bounds) => {
            out.push(2);
            put_bounds(out, bounds);
        }
        Kind::Gradient2(bounds) => {
            out.push(3);
            put_bounds(out, bounds);
        }
        Kind::Adaptive(Settings {
            bounds,
            latency_healthy_max,
        }) => {
            out.push(4);
            put_bounds(out, bounds);
            match latency_healthy_max {
                None => out.push(0),
                Some(latency) => {
                    out.push(1);
                    put_span(out, latency);
                }
            }
        }
    }
}

fn kind(cursor: &mut Cursor<'_>) -> Result<Kind, Flaw> {
    match cursor.byte()? {
        0 => NonZeroU32::new(cursor.u32()?)
            .map(Kind::Static)
            .ok_or(Flaw::Damaged("a limit of 0")),
        1 => bounds(cursor).map(Kind::Aimd),
        2 => bounds(cursor).map(Kind::Vegas),
        3 => bounds(cursor).map(Kind::Gradient2),
        4 => Ok(Kind::Adaptive(Settings {
            bounds: bounds(cursor)?,
            latency_healthy_max: match cursor.byte()? {
                0 => None,
                1 => Some(cursor.span()?),
                _ => return Err(Flaw::Damaged("an unknown healthy latency")),
            },
        })),
        _ => Err(Flaw::Damaged("an unknown limit")),
    }
}

pub(super) fn put_learnt(out: &mut Vec<u8>, learnt: &Learnt) {
    let Learnt {
        limit,
        throughput,
        baselines,
    } = learnt;
    put_float(out, *limit);
    put_float(out, *throughput);
    put_u64(out, baselines.len() as u64);
    for &(RouteId(route), latency, samples) in baselines {
        put_u32(out, route.into());
        put_span(out, latency);
        put_u32(out, samples);
    }
}

pub(super) fn learnt(cursor: &mut Cursor<'_>) -> Result<Learnt, Flaw> {
    let mut learnt = Learnt {
        limit: cursor.float()?,
        throughput: cursor.float()?,
        baselines: Vec::new(),
    };
    for _ in 0..cursor.u64()? {
        let baseline = (RouteId(cursor.u16()?), cursor.span()?, cursor.u32()?);
        learnt.baselines.push(baseline);
    }
    Ok(learnt)
}

fn put_bounds(out: &mut Vec<u8>, bounds: Bounds) {
    put_u32(out, bounds.initial());
    put_u32(out, bounds.min());
    put_u32(out, bounds.max());
}

fn bounds(cursor: &mut Cursor<'_>) -> Result<Bounds, Flaw> {
    Bounds::new(cursor.u32()?, cursor.u32()?, cursor.u32()?)
        .map_err(|_| Flaw::Damaged("bounds of a limit that contradict each other"))
}
