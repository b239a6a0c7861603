package browser

// Disagreements returns the states and numbers on the page that differ from what the API reports to
// the same person: the state beside the title and the counters on a resource's page, the figures of
// the overview, the totals of lists, and the states in the rows of any list.
func (b *Tab) Disagreements() (found []string) {
	b.Helper()
	b.Await(disagreements, &found)
	return found
}

const disagreements = `(async () => {
	const base = document.body.dataset.base, found = [];
	const path = location.pathname.slice(base.length);
	const ask = async (of) => {
		const res = await fetch(base + "/api/v1" + of, {cache: "no-store"});
		return res.ok ? res.json() : undefined; // the page may know parameters that the API does not
	};
	const text = (e) => e ? e.textContent.replace(/\s+/g, " ").trim() : "";
	const count = (n) => n.toLocaleString("en-US");
	const words = (state) => ({STEP_COMPLETED: "running", TAKEN: "in flight"})[state.toUpperCase()] ??
		state.toLowerCase().replaceAll("_", " ");
	const differ = (what, shown, said) => found.push(what + ": the page says " + shown + ", the API " + said);
	const compare = (what, shown, said) => {
		if (said !== undefined && shown !== String(said)) differ(what, shown, said);
	};
	const has = (what, shown, said) => shown.includes(said) || differ(what, shown, said);
	const fact = (label) => text([...document.querySelectorAll("main .facts div")]
		.find((d) => text(d.querySelector("dt")) === label)?.querySelector("dd"));
	const tab = (label) => text([...document.querySelectorAll("main nav.tabs a")]
		.find((a) => text(a).startsWith(label))).slice(label.length).trim();

	const kinds = {"sagas/bulk": "/sagas/bulk/", "run-bulks": "/job-runs/bulk/", sagas: "/sagas/", runs: "/job-runs/",
		"dlq/letters": "/dlq/messages/", redrives: "/dlq/redrives/", workers: "/workers/", backfills: "/backfills/"};
	const one = /^\/ui\/([a-z/-]+)\/([0-9a-f-]{36})$/.exec(path);
	if (one && kinds[one[1]]) {
		const [, kind, id] = one, d = await ask(kinds[kind] + id);
		// A bulk operation ends once every change is requested, a backfill once its runs end; neither means success.
		const over = d?.state === "COMPLETED" && {"sagas/bulk": "all requested", "run-bulks": "all requested",
			backfills: "all runs ended"}[kind];
		const state = over || words(d?.state ?? d?.status ?? "");
		if (d) has("state", text(document.querySelector("main h1")), state);
		if (d && kind === "sagas") compare("revision", fact("revision").split(" ")[0], d.version);
		if (d && kind === "workers") has("slots", fact("slots"), d.running + "/" + d.max_runs);
		if (d && kind === "runs") compare("attempt", fact("attempt"), d.attempt);
		if (d && kind === "dlq/letters") {
			const attempts = (await ask("/dlq/messages/" + id + "?include=attempts"))?.attempts?.length;
			const revisions = (await ask("/dlq/messages/" + id + "/revisions"))?.revisions?.length;
			compare("attempts", tab("Attempts"), attempts || attempts === undefined ? attempts : "");
			compare("revisions", tab("Revisions"), revisions || revisions === undefined ? revisions : "");
		}
		if (d && kind === "redrives" && d.ended_at) {
			const says = text(document.querySelector("main .box"));
			has("done", says, count(d.done) + " of ");
			for (const name of ["failed", "skipped"]) has(name, says, count(d[name]) + " " + name);
		}
		if (d && /bulk/.test(kind) && d.ended_at) {
			for (const name of ["matched", "done"]) has(name, text(document.querySelector("main")), count(d[name]));
		}
	}
	if (path === "/ui/") {
		const overview = await ask("/overview"), counts = overview?.counts ?? {};
		for (const [label, name] of [["sagas active", "sagas_active"], ["sagas need attention", "sagas_need_attention"],
			["dead letters open", "letters_open"], ["runs failed permanently, 24 h", "runs_failed"],
			["runs skipped, 24 h", "runs_skipped"], ["runs late", "runs_late"], ["jobs paused", "definitions_paused"]]) {
			const one = (words) => words.replace(/s\b/g, ""); // 1 saga needs attention
			const of = counts[name], shown = [...document.querySelectorAll("main .figures div")]
				.find((d) => one(text(d.querySelector("dt"))) === one(label));
			if (shown && of) compare(label, text(shown.querySelector("dd")), count(of.count) + (of.is_capped ? "+" : ""));
		}
		const minutes = overview?.minutes ?? [];
		for (const [label, name] of [["sagas started", "sagas_started"], ["of these, failed or undone", "sagas_failed"],
			["dead letters arrived", "letters"]]) {
			const shown = [...document.querySelectorAll("main .hour dl div")].find((d) => text(d.querySelector("dt")) === label);
			const known = minutes.filter((m) => name in m);
			if (shown) compare(label, text(shown.querySelector("dd")), count(known.reduce((n, m) => n + m[name], 0)) +
				(known.length < minutes.length ? "+" : ""));
		}
	}
	const list = {"/ui/sagas": "/sagas", "/ui/runs": "/job-runs", "/ui/dlq/letters": "/dlq/messages"}[path];
	const total = list && (await ask(list + location.search))?.pagination;
	if (total && typeof total.total_count === "number" && !total.total_is_capped) {
		compare("total", text(document.querySelector("main .table caption")).split(" ")[0], count(total.total_count));
	}
	const rows = [...document.querySelectorAll("main tr:not(#items tr, .peeked)")].slice(0, 30);
	await Promise.all(rows.map(async (row) => {
		const link = [...row.querySelectorAll("a[href]")]
			.map((a) => /\/ui\/(sagas|runs|dlq\/letters)\/([0-9a-f-]{36})$/.exec(a.pathname)).find(Boolean);
		const badges = [...row.querySelectorAll("td .badge")].map(text);
		if (!link || !badges.length) return;
		const d = await ask({sagas: "/sagas/", runs: "/job-runs/", "dlq/letters": "/dlq/messages/"}[link[1]] + link[2]);
		if (d) has("row " + link[2], badges.join(", "), words(d.state ?? d.status));
	}));
	return found;
})()`
