//! A browser with a profile of its own, and what the tests do with it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::webdriver::Driver;

/// Longest wait for anything that is expected to happen: a mark for failing.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A headless Chromium. Dropping it ends it.
pub(crate) struct Browser {
    driver: Driver,
    session: String,
    profile: PathBuf,
}

/// How a browser differs from a usual one.
#[derive(Clone, Copy, Default)]
pub(crate) struct Wish {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) no_cookies: bool,
}

impl Browser {
    pub(crate) fn start() -> Self {
        Self::wish(Wish::default())
    }

    pub(crate) fn wish(wish: Wish) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let profile =
            std::env::temp_dir().join(format!("tidegate-browser-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&profile).unwrap();
        let driver = Driver::start();
        let (width, height) = (wish.width.max(400), wish.height.max(800));
        let args = [
            "--headless".to_owned(),
            "--no-sandbox".to_owned(),
            "--disable-gpu".to_owned(),
            "--disable-quic".to_owned(),
            "--no-first-run".to_owned(),
            "--disable-background-networking".to_owned(),
            "--disable-component-update".to_owned(),
            "--disable-sync".to_owned(),
            "--disable-dev-shm-usage".to_owned(),
            format!("--window-size={width},{height}"),
            format!("--user-data-dir={}", profile.display()),
        ];
        let cookies = if wish.no_cookies { 2 } else { 1 };
        let capabilities = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": {
                "binary": "/usr/bin/chromium",
                "args": args,
                "prefs": { "profile.default_content_setting_values.cookies": cookies },
            },
        } } });
        let session = driver.call("POST", "/session", &capabilities).unwrap();
        let session = session["sessionId"].as_str().unwrap().to_owned();
        let browser = Self {
            driver,
            session,
            profile,
        };
        browser.post("timeouts", &json!({ "script": 20_000, "pageLoad": 60_000 }));
        browser
    }

    fn try_post(&self, path: &str, body: &Value) -> Result<Value, String> {
        self.driver
            .call("POST", &format!("/session/{}/{path}", self.session), body)
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        self.try_post(path, body).unwrap()
    }

    fn get(&self, path: &str) -> Value {
        self.driver
            .call(
                "GET",
                &format!("/session/{}/{path}", self.session),
                &Value::Null,
            )
            .unwrap()
    }

    pub(crate) fn go(&self, url: &str) {
        self.post("url", &json!({ "url": url }));
    }

    pub(crate) fn reload(&self) {
        self.post("refresh", &json!({}));
    }

    pub(crate) fn back(&self) {
        self.post("back", &json!({}));
    }

    /// A command of Chromium's own protocol.
    pub(crate) fn cdp(&self, command: &str, parameters: Value) -> Value {
        self.post(
            "goog/cdp/execute",
            &json!({ "cmd": command, "params": parameters }),
        )
    }

    /// Runs `body` as a function in the page and takes what it returns.
    pub(crate) fn run(&self, body: &str) -> Value {
        self.post("execute/sync", &json!({ "script": body, "args": [] }))
    }

    /// What an expression is in the page.
    pub(crate) fn eval(&self, expression: &str) -> Value {
        self.run(&format!("return {expression};"))
    }

    /// Waits until an expression is true, over any number of pages.
    pub(crate) fn until(&self, expression: &str) {
        let script = format!(
            "const done = arguments[0]; const end = Date.now() + 5000;
             const look = () => {{
                 let is = false;
                 try {{ is = {expression}; }} catch (e) {{}}
                 if (is) done(true); else if (Date.now() > end) done(false); else setTimeout(look, 10);
             }}; look();"
        );
        let end = Instant::now() + PATIENCE;
        loop {
            // A page that goes takes the script with it.
            let outcome = self.try_post("execute/async", &json!({ "script": script, "args": [] }));
            if outcome == Ok(Value::Bool(true)) {
                return;
            }
            assert!(
                Instant::now() < end,
                "{expression} did not become true; the page says:\n{}",
                self.told()
            );
        }
    }

    /// Everything that can be read on the page.
    pub(crate) fn told(&self) -> String {
        self.eval("document.title + '\\n' + document.body.innerText")
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// The text of the element with this id; empty where it is not shown.
    pub(crate) fn text(&self, id: &str) -> String {
        let element = format!("document.getElementById('{id}')");
        let text = self.eval(&format!(
            "{element}.checkVisibility() ? {element}.innerText : ''"
        ));
        text.as_str().unwrap().trim().to_owned()
    }

    pub(crate) fn until_text(&self, id: &str, text: &str) {
        let text = Value::from(text);
        self.until(&format!(
            "document.getElementById('{id}').innerText.includes({text})"
        ));
    }

    pub(crate) fn until_state(&self, state: &str) {
        self.until(&format!(
            "document.getElementById('main').dataset.state === '{state}'"
        ));
    }

    /// Presses what the selector finds, as a hand does.
    pub(crate) fn click(&self, selector: &str) {
        let found = self.post(
            "element",
            &json!({ "using": "css selector", "value": selector }),
        );
        let id = found
            .as_object()
            .unwrap()
            .values()
            .next()
            .unwrap()
            .as_str()
            .unwrap()
            .to_owned();
        self.post(&format!("element/{id}/click"), &json!({}));
    }

    /// Presses a key, such as Tab, wherever the focus is.
    pub(crate) fn press(&self, key: char) {
        let keys = json!([{ "type": "keyDown", "value": key }, { "type": "keyUp", "value": key }]);
        let actions = json!({ "actions": [{ "type": "key", "id": "keyboard", "actions": keys }] });
        self.post("actions", &actions);
    }

    /// Runs before anything else in every page from now on.
    pub(crate) fn before_pages(&self, script: &str) {
        self.cdp(
            "Page.addScriptToEvaluateOnNewDocument",
            json!({ "source": script }),
        );
    }

    /// Makes time in pages pass `factor` times as fast, but for how long they wait for an answer: the network is none the
    /// faster.
    pub(crate) fn hurry(&self, factor: u32) {
        self.before_pages(&format!(
            "{{ const real = performance.now.bind(performance), later = setTimeout, every = setInterval;
               performance.now = () => real() * {factor};
               window.setTimeout = (act, ms, ...rest) => later(act, ms === 10000 ? ms : ms / {factor}, ...rest);
               window.setInterval = (act, ms, ...rest) => every(act, ms / {factor}, ...rest); }}"
        ));
    }

    pub(crate) fn scheme(&self, scheme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.cdp(
            "Emulation.setEmulatedMedia",
            json!({ "features": features }),
        );
    }

    pub(crate) fn language(&self, tag: &str) {
        let agent = self.eval("navigator.userAgent");
        let parameters = json!({ "userAgent": agent, "acceptLanguage": tag });
        self.cdp("Emulation.setUserAgentOverride", parameters);
    }

    pub(crate) fn offline(&self, offline: bool) {
        let parameters = json!({ "offline": offline, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1 });
        self.cdp("Network.emulateNetworkConditions", parameters);
    }

    pub(crate) fn new_tab(&self) -> String {
        let tab = self.post("window/new", &json!({ "type": "tab" }));
        tab["handle"].as_str().unwrap().to_owned()
    }

    pub(crate) fn tab(&self) -> String {
        self.get("window").as_str().unwrap().to_owned()
    }

    pub(crate) fn switch(&self, tab: &str) {
        self.post("window", &json!({ "handle": tab }));
    }

    pub(crate) fn close_tab(&self) {
        let path = format!("/session/{}/window", self.session);
        self.driver.call("DELETE", &path, &Value::Null).unwrap();
    }

    /// What is to be seen, as a PNG.
    pub(crate) fn screenshot(&self) -> Vec<u8> {
        STANDARD
            .decode(self.get("screenshot").as_str().unwrap())
            .unwrap()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let path = format!("/session/{}", self.session);
        // A test that fails is told of by its own panic.
        let _ = self.driver.call("DELETE", &path, &Value::Null);
        let _ = std::fs::remove_dir_all(&self.profile);
    }
}
