//! `/v1/sessions`: one session, read, changed, given another id, ended.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{IF_MATCH, SET_COOKIE};
use http::{HeaderMap, HeaderName, StatusCode};
use serde::Serialize;
use tidegate_core::session::{
    Expect, Fields, Format, Name, Op, Replication, SessionId, Uid, Value, Version, json,
};
use tidegate_store::Reason;
use tidegate_store::desk::{DeskError, DeskPatched, Patch, Seen, SignIn, Standing, Visit};

use super::Api;
use super::input::Object;
use super::parts::{Asked, Budget, SessionRef, header};
use super::problem::Problem;
use super::view::{AttributeView, SessionView, answer, is_known, not_modified, state, with_etag};
use crate::mint::Minted;

/// Names that one request may ask for.
const FIELDS_MAX: usize = 256;
/// Changes in one patch.
const OPS_MAX: usize = 256;
/// Ids that are drawn before it is plain that something else is wrong: they have 192 random bits.
const DRAWS_MAX: usize = 3;

pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The answer to a patch.
#[derive(Serialize)]
struct PatchedView {
    version: u64,
    counters: BTreeMap<String, i64>,
    state: &'static str,
    replicas: Option<u8>,
    repeated: bool,
}

/// `GET /v1/sessions/{session}`
pub(crate) async fn show(
    State(api): State<Arc<Api>>,
    SessionRef(id): SessionRef,
    asked: Asked,
    Budget(budget): Budget,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    asked.only(&["fields", "touch"])?;
    let fields = fields(asked.text("fields"))?;
    let visit = match asked.text("touch") {
        None | Some("true") => api.desk()?.open(&id, None, &fields, budget).await,
        Some("false") => api.desk()?.show(&id, budget).await,
        Some(_) => return Err(Problem::invalid("touch", "it must be true or false")),
    };
    let mut seen = seen(visit)?;
    if is_known(&headers, seen.session.version()) {
        return Ok(not_modified(seen.session.version()));
    }
    narrow(&mut seen, &fields);
    let response = answer(StatusCode::OK, &SessionView::of(&seen));
    Ok(with_etag(response, seen.session.version()))
}

/// `PATCH /v1/sessions/{session}`
pub(crate) async fn patch(
    State(api): State<Arc<Api>>,
    SessionRef(id): SessionRef,
    asked: Asked,
    Budget(budget): Budget,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    asked.only(&[])?;
    refuse_if_match(&headers)?;
    let object = Object::of_body(&body)?;
    object.only(&["ops"])?;
    let ops = object.list("ops", OPS_MAX)?;
    let ops = ops.iter().map(op).collect::<Result<_, _>>()?;
    let patch = Patch {
        ops,
        key: idempotency_key(&headers)?,
    };
    let patched = api.desk()?.patch(&id, None, patch, budget).await?;
    patched_answer(patched)
}

/// `POST /v1/sessions`
pub(crate) async fn create(
    State(api): State<Arc<Api>>,
    asked: Asked,
    Budget(budget): Budget,
    body: Bytes,
) -> Result<Response, Problem> {
    asked.only(&[])?;
    let user = user(&body)?;
    let (seen, minted) = drawn(&api, None, user, budget).await?;
    Ok(with_cookie(StatusCode::CREATED, &seen, &minted))
}

/// `POST /v1/sessions/{session}/rotate`
pub(crate) async fn rotate(
    State(api): State<Arc<Api>>,
    SessionRef(id): SessionRef,
    asked: Asked,
    Budget(budget): Budget,
    body: Bytes,
) -> Result<Response, Problem> {
    asked.only(&[])?;
    let user = user(&body)?;
    let (seen, minted) = drawn(&api, Some(id), user, budget).await?;
    Ok(with_cookie(StatusCode::OK, &seen, &minted))
}

/// A user who signs in, and their tier.
type User = (Uid, Option<Name>);

