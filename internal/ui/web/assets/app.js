// Pages request their own URL again while they are visible, and replace the regions that have
// changed. Actions open in a dialog instead of on a separate page. Everything works without this
// file.

const body = document.body;
const offline = document.getElementById('offline');
const dialog = document.getElementById('dialog');
const base = body.dataset.base;
let seen = Date.now();
let tag = body.dataset.tag ?? '';
let live = '-'; // the regions that this page shows, as named by the server

// A page from the browser's cache contains the time when it was made, not the current time. This
// computer's clock is used until the server has been asked.
const [sent] = performance.getEntriesByType('navigation');
const kept = Boolean(sent) && sent.transferSize < sent.encodedBodySize;
let skew = kept ? 0 : Date.parse(body.dataset.now) - Date.now(); // the server's clock relative to this one

// waiting shows a line at the top of the page while something takes more than a moment. The current
// content stays visible.
let pending = 0;
export async function waiting(promise) {
  pending++;
  const timer = setTimeout(() => body.classList.add('waiting'), 150);
  try {
    return await promise;
  } finally {
    clearTimeout(timer);
    if (--pending === 0) body.classList.remove('waiting');
  }
}

// A server that accepts a connection but does not respond is treated as down: pages do not wait
// longer than this.
const patience = 5000;
const soon = () => AbortSignal.timeout(patience);
const silent = 'Skald has not answered for 5 s.';
const whyOf = (error, otherwise = 'Skald is not responding.') => (error?.name === 'TimeoutError' ? silent : otherwise);

// say shows a message above everything else, because an open dialog covers the page and hides it
// from screen readers.
const place = offline.nextElementSibling;
function say(text) {
  offline.hidden = false;
  offline.textContent = text;
  if (dialog.open) dialog.prepend(offline);
  for (const e of document.querySelectorAll('[data-alive]')) e.textContent = 'not live';
}

function answered() {
  seen = Date.now();
  offline.hidden = true;
  for (const e of document.querySelectorAll('[data-alive]')) e.textContent = 'live';
}
dialog.addEventListener('close', () => place.before(offline));

function stale(why) {
  say(`${why} What you see is ${Math.round((Date.now() - seen) / 1000)} s old.`);
}

// On a narrow screen the rows come first: filters are folded unless one is set.
if (matchMedia('(max-width: 640px)').matches) for (const d of document.querySelectorAll('details[data-fold]')) d.open = false;

// If there is not enough room for all tabs, scroll to the current one.
for (const tab of document.querySelectorAll('.tabs [aria-current]')) {
  const row = tab.parentElement;
  row.scrollLeft = tab.offsetLeft + tab.offsetWidth - row.offsetLeft - row.clientWidth + 24;
}

async function refresh() {
  if (document.hidden || document.querySelector('main form.act')) return;
  let why;
  try {
    const known = { 'Skald-Live': live };
    if (tag) known['If-None-Match'] = tag;
    const res = await waiting(fetch(location.href, { headers: known, cache: 'no-store', signal: soon() }));
    const late = Date.parse(res.headers.get('Date')) - Date.now();
    if (Math.abs(late - skew) > 2000) skew = late; // that header has no fractions of seconds
    if (dialog.open && (res.ok || res.status === 304 || res.status === 401)) { await res.text(); answered(); return; } // the page behind it waits
    if (res.status === 401) { location.reload(); return; }
    if (document.getElementById('problem') && res.ok) { location.reload(); return; } // the missing resource is back
    if (res.status >= 500) why = res.status === 503 ? 'Skald cannot reach its database. Retrying automatically.' : `Skald returned ${res.status}.`;
    if (!res.ok && res.status !== 304) throw new Error(res.statusText);
    tag = res.headers.get('ETag') ?? '';
    if (res.status === 304) body.dataset.refresh = res.headers.get('Skald-Refresh') ?? '';
    if (res.status !== 304) {
      const next = new DOMParser().parseFromString(await res.text(), 'text/html');
      const kept = new Set();
      for (const old of document.querySelectorAll('[data-live]')) {
        const fresh = next.getElementById(old.id);
        if (!fresh) continue; // unchanged
        const detail = { old, fresh, replace, kept: false };
        const own = !document.dispatchEvent(new CustomEvent('skald:replace', { cancelable: true, detail }));
        if (own ? detail.kept : !replace(old, fresh)) kept.add(old.id);
      }
      live = (res.headers.get('Skald-Live') ?? '').split(',').filter((r) => !kept.has(r.split('=')[0])).join() || '-';
      if (kept.size) tag = ''; // request regions that are in use again
      body.dataset.refresh = next.body.dataset.refresh ?? '';
      document.title = next.title;
      document.dispatchEvent(new Event('skald:refreshed'));
    }
    for (const [, id, at] of (res.headers.get('Skald-Times') ?? '').matchAll(/([^=,]+)=([^,]+)/g)) {
      const time = document.getElementById(id);
      if (time) time.dateTime = time.title = at;
    }
    answered();
  } catch (error) {
    stale(why ?? whyOf(error));
  }
}

