//! The room's page on a server of files, a real nginx, as a CDN has it: a browser waits there as it does at the gateway; with the
//! application and Tidegate both cut off the page is still there and says what is going on, and then it goes on. Beside it what
//! the site itself answers meanwhile.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::Value;
use tidegate_lab::load::{Request, raw};
use tidegate_lab::peers::FaultProxy;

use crate::browser::Browser;
use crate::harness::{
    Args, Drill, Figure, Peer, ShopProcess, ShopSetup, TempDir, Verdict, binary, free_port,
    loopback, program, runtime,
};
use crate::room::{Ground, ROOM, RoomSettings, set_phase};

/// This drill.
pub(crate) const DRILL: Drill = Drill {
    name: "room-cdn",
    promise: "with the app and Tidegate cut off the page that nginx has exported is there, explains, and goes on when they are back",
    takes: Duration::from_secs(60),
    run,
};

/// How often the page is asked for while nothing else is there.
const ASKS: u32 = 200;
/// What the page says then.
const EXPLAINS: [&str; 3] = [
    "We cannot reach the line right now",
    "Your place is kept.",
    "Keep this page open",
];

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    let ground = Ground::alone()?;
    let shop = ShopProcess::open(&ShopSetup::new(10, 2))?;
    let settings = RoomSettings::phase("queue-all").rate("10/s");
    let gateway = ground.gateway("gw1", shop.address(), &settings)?;
    set_phase(&gateway, Some("hold"))?;
    let way = FaultProxy::start(gateway.address())?;
    let (nginx, path) = nginx(way.address())?;
    let page = format!("/.tidegate/{path}");

    let browser = Browser::start();
    // A name, as browsers take secure cookies without TLS from this machine alone.
    let url = format!("http://localhost:{}{page}#/basket", nginx.address().port());
    browser.go(&url);
    browser.until_state("waiting");
    let place = own_place(&browser);

    way.refuse();
    way.cut();
    let there = answered(nginx.address(), &page)?;
    verdict.add(
        Figure::share(
            "of the asks for the page: answered without app and Tidegate",
            there,
        )
        .at_least(1.0)
        .beside("the site itself", answered(nginx.address(), "/basket")?),
    );
    browser.reload();
    browser.until_state("away");
    let told = browser.told();
    let explains = EXPLAINS.iter().filter(|text| told.contains(**text)).count();
    verdict
        .add(Figure::count("of its three explanations: to be read", explains as f64).exactly(3.0));
    if explains < EXPLAINS.len() {
        verdict.say(format!("the page says:\n{told}"));
    }

    way.heal();
    browser.until_state("waiting");
    let is_same = place.is_some() && own_place(&browser) == place;
    verdict.add(Figure::count("places kept", f64::from(u8::from(is_same))).exactly(1.0));
    set_phase(&gateway, None)?;
    browser.until_state("ready");
    browser.click("#go");
    browser.until("location.pathname === '/basket'");
    let asked = shop.stats()?.received.get("/basket").copied().unwrap_or(0);
    verdict
        .add(Figure::count("pages that the application was asked for", asked as f64).exactly(1.0));
    Ok(verdict)
}

/// An nginx that has the exported page and passes everything else on to `gateway`; and where the English page is.
fn nginx(gateway: SocketAddr) -> anyhow::Result<(Peer, String)> {
    let program = program("nginx", "nginx-light")?;
    let dir = TempDir::new()?;
    let exported = Command::new(binary()?)
        .args(["room", "export", "--room", ROOM, "--dir"])
        .arg(dir.path().join("site"))
        .output()?;
    anyhow::ensure!(
        exported.status.success(),
        "{}",
        String::from_utf8_lossy(&exported.stderr)
    );
    let index = fs::read(dir.path().join(format!("site/w/{ROOM}/index.json")))?;
    let index: Value = serde_json::from_slice(&index)?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let page = text(&index["pages"]["en"]).context("there is no English page")?;
    let policy = text(&index["content_security_policy"]).context("there is no policy")?;
    let address = loopback(free_port()?);
    let file = dir.path().join("nginx.conf");
    fs::write(&file, conf(address, gateway, dir.path(), &policy))?;
    let mut command = vec![program.display().to_string()];
    command.extend(["-e".to_owned(), "stderr".to_owned(), "-c".to_owned()]);
    command.push(file.display().to_string());
    Ok((Peer::start(&command, address, dir, None)?, page))
}

fn conf(address: SocketAddr, gateway: SocketAddr, dir: &Path, policy: &str) -> String {
    let dir = dir.display();
    format!(
        "daemon off;
worker_processes 1;
pid {dir}/nginx.pid;
error_log stderr crit;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  client_body_temp_path {dir}/body;
  proxy_temp_path {dir}/proxy;
  fastcgi_temp_path {dir}/fastcgi;
  uwsgi_temp_path {dir}/uwsgi;
  scgi_temp_path {dir}/scgi;
  types {{ text/html html; }}
  server {{
    listen {address};
    location /.tidegate/w/ {{
      alias {dir}/site/w/;
      charset utf-8;
      add_header Cache-Control \"public, max-age=31536000, immutable\";
      add_header Content-Security-Policy \"{policy}\";
    }}
    location / {{
      proxy_pass http://{gateway};
      proxy_http_version 1.1;
      proxy_set_header Host $http_host;
      proxy_set_header Connection \"\";
      proxy_connect_timeout 1s;
      proxy_read_timeout 10s;
    }}
  }}
}}
"
    )
}

/// The part of the asks for `path` that is answered 200.
fn answered(target: SocketAddr, path: &str) -> anyhow::Result<f64> {
    runtime()?.block_on(async {
        let mut good = 0;
        for _ in 0..ASKS {
            let answer = raw::ask(target, &Request::get(path)).await?;
            good += u32::from(answer.status == 200);
        }
        Ok(f64::from(good) / f64::from(ASKS))
    })
}

/// The page's own place, as its script is told.
fn own_place(browser: &Browser) -> Option<u64> {
    let script = format!(
        "const ask = new XMLHttpRequest(); ask.open('GET', '/.tidegate/v1/me/{ROOM}?vis=1', false); ask.send(); \
         return JSON.parse(ask.responseText).place;"
    );
    browser.run(&script).as_u64()
}