/// The user whom `body` names.
fn user(body: &[u8]) -> Result<Option<User>, Problem> {
    let object = Object::of_body(body)?;
    object.only(&["uid", "tier"])?;
    let tier = object.name_if_set("tier")?;
    match object.uid_if_set("uid")? {
        Some(uid) => Ok(Some((uid, tier))),
        None if tier.is_some() => Err(Problem::invalid(
            "tier",
            "a tier is given to a user: add uid",
        )),
        None => Ok(None),
    }
}

/// A session under a fresh id: the one that is called `old` so far, or a new one. It is `user`'s if
/// there is one, and else whose it was.
async fn drawn(
    api: &Api,
    old: Option<SessionId>,
    user: Option<User>,
    budget: Duration,
) -> Result<(Seen, Minted), Problem> {
    for _ in 0..DRAWS_MAX {
        let minted = api.mint()?.draw(old.map(|old| old.tag()));
        let made = match (&user, &old) {
            (Some((uid, tier)), old) => {
                let sign_in = SignIn {
                    old: *old,
                    new: minted.id,
                    uid: uid.clone(),
                    tier: tier.clone(),
                };
                api.desk()?.sign_in(sign_in, budget).await.map(Visit::Open)
            }
            (None, Some(old)) => {
                let successor = minted.successor.clone();
                api.desk()?.rotate(old, minted.id, successor, budget).await
            }
            (None, None) => {
                let made = api
                    .desk()?
                    .create(minted.id, Vec::new(), Vec::new(), budget);
                made.await.map(Visit::Open)
            }
        };
        match made {
            Err(DeskError::Taken) => {}
            made => return Ok((seen(made?)?, minted)),
        }
    }
    Err(DeskError::Taken.into())
}

/// `DELETE /v1/sessions/{session}`
pub(crate) async fn destroy(
    State(api): State<Arc<Api>>,
    SessionRef(id): SessionRef,
    asked: Asked,
    Budget(budget): Budget,
) -> Result<Response, Problem> {
    asked.only(&["reason"])?;
    let reason = match asked.text("reason") {
        None | Some("destroyed") => Reason::Destroyed,
        Some("signed-out") => Reason::SignedOut,
        Some(_) => {
            return Err(Problem::invalid(
                "reason",
                "it must be destroyed or signed-out",
            ));
        }
    };
    let existed = api.desk()?.destroy(&id, reason, budget).await?;
    Ok(answer(
        StatusCode::OK,
        &serde_json::json!({ "existed": existed }),
    ))
}

/// What a visit found.
pub(crate) fn seen(visit: Visit) -> Result<Seen, Problem> {
    match visit {
        Visit::Open(seen) => Ok(seen),
        Visit::Gone(gone) => Err(Problem::gone(&gone)),
        Visit::Away => Err(Problem::away("store_away", "the store is away")),
    }
}

/// The names of `text`, which are separated by commas; all when there is none.
fn fields(text: Option<&str>) -> Result<Fields, Problem> {
    let Some(text) = text else {
        return Ok(Fields::All);
    };
    let names: Vec<&str> = text.split(',').filter(|name| !name.is_empty()).collect();
    if names.len() > FIELDS_MAX {
        return Err(Problem::invalid(
            "fields",
            format!("it must name at most {FIELDS_MAX}"),
        ));
    }
    let names = names
        .into_iter()
        .map(Name::new)
        .collect::<Result<Vec<_>, _>>();
    let names = names.map_err(|why| Problem::invalid("fields", why.to_string()))?;
    Ok(Fields::Only(names.into()))
}

/// Leaves out what was not asked for: a copy may hold more.
fn narrow(seen: &mut Seen, fields: &Fields) {
    let Fields::Only(names) = fields else {
        return;
    };
    let session = Arc::make_mut(&mut seen.session);
    session
        .found
        .attributes
        .retain(|(name, _)| names.contains(name));
    session
        .found
        .counters
        .retain(|(name, _)| names.contains(name));
}

