//! What follows about the store, the sessions in it, and the sidecar.

use std::fmt;

use tidegate_core::session::WriteClass;
use tidegate_store::desk::{AttributePlan, DeskPlan};
use tidegate_store::redis::{Arrangement, RedisPlan, Use};

use super::super::{KeyFile, Sessions, Setup, Store, durability, may_be_evicted};
use super::span;

/// Nothing, where nothing is kept and nothing is said about it.
pub(super) fn show(f: &mut fmt::Formatter<'_>, setup: &Setup) -> fmt::Result {
    let keeps = setup.sessions.is_some()
        || Use::ALL
            .iter()
            .any(|&which| setup.store.servers(which).is_some());
    if !keeps {
        return Ok(());
    }
    show_store(f, &setup.store)?;
    if let Some(sessions) = &setup.sessions {
        show_sessions(f, sessions)?;
    }
    if let Some(sidecar) = &setup.sidecar {
        writeln!(
            f,
            "  sidecar   on {}, {} requests at once, bodies up to {}",
            sidecar.listen,
            sidecar.requests_max,
            bytesize::ByteSize(sidecar.body_bytes_max as u64),
        )?;
    }
    Ok(())
}

fn show_store(f: &mut fmt::Formatter<'_>, store: &Store) -> fmt::Result {
    writeln!(f, "\nstore")?;
    let mut shown: Vec<(Vec<&str>, Option<&RedisPlan>)> = Vec::new();
    for which in Use::ALL {
        let plan = store.servers(which).map(|servers| &servers.plan);
        match shown.iter_mut().find(|(_, other)| *other == plan) {
            Some((uses, _)) => uses.push(which.name()),
            None => shown.push((vec![which.name()], plan)),
        }
    }
    for (uses, plan) in shown {
        match plan {
            None => writeln!(
                f,
                "  {} in this process, in {}",
                uses.join(", "),
                store.path.display()
            )?,
            Some(plan) => writeln!(
                f,
                "  {} in {}; connect within {}, answer within {}, {} × {} calls at once on each shard",
                uses.join(", "),
                place(plan),
                span(plan.connect_timeout),
                span(plan.operation_timeout),
                plan.lanes.fast,
                plan.lanes.fast_in_flight_max,
            )?,
        }
    }
    warn_of_shared_eviction(f, store)
}

/// `maxmemory-policy` holds for a whole server: what may go and what must stay need two of them.
fn warn_of_shared_eviction(f: &mut fmt::Formatter<'_>, store: &Store) -> fmt::Result {
    for loses in Use::ALL.into_iter().filter(|&which| may_be_evicted(which)) {
        let Some(own) = store.servers(loses) else {
            continue;
        };
        let shares = |keeps: Use| {
            let other = store.servers(keeps).filter(|_| !may_be_evicted(keeps));
            other.and_then(|other| meet(&own.plan, &other.plan))
        };
        let sharing: Vec<Use> = Use::ALL
            .into_iter()
            .filter(|&which| shares(which).is_some())
            .collect();
        let Some(address) = sharing.first().and_then(|&which| shares(which)) else {
            continue;
        };
        let keeps: Vec<&str> = sharing.iter().map(|which| which.name()).collect();
        let (loses, keeps) = (loses.name(), keeps.join(", "));
        if store.own.is_empty() {
            writeln!(
                f,
                "  needs     maxmemory-policy noeviction at {address}: {loses} could be evicted, but {keeps} \
                 must not be; [store.{loses}] can name a server of their own"
            )?;
        } else {
            writeln!(
                f,
                "  warning   {loses} may be evicted and {keeps} must not be, but they share {address}: its \
                 maxmemory-policy is for the whole server, whatever the database. Set noeviction there, or \
                 name another server in [store.{loses}]"
            )?;
        }
    }
    Ok(())
}

