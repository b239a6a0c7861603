package browser

// Misplaced returns what a person can't read on the page in its current state, at any window size:
// a page that scrolls sideways, text that is cut off with no way to see the rest, and text on top
// of other text. It leaves out elements that cover the page on purpose (menus, sticky bars) and the
// hidden part of a box with a scrollbar.
func (b *Tab) Misplaced() (found []string) {
	b.Helper()
	b.Eval(misplaced, &found)
	return found
}

const misplaced = `(() => {
	const found = [], show = e => e.outerHTML.replace(/\s+/g, " ").slice(0, 160);
	const seen = e => e.checkVisibility({opacityProperty: true, visibilityProperty: true, contentVisibilityAuto: true})
		&& !e.closest(".hidden, .skip");
	const box = e => { const r = e.getBoundingClientRect();
		return {left: r.left, right: r.right, top: r.top, bottom: r.bottom}; };
	const styles = new Map(), style = e => styles.get(e) ?? styles.set(e, getComputedStyle(e)).get(e);

	if (document.documentElement.scrollWidth > innerWidth + 1) {
		const wide = [...document.querySelectorAll("body *")].filter(e => seen(e) && box(e).right > innerWidth + 1
			&& !e.closest(".table, pre, svg, nav, dialog"));
		found.push("the page scrolls sideways: " + wide.slice(0, 3).map(show).join(" and "));
	}
	const cuts = v => v === "hidden" || v === "clip";
	for (const e of document.querySelectorAll("body *:not(svg, svg *, option, input, select, textarea)")) {
		const s = style(e);
		if (!e.textContent.trim() || !seen(e) || s.textOverflow === "ellipsis" && e.title) continue;
		if (cuts(s.overflowX) && e.scrollWidth > e.clientWidth + 1 || cuts(s.overflowY) && e.scrollHeight > e.clientHeight + 3) {
			found.push("text is cut off: " + show(e));
		}
	}

	// Collect the middle of each line of text, as far as the boxes around it show it.
	const lines = [], texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	for (let n; n = texts.nextNode();) {
		const of = n.parentElement;
		if (!n.data.trim() || of.closest("script, style, option, textarea, dialog:not([open])") || !seen(of)) continue;
		const around = [];
		let over = false;
		for (let e = of; e && e !== document.body; e = e.parentElement) {
			const s = style(e);
			over ||= s.position === "fixed" || s.position === "sticky" || s.position === "absolute" && s.zIndex !== "auto";
			if (s.overflowX !== "visible") around.push(box(e));
		}
		if (over) continue;
		const range = document.createRange();
		range.selectNodeContents(n);
		for (const r of range.getClientRects()) {
			const line = {of, n, left: r.left + 1, right: r.right - 1,
				top: r.top + r.height * .25, bottom: r.bottom - r.height * .25};
			for (const a of around) {
				line.left = Math.max(line.left, a.left); line.right = Math.min(line.right, a.right);
				line.top = Math.max(line.top, a.top); line.bottom = Math.min(line.bottom, a.bottom);
			}
			if (line.right - line.left > 1 && line.bottom - line.top > 1) lines.push(line);
		}
	}
	lines.sort((a, b) => a.top - b.top);
	lines.forEach((a, i) => {
		for (let j = i + 1; j < lines.length && lines[j].top < a.bottom - 1; j++) {
			const b = lines[j];
			if (a.n !== b.n && Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2) {
				found.push("text lies over text: " + show(a.of) + " and " + show(b.of));
			}
		}
	});
	return [...new Set(found)].slice(0, 8);
})()`