/// The change that one object of `ops` is.
fn op(object: &Object<'_>) -> Result<Op, Problem> {
    let name = object.name("name")?;
    match object.text("op")?.as_str() {
        "set" => {
            object.only(&[
                "op", "name", "value", "text", "integer", "base64", "format", "if",
            ])?;
            Ok(Op::Set {
                name,
                value: value(object)?,
                expect: expect(object)?,
            })
        }
        "delete" => {
            object.only(&["op", "name", "if"])?;
            Ok(Op::Delete {
                name,
                expect: expect(object)?,
            })
        }
        "increment" => {
            object.only(&["op", "name", "by"])?;
            let by = if object.has("by") {
                object.integer("by")?
            } else {
                1
            };
            Ok(Op::Increment { name, by })
        }
        "max" => {
            object.only(&["op", "name", "to"])?;
            Ok(Op::Max {
                name,
                to: object.integer("to")?,
            })
        }
        _ => Err(object.wrong("op", "\"set\", \"delete\", \"increment\" or \"max\"")),
    }
}

fn value(object: &Object<'_>) -> Result<Value, Problem> {
    let forms = ["value", "text", "integer", "base64"];
    let mut given = forms.into_iter().filter(|form| object.has(form));
    let (Some(form), None) = (given.next(), given.next()) else {
        return Err(object.wrong(
            "value",
            "there, or text, integer or base64 in its place, and only one of them",
        ));
    };
    if form != "base64" && object.has("format") {
        return Err(object.wrong("format", "beside base64 alone"));
    }
    let (format, bytes) = match form {
        "value" => {
            let raw = object.raw("value").map(|raw| raw.get()).unwrap_or_default();
            let bytes = raw.as_bytes();
            json::check(bytes).map_err(|why| object.bad("value", why.to_string()))?;
            (Format::Json, bytes.to_vec())
        }
        "text" => (Format::Text, object.text("text")?.into_bytes()),
        "integer" => {
            let number = object.integer("integer")?;
            (Format::Integer, number.to_string().into_bytes())
        }
        _ => {
            let bytes = STANDARD
                .decode(object.text("base64")?)
                .map_err(|_| object.wrong("base64", "bytes in base64 with padding"))?;
            (binary_format(object)?, bytes)
        }
    };
    Ok(Value { format, bytes })
}

fn binary_format(object: &Object<'_>) -> Result<Format, Problem> {
    let Some(text) = object.text_if_set("format")? else {
        return Ok(Format::Bytes);
    };
    match text.as_bytes() {
        b"bytes" => Ok(Format::Bytes),
        b"msgpack" => Ok(Format::MessagePack),
        // A letter of a later release, put back as it was read.
        [letter] if letter.is_ascii_alphabetic() => match Format::of_letter(*letter) {
            format @ Format::Other(_) => Ok(format),
            _ => Err(object.wrong(
                "format",
                "\"bytes\", \"msgpack\" or the letter of another format",
            )),
        },
        _ => Err(object.wrong(
            "format",
            "\"bytes\", \"msgpack\" or the letter of another format",
        )),
    }
}

fn expect(object: &Object<'_>) -> Result<Expect, Problem> {
    const WANTED: &str = "the version that was read, or \"absent\"";
    let Some(raw) = object.raw("if") else {
        return Ok(Expect::Any);
    };
    match raw.get() {
        "\"absent\"" => Ok(Expect::Absent),
        number => match number.parse() {
            Ok(0) => Ok(Expect::Absent),
            Ok(version) => Ok(Expect::At(Version(version))),
            Err(_) => Err(object.wrong("if", WANTED)),
        },
    }
}

/// A condition that is not looked at would be worse than none.
fn refuse_if_match(headers: &HeaderMap) -> Result<(), Problem> {
    if headers.contains_key(IF_MATCH) {
        return Err(Problem::invalid(
            "If-Match",
            "conditions are for single attributes: write \"if\" in an op",
        ));
    }
    Ok(())
}

pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(key) = header(headers, &IDEMPOTENCY_KEY)? else {
        return Ok(None);
    };
    if key.is_empty() || key.len() > Patch::KEY_LEN_MAX {
        return Err(Problem::invalid(
            "Idempotency-Key",
            format!("it must have 1 to {} bytes", Patch::KEY_LEN_MAX),
        ));
    }
    Ok(Some(key.to_owned()))
}

/// The answer that a patch has.
pub(crate) fn patched_answer(patched: DeskPatched) -> Result<Response, Problem> {
    match patched {
        DeskPatched::Applied {
            version,
            counters,
            standing,
            replication,
            ..
        } => Ok(applied(version, counters, standing, replication, false)),
        DeskPatched::AlreadyApplied { version } => Ok(applied(
            version,
            Vec::new(),
            Standing::Live,
            Replication::Unasked,
            true,
        )),
        refused => Err(refusal(refused)),
    }
}

fn applied(
    version: Version,
    counters: Vec<(Name, i64)>,
    standing: Standing,
    replication: Replication,
    repeated: bool,
) -> Response {
    let view = PatchedView {
        version: version.0,
        counters: (counters.into_iter())
            .map(|(name, count)| (name.to_string(), count))
            .collect(),
        state: state(standing),
        replicas: match replication {
            Replication::Unasked => None,
            Replication::Reached(replicas) | Replication::Short(replicas) => Some(replicas),
        },
        repeated,
    };
    with_etag(answer(StatusCode::OK, &view), version)
}

/// Why a patch was not made.
fn refusal(patched: DeskPatched) -> Problem {
    let unprocessable =
        |reason, detail: String| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, reason, detail);
    match patched {
        DeskPatched::Conflict { version, current } => {
            let fields: Vec<&str> = current.iter().map(|(name, _)| name.as_str()).collect();
            let field = fields.first().copied().unwrap_or_default().to_owned();
            let shown: BTreeMap<&str, Option<AttributeView>> = (current.iter())
                .map(|(name, attribute)| (name.as_str(), attribute.as_ref().map(AttributeView::of)))
                .collect();
            let shown = serde_json::to_value(shown).unwrap_or_default();
            Problem::new(
                StatusCode::CONFLICT,
                "conflict",
                format!(
                    "not what was expected: {}; nothing was changed",
                    fields.join(", ")
                ),
            )
            .about(field)
            .with("version", serde_json::json!(version.0))
            .with("current", shown)
        }
        DeskPatched::TooLarge {
            name,
            size,
            ceiling,
        } => Problem::too_large(name.as_ref(), size, ceiling),
        DeskPatched::Overflow { name } => unprocessable(
            "overflow",
            format!("{name} would leave the range of 64 bits; nothing was changed"),
        )
        .about(name.as_str()),
        DeskPatched::WrongKind { name } => unprocessable(
            "wrong_kind",
            format!("{name} is an attribute and no counter; nothing was changed"),
        )
        .about(name.as_str()),
        DeskPatched::KeyReused => unprocessable(
            "key_reused",
            "it names another change of this session; nothing was changed".to_owned(),
        )
        .about("Idempotency-Key"),
        DeskPatched::TooOld => Problem::new(
            StatusCode::CONFLICT,
            "too_old",
            "so much was changed since that it cannot be told whether this was done; read again",
        ),
        DeskPatched::Late => Problem::away("late", "its time was over; nothing was changed"),
        DeskPatched::Gone(gone) => Problem::gone(&gone),
        DeskPatched::Applied { .. } | DeskPatched::AlreadyApplied { .. } => {
            unreachable!("what was made is no refusal")
        }
    }
}

/// The answer that hands out a new id. The cookie is for the browser whose session it is.
fn with_cookie(status: StatusCode, seen: &Seen, minted: &Minted) -> Response {
    let response = answer(status, &SessionView::of(seen));
    let mut response = with_etag(response, seen.session.version());
    let line = minted.set_cookie.clone();
    response.headers_mut().insert(SET_COOKIE, line);
    response
}
