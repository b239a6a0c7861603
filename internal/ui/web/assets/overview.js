// Snoozed causes are hidden in this browser for four hours. Nothing is sent to the server, so other
// users still see them.
const key = 'skald.snoozed';
const hour = 3_600_000;

function read() {
  try {
    const now = Date.now();
    return Object.fromEntries(Object.entries(JSON.parse(localStorage.getItem(key) ?? '{}')).filter(([, until]) => until > now));
  } catch { return {}; }
}

function write(snoozed) {
  try { localStorage.setItem(key, JSON.stringify(snoozed)); } catch { /* private mode: kept until the page is left */ }
}

function show() {
  const snoozed = read();
  const lines = [...document.querySelectorAll('.cause')];
  let hidden = 0;
  for (const line of lines) {
    line.hidden = line.dataset.cause in snoozed;
    if (line.hidden) hidden++;
    const then = line.querySelector('.then');
    if (then && !then.querySelector('.snooze')) {
      const button = document.createElement('button');
      button.type = 'button';
      button.className = 'snooze';
      button.title = 'Hide in this browser for four hours';
      button.textContent = 'Snooze';
      then.append(button);
    }
  }
  const note = document.getElementById('snoozed');
  if (note) {
    note.hidden = !hidden;
    note.textContent = `${hidden} snoozed in this browser. `;
    const back = document.createElement('button');
    back.type = 'button';
    back.className = 'snooze';
    back.textContent = 'Show again';
    back.addEventListener('click', () => { write({}); show(); });
    note.append(back);
  }
  const left = lines.length - hidden + Number(document.getElementById('causes')?.dataset.less ?? 0);
  document.title = document.title.replace(/^\(\d+\) /, '');
  if (left) document.title = `(${left}) ${document.title}`;
}

document.addEventListener('click', (e) => {
  const button = e.target.closest('.cause .snooze');
  if (!button) return;
  const line = button.closest('.cause');
  write({ ...read(), [line.dataset.cause]: Date.now() + 4 * hour });
  show();
  document.getElementById('needs')?.scrollIntoView({ block: 'nearest' });
});
document.addEventListener('skald:refreshed', show);
show();
