package measure

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// peerRow holds all turns of a level.
type peerRow struct {
	title string
	jobs  bool
	names []string          // of the contestants, in order
	turns map[string][]turn // one for each round of this row
}

// add keeps a turn, and prints it: a comparison takes long.
func (r *peerRow) add(out io.Writer, name string, t turn) {
	if r.turns == nil {
		r.turns = map[string][]turn{}
	}
	if r.turns[name] == nil {
		r.names = append(r.names, name)
	}
	r.turns[name] = append(r.turns[name], t)
	fmt.Fprintf(out, "round %d  %-45s %-24s ", len(r.turns[name]), r.title, name)
	if t.lost != "" {
		fmt.Fprintf(out, "%s  %s\n", t.lost, t.detail)
		return
	}
	fmt.Fprintf(out, "%8.0f/s", t.perSecond)
	if !r.jobs {
		fmt.Fprintf(out, "  p50 %7.2f ms  p99 %7.2f ms  CPU %.2f ms each, all processes  RSS %s MB  WAL %d bytes each",
			float64(t.answers.P50), float64(t.answers.P99), float64(millis(t.cpu)), megabytes(t.rss), t.wal)
	}
	if t.repeated > 0 {
		fmt.Fprintf(out, "  repeated calls: %d", t.repeated)
	}
	if t.errors > 0 {
		fmt.Fprintf(out, "  failed requests: %d, the first: %s", t.errors, t.first)
	}
	fmt.Fprintln(out)
}

// figures are those of the turns in which a contestant lost nothing.
func (r *peerRow) figures(name string, of func(turn) float64) (all []float64) {
	for _, t := range r.turns[name] {
		if t.lost == "" {
			all = append(all, of(t))
		}
	}
	return all
}

// ratios are those of one contestant to another in the rounds in which neither lost anything.
func (r *peerRow) ratios(name, to string, of func(turn) float64) (all []float64) {
	for i := range min(len(r.turns[name]), len(r.turns[to])) {
		a, b := r.turns[name][i], r.turns[to][i]
		if a.lost == "" && b.lost == "" && of(b) > 0 {
			all = append(all, of(a)/of(b))
		}
	}
	return all
}

// lowerMedian is the middle of some figures; of two, the lower.
func lowerMedian(all []float64) float64 {
	all = slices.Sorted(slices.Values(all))
	return all[(len(all)-1)/2]
}

// mostSpread is how much the highest ratio of a settled row may be above the lowest.
const mostSpread = 0.15

// spread looks at as many ratios as there should be rounds, those closest to the median, so that a disturbed
// round does not count once there are more. It returns by how much the highest is above the lowest, and
// how far one is from the median.
func spread(ratios []float64, rounds int) (between, away float64) {
	if len(ratios) == 0 {
		return 0, 0
	}
	middle := lowerMedian(ratios)
	distance := func(ratio float64) float64 { return math.Abs(math.Log(ratio / middle)) }
	near := slices.SortedFunc(slices.Values(ratios), func(a, b float64) int { return cmp.Compare(distance(a), distance(b)) })
	near = near[:min(rounds, len(near))]
	lowest, highest := slices.Min(near), slices.Max(near)
	return highest/lowest - 1, max(highest/middle-1, 1-lowest/middle)
}

// settled: no ratio of Skald's rate to that of a peer spreads too much.
func (r *peerRow) settled(rounds int) bool {
	for _, peer := range r.names {
		for _, skald := range skalds {
			between, _ := spread(r.ratios(skald, peer, rateOf), rounds)
			if !slices.Contains(skalds, peer) && between > mostSpread {
				return false
			}
		}
	}
	return true
}

// peerFigure is a table about one figure of all rows and contestants.
type peerFigure struct {
	title, format string
	of            func(turn) float64
	rate          bool // says what was lost and how much ratios spread
	postgres      bool // only for contestants that store something in PostgreSQL
}

func rateOf(t turn) float64 { return t.perSecond }

