// Adds a search to JSON on a page, and copies the path of each member. Folding works without this
// file.

const many = 20; // number of lines from which there is a search
const most = 1000; // maximum number of matches

function make(tag, props = {}, ...children) {
  const e = Object.assign(document.createElement(tag), props);
  e.append(...children);
  return e;
}

// pointerAt returns the JSON Pointer (RFC 6901) for the line around a position in indented JSON.
export function pointerAt(text, offset) {
  const within = []; // the name or index of the current member in each array and object around the line
  for (let start = 0; start <= text.length;) {
    let end = text.indexOf('\n', start);
    if (end < 0) end = text.length;
    const line = text.slice(start, end).trim();
    const here = offset <= end;
    if (/^[}\]]/.test(line)) {
      within.pop();
    } else if (line) {
      const top = within.at(-1);
      const name = /^("(?:[^"\\]|\\.)*"): /.exec(line);
      if (top) top.at = name ? JSON.parse(name[1]) : (top.at ?? -1) + 1;
      if (!here && /[{[]$/.test(line)) within.push({ at: undefined });
    }
    if (here) break;
    start = end + 1;
  }
  return within.map((w) => `/${String(w.at).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
}

// textsOf returns the text nodes of a tree, with the offset at which each begins.
function textsOf(tree) {
  const all = [], walk = document.createTreeWalker(tree, NodeFilter.SHOW_TEXT);
  let at = 0;
  for (let n; (n = walk.nextNode());) { all.push({ n, at }); at += n.data.length; }
  return all;
}

function rangeOf(texts, from, to) {
  const range = document.createRange();
  const find = (offset, last) => texts.findLast((t) => (last ? t.at < offset : t.at <= offset)) ?? texts[0];
  const a = find(from, false), b = find(to, true);
  range.setStart(a.n, from - a.at);
  range.setEnd(b.n, to - b.at);
  return range;
}

function mark(name, ranges) {
  if (globalThis.Highlight) CSS.highlights.set(name, new Highlight(...ranges));
}

function show(range) {
  for (let d = range.startContainer.parentElement.closest('details'); d; d = d.parentElement.closest('details')) d.open = true;
  mark('json-at', [range]);
  const box = range.getBoundingClientRect();
  if (box.top < 60 || box.bottom > innerHeight - 20) scrollBy({ top: box.top - innerHeight / 3 });
}

function toolsOf(tree) {
  const path = make('code'), copy = make('button', { type: 'button', textContent: 'Copy path', hidden: true });
  const bar = make('div', { className: 'json-tools' });
  tree.before(bar);
  tree.tools = (offset) => {
    path.textContent = pointerAt(tree.textContent, offset) || '/';
    copy.hidden = false;
    bar.append(path, copy);
  };
  copy.addEventListener('click', async () => {
    const text = path.textContent === '/' ? '' : path.textContent;
    try { await navigator.clipboard.writeText(text); copy.textContent = 'Copied'; } catch { getSelection().selectAllChildren(path); }
    setTimeout(() => { copy.textContent = 'Copy path'; }, 1500);
  });
  if ((tree.textContent.match(/\n/g)?.length ?? 0) < many) return;

  const field = make('input', { type: 'search', placeholder: 'Search in this JSON' });
  field.setAttribute('aria-label', 'Search in this JSON');
  const count = make('span', { className: 'quiet' });
  count.setAttribute('role', 'status');
  let found = [], texts = [], at = -1;
  const go = (by) => {
    if (!found.length) return;
    at = (at + by + found.length) % found.length;
    count.textContent = `${at + 1} of ${found.length}${found.length === most ? '+' : ''}`;
    show(rangeOf(texts, ...found[at]));
    tree.tools(found[at][0]);
  };
  field.addEventListener('input', () => {
    const text = tree.textContent.toLowerCase(), want = field.value.toLowerCase();
    texts = textsOf(tree);
    found = [];
    at = -1;
    for (let i = want ? text.indexOf(want) : -1; i >= 0 && found.length < most; i = text.indexOf(want, i + want.length)) found.push([i, i + want.length]);
    mark('json-found', found.map((f) => rangeOf(texts, ...f)));
    mark('json-at', []);
    count.textContent = want && !found.length ? 'not here' : '';
    go(1);
  });
  field.addEventListener('keydown', (e) => { if (e.key === 'Enter') { e.preventDefault(); go(e.shiftKey ? -1 : 1); } });
  const all = make('button', { type: 'button', textContent: 'Unfold all' });
  all.addEventListener('click', () => {
    const open = all.textContent === 'Unfold all';
    for (const d of tree.querySelectorAll('details')) d.open = open || d.parentElement === tree;
    all.textContent = open ? 'Fold' : 'Unfold all';
  });
  bar.append(field, count);
  if (tree.querySelector('details:not([open])')) bar.append(all);
}

function prepare() {
  for (const tree of document.querySelectorAll('main .json.tree')) if (!tree.tools || !tree.previousElementSibling?.matches('.json-tools')) toolsOf(tree);
}

document.addEventListener('click', (e) => {
  const tree = e.target.closest('main .json.tree');
  if (!tree?.tools || !getSelection().isCollapsed) return;
  const caret = document.caretPositionFromPoint?.(e.clientX, e.clientY);
  const [node, offset] = caret ? [caret.offsetNode, caret.offset] : (({ startContainer: n, startOffset: o } = {}) => [n, o])(document.caretRangeFromPoint?.(e.clientX, e.clientY) ?? {});
  if (!node || !tree.contains(node)) return;
  const before = document.createRange();
  before.setStart(tree, 0);
  before.setEnd(node, offset);
  tree.tools(before.toString().length);
});
document.addEventListener('skald:refreshed', prepare);
prepare();
