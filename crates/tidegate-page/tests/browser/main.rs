//! The page in a real browser (headless Chromium, by WebDriver), against a small real server that has a room.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod access;
mod browser;
mod files;
mod phases;
mod site;
mod tabs;
mod trouble;
mod turn;
mod waiting;
mod webdriver;
mod without_script;
mod words;
