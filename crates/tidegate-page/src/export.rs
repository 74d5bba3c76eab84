//! Pages as files, for a CDN or any server of files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::{Language, Pages, Variation};

/// What was written.
#[derive(Clone, Debug)]
pub struct Exported {
    /// The files, below the folder: for each language `w/<room>/<hash>.<language>.html` and the same with `.gz`, and
    /// `w/<room>/index.json`.
    pub files: Vec<PathBuf>,
    /// The value of `Content-Security-Policy` to send with them; but for who may frame them the pages have it in themselves.
    pub policy: String,
}

/// What is in `index.json`: which pages there are now, as older ones may stay.
#[derive(Serialize)]
struct Index<'a> {
    room: &'a str,
    hash: &'a str,
    content_security_policy: &'a str,
    cache_control: &'a str,
    /// By language, below `/.tidegate/`.
    pages: std::collections::BTreeMap<&'static str, String>,
}

impl Pages {
    /// Writes the pages that a CDN serves below `folder`, which stands for `/.tidegate/`. What was exported before stays:
    /// visitors may have it open.
    ///
    /// # Errors
    ///
    /// What the file system refuses, with the path.
    pub fn export(&self, folder: &Path) -> io::Result<Exported> {
        let room = self.room().as_str();
        let below = PathBuf::from("w").join(room);
        let to = |path: &Path| folder.join(path);
        create(&to(&below))?;
        let mut files = Vec::new();
        let mut pages = std::collections::BTreeMap::new();
        for language in Language::ALL {
            let name = format!("{}.{language}.html", self.hash());
            let page = self.of(language, Variation::Hosted);
            for (name, bytes) in [
                (name.clone(), &page.plain),
                (format!("{name}.gz"), &page.gzip),
            ] {
                let path = below.join(name);
                write(&to(&path), bytes)?;
                files.push(path);
            }
            pages.insert(language.tag(), format!("w/{room}/{name}"));
        }
        let policy = self.policy().to_str().expect("a policy is ASCII");
        let index = Index {
            room,
            hash: self.hash(),
            content_security_policy: policy,
            cache_control: "public, max-age=31536000, immutable",
            pages,
        };
        let index = serde_json::to_vec_pretty(&index).map_err(io::Error::other)?;
        // Last, so that it names nothing that is not there yet.
        let path = below.join("index.json");
        write(&to(&path), &index)?;
        files.push(path);
        Ok(Exported {
            files,
            policy: policy.to_owned(),
        })
    }
}

fn create(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder).map_err(|error| at(folder, &error))
}

fn write(file: &Path, bytes: &[u8]) -> io::Result<()> {
    fs::write(file, bytes).map_err(|error| at(file, &error))
}

fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use tidegate_core::room::RoomName;

    use super::*;
    use crate::Theme;

    #[test]
    fn an_export_has_every_language_and_says_what_it_has() {
        let folder = std::env::temp_dir().join(format!("tidegate-export-{}", std::process::id()));
        let pages = Pages::new(&RoomName::new("shop").unwrap(), &Theme::default()).unwrap();

        let exported = pages.export(&folder).unwrap();

        assert_eq!(exported.files.len(), 2 * Language::COUNT + 1);
        let index = fs::read(folder.join("w/shop/index.json")).unwrap();
        let index: serde_json::Value = serde_json::from_slice(&index).unwrap();
        for language in Language::ALL {
            let path = index["pages"][language.tag()].as_str().unwrap();
            let written = fs::read(folder.join(path)).unwrap();
            assert_eq!(written, pages.of(language, Variation::Hosted).plain);
        }
        assert_eq!(index["content_security_policy"], exported.policy.as_str());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_cannot_be_written_is_named() {
        let file = std::env::temp_dir().join(format!("tidegate-no-folder-{}", std::process::id()));
        fs::write(&file, "a file").unwrap();
        let pages = Pages::new(&RoomName::new("shop").unwrap(), &Theme::default()).unwrap();

        let error = pages.export(&file).unwrap_err().to_string();

        assert!(error.contains("tidegate-no-folder"), "{error}");
        fs::remove_file(&file).unwrap();
    }
}
