// A definition can be dropped onto its field, and a mistake links to its place in the field.

const form = document.getElementById('register');
const text = form?.elements.definition;

text?.addEventListener('drop', async (e) => {
  const file = e.dataTransfer?.files[0];
  if (!file) return;
  e.preventDefault();
  text.value = await file.text();
  text.dispatchEvent(new Event('input', { bubbles: true }));
});
text?.addEventListener('dragover', (e) => { if (e.dataTransfer?.types.includes('Files')) e.preventDefault(); });

form?.addEventListener('click', (e) => {
  const link = e.target.closest('a[data-line]');
  if (!link) return;
  e.preventDefault();
  const lines = text.value.split('\n');
  const at = Number(link.dataset.line) - 1;
  let from = lines.slice(0, at).join('\n').length + (at ? 1 : 0);
  let words = lines[at] ?? '';
  if (link.dataset.column) { // in characters, some of which take two code units
    const chars = [...words], start = Number(link.dataset.column) - 1;
    from += chars.slice(0, start).join('').length;
    words = chars.slice(start, start + Number(link.dataset.length)).join('');
  }
  text.focus();
  text.setSelectionRange(from, from + words.length);
  text.scrollTop = text.scrollHeight * at / lines.length - text.clientHeight / 2;
});
