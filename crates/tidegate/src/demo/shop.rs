//! `tidegate shop`: the demo's shop as a process of its own, for drills.

use std::io::Write as _;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use tidegate_lab::measure::raise_file_limit;
use tidegate_lab::shop::{ServiceLaw, Shop, ShopPlan};
use tokio::signal::unix::{SignalKind, signal};

/// Files it wants to be able to open: every connection is one.
const FILES_WANTED: u64 = 65_536;

/// Run the demo's shop alone.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ShopArgs {
    /// Where to listen; port 0 picks a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,
    /// Jobs done at once.
    #[arg(long, default_value_t = 100)]
    pub(crate) slots: u32,
    /// Mean time of a job in milliseconds.
    #[arg(long, default_value_t = 50)]
    pub(crate) service_ms: u64,
    /// How the times of jobs are spread.
    #[arg(long, value_enum, default_value = "fixed")]
    pub(crate) law: Law,
    /// By how much `/recommend` jobs take longer.
    #[arg(long, default_value_t = 1.0)]
    pub(crate) recommend_factor: f64,
    /// Bytes of an ordinary answer's body.
    #[arg(long, default_value_t = 256)]
    pub(crate) answer_bytes: usize,
    /// Keep how long each slot was held, and tell at /times.
    #[arg(long)]
    pub(crate) keep_times: bool,
}

/// How the times of jobs are spread.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Law {
    /// All the same.
    Fixed,
    /// The sum of four exponential stages.
    Erlang4,
    /// Exponential.
    Exponential,
}

/// Runs the shop until SIGTERM or SIGINT.
pub(crate) fn shop(args: ShopArgs) -> anyhow::Result<ExitCode> {
    let plan = ShopPlan {
        slots: args.slots,
        service: Duration::from_millis(args.service_ms),
        law: match args.law {
            Law::Fixed => ServiceLaw::Fixed,
            Law::Erlang4 => ServiceLaw::Erlang4,
            Law::Exponential => ServiceLaw::Exponential,
        },
        recommend_factor: args.recommend_factor,
        answer_bytes: args.answer_bytes,
        seed: 1,
        times_kept: args.keep_times,
    };
    raise_file_limit(FILES_WANTED)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let shop = Shop::open(args.listen, plan)?;
        let mut out = std::io::stdout();
        writeln!(out, "shop: listening on {}", shop.address())?;
        out.flush()?;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        shop.close();
        Ok(ExitCode::SUCCESS)
    })
}
