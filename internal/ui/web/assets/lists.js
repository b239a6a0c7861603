// Adds to every list: a choice of columns and density, named views, a link to copy, more rows at
// the end, and new rows that are held back until requested. A list is the table that precedes the
// links to its pages.

const most = 1000; // maximum number of rows on the page
const pages = document.querySelector('.pages[data-list]');
const region = pages && [...document.querySelectorAll('.table[data-live]')]
  .filter((t) => t.compareDocumentPosition(pages) & Node.DOCUMENT_POSITION_FOLLOWING).pop();
const here = location.pathname;

const tableOf = (r) => r.querySelector('table');
const slug = (text) => text.trim().toLowerCase().replace(/[^a-z0-9]+/g, '-');

function make(tag, props = {}, ...children) {
  const e = Object.assign(document.createElement(tag), props);
  e.append(...children);
  return e;
}

function kept(name, otherwise) {
  try { return JSON.parse(localStorage.getItem(name)) ?? otherwise; } catch { return otherwise; }
}

function keep(name, value) {
  try { localStorage.setItem(name, JSON.stringify(value)); } catch { /* kept until the page is left */ }
}

// Returns the rows of a table, each with its preview, by a name that does not change.
function rowsOf(table) {
  const all = [], seen = new Map();
  for (const row of table.tBodies[0]?.rows ?? []) {
    if (row.classList.contains('peeked')) { all.at(-1)?.more.push(row); continue; }
    if (row.querySelector(':scope > .empty')) continue;
    const name = row.dataset.key ?? (row.id || row.querySelector('a[href*="/ui/"]')?.getAttribute('href')) ?? row.textContent;
    const n = (seen.get(name) ?? 0) + 1;
    seen.set(name, n);
    all.push({ name: n > 1 ? `${name} ${n}` : name, row, more: [] });
  }
  return all;
}