var (
	sagaFigures = []peerFigure{
		{title: "sagas a second", format: "%.0f", of: rateOf, rate: true},
		{title: "CPU of all processes for a saga", format: "%.2f ms",
			of: func(t turn) float64 { return float64(millis(t.cpu)) }},
		{title: "WAL for a saga", format: "%.1f kB", of: func(t turn) float64 { return float64(t.wal) / 1e3 }, postgres: true},
		{title: "p50 of a client's request", format: "%.1f ms", of: func(t turn) float64 { return float64(t.answers.P50) }},
		{title: "RSS of the server", format: "%.0f MB", of: func(t turn) float64 { return float64(t.rss) / 1e6 }},
	}
	jobFigures = []peerFigure{{title: "job runs a second", format: "%.0f", of: rateOf, rate: true}}
)

// printPeers prints the tables as the documentation shows them.
func printPeers(out io.Writer, rounds int, rows []*peerRow) {
	fmt.Fprint(out, `
Medians of the rounds. Every saga has ended and made its calls, except where a cell says what was lost; the
figures of a round with a loss are not counted. In parentheses: the median of the rounds' ratios Skald : peer,
first for Skald's default, then with checkpoint: false.
`)
	if rounds > 1 {
		fmt.Fprintf(out, `A row was repeated while the %d ratios closest to their median were more than %.0f %% apart. Where they still
are, ± shows how far one of them is from the median.
`, rounds, 100*mostSpread)
	}
	byJobs := func(jobs bool) []*peerRow {
		other := func(r *peerRow) bool { return r.jobs != jobs || len(r.names) == 0 }
		return slices.DeleteFunc(slices.Clone(rows), other)
	}
	printFigures(out, rounds, byJobs(false), sagaFigures)
	printFigures(out, rounds, byJobs(true), jobFigures)
}

func printFigures(out io.Writer, rounds int, rows []*peerRow, figures []peerFigure) {
	var names []string
	for _, row := range rows {
		for _, name := range row.names {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	if len(names) == 0 {
		return
	}
	printTable := func(title string, cell func(*peerRow, string) string) {
		fmt.Fprintf(out, "\n| %s | %s |\n|---%s|\n", title, strings.Join(names, " | "), strings.Repeat("|---", len(names)))
		for _, row := range rows {
			cells := []string{row.title}
			for _, name := range names {
				cells = append(cells, cell(row, name))
			}
			fmt.Fprintf(out, "| %s |\n", strings.Join(cells, " | "))
		}
	}
	for _, f := range figures {
		printTable(f.title, func(row *peerRow, name string) string { return row.cell(name, f, rounds) })
	}
	printTable("the rate of each round", (*peerRow).all)
}

// cell is the median of a contestant, how Skald compares with it, and what it lost.
func (r *peerRow) cell(name string, f peerFigure, rounds int) string {
	if f.postgres && name == restateName {
		return ""
	}
	var parts []string
	if all := r.figures(name, f.of); len(all) > 0 {
		parts = append(parts, fmt.Sprintf(f.format, lowerMedian(all))+r.compared(name, f, rounds))
	}
	for _, t := range r.turns[name] {
		if f.rate && t.lost != "" {
			parts = append(parts, t.lost)
		}
	}
	return strings.Join(parts, "; ")
}

// compared is how Skald compares with a peer.
func (r *peerRow) compared(peer string, f peerFigure, rounds int) string {
	var all []string
	for _, skald := range skalds {
		if r.turns[skald] == nil || slices.Contains(skalds, peer) {
			continue
		}
		text := "–"
		if ratios := r.ratios(skald, peer, f.of); len(ratios) > 0 {
			text = fmt.Sprintf("%.2f", lowerMedian(ratios))
			if between, away := spread(ratios, rounds); f.rate && between > mostSpread {
				text += fmt.Sprintf(" ±%.0f %%", 100*away)
			}
		}
		all = append(all, text)
	}
	if len(all) == 0 {
		return ""
	}
	return " (" + strings.Join(all, " / ") + ")"
}

// all lists the rates of the rounds.
func (r *peerRow) all(name string) string {
	var rates []string
	for _, t := range r.turns[name] {
		text := "lost"
		if t.lost == "" {
			text = fmt.Sprintf("%.0f", t.perSecond)
		}
		rates = append(rates, text)
	}
	return strings.Join(rates, ", ")
}
