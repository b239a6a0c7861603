// Shows new lines of a run's log, and selects runs in a list. Both pages work without this file.

// Only the end of a long log is read; older lines are loaded when the user scrolls up. A log may
// have a million lines. step is the initial number of lines on the page, kept the maximum number on
// the page, and most the maximum number in memory while the log is followed.
const kept = 10000;
const step = 2000;
const most = 60000;
const part = 512 << 10; // number of bytes requested at once

const section = document.getElementById('log');
if (section) follow(section);

const all = document.getElementById('select-all');
if (all) prepare();
document.addEventListener('skald:refreshed', prepare);

function prepare() {
  const box = document.getElementById('select-all');
  if (!box) return;
  box.hidden = false;
  box.onchange = () => {
    for (const b of document.querySelectorAll('input[name="run"]')) b.checked = box.checked;
  };
}

function follow(section) {
  const pre = section.querySelector('#log-lines');
  const state = section.querySelector('#log-state');
  const news = section.querySelector('#log-new');
  const found = section.querySelector('#log-found');
  const download = section.querySelector('#log-download');
  const form = section.querySelector('form');
  const url = `${document.body.dataset.api}/api/v1/job-runs/${section.dataset.run}`;
  const older = section.querySelector('#log-older');
  let held = empty(); // the lines that are in memory
  let begun = false; // the first of them is the first line of the log
  let first = 0, last = 0; // the lines that are on the page
  let seen = 0; // number of lines when following was paused
  let following = true;
  let position = ''; // position of the last chunk
  let stop = new AbortController();
  let drawing = false;
  let loading = false;
  let whole = false; // keep the whole log in memory
  let hits = [], hit = -1;

  form.addEventListener('submit', (e) => e.preventDefault());
  const asked = new URLSearchParams(location.search).get('attempt');
  if (asked) form.attempt.value = asked;
  for (const name of ['wrap', 'times']) {
    form[name].checked = localStorage.getItem(`log-${name}`) === 'yes';
    const apply = () => pre.classList.toggle(name, form[name].checked);
    form[name].addEventListener('change', () => { localStorage.setItem(`log-${name}`, form[name].checked ? 'yes' : ''); apply(); });
    apply();
  }

  function query(more) {
    const q = new URLSearchParams(more);
    for (const name of ['attempt', 'stream']) if (form[name].value) q.set(name, form[name].value);
    return `${url}/logs?${q}`;
  }

  function restart() {
    stop.abort();
    held = empty();
    begun = loading = whole = false;
    first = last = seen = 0;
    position = '';
    following = true;
    pre.replaceChildren();
    download.href = query({ format: 'text' });
    search();
    read();
  }
  form.attempt.addEventListener('change', restart);
  form.stream.addEventListener('change', restart);

  // ended reports whether there will be no more lines, which the head of the page shows.
  function ended() {
    const head = document.querySelector('#head h1')?.dataset;
    return head && ('ended' in head || form.attempt.value && Number(head.attempt) > Number(form.attempt.value));
  }

  // read requests new lines once a second. A stream would occupy a connection, and a browser has
  // only six for all its tabs.
  async function read() {
    const mine = stop = new AbortController();
    for (let after = false; !mine.signal.aborted; await new Promise((done) => setTimeout(done, 1000))) {
      if (mine.signal.aborted) return;
      try {
        const over = ended(); // determined before the log is read, because the last lines may still arrive
        const n = await chunks(position ? {} : { tail_bytes: part }, mine, position ? { 'Last-Event-ID': position } : {}, (chunk) => {
          if (!held.starts.length) begun = chunk.seq === 0 && (chunk.attempt === 1 || form.attempt.value !== '');
          take(held, chunk, changed);
          position = `${chunk.attempt}.${chunk.seq}`;
        });
        if (n < 0) return;
        if (n) draws();
        if (over && after && !n) {
          state.textContent = held.texts.length ? 'The log is complete.' : 'Nothing was logged.';
          return;
        }
        after = over;
        state.textContent = over ? '' : 'Following the log.';
      } catch {
        if (mine.signal.aborted) return;
        state.textContent = 'Connection lost. The log continues when Skald responds.';
      }
    }
  }

  // chunks reads a part of the log, and returns the number of its chunks, or -1 if it cannot be
  // read.
  async function chunks(what, mine, headers, each) {
    const res = await fetch(query({ format: 'ndjson', ...what }), { headers, signal: mine.signal });
    if (!res.ok) {
      const problem = await res.json().catch(() => ({}));
      if (res.status >= 500 || res.status === 429) throw new Error(res.statusText);
      state.textContent = problem.detail ?? res.statusText;
      return -1;
    }
    let n = 0;
    const reader = res.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let rest = '', from = 0; ; rest = rest.slice(from), from = 0) {
      const { done, value } = await reader.read();
      if (done) return n;
      rest += value;
      for (let end; (end = rest.indexOf('\n', from)) >= 0; from = end + 1) {
        if (mine.signal.aborted) return n;
        each(JSON.parse(rest.slice(from, end)));
        n++;
      }
    }
  }

  // changed redraws a line to which text was added.
  function changed(at) {
    if (at >= first && at < last) pre.children[at - first]?.replaceWith(draw(at));
  }

  // earlier reads the part before the lines in memory.
  async function earlier() {
    if (begun || loading || !held.starts.length) return false;
    loading = true;
    const mine = stop, got = empty();
    try {
      const n = await chunks({ tail_bytes: part, before: held.starts[0].at }, mine, {}, (chunk) => take(got, chunk));
      if (mine.signal.aborted || n < 0) return false;
      begun = n === 0 || got.starts[0].at === (form.attempt.value ? `${form.attempt.value}.0` : '1.0');
      // The first line of a stream may have begun in the earlier part.
      for (const at of Object.values(got.open).sort((a, b) => b - a)) {
        const i = held.marks.findIndex((m) => m.key === got.marks[at].key);
        if (i < 0) continue;
        held.texts[i] = got.texts[at] + held.texts[i];
        got.texts.splice(at, 1);
        got.marks.splice(at, 1);
        for (const s of got.starts) if (s.line > at) s.line--;
        changed(i);
      }
      const more = got.texts.length;
      for (const s of held.starts) s.line += more;
      for (const key in held.open) held.open[key] += more;
      held = { texts: got.texts.concat(held.texts), marks: got.marks.concat(held.marks), starts: got.starts.concat(held.starts), open: held.open };
      first += more;
      last += more;
      seen += more;
      if (sought()) search();
      if (!following && pre.scrollTop < 200) above();
      return true;
    } finally {
      loading = false;
      older.hidden = begun || !held.starts.length;
    }
  }
  older.addEventListener('click', async () => {
    older.disabled = whole = true;
    try {
      while (await earlier());
    } catch {
      state.textContent = 'Skald is not responding.';
    }
    older.disabled = false;
  });

  // forget drops the oldest lines while the log is followed; they can be read again.
  function forget() {
    if (!following || whole || held.texts.length <= most) return;
    const start = held.starts.findLast((s) => s.clean && s.line <= held.texts.length - most / 2);
    const n = start?.line ?? 0;
    if (!n) return;
    const i = held.starts.indexOf(start);
    held.texts.splice(0, n);
    held.marks.splice(0, n);
    held.starts.splice(0, i);
    for (const s of held.starts) s.line -= n;
    for (const key in held.open) held.open[key] -= n;
    seen -= n;
    begun = false;
    pre.replaceChildren();
    first = last = 0;
    if (sought()) search();
  }

  function draws() {
    if (drawing) return;
    drawing = true;
    if (document.hidden) setTimeout(show); // a page that is not visible gets no animation frames
    else requestAnimationFrame(show);
  }

  // show updates the page with the lines that have arrived.
  function show() {
    drawing = false;
    older.hidden = begun || !held.starts.length;
    if (!following) {
      const n = held.texts.length - seen;
      news.hidden = n === 0;
      news.textContent = `paused: ${n.toLocaleString('en')} new ${n === 1 ? 'line' : 'lines'}`;
      return;
    }
    news.hidden = true;
    forget();
    window_(Math.max(0, held.texts.length - step), held.texts.length);
    pre.scrollTop = pre.scrollHeight;
    seen = held.texts.length;
  }

  // window_ puts the lines from a to b on the page, and keeps those that are already there.
  function window_(a, b) {
    if (a >= last || b <= first) { pre.replaceChildren(); first = last = a; }
    while (first < a) { pre.firstElementChild.remove(); first++; }
    while (last > b) { pre.lastElementChild.remove(); last--; }
    if (a < first) {
      const added = document.createDocumentFragment();
      for (let i = a; i < first; i++) added.append(draw(i));
      pre.prepend(added);
      first = a;
    }
    if (b > last) {
      const added = document.createDocumentFragment();
      for (let i = last; i < b; i++) added.append(draw(i));
      pre.append(added);
      last = b;
    }
  }

  function draw(i) {
    const line = document.createElement('span');
    line.className = held.marks[i].err ? 'log-line err' : 'log-line';
    const time = document.createElement('span');
    time.className = 'log-time';
    time.textContent = held.marks[i].at.slice(11, 23);
    line.append(time);
    colour(line, held.texts[i]);
    if (hits.length && shown(held.texts[i]).includes(sought())) line.classList.add('hit');
    if (hits[hit] === i) line.classList.add('at');
    return line;
  }

  pre.addEventListener('scroll', () => {
    const atEnd = pre.scrollHeight - pre.scrollTop - pre.clientHeight < 30 && last === held.texts.length;
    if (atEnd !== following) {
      following = atEnd;
      if (following) show();
      else seen = held.texts.length;
    }
    if (following) return;
    if (pre.scrollTop < 200) above();
    else if (pre.scrollHeight - pre.scrollTop - pre.clientHeight < 200 && last < held.texts.length) {
      const to = Math.min(held.texts.length, last + step);
      window_(first, to);
      const was = pre.scrollHeight;
      window_(Math.max(first, to - kept), to);
      pre.scrollTop -= was - pre.scrollHeight;
    }
  });
  // above adds older lines to the page.
  function above() {
    if (first === 0) { earlier().catch(() => { state.textContent = 'Skald is not responding.'; }); return; }
    const was = pre.scrollHeight;
    const from = Math.max(0, first - step);
    window_(from, last);
    pre.scrollTop += pre.scrollHeight - was;
    window_(from, Math.min(last, from + kept));
  }
  news.addEventListener('click', () => { following = true; show(); });

  // of describes what was searched, unless it was everything.
  const of = () => (begun || !held.starts.length ? '' : ` in the last ${held.texts.length.toLocaleString('en')}`);
  const sought = () => form.find.value.toLowerCase();
  function search() {
    const text = sought();
    hits = [];
    hit = -1;
    if (text) held.texts.forEach((t, i) => { if (shown(t).includes(text)) hits.push(i); });
    found.textContent = text ? `${hits.length.toLocaleString('en')} ${hits.length === 1 ? 'line' : 'lines'}${of()}` : '';
    const [a, b] = [first, last];
    pre.replaceChildren();
    first = last = a;
    window_(a, b);
    if (following) pre.scrollTop = pre.scrollHeight;
  }
  let typing;
  form.find.addEventListener('input', () => { clearTimeout(typing); typing = setTimeout(search, 200); });
  form.find.addEventListener('keydown', (e) => {
    if (e.key !== 'Enter' || !hits.length) return;
    hit = e.shiftKey ? (hit <= 0 ? hits.length : hit) - 1 : (hit + 1) % hits.length;
    const at = hits[hit];
    following = false;
    seen = held.texts.length;
    if (at < first || at >= last) {
      const from = Math.max(0, at - step);
      window_(from, Math.min(held.texts.length, from + kept));
    }
    pre.querySelector('.at')?.classList.remove('at');
    const line = pre.children[at - first];
    line.classList.add('at');
    line.scrollIntoView({ block: 'center' });
    found.textContent = `${(hit + 1).toLocaleString('en')} of ${hits.length.toLocaleString('en')} lines${of()}`;
  });

  // Only a visible page has a stream.
  document.addEventListener('visibilitychange', () => {
    if (document.hidden) stop.abort();
    else if (stop.signal.aborted) read();
  });
  pre.replaceChildren();
  download.href = query({ format: 'text' });
  read();
}

