package browser

import "github.com/skald-saga/skald/internal/test/patience"

// said is a script that returns the text of a document: titles, states, numbers and sentences. It
// leaves out relative times, because they change with time, and whatever scripts add.
const said = `((page) => [...page.querySelectorAll(
		"main h1, main .badge, main .num, main dd, main nav.tabs a, main caption, main .summary, main .box p, main td")]
	.filter((e) => !e.closest("dialog, form.act, pre, .peeked")).map((e) => {
		const copy = e.cloneNode(true);
		for (const t of copy.querySelectorAll("time, button, .hidden, input")) t.remove();
		return copy.textContent.replace(/\s+/g, " ").trim();
	}).filter(Boolean).join("\n"))`

// Follows waits until the page, without having been reloaded, shows what it would show after a
// reload and what the API reports: every number, state and counter on it has been updated.
func (b *Tab) Follows() {
	b.Helper()
	var now, fresh string
	var disagreements []string
	defer func() {
		if now != fresh {
			b.Logf("%s says\n%s\ninstead of\n%s", b.Path(), now, fresh)
		}
		for _, d := range disagreements {
			b.Logf("%s: %s", b.Path(), d)
		}
	}()
	patience.Until(b.TB, "the page agrees with the API and with a freshly loaded copy", func() bool {
		b.Await(`fetch(location.href, {cache: "no-store"}).then(r => r.text()).then(t => {
			const fresh = new DOMParser().parseFromString(t, "text/html");
			return [`+said+`(document), `+said+`(fresh)];
		})`, &[]any{&now, &fresh})
		if now != fresh {
			return false
		}
		disagreements = b.Disagreements()
		return len(disagreements) == 0
	})
}

// Unfollowed returns the states and counters of a self-refreshing page that aren't refreshed
// because they are outside its live regions. Elements marked as fixed can't change, such as a
// version's steps or the ends of a period.
func (b *Tab) Unfollowed() (found []string) {
	b.Helper()
	b.Eval(`!document.body.dataset.refresh ? [] : [...document.querySelectorAll(
			"main .badge, main .num, main time, main nav.tabs .quiet, main caption")]
		.filter((e) => !e.closest("[data-live], [data-fixed], form.act, dialog, .peeked"))
		.map((e) => e.outerHTML.slice(0, 160))`, &found)
	return found
}
