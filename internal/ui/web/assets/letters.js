// Selects many rows of letters at a time.
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

// The rate of a redrive follows the slider, 300 ms after its last movement. The form works in the
// same way without it.
const rate = document.getElementById('rate');
if (rate) {
  const slide = rate.querySelector('.slide');
  const range = slide.querySelector('input');
  const number = rate.querySelector('[name="rate_per_second"]');
  const etag = rate.querySelector('[name="etag"]');
  const said = document.getElementById('rate-said');
  let waiting;

  // The progress of a redrive also creates new versions. The form is stale only if another person
  // has changed the values that it edits.
  const now = () => document.getElementById('rate-now')?.dataset;
  const known = () => `${now()?.rate} ${now()?.concurrency}`;
  let was = known();
  document.addEventListener('skald:refreshed', () => { if (now() && known() === was) etag.value = now().etag; });
  const follow = () => { if (Number(number.value) > 0) range.value = Math.log10(Number(number.value)); };
  slide.hidden = false;
  follow();

  const send = async () => {
    said.textContent = 'changing…';
    try {
      const res = await fetch(rate.action, { method: 'POST', body: new URLSearchParams(new FormData(rate)) });
      const page = new DOMParser().parseFromString(await res.text(), 'text/html');
      const next = page.querySelector('#rate [name="etag"]');
      if (res.redirected && next) {
        etag.value = next.value;
        const set = page.getElementById('rate-now')?.dataset;
        if (set) was = `${set.rate} ${set.concurrency}`;
        said.textContent = `now ${number.value} a second`;
        return;
      }
      const problem = page.querySelector('.box p:nth-child(2)')?.textContent;
      const version = page.querySelector('form.act [name="etag"]');
      if (version) etag.value = version.value;
      said.textContent = problem ? `not changed: ${problem}` : 'not changed: the redrive was changed by someone else, or has ended';
    } catch {
      said.textContent = 'not changed: Skald is not responding';
    }
  };
  const later = () => { clearTimeout(waiting); waiting = setTimeout(send, 300); };
  range.addEventListener('input', () => {
    const n = 10 ** Number(range.value);
    number.value = n >= 10 ? Math.round(n) : Math.round(n * 100) / 100;
    range.setAttribute('aria-valuetext', `${number.value} a second`);
    later();
  });
  rate.addEventListener('submit', (e) => { e.preventDefault(); follow(); clearTimeout(waiting); send(); });
}