// empty returns an empty part of a log. It contains the lines with their color codes; the time and
// source of each line; where each chunk begins; and the incomplete line of each attempt and stream.
function empty() { return { texts: [], marks: [], starts: [], open: {} }; }

// take adds the lines of a chunk. The last line of a chunk may be completed by the next chunk of
// its stream.
function take(log, chunk, grown = () => {}) {
  const text = chunk.chunk ?? new TextDecoder().decode(Uint8Array.from(atob(chunk.chunk_base64 ?? ''), (c) => c.charCodeAt(0)));
  const key = `${chunk.attempt} ${chunk.stream}`;
  log.starts.push({ at: `${chunk.attempt}.${chunk.seq}`, line: log.texts.length, clean: !Object.keys(log.open).length });
  const parts = text.split('\n');
  const complete = parts.at(-1) === '';
  if (complete) parts.pop();
  const mark = { at: chunk.at, err: chunk.stream === 'stderr', key };
  parts.forEach((part, i) => {
    if (i === 0 && log.open[key] !== undefined) {
      log.texts[log.open[key]] += part;
      grown(log.open[key]);
    } else {
      log.texts.push(part);
      log.marks.push(mark);
    }
  });
  if (complete) delete log.open[key];
  else if (parts.length > 1 || log.open[key] === undefined) log.open[key] = log.texts.length - 1;
}

