//! Runtimes that are full, each in its own way: what our agent says of them, and what an agent says that looks at one
//! sign for all.

pub(crate) mod clients;
pub(crate) mod servers;

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::Value;

use crate::harness::{
    Args, Drill, Figure, HEALTH_PAGE, SLOW_PAGE, Tomcat, TomcatSetup, Verdict, ask, probe,
};
use clients::{Clients, fpm_status};
use servers::{Over, Server};

/// This drill.
pub(crate) const DRILL: Drill = Drill {
    name: "health-runtimes",
    promise: "of Tomcat, PHP-FPM, Puma and gunicorn with all workers busy the agent says so, whatever each of them says",
    takes: Duration::from_secs(45),
    run,
};

/// How long each request keeps a worker.
const SLOW: Duration = Duration::from_secs(6);

/// What `tidegate agent probe` has seen.
struct Seen {
    /// The dimension that is nearest to its limit, and how near.
    fullest: String,
    used: f64,
    /// Connections in the fullest accept queue, and what it holds.
    pending: f64,
    limit: f64,
}

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    tomcat(&mut verdict)?;
    php_fpm(&mut verdict, Over::Unix)?;
    php_fpm(&mut verdict, Over::Tcp)?;
    puma(&mut verdict)?;
    gunicorn(&mut verdict)?;
    Ok(verdict)
}

/// Five threads, twenty requests: nothing waits where the kernel could see it.
fn tomcat(verdict: &mut Verdict) -> anyhow::Result<()> {
    let setup = TomcatSetup::new(5).page(SLOW_PAGE);
    let server = Tomcat::start(&setup.page(HEALTH_PAGE))?;
    let (password, url) = (server.file("password"), server.manager());
    let listen = server.address().to_string();
    let flags = [
        "--profile",
        "tomcat",
        "--url",
        &url,
        "--user",
        "probe",
        "--password-file",
        &password,
        "--listen",
        &listen,
    ];
    // The page is compiled by whoever asks for it first.
    ask(server.address(), "/slow.jsp?ms=0")?;
    let idle = look(&flags)?;
    let page = format!("/slow.jsp?ms={}", SLOW.as_millis());
    let clients = Clients::http(server.address(), &page, 20)?;
    let full = look(&flags)?;
    let health = well(verdict, server.second_connector());
    clients.stop();
    tell(
        verdict,
        "Tomcat, 5 threads, 20 requests",
        &idle,
        &full,
        "a health page on another connector",
        health,
    );
    Ok(())
}

/// Two children, seven requests.
fn php_fpm(verdict: &mut Verdict, over: Over) -> anyhow::Result<()> {
    let (server, at, status) = Server::php_fpm(2, 8, over)?;
    let status_at = status.to_string();
    let flags = [
        "--profile",
        "php-fpm",
        "--status",
        &status_at,
        "--workers",
        "2",
        "--listen",
        &at.to_string(),
    ];
    let idle = look(&flags)?;
    let clients = Clients::fast_cgi(&at, &server.file("slow.php"), SLOW, 7)?;
    let full = look(&flags)?;
    let told = fpm_status(status)?;
    clients.stop();
    let number = |name: &str| told[name].as_f64().unwrap_or(f64::NAN);
    let queue = number("listen queue") / number("listen queue len").max(1.0);
    let what = match over {
        Over::Unix => "PHP-FPM on a Unix socket, 2 children, 7 requests",
        Over::Tcp => "PHP-FPM on TCP, 2 children, 7 requests",
    };
    tell(verdict, what, &idle, &full, "its own listen queue", queue);
    Ok(())
}

/// Two threads, eight requests.
fn puma(verdict: &mut Verdict) -> anyhow::Result<()> {
    let (server, control, token) = Server::puma(2)?;
    let (url, listen) = (
        format!("http://{control}/stats"),
        server.address().to_string(),
    );
    let token_file = server.file("token");
    let flags = [
        "--profile",
        "puma",
        "--url",
        &url,
        "--token-file",
        &token_file,
        "--listen",
        &listen,
    ];
    let idle = look(&flags)?;
    let clients = Clients::http(server.address(), &format!("/?ms={}", SLOW.as_millis()), 8)?;
    let full = look(&flags)?;
    let stats: Value = serde_json::from_slice(&ask(control, &format!("/stats?token={token}"))?)?;
    clients.stop();
    let backlog = stats["backlog"].as_f64().context("Puma tells no backlog")?;
    tell(
        verdict,
        "Puma, 2 threads, 8 requests",
        &idle,
        &full,
        "its own backlog",
        backlog / 2.0,
    );
    Ok(())
}

/// Two workers, eight requests.
fn gunicorn(verdict: &mut Verdict) -> anyhow::Result<()> {
    let (server, statsd) = Server::gunicorn(2)?;
    let (statsd, listen) = (statsd.to_string(), server.address().to_string());
    let flags = [
        "--profile",
        "gunicorn",
        "--statsd",
        &statsd,
        "--workers",
        "2",
        "--listen",
        &listen,
    ];
    let idle = look(&flags)?;
    let clients = Clients::http(server.address(), &format!("/?ms={}", SLOW.as_millis()), 8)?;
    let full = look(&flags)?;
    clients.stop();
    // It has no page of its own; what is told of it is told when a request ends.
    tell(
        verdict,
        "gunicorn, 2 workers, 8 requests",
        &idle,
        &full,
        "requests that ended",
        0.0,
    );
    Ok(())
}

/// Ours beside an agent that looks at the accept queue, and one that asks the runtime.
fn tell(verdict: &mut Verdict, what: &str, idle: &Seen, full: &Seen, page: &str, says: f64) {
    verdict.say(format!(
        "{what}: {} {:.0} % full; in the accept queue {} of {}",
        full.fullest,
        full.used * 100.0,
        full.pending,
        full.limit
    ));
    verdict.add(
        Figure::share(format!("{what}: used"), full.used.min(1.0))
            .beside(
                "by the accept queue",
                (full.pending / full.limit.max(1.0)).min(1.0),
            )
            .beside(format!("by {page}"), says)
            .exactly(1.0),
    );
    let named = f64::from(full.fullest == "threads");
    verdict.add(Figure::count(format!("{what}: threads are named"), named).exactly(1.0));
    verdict.add(Figure::share(format!("{what}: used when idle"), idle.used).below(0.5));
}

/// What a probe shows of an application, after two seconds of looking.
fn look(flags: &[&str]) -> anyhow::Result<Seen> {
    let seen = probe(flags, 2)?;
    let fullest = seen["fullest"]
        .as_str()
        .with_context(|| format!("nothing is known: {seen:#}"))?;
    let of_it = seen["signals"].as_array().into_iter().flatten();
    let ratios = of_it
        .filter(|it| it["dimension"] == fullest)
        .filter_map(|it| it["ratio"].as_f64());
    Ok(Seen {
        fullest: fullest.to_owned(),
        used: ratios.fold(0.0, f64::max),
        pending: seen["listeners"]["pending"].as_f64().unwrap_or(f64::NAN),
        limit: seen["listeners"]["limit"].as_f64().unwrap_or(f64::NAN),
    })
}

/// What a health check makes of a server whose page it gets: that it is well.
fn well(verdict: &Verdict, address: SocketAddr) -> f64 {
    let asked = Instant::now();
    let came = ask(address, "/health.html").is_ok();
    verdict.say(format!(
        "a health check is answered within {} ms",
        asked.elapsed().as_millis()
    ));
    f64::from(!came)
}

/// A file in `dir`, as a flag has it.
fn path_in(dir: &Path, name: &str) -> String {
    dir.join(name).display().to_string()
}
