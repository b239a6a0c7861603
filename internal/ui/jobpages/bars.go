package jobpages

import (
	"fmt"
	"slices"
	"strings"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// outcomes is a chart of the outcomes of a definition's last runs, with the oldest on the left.
type outcomes struct {
	Bars   []outcome
	Width  int
	Words  string // text version for screen readers
	Others string // numbers of unsuccessful runs by state; empty: all succeeded
}

// outcome is one run that has ended.
type outcome struct {
	X, Y, H     int
	Tone, Title string
	URL         string
}

const (
	outcomeStep   = 8
	outcomeHeight = 18
)

// newOutcomes draws runs, which are given newest first.
func newOutcomes(runs []client.JobRunOutcome, base string) (o outcomes) {
	runs = slices.Clone(runs)
	slices.SortStableFunc(runs, func(a, b client.JobRunOutcome) int { return a.FinishedAt.Compare(b.FinishedAt) })
	counts := map[client.JobRunState]int{}
	var order []client.JobRunState
	for i := range runs {
		r := &runs[i]
		b := web.BadgeOf(r.State)
		bar := outcome{X: i * outcomeStep, H: outcomeHeight, Tone: b.Tone, URL: base + "/ui/runs/" + r.RunID.String()}
		bar.Title = b.Word + " " + r.FinishedAt.UTC().Format("2006-01-02 15:04:05") + " UTC"
		switch r.State {
		case client.JobRunStateSKIPPED, client.JobRunStateCANCELED:
			bar.H = outcomeHeight / 3
		case client.JobRunStateSUCCEEDED:
			bar.H = outcomeHeight * 2 / 3
		}
		bar.Y = outcomeHeight - bar.H
		if counts[r.State]++; counts[r.State] == 1 {
			order = append(order, r.State)
		}
		o.Bars = append(o.Bars, bar)
	}
	var said, others []string
	for _, s := range order {
		words := fmt.Sprintf("%d %s", counts[s], web.BadgeOf(s).Word)
		said = append(said, words)
		if s != client.JobRunStateSUCCEEDED {
			others = append(others, words)
		}
	}
	o.Width, o.Words, o.Others = len(runs)*outcomeStep, strings.Join(said, ", "), strings.Join(others, ", ")
	return o
}
