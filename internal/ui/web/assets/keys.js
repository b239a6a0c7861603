// Keyboard shortcuts for every page. They can be turned off, which is stored in this browser.
// Ctrl-K belongs to the search.

const keys = [
  ['/', 'filter this list'], ['g, then a letter', 'go to a page'], ['j  k', 'next and previous row'],
  ['Enter', 'open the row'], ['Space', 'peek: what it is waiting for, and the available actions'], ['x', 'select the row'],
  ['.', 'go to the actions'], ['[  ]', 'previous and next item of the list you came from'], ['y', 'copy the id'],
  ['u', 'absolute times: UTC or local'], ['Esc', 'close, or leave a field'], ['?', 'this help'],
];
let going = 0; // until when a letter after "g" is accepted
let at = null; // the name of the row that is currently selected by keys

const off = () => localStorage.getItem('skald.keys') === 'off';
const rows = () => [...document.querySelectorAll('main table tbody tr')].filter((r) => r.querySelector('a[href]') && !r.classList.contains('peeked'));
const nameOf = (row) => row.dataset.key ?? row.id ?? row.querySelector('a[href]').getAttribute('href');
const linkOf = (row) => row.querySelector('a[data-open]') ?? row.querySelector('a[href]:not([data-peek])');

function current() {
  return rows().find((r) => nameOf(r) === at) ?? null;
}

function mark(row) {
  for (const r of document.querySelectorAll('tr.at')) r.classList.remove('at');
  at = row ? nameOf(row) : null;
  if (!row) return;
  row.classList.add('at');
  linkOf(row)?.focus({ preventScroll: true });
  row.scrollIntoView({ block: 'nearest' });
}

function move(by) {
  const all = rows();
  if (!all.length) return;
  const i = all.findIndex((r) => nameOf(r) === at);
  mark(all[i < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, i + by))]);
}

// The list that the visitor came from, for going to its next item.
function remember() {
  const all = rows().map((r) => linkOf(r)?.pathname).filter(Boolean);
  if (document.querySelector('form[role=search]') && all.length) sessionStorage.setItem('skald.list', JSON.stringify(all));
}

function sibling(by) {
  const all = JSON.parse(sessionStorage.getItem('skald.list') ?? '[]');
  const i = all.indexOf(location.pathname);
  if (i >= 0 && all[i + by]) location.href = all[i + by] + location.search.replace(/[?&]accepted=[^&]*/, '');
}

function toActions() {
  const inRow = current()?.nextElementSibling?.querySelector('.actions a, .actions button');
  (inRow ?? document.querySelector('main .actions a, main .actions button:not(:disabled)'))?.focus();
}

function say(text) {
  let note = document.getElementById('note');
  if (!note) {
    note = document.body.appendChild(document.createElement('p'));
    note.id = 'note';
    note.setAttribute('role', 'status');
  }
  note.textContent = text;
  setTimeout(() => { if (note.textContent === text) note.textContent = ''; }, 2500);
}

function copy() {
  const row = current();
  const id = row?.dataset.key ?? document.querySelector('main [data-id]')?.textContent ?? location.pathname.split('/').pop();
  navigator.clipboard?.writeText(id).then(() => say(`Copied ${id}`));
}

// Show absolute times, which relative times otherwise show only as a tooltip.
function stamps() {
  const local = localStorage.getItem('skald.times') === 'local';
  for (const zone of document.querySelectorAll('[data-zone]')) zone.textContent = local ? 'local' : 'UTC';
  for (const t of document.querySelectorAll('time[datetime]')) {
    const when = new Date(t.dateTime);
    if (local && !Number.isNaN(when.getTime())) {
      const min = -when.getTimezoneOffset();
      const two = (n) => String(Math.trunc(Math.abs(n))).padStart(2, '0');
      const zone = `${min < 0 ? '-' : '+'}${two(min / 60)}:${two(min % 60)}`;
      t.title = new Date(when.getTime() + min * 60_000).toISOString().replace('Z', zone);
    } else {
      t.title = t.dateTime;
    }
    if (t.dataset.absolute !== undefined && !Number.isNaN(when.getTime())) {
      t.textContent = t.title.slice(5, 16).replace('T', ' ');
    }
  }
}

