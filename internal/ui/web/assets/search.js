// Ctrl-K opens the search in a dialog on every page. The dialog shows the page /ui/search, which
// also works without this file.
const base = document.body.dataset.base;
let box, asked, timer;

function build() {
  box = document.createElement('dialog');
  box.className = 'goto-box';
  box.setAttribute('aria-label', 'Go to anything');
  const input = document.createElement('input');
  input.type = 'search';
  input.placeholder = 'ID, key, correlation, trace, name, page or action';
  input.setAttribute('aria-label', 'Go to anything');
  input.maxLength = 255;
  input.spellcheck = false;
  const hits = document.createElement('div');
  hits.className = 'hits';
  hits.setAttribute('aria-live', 'polite');
  box.append(input, hits);
  document.body.append(box);
  input.addEventListener('input', () => { clearTimeout(timer); timer = setTimeout(look, 150); });
  box.addEventListener('click', (e) => { if (e.target === box) box.close(); });
  box.addEventListener('keydown', (e) => {
    const links = [...hits.querySelectorAll('a')];
    const at = links.indexOf(document.activeElement);
    if (e.key === 'ArrowDown' || e.key === 'ArrowUp') {
      e.preventDefault();
      const next = at + (e.key === 'ArrowDown' ? 1 : -1);
      (next < 0 ? input : links[Math.min(next, links.length - 1)])?.focus();
    } else if (e.key === 'Enter' && e.target === input) {
      e.preventDefault();
      clearTimeout(timer);
      look().then(() => hits.querySelector('a')?.click());
    }
  });
}

async function look() {
  const [input, hits] = box.children;
  const mine = asked = {};
  try {
    const res = await fetch(`${base}/ui/search?${new URLSearchParams({ q: input.value, ...(document.body.dataset.tenant && { tenant: document.body.dataset.tenant }) })}`);
    const page = new DOMParser().parseFromString(await res.text(), 'text/html');
    if (mine !== asked) return; // something else was typed in the meantime
    const found = page.getElementById('hits') ?? page.getElementById('content');
    hits.replaceChildren(...found.childNodes);
  } catch { if (mine === asked) hits.textContent = 'Skald is not responding.'; }
}

export function open() {
  if (!box) build();
  if (box.open) return;
  box.showModal();
  box.firstChild.select();
  look();
}

document.addEventListener('keydown', (e) => {
  if ((e.ctrlKey || e.metaKey) && !e.shiftKey && !e.altKey && e.key.toLowerCase() === 'k') { e.preventDefault(); open(); }
});
document.addEventListener('click', (e) => {
  if (e.target.closest('#goto') && !e.ctrlKey && !e.metaKey && !e.shiftKey && e.button === 0) { e.preventDefault(); open(); }
});