const escape = /\x1b\[([0-9;:?]*)([@-~])|\x1b[@-Z\\^_]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f]/g;

// visible returns a line without the text that a terminal would have overwritten.
function visible(text) {
  const line = text.endsWith('\r') ? text.slice(0, -1) : text;
  return line.slice(line.lastIndexOf('\r') + 1);
}

// shown returns the searchable text of a line.
function shown(text) { return visible(text).replace(escape, '').toLowerCase(); }

// colour adds a line to node, with terminal colors as classes. Everything in it is added as text.
function colour(node, text) {
  const line = visible(text);
  let classes = new Set();
  let from = 0;
  const put = (part) => {
    if (!part) return;
    if (!classes.size) { node.append(part); return; }
    const span = document.createElement('span');
    span.className = [...classes].join(' ');
    span.textContent = part;
    node.append(span);
  };
  for (const m of line.matchAll(escape)) {
    put(line.slice(from, m.index));
    from = m.index + m[0].length;
    if (m[2] === 'm') classes = styled(classes, m[1]);
  }
  put(line.slice(from));
}

const styles = { 1: 'a-bold', 2: 'a-dim', 3: 'a-italic', 4: 'a-under', 7: 'a-inverse' };

function styled(classes, codes) {
  const out = new Set(classes);
  const numbers = codes.split(/[;:]/).map(Number);
  const plain = () => { for (const c of out) if (/^a-\d$/.test(c)) out.delete(c); };
  for (let i = 0; i < numbers.length; i++) {
    const n = numbers[i];
    if (n === 0) out.clear();
    else if (styles[n]) out.add(styles[n]);
    else if (n === 22) { out.delete('a-bold'); out.delete('a-dim'); }
    else if (n === 23 || n === 24 || n === 27) out.delete(styles[n - 20]);
    else if (n === 39) plain();
    else if (n >= 30 && n <= 37 || n >= 90 && n <= 97) { plain(); out.add(`a-${n % 10}`); }
    else if (n === 38 || n === 48) i += numbers[i + 1] === 5 ? 2 : 4;
  }
  return out;
}
