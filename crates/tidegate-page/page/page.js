// The page of a waiting room. docs/room-page.md has the documents that it reads. ES2019, so that phones of many years do.
// Comment lines and indentation are taken out when it is sent: no statement may begin with two slashes inside a text.
'use strict';
(() => {
const byId = id => document.getElementById(id);
const data = JSON.parse(byId('data').textContent);
const { room, words, unsent, hosted, name } = data;
const lang = document.documentElement.lang;
const api = '/.tidegate/v1/';
const SAY_MS = 60000;
const AUTO_S = 20;
const TIMEOUT_MS = 10000;
const PLACE_MAX = 2 ** 53 - 1;
const SEQUENCES = 4096;

// ---- words

const plural = new Intl.PluralRules(lang);
const whole = new Intl.NumberFormat(lang);
const halves = new Intl.NumberFormat(lang, { maximumFractionDigits: 1 });
const clock = new Intl.DateTimeFormat(lang, { hour: 'numeric', minute: '2-digit' });
const dated = new Intl.DateTimeFormat(lang, { weekday: 'short', day: 'numeric', month: 'short', hour: 'numeric', minute: '2-digit' });

function word(key, values, count) {
  let text = words[key];
  if (typeof text !== 'string') text = text[plural.select(count)] || text.other;
  return text.replace(/\{(\w+)\}/g, (_, at) => values[at]);
}

// One amount of time, in the words that the browser has for it.
function span(count, unit) {
  try {
    return new Intl.NumberFormat(lang, { style: 'unit', unit, unitDisplay: 'long' }).format(count);
  } catch (e) {
    return whole.format(count) + ' ' + unit[0];
  }
}

// ---- time: what the server said, and how long ago that was. The visitor's clock may be wrong by years.

let sync = null;

const mono = () => performance.now();
const now = () => sync.ms + mono() - sync.at;

function heard(ms) {
  sync = { ms, at: mono() };
}

const at = ms => (Math.abs(ms - now()) < 43200000 ? clock : dated).format(ms);

// ---- what is known

let doc = null;
let me = null;
// When "me" was asked, in which phase, and until when a call holds.
let asked = { at: -Infinity, phase: null };
let until = 0;
let seen = 0;
let fails = 0;
let shown = null;
let raised = false;
let renewed = false;
// Why nothing is asked any more: 'left', 'nocookie', 'in'.
let end = '';

function memory(key, value) {
  try {
    const full = 'tidegate:' + room + ':' + key;
    if (value !== undefined) sessionStorage.setItem(full, value);
    return sessionStorage.getItem(full);
  } catch (e) {
    return null;
  }
}

// ---- position: the same sum as the gateway's, from the marks that are the same for everybody

// How many of a tier have a place below bound.
function below(tier, bound) {
  const places = tier.places;
  let known = 0;
  for (let high = places.length; known < high;) {
    const middle = (known + high) >> 1;
    if (places[middle] < bound) known = middle + 1;
    else high = middle;
  }
  if (!known) return 0;
  const from = (known - 1) * tier.step;
  if (known === places.length) return Math.min(tier.waiting, from + tier.step);
  const part = (bound - places[known - 1]) / (places[known] - places[known - 1]);
  return from + Math.floor(tier.step * part);
}

function position(doc, mine, place) {
  return doc.tiers.reduce((sum, tier, index) => {
    const other = index + 1;
    let bound = place;
    if (other !== mine && doc.credit_ms) {
      const lead = (doc.credit_ms[index] - doc.credit_ms[mine - 1]) * SEQUENCES;
      bound = Math.min(Math.max(place + lead + (other < mine ? 1 : 0), 0), PLACE_MAX);
    } else if (other !== mine) {
      bound = other < mine ? PLACE_MAX : 0;
    }
    return sum + below(tier, bound);
  }, 0);
}

// How many are ahead, and whether that is exact; null where it means nothing.
function ahead() {
  if (!doc || !me || me.epoch !== doc.epoch || me.place === null) return null;
  if (me.ahead !== null && mono() - asked.at < 15000) return { count: me.ahead, exact: true };
  const step = Math.max.apply(null, doc.tiers.map(tier => (tier.waiting ? tier.step : 1)));
  const count = position(doc, me.tier, me.place);
  // No more digits than are known.
  const unit = 10 ** Math.floor(Math.log10(step));
  return { count, told: Math.ceil(count / unit) * unit, exact: step === 1 };
}

// Seconds for so many, between the rows of the table: low, middle, high. Null when the line stands still.
function estimate(count) {
  const rows = doc.eta;
  if (!rows.length || doc.paused_since_ms !== null || doc.phase === 'hold') return null;
  const next = rows.findIndex(row => row[0] >= count);
  if (next === 0) return rows[0].slice(1);
  const [from, to] = next < 0 ? [[0, 0, 0, 0], rows[rows.length - 1]] : [rows[next - 1], rows[next]];
  const part = (count - from[0]) / (to[0] - from[0] || 1);
  return [1, 2, 3].map(each => from[each] + (to[each] - from[each]) * part);
}

// What is shown stays until the truth has left it: a figure that changes with every look tells nobody more.
function banded(count) {
  const next = estimate(count);
  if (!next) {
    shown = null;
    raised = false;
  } else if (!shown || next[1] < shown[0] || next[1] > shown[2]) {
    raised = Boolean(shown) && next[1] > shown[2];
    shown = next;
  }
  return shown;
}

function lasting([low, , high]) {
  if (low > 86400) return words.day;
  const wide = high > 6000;
  const b = Math.max(1, wide ? Math.ceil(high / 1800) / 2 : Math.ceil(high / 60));
  const a = wide ? Math.floor(low / 1800) / 2 : Math.max(1, Math.floor(low / 60));
  if (b === 1 && !wide && low < 60) return words.under;
  const kind = (wide ? 'hours' : 'minutes') + (a < b ? '' : '_one');
  return word(kind, { a: halves.format(a), b: halves.format(b) }, b);
}

// ---- what to show

function view() {
  if (end === 'nocookie' || end === 'left' || end === 'in') {
    const texts = { nocookie: ['nocookie_head', 'nocookie'], left: ['left', ''], in: ['in_head', 'in'] }[end];
    return { state: end, head: words[texts[0]], sub: words[texts[1]] || '', go: end === 'in' ? words.go : words[end === 'left' ? 'join' : 'again'] };
  }
  if (me && me.state === 'ready' && !entered) return { state: 'ready', head: words.turn, sub: '', go: entering ? words.letting : words.go };
  if (fails > 1 || (fails && navigator.onLine === false)) {
    return { state: 'away', head: words[navigator.onLine === false ? 'offline' : 'unreachable'], sub: words.trying };
  }
  if (doc && doc.phase === 'closed') {
    const sold = doc.reason === 'sold-out' ? 'sold_out' : 'ended';
    return { state: 'closed', head: words[sold + '_head'], sub: words[sold] };
  }
  if (!doc || !me) return { state: 'start', head: words.heading, sub: words.moment };
  if (me.state === 'ghost') return { state: 'ghost', head: words.lapsed_head, sub: words.lapsed, go: words.join };
  if (doc.phase === 'prequeue' && doc.event) return before(doc.event);
  if (doc.phase === 'prequeue') return { state: 'paused', head: words.heading, sub: words.paused };
  return waiting();
}

function before(event) {
  const left = event.starts_ms - now();
  const entrants = word('entrants', { n: whole.format(event.entrants) }, event.entrants);
  const notes = event.draw ? [words.draw] : [];
  if (left <= 0) return { state: 'prequeue', head: words.starting, sub: entrants, notes };
  const minutes = left / 60000;
  const [count, unit] = minutes < 2 ? [left / 1000, 'second'] : minutes < 120 ? [minutes, 'minute'] : minutes < 2880 ? [minutes / 60, 'hour'] : [minutes / 1440, 'day'];
  const start = word('start_at', { t: at(event.starts_ms) });
  const step = minutes <= 1 ? 1 : minutes <= 5 ? 5 : minutes <= 15 ? 15 : 0;
  return { state: 'prequeue', head: words.until_start, big: span(Math.ceil(count), unit), sub: start, notes: [entrants].concat(notes), sign: 'prequeue' + step };
}

function waiting() {
  const where = ahead();
  const notes = [];
  if (renewed) notes.push(words.renewed);
  if (me.reason === 'missed') notes.push(words.missed);
  if (!where) return { state: 'start', head: words.heading, sub: words.moment, notes };
  const count = where.exact ? where.count : where.told;
  const values = { n: whole.format(count) };
  const sub = count === 0 ? words.next : word(where.exact ? 'ahead' : 'ahead_about', values, count);
  const band = banded(where.count);
  if (doc.stock !== null && doc.stock < where.count) notes.push(word('stock', { s: whole.format(doc.stock), n: values.n }));
  const first = Math.max(Number(memory('first:' + me.epoch + ':' + me.place)), where.count);
  memory('first:' + me.epoch + ':' + me.place, first);
  const page = { state: 'waiting', head: words.heading, sub, notes, done: first ? 1 - where.count / first : 1 };
  if (!band) {
    const since = doc.paused_since_ms;
    if (doc.reason === 'restoring') notes.unshift(words.restoring);
    notes.unshift(since === null ? words.paused : word('paused_since', { t: at(since) }));
    return Object.assign(page, { state: 'paused', head: words.paused_head });
  }
  if (raised || doc.reason === 'restoring') notes.unshift(words[doc.reason] || words.slower);
  return Object.assign(page, { big: lasting(band) });
}

function put(id, text) {
  const element = byId(id);
  if (element.textContent !== text) element.textContent = text;
  element.hidden = !text;
}

// What the operator says, in the reader's language where there is that.
function message() {
  const texts = doc && doc.message;
  if (!texts) return '';
  const tag = [lang, data.fallback, Object.keys(texts)[0]].find(each => texts[each]) || '';
  byId('message').lang = tag;
  return texts[tag] || '';
}

function paint() {
  if (!doc && !end && !fails) return;
  const page = view();
  document.title = (page.state === 'ready' ? '\u25cf ' : '') + (page.big || page.head) + (name ? ' \u00b7 ' + name : '');
  // Nobody looks: the title is all there is to see.
  if (document.hidden) return;
  const notes = page.notes || [];
  const inside = byId('main');
  inside.dataset.state = page.state;
  if (page.big) inside.dataset.figure = '';
  else delete inside.dataset.figure;
  put('head', page.head);
  put('big', page.big || '');
  put('sub', page.sub);
  const list = byId('notes');
  if (list.textContent !== notes.join('')) {
    list.textContent = '';
    notes.forEach(note => list.appendChild(document.createElement('li')).textContent = note);
  }
  list.hidden = !notes.length;
  put('message', message());
  const lined = page.done !== undefined;
  byId('bar').hidden = !lined;
  byId('fill').style.width = 100 * (page.done || 0) + '%';
  put('since', lined ? word('since', { t: at(me.epoch + Math.floor(me.place / SEQUENCES)) }) : '');
  put('seen', seen ? word('checked', { t: clock.format(seen) }) : '');
  byId('when').hidden = !seen || !(lined || page.state === 'away');
  const live = ['waiting', 'paused', 'start', 'away', 'prequeue'].includes(page.state);
  byId('calm').hidden = !live;
  byId('exit').hidden = !live || !me;
  buttons(page);
  speak(page, notes);
}

function buttons(page) {
  byId('turn').hidden = !page.go;
  if (!page.go) return;
  put('go', page.go);
  byId('go').disabled = entering;
  const ready = page.state === 'ready';
  byId('auto').hidden = !ready || autoOff || entering;
  put('auto_left', word('auto', { n: whole.format(Math.ceil(autoLeft)) }));
  byId('until').hidden = !ready || entering;
  put('until_text', ready ? word('until', { t: clock.format(until) }) : '');
  byId('more').hidden = !ready || !me.extensions_left;
}

// ---- what is read aloud: only what is new in kind, and once a minute at most. A turn cannot wait for that.

let said = null;
let saidState = '';
let saidAt = -Infinity;
let saying = 0;

function speak(page, notes) {
  const called = page.state === 'ready' ? words.turn + '. ' + word('until', { t: clock.format(until) }) : '';
  if (!called || !byId('called').textContent) byId('called').textContent = called;
  if (page.state === 'ready') return;
  const sign = page.sign || [page.state, page.big, notes, message()].join('|');
  clearTimeout(saying);
  if (sign === said) return;
  const rest = saidAt + SAY_MS - mono();
  if (rest > 0) {
    // What is no longer so is not left there to be found; emptying it says nothing.
    if (page.state !== saidState) byId('spoken').textContent = '';
    saying = setTimeout(paint, rest + 20);
    return;
  }
  said = sign;
  saidState = page.state;
  saidAt = mono();
  byId('spoken').textContent = [page.head, page.big, page.sub].concat(notes, message()).filter(Boolean).join('. ');
}

// ---- asking

function Refused(status, after) {
  this.status = status;
  this.after = after;
}

async function ask(method, path) {
  const stop = new AbortController();
  const timer = setTimeout(() => stop.abort(), TIMEOUT_MS);
  try {
    const answer = await fetch(api + path, { method, signal: stop.signal, credentials: 'same-origin', headers: { Accept: 'application/json' } });
    const after = Number(answer.headers.get('Retry-After')) || 0;
    if (!answer.ok) throw new Refused(answer.status, after);
    return await answer.json();
  } finally {
    clearTimeout(timer);
  }
}

function follow(next) {
  if (me && me.place !== null && next.place !== null && next.epoch > me.epoch) renewed = true;
  if (next.state === 'ready' && (!me || me.state !== 'ready')) {
    autoLeft = AUTO_S;
    autoOff = false;
  }
  me = next;
}

function know(next) {
  heard(next.server_now_ms);
  follow(next);
  until = me.left_ms === null ? 0 : now() + me.left_ms;
  asked = { at: mono(), phase: doc && doc.phase };
}

async function askMe() {
  if (navigator.cookieEnabled === false) {
    finish('nocookie');
    return;
  }
  know(await ask('GET', 'me/' + room + '?vis=' + (document.hidden ? 0 : 1)));
  if (me.state !== 'nobody') return;
  // The page came without a place, from a CDN or after a change of line. Who has none after this keeps no cookies.
  await ask('POST', 'join/' + room);
  know(await ask('GET', 'me/' + room + '?vis=1'));
  if (me.state === 'nobody') finish('nocookie');
}

function isNear() {
  if (doc.phase === 'prequeue') return false;
  const where = ahead();
  return !where || where.count < doc.poll.near || me.state === 'ready';
}

function wantsMe() {
  const beat = (me && me.beat_s || doc.poll.beat_s) * 1000;
  return !me || me.epoch !== doc.epoch || asked.phase !== doc.phase || isNear() || mono() - asked.at > beat - 1000;
}

// Seconds to the next look, by the server's word.
function pause() {
  const poll = doc ? doc.poll : { least_s: 2, most_s: 30, part: 20, floor_s: 5, jitter: 0.3, beat_s: 60 };
  const where = doc && ahead();
  const wait = where && estimate(where.count);
  let seconds = Math.max(wait ? Math.min(Math.max(wait[1] / poll.part, poll.least_s), poll.most_s) : poll.most_s, poll.floor_s);
  if (me && me.poll_s) seconds = me.poll_s;
  else if (!me || me.state === 'ready' || (doc && me.epoch !== doc.epoch)) seconds = Math.max(poll.least_s, poll.floor_s);
  if (doc && doc.phase === 'prequeue') seconds = Math.min(seconds, Math.max((doc.event.starts_ms - now()) / 1000 + 1, poll.least_s, poll.floor_s));
  if (document.hidden && doc && me && !isNear()) seconds = me.beat_s || poll.beat_s;
  if (fails) seconds = Math.min(seconds * 2 ** (fails - 1), 60);
  return seconds * (1 + poll.jitter * Math.random());
}

let timer = 0;
let busy = false;
let lead = false;
let spread = false;
let last = -Infinity;

function later(seconds) {
  clearTimeout(timer);
  if (lead && !end && !entered) timer = setTimeout(round, seconds * 1000);
}

// One look: at what is the same for all, and at one's own place when it is near, or a sign of life is due.
async function round() {
  if (busy || !lead || end || entered) return;
  busy = true;
  clearTimeout(timer);
  last = mono();
  let next = 0;
  try {
    if (!doc || !document.hidden) {
      const first = !doc;
      doc = await ask('GET', 'room/' + room + '.json');
      heard(doc.server_now_ms);
      if (first && !spread) next = Math.random() * doc.poll.spread_s;
      spread = true;
    }
    if (doc.phase !== 'closed' && next < 0.5 && wantsMe()) await askMe();
    seen = now();
    fails = 0;
  } catch (e) {
    if (!(e instanceof Refused && e.status === 429)) fails += 1;
    if (e instanceof Refused) next = Math.min(e.after, 120);
  }
  busy = false;
  arrive();
  paint();
  tell();
  later(next || pause());
}

// ---- several tabs: one asks, the others are told

let channel = null;
let release = null;
let queued = null;
let turns = 0;

const state = () => ({ doc, me, asked: mono() - asked.at, phase: asked.phase, now: sync && now(), until, seen, fails, end, entered, autoOff, unseen: lead && document.hidden });

function tell() {
  if (channel) channel.postMessage(state());
}

function told(event) {
  const from = event.data;
  if (from === 'hello') {
    if (lead) tell();
    return;
  }
  if (from.now) heard(from.now);
  doc = from.doc || doc;
  if (from.me) follow(from.me);
  autoOff = autoOff || from.autoOff;
  asked = { at: mono() - from.asked, phase: from.phase };
  until = from.until;
  seen = from.seen;
  fails = from.fails;
  // Where another tab went in, this one may have something to send: its reader decides.
  const over = from.end || (from.entered ? 'in' : '');
  if (over) finish(over);
  else if (end) revive();
  // Browsers slow down tabs that nobody looks at.
  else if (from.unseen && !lead && !document.hidden) take(true);
  paint();
}

// Whoever holds the lock asks. The tab that is looked at takes it from one that is not: browsers slow those down.
function take(steal) {
  const turn = ++turns;
  if (queued) queued.abort();
  queued = new AbortController();
  const options = steal ? { steal: true } : { signal: queued.signal };
  navigator.locks.request('tidegate:' + room, options, () => new Promise(free => {
    if (turn !== turns) return free();
    release = free;
    lead = true;
    tell();
    // The one before may have asked a moment ago.
    if (sync && mono() - sync.at < 2000) later(pause());
    else round();
  })).then(() => true, error => error.name === 'AbortError').then(works => {
    if (turn !== turns) return;
    lead = false;
    clearTimeout(timer);
    if (works) take(false);
    else alone();
  });
}

// Where tabs may not speak to each other, each asks for itself.
function alone() {
  channel = null;
  lead = true;
  round();
}

function open() {
  if (!window.BroadcastChannel || !navigator.locks) return alone();
  channel = new BroadcastChannel('tidegate:' + room);
  channel.onmessage = told;
  channel.postMessage('hello');
  if (!end) take(false);
}

// Asks no more, and leaves it to others, but hears them: a new page of the same visitor may have a place again.
function finish(why) {
  end = why;
  resign();
}

function revive() {
  end = '';
  if (channel) take(false);
  else alone();
}

function resign() {
  clearTimeout(timer);
  turns += 1;
  lead = false;
  if (queued) queued.abort();
  if (release) release();
  queued = release = null;
}

function shut() {
  resign();
  if (channel) channel.close();
  channel = null;
}

// ---- going in

let entering = false;
let entered = false;
let autoOff = false;
let autoLeft = AUTO_S;
let pulsed = mono();

// Back here right after having gone in: something is wrong, and going round in circles helps nobody.
function wasIn() {
  return sync !== null && Math.abs(now() - Number(memory('in') || -1e9)) < 15000;
}

function arrive() {
  if (end || !doc) return;
  if (doc.phase === 'off' || (me && me.state === 'passed')) {
    if (wasIn()) finish('in');
    else proceed();
  } else if (me && me.state === 'ready' && wasIn()) {
    autoOff = true;
  }
}

function proceed() {
  entered = true;
  memory('in', now());
  tell();
  clearTimeout(timer);
  const target = location.hash.slice(1);
  // From a CDN the page is at an address of its own, and the fragment says where its reader wanted to go.
  if (hosted) location.replace(/^\/(?![/\\])/.test(target) ? target : data.home);
  // The answer to a form is asked for again with what was entered; browsers ask before they send it.
  else location.reload();
}

async function enter() {
  if (entering || entered) return;
  entering = true;
  paint();
  try {
    know(await ask('POST', 'claim/' + room));
    entering = false;
    if (me.state === 'passed') proceed();
    else paint();
  } catch (e) {
    const late = e instanceof Refused && e.status === 409;
    setTimeout(() => {
      entering = false;
      if (!late) enter();
      else if (lead) round();
      else askMe().catch(() => {}).then(paint);
    }, late ? 0 : 1000 * Math.min(Math.max(e.after || 2, 1), 30));
  }
}

function pulse() {
  const passed = (mono() - pulsed) / 1000;
  pulsed = mono();
  if (!sync || end || entered) return;
  if (!me || me.state !== 'ready') {
    if (doc && doc.phase === 'prequeue') paint();
    return;
  }
  const left = until - now();
  if (left < -2000) {
    // Over: the place is kept, and asking says so.
    if (lead && !busy && mono() - last > 2000) round();
    return;
  }
  if (!autoOff && !entering) {
    if (!document.hidden) autoLeft = Math.max(autoLeft - passed, 0);
    // Who does not look keeps the call as long as it lasts, and goes in at the end of it; a form is sent in nobody's absence.
    const closing = document.hidden && !unsent && left < 75000;
    if (lead && (!autoLeft || closing)) enter();
  }
  paint();
}

function on(id, act) {
  byId(id).addEventListener('click', act);
}

on('go', () => {
  if (end === 'in') proceed();
  else if (end === 'nocookie') location.reload();
  else if (end === 'left' || (me && me.state === 'ghost')) rejoin();
  else enter();
});

async function rejoin() {
  try {
    await ask('POST', 'join/' + room);
    me = null;
    await askMe();
    if (end && me && me.state !== 'nobody') revive();
    else if (lead) later(pause());
  } catch (e) {
    fails += 1;
  }
  paint();
  tell();
}

on('stop', () => {
  autoOff = true;
  tell();
  paint();
  byId('go').focus();
});

on('more', async () => {
  autoOff = true;
  try {
    know(await ask('POST', 'more-time/' + room));
  } catch (e) {
    if (lead) round();
  }
  paint();
  tell();
});

on('leave', () => {
  byId('leave').hidden = true;
  byId('sure').hidden = false;
  byId('stay').focus();
});

on('stay', () => {
  byId('sure').hidden = true;
  byId('leave').hidden = false;
  byId('leave').focus();
});

on('really', async () => {
  try {
    await ask('POST', 'leave/' + room);
    finish('left');
  } catch (e) {
    fails += 1;
  }
  byId('sure').hidden = true;
  byId('leave').hidden = false;
  paint();
  tell();
});

// ---- the browser's own events

document.addEventListener('visibilitychange', () => {
  if (document.hidden) {
    if (lead) tell();
    return;
  }
  if (channel && !lead && !end) take(true);
  else if (mono() - last >= 2000) round();
  // What was planned for a page that nobody sees is too late for one that is seen.
  else later(pause());
  paint();
});
addEventListener('online', round);
// Said at once; an answer that comes all the same is believed more than the browser.
addEventListener('offline', () => {
  fails = Math.max(fails, 1);
  paint();
});
addEventListener('pagehide', shut);
addEventListener('pageshow', event => {
  if (!event.persisted) return;
  // Back from the browser's memory of pages: whoever went in and came back finds a way in, not a dead page.
  if (entered) {
    entered = false;
    end = 'in';
  }
  open();
  paint();
});
setInterval(pulse, 1000);
put('sub', words.moment);
open();
})();