// replace updates a region with its new content, and keeps what a person has opened, focused or
// filled in. It returns false if the region was not updated because it is in use.
function replace(old, fresh) {
  if (!fresh || old.innerHTML === fresh.innerHTML) return true;
  const active = old.contains(document.activeElement) ? document.activeElement : null;
  if (active?.matches('input:not([type=checkbox]), textarea, select') || old.contains(getSelection().anchorNode) && !getSelection().isCollapsed) return false;
  const open = [...old.querySelectorAll('details[open]')].map((d) => d.id);
  const checked = [...old.querySelectorAll('input[type=checkbox]:checked')].map((i) => i.value);
  const focused = active && path(old, active);
  const trees = [...old.querySelectorAll('.json.tree')]; // keep what is unfolded in them
  for (const t of fresh.querySelectorAll('.json.tree')) {
    const i = trees.findIndex((o) => o.textContent === t.textContent);
    if (i >= 0) t.replaceWith(...trees.splice(i, 1));
  }
  old.replaceChildren(...fresh.childNodes);
  for (const i of old.querySelectorAll('input[type=checkbox]')) if (checked.includes(i.value)) i.checked = true;
  for (const id of open) document.getElementById(id)?.setAttribute('open', '');
  if (focused) follow(old, focused)?.focus({ preventScroll: true });
  return true;
}

function path(root, node) {
  const steps = [];
  for (; node !== root; node = node.parentElement) steps.unshift([...node.parentElement.children].indexOf(node));
  return steps;
}

function follow(root, steps) {
  return steps.reduce((node, i) => node?.children[i], root);
}

function loop() {
  const every = Number(body.dataset.refresh);
  setTimeout(async () => { if (every) await refresh(); loop(); }, (every || 5) * 1000);
}
loop();
document.addEventListener('skald:refresh', refresh); // another script needs the page's new state now
addEventListener('offline', () => stale('This computer is offline.'));
addEventListener('online', () => { if (body.dataset.refresh) refresh(); else offline.hidden = true; });
// On a slow link, the page stays and the line is shown. Returning to the page removes the line.
document.addEventListener('click', (e) => {
  const link = e.target.closest('a[href]:not([data-action], [data-peek], [download], [target])');
  if (!link || e.defaultPrevented || e.ctrlKey || e.metaKey || e.shiftKey || e.button !== 0 || link.origin !== location.origin) return;
  if (link.pathname === location.pathname && link.search === location.search && link.hash) return;
  const timer = setTimeout(() => { if (!e.defaultPrevented) body.classList.add('waiting'); }, 150);
  addEventListener('pagehide', () => { clearTimeout(timer); body.classList.remove('waiting'); }, { once: true });
  setTimeout(() => body.classList.remove('waiting'), 20_000); // the response was a file, or never arrived
});
document.addEventListener('visibilitychange', () => { if (!document.hidden && body.dataset.refresh) refresh(); });

// Texts of relative times change as time passes.
export function ago(ms) {
  const word = (n) => {
    if (n < 10_000) return `${Math.max(1, Math.floor(n / 1000))} s`;
    for (const [size, unit, next, small] of [[86_400_000, 'd', 3_600_000, 'h'], [3_600_000, 'h', 60_000, 'min'], [60_000, 'min', 1000, 's'], [1000, 's']]) {
      if (n < size) continue;
      const rest = next && (n / size < 10 || unit === 'h') ? Math.floor(n % size / next) : 0;
      return `${Math.floor(n / size)} ${unit}${rest ? ` ${rest} ${small}` : ''}`;
    }
  };
  if (ms < 0) return `in ${word(-ms)}`;
  return ms < 1000 ? 'just now' : `${word(ms)} ago`;
}

function age() {
  if (document.hidden) return;
  const now = Date.now() + skew;
  for (const t of document.querySelectorAll('time[datetime]:not([data-fixed])')) {
    const text = ago(now - Date.parse(t.dateTime));
    if (t.textContent !== text) t.textContent = text;
  }
}
setInterval(age, 1000);
if (kept) { age(); if (body.dataset.refresh) refresh(); }

// Actions: show the form on the page that the link leads to in a dialog.
async function open(url) {
  const res = await waiting(fetch(url, { headers: { Accept: 'text/html' }, signal: soon() }));
  show(await res.text(), url);
  dialog.showModal();
  if (!offline.hidden) dialog.prepend(offline);
  dialog.querySelector('input:not([type=hidden]), textarea, select, button')?.focus();
}

function show(html, url) {
  const page = new DOMParser().parseFromString(html, 'text/html');
  place.before(offline); // it does not belong to the content of the dialog
  dialog.replaceChildren(...page.getElementById('content').childNodes);
  if (dialog.open && !offline.hidden) dialog.prepend(offline);
  const form = dialog.querySelector('form.act');
  if (form) form.setAttribute('action', url);
}

