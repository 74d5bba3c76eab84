//! The file that says how a room's page looks.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context, anyhow, ensure};
use tidegate_page::Theme;

/// A larger theme, or a larger logo, fits into no page.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// A theme. A logo that is a file beside it becomes part of the page.
pub(crate) fn read(file: &Path) -> anyhow::Result<Theme> {
    let text = String::from_utf8(bytes(file)?).context("it is no text in UTF-8")?;
    let mut theme: Theme = toml::from_str(&text).map_err(|error| {
        let start = error.span().unwrap_or_default().start.min(text.len());
        let line = 1 + text.bytes().take(start).filter(|it| *it == b'\n').count();
        anyhow!("line {line}: {}", error.message())
    })?;
    let beside = file.parent().unwrap_or_else(|| Path::new("."));
    for logo in [&mut theme.logo, &mut theme.logo_dark]
        .into_iter()
        .flatten()
    {
        if !logo.starts_with('/') && !logo.starts_with("data:") {
            *logo = inline(&beside.join(&*logo))?;
        }
    }
    Ok(theme)
}

fn inline(logo: &Path) -> anyhow::Result<String> {
    let shown = logo.display();
    let bytes = bytes(logo).with_context(|| shown.to_string())?;
    let kind = logo.extension().and_then(|extension| extension.to_str());
    kind.and_then(|kind| Theme::picture(kind, &bytes))
        .with_context(|| format!("{shown}: a logo is svg, png, jpg, gif, webp or avif"))
}

fn bytes(file: &Path) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(file)?
        .take(FILE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)?;
    ensure!(
        bytes.len() as u64 <= FILE_BYTES_MAX,
        "it is larger than {} KiB: is it the right file?",
        FILE_BYTES_MAX >> 10
    );
    Ok(bytes)
}
