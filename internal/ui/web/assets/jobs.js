// The log of a run as it grows, and the selection of runs in a list. Both pages work without this file.
const base = document.body.dataset.base;

// kept is how many lines are in the page; older ones are in memory and come back on scrolling up.
const kept = 10000;
const step = 2000;

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
  const url = `${base}/api/v1/job-runs/${section.dataset.run}`;
  const texts = []; // all lines, with their colours
  const marks = []; // of each line: when it came, and whether it is of stderr
  let open = {}; // by attempt and stream: the index of the line that is not complete
  let first = 0, last = 0; // the lines that are in the page
  let seen = 0; // lines, at the time when following was paused
  let following = true;
  let position = ''; // of the last chunk
  let stop = new AbortController();
  let drawing = false;
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
    texts.length = marks.length = 0;
    open = {};
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

  // read follows the log until the run has ended; it goes on after the last chunk when the connection breaks.
  async function read() {
    const mine = stop = new AbortController();
    for (;;) {
      try {
        const headers = position ? { 'Last-Event-ID': position } : {};
        const res = await fetch(query({ format: 'ndjson', follow: 'true' }), { headers, signal: mine.signal });
        if (!res.ok) {
          const problem = await res.json().catch(() => ({}));
          state.textContent = problem.detail ?? res.statusText;
          if (res.status < 500 && res.status !== 429) return;
          throw new Error(res.statusText);
        }
        state.textContent = 'Following the log.';
        await lines(res.body, (text) => { if (!mine.signal.aborted) take(JSON.parse(text)); });
        const run = await (await fetch(`${url}?view=basic`, { signal: mine.signal })).json();
        if (run.finished_at || form.attempt.value && run.attempt > Number(form.attempt.value)) {
          state.textContent = texts.length ? 'The log is complete.' : 'Nothing has been logged.';
          return;
        }
      } catch {
        if (mine.signal.aborted) return;
        state.textContent = 'The connection is interrupted; the log goes on when Skald answers.';
      }
      await new Promise((done) => setTimeout(done, 1000));
      if (mine.signal.aborted) return;
    }
  }

  async function lines(stream, each) {
    const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
    let rest = '';
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      rest += value;
      let from = 0;
      for (let end; (end = rest.indexOf('\n', from)) >= 0; from = end + 1) each(rest.slice(from, end));
      rest = rest.slice(from);
    }
  }

  // take adds the lines of a chunk. A line may be complete only with the next chunk of its stream.
  function take(chunk) {
    position = `${chunk.attempt}.${chunk.seq}`;
    const text = chunk.chunk ?? new TextDecoder().decode(Uint8Array.from(atob(chunk.chunk_base64 ?? ''), (c) => c.charCodeAt(0)));
    const key = `${chunk.attempt} ${chunk.stream}`;
    const parts = text.split('\n');
    const complete = parts.at(-1) === '';
    if (complete) parts.pop();
    const mark = { at: chunk.at, err: chunk.stream === 'stderr' };
    parts.forEach((part, i) => {
      if (i === 0 && open[key] !== undefined) {
        const at = open[key];
        texts[at] += part;
        if (at >= first && at < last) pre.children[at - first]?.replaceWith(draw(at));
      } else {
        texts.push(part);
        marks.push(mark);
      }
    });
    if (complete) delete open[key];
    else if (parts.length > 1 || open[key] === undefined) open[key] = texts.length - 1;
    if (!drawing) { drawing = true; requestAnimationFrame(show); }
  }

  // show brings the page up to date with what has come.
  function show() {
    drawing = false;
    if (!following) {
      const n = texts.length - seen;
      news.hidden = n === 0;
      news.textContent = `paused: ${n.toLocaleString('en')} new ${n === 1 ? 'line' : 'lines'}`;
      return;
    }
    news.hidden = true;
    window_(Math.max(0, texts.length - kept), texts.length);
    pre.scrollTop = pre.scrollHeight;
    seen = texts.length;
  }

  // window_ puts the lines from a to b into the page, and keeps those that are there already.
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
    line.className = marks[i].err ? 'log-line err' : 'log-line';
    const time = document.createElement('span');
    time.className = 'log-time';
    time.textContent = marks[i].at.slice(11, 23);
    line.append(time);
    colour(line, texts[i]);
    if (hits.length && shown(texts[i]).includes(sought())) line.classList.add('hit');
    if (hits[hit] === i) line.classList.add('at');
    return line;
  }

  pre.addEventListener('scroll', () => {
    const atEnd = pre.scrollHeight - pre.scrollTop - pre.clientHeight < 30 && last === texts.length;
    if (atEnd !== following) {
      following = atEnd;
      if (following) show();
      else seen = texts.length;
    }
    if (following) return;
    if (pre.scrollTop < 200 && first > 0) {
      const was = pre.scrollHeight;
      const from = Math.max(0, first - step);
      window_(from, last);
      pre.scrollTop += pre.scrollHeight - was;
      window_(from, Math.min(last, from + kept));
    } else if (pre.scrollHeight - pre.scrollTop - pre.clientHeight < 200 && last < texts.length) {
      const to = Math.min(texts.length, last + step);
      window_(first, to);
      const was = pre.scrollHeight;
      window_(Math.max(first, to - kept), to);
      pre.scrollTop -= was - pre.scrollHeight;
    }
  });
  news.addEventListener('click', () => { following = true; show(); });

  const sought = () => form.find.value.toLowerCase();
  function search() {
    const text = sought();
    hits = [];
    hit = -1;
    if (text) texts.forEach((t, i) => { if (shown(t).includes(text)) hits.push(i); });
    found.textContent = text ? `${hits.length.toLocaleString('en')} ${hits.length === 1 ? 'line' : 'lines'}` : '';
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
    seen = texts.length;
    if (at < first || at >= last) {
      const from = Math.max(0, at - step);
      window_(from, Math.min(texts.length, from + kept));
    }
    pre.querySelector('.at')?.classList.remove('at');
    const line = pre.children[at - first];
    line.classList.add('at');
    line.scrollIntoView({ block: 'center' });
    found.textContent = `${(hit + 1).toLocaleString('en')} of ${hits.length.toLocaleString('en')} lines`;
  });

  // Only a page that is looked at has a stream.
  document.addEventListener('visibilitychange', () => {
    if (document.hidden) stop.abort();
    else if (stop.signal.aborted) read();
  });
  pre.replaceChildren();
  download.href = query({ format: 'text' });
  read();
}

const escape = /\x1b\[([0-9;:?]*)([@-~])|\x1b[@-Z\\^_]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f]/g;

// visible is a line without what a terminal would have overwritten.
function visible(text) {
  const line = text.endsWith('\r') ? text.slice(0, -1) : text;
  return line.slice(line.lastIndexOf('\r') + 1);
}

// shown is what of a line can be searched.
function shown(text) { return visible(text).replace(escape, '').toLowerCase(); }

// colour adds a line to node, the colours of a terminal as classes. Everything in it is text.
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