/// A server that both plans name.
fn meet(one: &RedisPlan, other: &RedisPlan) -> Option<String> {
    let primary = |plan: &RedisPlan| match &plan.arrangement {
        Arrangement::Sentinel { primary, .. } => Some(primary.clone()),
        _ => None,
    };
    // Sentinels watch over several masters; only the same one is the same server.
    if primary(one) != primary(other) {
        return None;
    }
    let theirs = addresses(other);
    let shared = addresses(one)
        .iter()
        .find(|address| theirs.contains(address));
    shared.map(ToString::to_string)
}

/// The servers that a plan names.
fn addresses(plan: &RedisPlan) -> &[tidegate_store::redis::Address] {
    match &plan.arrangement {
        Arrangement::Standalone(address) => std::slice::from_ref(address),
        Arrangement::Sentinel { sentinels, .. } => sentinels,
        Arrangement::Cluster(members) => members,
    }
}

/// Where the servers of a plan are, in words.
pub(crate) fn place(plan: &RedisPlan) -> String {
    let list: Vec<String> = addresses(plan).iter().map(ToString::to_string).collect();
    let list = list.join(" ");
    match &plan.arrangement {
        Arrangement::Standalone(_) => format!("the server {list}, database {}", plan.database),
        Arrangement::Sentinel { primary, .. } => {
            format!(
                "the master \"{primary}\" of the Sentinels {list}, database {}",
                plan.database
            )
        }
        Arrangement::Cluster(_) => format!("the cluster of {list}"),
    }
}

fn show_sessions(f: &mut fmt::Formatter<'_>, sessions: &Sessions) -> fmt::Result {
    let desk = &sessions.desk;
    let gateway = &sessions.gateway;
    let (key_file, made) = match &sessions.key_file {
        KeyFile::Shared(path) => (path, ""),
        KeyFile::Own(path) => (path, " (made when it is missing)"),
    };
    writeln!(f, "\nsessions")?;
    writeln!(
        f,
        "  cookie    {}{}, keys in {}{made}",
        gateway.cookies.session(),
        if gateway.tickets {
            format!(", ticket {}", gateway.cookies.ticket())
        } else {
            ", no ticket: while the store is away only gateways that have a copy know a visitor"
                .to_owned()
        },
        key_file.display(),
    )?;
    writeln!(
        f,
        "  lives     {} without use; at most {} signed in, {} anonymous; resumed within {}",
        span(desk.lives.signed_in.idle),
        span(desk.lives.signed_in.absolute),
        span(desk.lives.anonymous.absolute),
        span(desk.resume.window),
    )?;
    writeln!(
        f,
        "  ceilings  {} a value, {} and {} values a session, {} out of line",
        bytesize::ByteSize(desk.ceilings.value.into()),
        bytesize::ByteSize(desk.ceilings.session.into()),
        desk.ceilings.count,
        bytesize::ByteSize(desk.blob_bytes_max.into()),
    )?;
    show_attributes(f, desk)?;
    write!(f, "  writes   ")?;
    for (at, class) in WriteClass::ALL.into_iter().enumerate() {
        let gap = if at == 0 { "" } else { "," };
        write!(
            f,
            "{gap} {} {}",
            class.name(),
            durability::show(desk.durability(class))
        )?;
    }
    writeln!(f)?;
    if !desk.trust.is_zero() {
        writeln!(
            f,
            "  warning   trust = {}: for so long a gateway does not see what another one wrote, nor that \
             somebody signed out",
            span(desk.trust)
        )?;
    }
    Ok(())
}

fn show_attributes(f: &mut fmt::Formatter<'_>, desk: &DeskPlan) -> fmt::Result {
    let list = |is: fn(&AttributePlan) -> bool| {
        let names = desk.attributes.names(is);
        let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
        if names.is_empty() {
            "nothing".to_owned()
        } else {
            names.join(" ")
        }
    };
    writeln!(
        f,
        "  keeps     at a sign-in {}; for the next session {}; in the ticket {}",
        list(|row| row.carry),
        list(|row| row.resume.is_some()),
        list(|row| row.ticket),
    )
}
