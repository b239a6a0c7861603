// Rows of letters are selected many at a time.
const table = document.getElementById('letters');
let last = null;
table?.addEventListener('click', (e) => {
  const box = e.target.closest('input[name="ids"]');
  if (!box) return;
  const all = [...table.querySelectorAll('input[name="ids"]')];
  if (e.shiftKey && last && all.includes(last)) {
    const [from, to] = [all.indexOf(last), all.indexOf(box)].sort((a, b) => a - b);
    for (const b of all.slice(from, to + 1)) b.checked = box.checked;
  }
  last = box;
});
