// Appends new entries to the end of the audit trail, with a single stream that is open only while
// the page is visible. The page works without this file.
const live = document.getElementById('live');
const most = 1000; // maximum number of rows on the page
const { base, api, tenant } = document.body.dataset;
let reading, last = '', count = 0;

const short = (id) => (id.length > 12 ? `${id.slice(0, 4)}…${id.slice(-6)}` : id);
const words = (state) => state.toLowerCase().replaceAll('_', ' ');

function add(event) {
  const row = document.getElementById('event-row').content.firstElementChild.cloneNode(true);
  const time = row.querySelector('time');
  time.dateTime = event.timestamp;
  time.textContent = 'just now';
  const state = [event.old_state, event.new_state].filter(Boolean).map(words).join(' → ');
  for (const cell of row.querySelectorAll('[data-of]')) cell.textContent = { ...event, state, actor: event.actor_name ?? event.actor }[cell.dataset.of] ?? '';
  row.querySelector('[data-of=actor]').title = event.actor ?? '';
  const link = row.querySelector('a');
  const participant = /^[0-]+$/.test(event.saga_id) && event.event_data?.participant;
  const page = participant ? `participants/${encodeURIComponent(participant)}` : `sagas/${encodeURIComponent(event.saga_id)}`;
  link.href = `${base}/ui/${page}${tenant ? `?tenant=${encodeURIComponent(tenant)}` : ''}`;
  link.firstChild.textContent = participant || short(event.saga_id);
  const request = row.querySelector('[data-request]');
  if (event.request_id) {
    request.href = `${base}/ui/audit?request_id=${encodeURIComponent(event.request_id)}${tenant ? `&tenant=${encodeURIComponent(tenant)}` : ''}`;
    request.title = event.request_id;
    request.firstChild.textContent = short(event.request_id);
  } else request.remove();
  const body = document.querySelector('#events tbody');
  body.querySelector('.empty')?.closest('tr').remove();
  body.append(row);
  while (body.children.length > most) body.firstElementChild.remove();
  count += 1;
  live.textContent = `This is the end of the trail; new events appear here: ${count} since you opened the page.`;
}

function take(text) {
  let data = '';
  for (const line of text.split('\n')) {
    if (line.startsWith('id: ')) last = line.slice(4);
    if (line.startsWith('data: ')) data += line.slice(6);
  }
  if (data) add(JSON.parse(data));
}

async function follow() {
  const mine = reading = new AbortController();
  while (reading === mine) {
    try {
      const headers = { Accept: 'text/event-stream', ...(last && { 'Last-Event-ID': last }) };
      const res = await fetch(`${api}/api/v1${live.dataset.stream}`, { headers, signal: mine.signal });
      if (!res.ok) throw new Error(res.status);
      if (!count) live.textContent = 'This is the end of the trail; new events appear here.';
      const text = res.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = '';
      for (let part = await text.read(); !part.done; part = await text.read()) {
        const all = (rest + part.value).split('\n\n');
        rest = all.pop();
        all.forEach(take);
      }
    } catch { if (reading === mine) live.textContent = 'Skald is not responding. Retrying.'; }
    if (reading === mine) await new Promise((wake) => { setTimeout(wake, 3000); });
  }
}

function stop() {
  reading?.abort();
  reading = undefined;
}

if (live) {
  document.addEventListener('visibilitychange', () => { if (document.hidden) stop(); else if (!reading) follow(); });
  if (!document.hidden) follow();
}