document.addEventListener('click', (e) => {
  const link = e.target.closest('a[data-action]');
  if (link && !e.ctrlKey && !e.metaKey && !e.shiftKey && e.button === 0) {
    e.preventDefault();
    open(link.href).catch((error) => {
      if (error.name === 'TimeoutError') stale(silent); else location.href = link.href;
    });
    return;
  }
  if (e.target.closest('dialog [data-close]')) { e.preventDefault(); dialog.close(); return; }
  const text = e.target.closest('.copy');
  if (text && getSelection().isCollapsed) {
    navigator.clipboard?.writeText(text.textContent).then(() => {
      text.classList.add('copied');
      setTimeout(() => text.classList.remove('copied'), 900);
    });
  }
});

// A field may be named "action", in which case form.action would be that field.
async function send(form, what) {
  const data = new URLSearchParams(new FormData(form));
  data.set('do', what);
  return waiting(fetch(form.getAttribute('action') || location.href, { method: 'POST', body: data, headers: { Accept: 'text/html' }, signal: AbortSignal.timeout(30_000) }));
}

// signedOut tells the visitor in a form that the form is kept.
function signedOut(form) {
  let again = form.querySelector('.signed-out');
  if (!again) {
    again = Object.assign(document.createElement('p'), { className: 'box undo signed-out' });
    again.setAttribute('role', 'alert');
    const link = Object.assign(document.createElement('a'), { href: `${base}/ui/sign-in?next=/ui/signed-in`, target: '_blank', textContent: 'Sign in' });
    again.append('You are signed out. Your form is kept: ', link, ' in another tab, then send it again.');
    form.append(again);
  }
  again.querySelector('a').focus();
}

// A form on a page of its own is submitted by the browser, but only after checking that the session
// is still valid. Otherwise, the response would be a page without the form.
document.addEventListener('submit', async (e) => {
  const form = e.target.closest('main form.act');
  if (!form || form.closest('dialog') || form.method !== 'post' || e.defaultPrevented) return;
  if (form.querySelector('[name=credential]')) return; // this form is sent in order to sign in
  if (form.dataset.asked) { delete form.dataset.asked; return; }
  e.preventDefault();
  const by = e.submitter;
  try {
    const res = await waiting(fetch(`${base}/api/v1/whoami`, { cache: 'no-store', signal: soon() }));
    if (res.status === 401) { signedOut(form); return; }
  } catch (error) {
    say(`${whyOf(error)} Your form is kept; send it again.`);
    return;
  }
  form.dataset.asked = 'yes';
  form.requestSubmit(by);
});

document.addEventListener('submit', async (e) => {
  const form = e.target.closest('dialog form.act');
  if (!form) return;
  e.preventDefault();
  const what = e.submitter?.value ?? 'act';
  const late = setTimeout(() => say(`${silent} It may have received the request. Waiting for the response.`), patience);
  for (const b of form.querySelectorAll('button')) b.disabled = true; // one click, one request
  try {
    const res = await send(form, what);
    if (res.status === 401) { // the session has ended in the meantime; the form is kept unchanged
      for (const b of form.querySelectorAll('button')) b.disabled = false;
      signedOut(form);
      return;
    }
    if (res.redirected && what === 'act') { location.href = res.url; return; }
    show(await res.text(), form.getAttribute('action'));
    answered();
  } catch (error) {
    for (const b of form.querySelectorAll('button')) b.disabled = false;
    say(`${whyOf(error)} Your form is kept; you can send it again safely: its key prevents duplicates.`);
  } finally {
    clearTimeout(late);
  }
});

// The preview of the action is placed after the fields.
let typing;
document.addEventListener('input', (e) => {
  const form = e.target.closest('form.act[data-preview]');
  if (!form || e.target.name === 'reason' || e.target.name === 'confirm') return;
  clearTimeout(typing);
  typing = setTimeout(async () => {
    try {
      const page = new DOMParser().parseFromString(await (await send(form, 'preview')).text(), 'text/html');
      form.querySelector('#preview')?.replaceChildren(...(page.getElementById('preview')?.childNodes ?? []));
      const act = form.querySelector('button[value="act"]'), then = page.querySelector('form.act button[value="act"]');
      if (act && then) act.disabled = then.disabled;
    } catch { /* the next change triggers another attempt */ }
  }, 300);
});

// Fields that were left empty are not included in URLs.
document.addEventListener('formdata', (e) => {
  if (e.target.method !== 'get') return;
  for (const [name, value] of [...e.formData]) if (value === '') e.formData.delete(name);
});

// Close the menus of the header in the usual ways.
document.addEventListener('click', (e) => { for (const m of document.querySelectorAll('.top details[open]')) if (!m.contains(e.target)) m.open = false; });
document.addEventListener('keydown', (e) => {
  const m = e.key === 'Escape' && e.target.closest?.('.top details[open]');
  if (m) { m.open = false; m.querySelector('summary').focus(); }
});

export { base, dialog, open, refresh };