function help() {
  const box = document.createElement('dialog');
  box.className = 'help';
  box.setAttribute('aria-label', 'Keyboard shortcuts');
  const title = box.appendChild(document.createElement('h2'));
  title.textContent = 'Keyboard shortcuts';
  const list = box.appendChild(document.createElement('dl'));
  const pages = [...document.querySelectorAll('header [data-key]')].map((a) => [`g ${a.dataset.key}`, a.textContent]);
  for (const [key, what] of [...keys, ...pages]) {
    const line = list.appendChild(document.createElement('div'));
    line.appendChild(document.createElement('dt')).appendChild(document.createElement('kbd')).textContent = key;
    line.appendChild(document.createElement('dd')).textContent = what;
  }
  const label = box.appendChild(document.createElement('label'));
  label.className = 'check';
  const on = label.appendChild(document.createElement('input'));
  on.type = 'checkbox';
  on.checked = !off();
  label.append(' Keyboard shortcuts are on');
  on.addEventListener('change', () => localStorage.setItem('skald.keys', on.checked ? 'on' : 'off'));
  const close = box.appendChild(document.createElement('button'));
  close.textContent = 'Close';
  close.addEventListener('click', () => box.close());
  box.addEventListener('close', () => box.remove());
  document.body.appendChild(box);
  box.showModal();
}

const actions = {
  '/': () => document.querySelector('form[role=search] input:not([type=hidden])')?.focus(),
  '?': help,
  j: () => move(1),
  k: () => move(-1),
  x: () => current()?.querySelector('input[type=checkbox]')?.click(),
  ' ': () => current()?.querySelector('[data-peek]')?.click(),
  '.': toActions,
  '[': () => sibling(-1),
  ']': () => sibling(1),
  y: copy,
  u: () => {
    const local = localStorage.getItem('skald.times') === 'local';
    localStorage.setItem('skald.times', local ? 'utc' : 'local');
    stamps();
    say(local ? 'Absolute times are in UTC' : 'Absolute times are local');
  },
};

document.addEventListener('keydown', (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || e.defaultPrevented) return;
  const typing = e.target.closest('input:not([type=checkbox]), textarea, select, [contenteditable]');
  if (e.key === 'Escape') {
    if (typing && !document.querySelector('dialog[open]')) e.target.blur();
    else if (!document.querySelector('dialog[open]')) mark(null);
    return;
  }
  if (typing || off() || document.querySelector('dialog[open]')) return;
  if (going > Date.now()) {
    going = 0;
    const link = document.querySelector(`header [data-key="${CSS.escape(e.key)}"]`);
    if (link) { e.preventDefault(); link.click(); }
    return;
  }
  if (e.key === 'g') { going = Date.now() + 1500; return; }
  if (e.key === ' ' && (!current() || e.target.closest('button, summary, input'))) return; // the key's usual meaning
  const act = actions[e.key];
  if (act) { e.preventDefault(); act(); }
});

// A preview opens in place.
document.addEventListener('click', (e) => {
  const link = e.target.closest('a[data-peek]');
  if (!link || e.ctrlKey || e.metaKey || e.shiftKey || e.button !== 0) return;
  e.preventDefault();
  history.replaceState(null, '', link.href);
  document.dispatchEvent(new Event('skald:refresh'));
});

document.addEventListener('skald:refreshed', () => {
  remember();
  stamps();
  current()?.classList.add('at');
});

remember();
stamps();
const foot = document.querySelector('footer.foot');
if (foot) {
  const button = document.createElement('button');
  button.className = 'keys';
  button.textContent = 'Keyboard shortcuts';
  button.addEventListener('click', help);
  foot.append(button);
}
