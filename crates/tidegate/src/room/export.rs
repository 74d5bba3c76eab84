//! `tidegate room export`: the page of a waiting room as files.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use tidegate_core::room::RoomName;
use tidegate_page::{Pages, Theme};

use super::theme;
use crate::print;

/// Write the waiting room's page for a CDN or any server of files, in every language.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The room's name.
    #[arg(long, value_name = "NAME")]
    room: String,
    /// Where to write: the folder that is served as /.tidegate/.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// How it looks: a file as docs/room-page.md describes. Without one it looks plain.
    #[arg(long, value_name = "FILE")]
    theme: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let room = RoomName::new(&args.room).map_err(|_| {
        anyhow!(
            "{:?} is no name of a room: 1 to {} of a to z, 0 to 9 and -",
            args.room,
            RoomName::LEN_MAX
        )
    })?;
    let theme = match &args.theme {
        Some(file) => theme::read(file).with_context(|| file.display().to_string())?,
        None => Theme::default(),
    };
    let pages = Pages::new(&room, &theme)?;
    let exported = pages.export(&args.dir)?;
    print(&format!(
        "{} files below {}, version {}\n\nSend with them, and with nothing else there:\n  Content-Security-Policy: {}\n  \
         Cache-Control: public, max-age=31536000, immutable",
        exported.files.len(),
        args.dir.display(),
        pages.hash(),
        exported.policy,
    ))
}
