package measure

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// peerRow holds all turns of a level.
type peerRow struct {
	title string
	mode  Mode
	jobs  bool
	names []string // of the contestants, in order
	turns map[string][]turn
}

// add keeps a turn, and prints it: a comparison takes minutes.
func (r *peerRow) add(out io.Writer, round int, name string, t turn) {
	if r.turns == nil {
		r.turns = map[string][]turn{}
	}
	if r.turns[name] == nil {
		r.names = append(r.names, name)
	}
	r.turns[name] = append(r.turns[name], t)
	fmt.Fprintf(out, "round %d  %-38s %-8s %8.0f/s", round+1, r.title, name, t.perSecond)
	if !r.jobs {
		fmt.Fprintf(out, "  p50 %7.2f ms  p99 %7.2f ms  CPU %.2f ms each, all processes  RSS %s MB  WAL %d bytes each",
			float64(t.answers.P50), float64(t.answers.P99), float64(millis(t.cpu)), megabytes(t.rss), t.wal)
	}
	if t.repeated > 0 {
		fmt.Fprintf(out, "  %d calls made again", t.repeated)
	}
	if t.errors > 0 {
		fmt.Fprintf(out, "  %d requests failed, the first: %s", t.errors, t.first)
	}
	fmt.Fprintln(out)
}

// median is the middle of what the turns of a contestant reached; of two, the lower.
func (r *peerRow) median(name string, figure func(turn) float64) float64 {
	var all []float64
	for _, t := range r.turns[name] {
		all = append(all, figure(t))
	}
	slices.Sort(all)
	return all[(len(all)-1)/2]
}

func rateOf(t turn) float64    { return t.perSecond }
func p50Of(t turn) float64     { return float64(t.answers.P50) }
func cpuOfTurn(t turn) float64 { return float64(millis(t.cpu)) }
func rssOf(t turn) float64     { return float64(t.rss) / 1e6 }
func walOf(t turn) float64     { return float64(t.wal) }

// printPeers prints the table as the documentation shows it.
func printPeers(out io.Writer, rounds int, rows []peerRow) {
	fmt.Fprintf(out, "\nMedians of %d rounds, and all rounds; every saga has ended and made its calls.\n\n", rounds)
	fmt.Fprintln(out, "| | | rounds | Skald : peer | p50 | CPU each, all processes | RSS of the server | WAL each |")
	fmt.Fprintln(out, "|---|---|---|---|---|---|---|---|")
	for _, row := range rows {
		for _, name := range row.names {
			rate := row.median(name, rateOf)
			cells := []string{
				row.title, fmt.Sprintf("%s %.0f/s", name, rate), row.all(name), row.ratio(name, rate), "", "", "", "",
			}
			if !row.jobs {
				cells[4] = fmt.Sprintf("%.1f ms", row.median(name, p50Of))
				cells[5] = fmt.Sprintf("%.2f ms", row.median(name, cpuOfTurn))
				cells[6] = fmt.Sprintf("%.0f MB", row.median(name, rssOf))
			}
			if !row.jobs && name != "Restate" {
				cells[7] = fmt.Sprintf("%.1f kB", row.median(name, walOf)/1e3)
			}
			fmt.Fprintf(out, "| %s |\n", strings.Join(cells, " | "))
		}
	}
}

// all lists the rates of the rounds.
func (r *peerRow) all(name string) string {
	var rates []string
	for _, t := range r.turns[name] {
		rates = append(rates, fmt.Sprintf("%.0f", t.perSecond))
	}
	return strings.Join(rates, ", ")
}

// ratio is Skald's rate over the peer's.
func (r *peerRow) ratio(name string, rate float64) string {
	if name == "Skald" || r.turns["Skald"] == nil {
		return ""
	}
	return fmt.Sprintf("%.1f", r.median("Skald", rateOf)/rate)
}
