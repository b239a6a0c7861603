package web

import (
	"strings"
	"testing"
)

// On narrow screens, rows of lists are shown as cards, in which each value is labelled.
func TestRowsOfListsAreCards(t *testing.T) {
	const list = `<div id="runs" class="table" data-live><table><caption>2 runs</caption>` +
		`<thead><tr><th><span class="hidden">Select</span></th><th>State</th><th>Run</th><th class="num"><a class="sort" href="?">Took</a></th>` +
		`<th>Why &amp; how</th><th></th></tr></thead><tbody><tr><td><input type="checkbox"></td><td>failed</td><td><a href="/ui/runs/1">one</a></td>` +
		`<td class="num">2 s</td><td> </td><td><a class="button" href="#">Stop</a></td></tr>` +
		`<tr><td></td><td>failed</td><td>two</td><td class="num"></td><td><table><tr><td>a</td></tr></table></td><td></td></tr>` +
		`<tr class="peeked"><td colspan="6">more</td></tr></tbody></table></div>`
	page := string(cards([]byte("<main>" + list + "</main>")))
	for _, want := range []string{
		`<table data-cards role="table"><caption>`, `<thead role="rowgroup"><tr role="row"><th role="columnheader">`,
		`<td role="cell" data-cell="pick"><input`, `<td role="cell" data-label="State">failed`,
		`<td role="cell" data-cell="title"><a href="/ui/runs/1">`, `<td class="num" role="cell" data-label="Took">2 s`,
		`<td role="cell" data-cell="none"> </td>`, `<td role="cell" data-cell="act"><a class="button"`,
		`<td role="cell" data-cell="title">two`, `<td role="cell" data-label="Why &amp; how"><table><tr><td>a</td></tr></table></td>`,
		`<tr class="peeked" role="row"><td colspan="6" role="cell">more`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("%s is not in\n%s", want, page)
		}
	}
	if !strings.HasPrefix(page, "<main><div") || !strings.HasSuffix(page, "</table></div></main>") {
		t.Errorf("the page around the table is another: %s", page)
	}
	named := strings.Replace(list, "<th>State", "<th data-title>State", 1)
	if page = string(cards([]byte(named))); !strings.Contains(page, `data-cell="title">failed`) {
		t.Errorf("the column that says so is not the title: %s", page)
	}
	named = strings.Replace(list, "<th>State", `<th data-title="named">State`, 1)
	if page = string(cards([]byte(named))); !strings.Contains(page, `data-cell="title" data-label="State">failed`) {
		t.Errorf("a title with its label has none: %s", page)
	}
	lanes := strings.Replace(list, `class="table"`, `class="table lanes"`, 1)
	if page = string(cards([]byte(lanes))); !strings.Contains(page, `<td role="cell">failed`) || strings.Contains(page, "data-c") {
		t.Errorf("lanes are not only a table: %s", page)
	}
	for _, other := range []string{
		strings.Replace(list, `class="table"`, `class="table rail"`, 1), strings.Replace(list, `class="table"`, `class="table" role="region"`, 1),
		strings.Replace(list, "<td>two", `<td rowspan="2">two`, 1), "<p>no table</p>", `<div class="table"><table><thead><tr><th>cut`,
		`<div class="table"><table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>1</td><td>2</td></tr></tbody></table></div>`,
	} {
		if got := string(cards([]byte(other))); got != other {
			t.Errorf("%s\nhas become\n%s", other, got)
		}
	}
}