if (region && tableOf(region)) {
  let first = rowsOf(tableOf(region)).length; // rows that were part of the page; others were added
  let latest = null; // newest state of the region, whose new rows are held back
  const news = make('button', { type: 'button', className: 'news', hidden: true });
  const status = make('p', { className: 'hidden' });
  status.setAttribute('role', 'status');
  region.before(status, make('div', { className: 'news-bar' }, news)); // above the table, without pushing it down

  // The number of rows in the list, if the page begins with its first row and shows the total.
  function count() {
    const [, n, more] = /^\s*([\d,]+)(\+?)/.exec(tableOf(region).caption?.textContent ?? '') ?? [];
    if (!n || new URLSearchParams(location.search).has('cursor')) return;
    tableOf(region).setAttribute('aria-rowcount', more ? -1 : Number(n.replaceAll(',', '')) + 1);
  }
  count();

  // A refresh changes existing rows but does not move them.
  document.addEventListener('skald:replace', (e) => {
    const { old, fresh, replace } = e.detail;
    if (old !== region || !fresh || !tableOf(fresh) || !tableOf(old)) return;
    const have = rowsOf(tableOf(old)), come = rowsOf(tableOf(fresh));
    if (!have.length || !come.length) { latest = null; news.hidden = true; first = come.length; return; }
    e.preventDefault();
    const whole = fresh.cloneNode(true);
    const byName = new Map(come.map((c) => [c.name, c])), known = new Set(have.map((h) => h.name));
    if (have.length === first) { // rows after all existing ones do not move anything
      const end = come.findLastIndex((c) => known.has(c.name)) + 1;
      for (const c of end ? come.splice(end) : []) tableOf(old).tBodies[0].append(c.row, ...c.more);
    }
    const more = come.filter((c) => !known.has(c.name)).length;
    let pushed = more; // this number of rows has moved to the next page
    for (let i = Math.min(first, have.length) - 1; i >= 0; i--) {
      const gone = !byName.has(have[i].name);
      if (gone && pushed > 0) { pushed--; byName.set(have[i].name, null); } else if (!gone) pushed = 0;
    }
    let left = 0;
    have.forEach((h, i) => {
      const now = byName.get(h.name);
      const out = i < first && now === undefined;
      h.row.classList.toggle('left', out);
      left += out ? 1 : 0;
      if (!now) return;
      h.row.className = now.row.className;
      if (!replace(h.row, now.row)) e.detail.kept = true;
      if (h.more.map((m) => m.innerHTML).join() !== now.more.map((m) => m.innerHTML).join()) {
        for (const m of h.more) m.remove();
        h.row.after(...now.more);
      }
    });
    for (const part of ['caption', 'thead']) {
      const was = old.querySelector(part), is = fresh.querySelector(part);
      if (was && is) replace(was, is);
    }
    first += rowsOf(tableOf(old)).length - have.length;
    count();
    latest = more || left ? whole : null;
    const words = [more && `${more.toLocaleString('en')}${more === come.length ? '+' : ''} new`, left && `${left.toLocaleString('en')} no longer here`].filter(Boolean).join(', ');
    news.hidden = !latest;
    if (words && news.textContent !== `${words}: show`) status.textContent = words;
    news.textContent = words ? `${words}: show` : '';
  });

  news.addEventListener('click', async () => {
    if (latest) { region.replaceChildren(...latest.childNodes); first = rowsOf(tableOf(region)).length; }
    latest = null;
    news.hidden = true;
    document.dispatchEvent(new Event('skald:refreshed'));
    region.querySelector('a[href]')?.focus({ preventScroll: true });
    region.scrollIntoView({ block: 'nearest' });
    try { // the link to the rows at the end has changed
      const doc = new DOMParser().parseFromString(await (await fetch(location.href, { cache: 'no-store' })).text(), 'text/html');
      pages.replaceChildren(...doc.querySelector('.pages[data-list]')?.childNodes ?? []);
      name();
    } catch { /* the next refresh reports that Skald does not respond */ }
  });

  // Load more rows at the end.
  const next = () => pages.querySelector('a[rel=next]');
  const name = () => {
    const link = next(), full = rowsOf(tableOf(region)).length >= most;
    if (link) link.textContent = full ? `Next page (${most.toLocaleString('en')} rows are shown)` : 'More';
    return link && !full;
  };
  pages.addEventListener('click', async (e) => {
    const link = e.target.closest('a[rel=next]');
    if (!link || !name() || e.ctrlKey || e.metaKey || e.shiftKey || e.button !== 0) return;
    e.preventDefault();
    if (link.getAttribute('aria-busy')) return; // the request is in progress
    link.setAttribute('aria-busy', 'true');
    try {
      const res = await fetch(link.href, { cache: 'no-store' });
      if (!res.ok) throw new Error(res.statusText);
      const doc = new DOMParser().parseFromString(await res.text(), 'text/html');
      const found = doc.getElementById(region.id);
      const have = new Set(rowsOf(tableOf(region)).map((r) => r.name));
      const come = rowsOf(tableOf(found)).filter((r) => !have.has(r.name));
      for (const r of come) tableOf(region).tBodies[0].append(r.row, ...r.more);
      const after = doc.querySelector('.pages[data-list] a[rel=next]');
      if (after) link.href = after.href; else link.remove();
      link.removeAttribute('aria-busy');
      status.textContent = `${come.length} more rows`;
      name();
      document.dispatchEvent(new Event('skald:refreshed'));
      come[0]?.row.querySelector('a[href]')?.focus({ preventScroll: true });
    } catch { location.href = link.href; }
  });
  name();

  tools();

  function tools() {
    const menu = (label, ...content) => make('details', { className: 'menu' }, make('summary', { textContent: label }), make('div', { className: 'menu-box' }, ...content));
    const bar = make('div', { className: 'list-tools' });
    const inTable = [...tableOf(region).tHead?.rows[0]?.cells ?? []];
    const columns = inTable.map((th, i) => ({ n: i + 1, label: th.querySelector('.hidden, input') ? '' : th.textContent.trim() })).filter((c) => c.label);
    const asked = new URLSearchParams(location.search).get('columns');
    const remembered = kept(`skald.columns.${here}`, null);
    const wanted = asked ? asked.split(',') : remembered;
    let shown = new Set(columns.map((c) => slug(c.label)));
    if (Array.isArray(wanted) && columns.some((c) => wanted.includes(slug(c.label)))) shown = new Set(wanted);

    function address() { // URL of the current view, for sharing and for later
      const q = new URLSearchParams(location.search);
      for (const p of ['peek', 'cursor', 'columns']) q.delete(p);
      if (columns.some((c) => !shown.has(slug(c.label)))) q.set('columns', columns.map((c) => slug(c.label)).filter((c) => shown.has(c)).join(','));
      return q.size ? `?${q}` : '?';
    }
    function apply() {
      for (const c of columns) region.classList.toggle(`hide-${c.n}`, !shown.has(slug(c.label)));
      const list = new URLSearchParams(address()).get('columns');
      for (const form of document.querySelectorAll('main form.filters')) {
        let field = form.querySelector('input[name=columns]');
        if (!field && list) field = form.appendChild(make('input', { type: 'hidden', name: 'columns' }));
        if (field && list) field.value = list; else field?.remove();
      }
    }
    const boxes = columns.map((c) => {
      const box = make('input', { type: 'checkbox', checked: shown.has(slug(c.label)) });
      box.addEventListener('change', () => {
        if (box.checked) shown.add(slug(c.label)); else shown.delete(slug(c.label));
        if (!columns.some((o) => shown.has(slug(o.label)))) { shown.add(slug(c.label)); box.checked = true; } // keep one visible
        const all = columns.every((o) => shown.has(slug(o.label)));
        keep(`skald.columns.${here}`, all ? null : [...shown]);
        const q = new URLSearchParams(location.search);
        const to = new URLSearchParams(address()).get('columns');
        if (to) q.set('columns', to); else q.delete('columns');
        history.replaceState(null, '', q.size ? `?${q}` : here);
        apply();
      });
      return make('label', { className: 'check' }, box, ` ${c.label}`);
    });
    if (boxes.length > 1) bar.append(menu('Columns', ...boxes));

    const dense = make('button', { type: 'button', textContent: 'Compact' });
    const press = (on) => { dense.setAttribute('aria-pressed', String(on)); region.classList.toggle('dense', on); };
    press(kept('skald.dense', false) === true);
    dense.addEventListener('click', () => { const on = dense.getAttribute('aria-pressed') !== 'true'; keep('skald.dense', on); press(on); });

    const listed = make('ul');
    const field = make('input', { maxLength: 60 });
    field.setAttribute('aria-label', 'Name of this view');
    const save = make('button', { type: 'button', textContent: 'Save this view' });
    const store = `skald.views.${here}`;
    const saved = () => kept(store, []).filter?.((s) => typeof s?.name === 'string' && /^\?/.test(s.search)) ?? [];
    function draw() {
      const all = saved();
      listed.replaceChildren(...all.map((s) => {
        const away = make('button', { type: 'button', textContent: '✕' });
        away.setAttribute('aria-label', `Delete the view ${s.name}`);
        away.addEventListener('click', () => { keep(store, saved().filter((o) => o.name !== s.name)); draw(); field.focus(); });
        return make('li', {}, make('a', { href: s.search, textContent: s.name }), ' ', away);
      }));
      if (!all.length) listed.append(make('li', { className: 'quiet', textContent: 'None yet. Views are kept in this browser.' }));
    }
    const put = () => {
      const called = field.value.trim();
      if (!called) { field.focus(); return; }
      keep(store, [...saved().filter((o) => o.name !== called), { name: called, search: address() }]);
      field.value = '';
      draw();
    };
    save.addEventListener('click', put);
    field.addEventListener('keydown', (e) => { if (e.key === 'Enter') { e.preventDefault(); put(); } });
    draw();
    const views = menu('Views', listed, make('div', { className: 'row' }, field, save));

    const copy = make('button', { type: 'button', textContent: 'Copy link' });
    copy.addEventListener('click', async () => {
      const link = new URL(address(), location.href).href;
      try {
        await navigator.clipboard.writeText(link);
        copy.textContent = 'Copied';
      } catch { // the browser does not allow pages to write to the clipboard, or the page was loaded without TLS
        const text = make('input', { readOnly: true, value: link });
        text.setAttribute('aria-label', 'Link to this list');
        copy.after(text);
        text.select();
      }
      setTimeout(() => { copy.textContent = 'Copy link'; }, 1500);
    });
    bar.append(dense, views, copy);
    (region.closest('form') ?? status).before(bar); // also before the news, which cover what follows them
    document.addEventListener('click', (e) => { for (const m of bar.querySelectorAll('details[open]')) if (!m.contains(e.target)) m.open = false; });
    bar.addEventListener('keydown', (e) => {
      const m = e.key === 'Escape' && e.target.closest('details[open]');
      if (m) { m.open = false; m.querySelector('summary').focus(); e.stopPropagation(); }
    });
    apply();
  }
}
