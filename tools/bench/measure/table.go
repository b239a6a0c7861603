package measure

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// column is a column of the table, as wide as its longest usual value.
type column struct {
	title string
	width int
	value func(Level) string
}

var columns = []column{
	{"workflow", 10, func(l Level) string { return l.Workflow }},
	{"mode", 6, func(l Level) string { return string(l.Mode) }},
	{"clients", 7, func(l Level) string { return strconv.Itoa(l.Clients) }},
	{"sagas", 7, func(l Level) string { return strconv.Itoa(l.Sagas) }},
	{"sagas/s", 8, func(l Level) string { return fmt.Sprintf("%.0f", l.PerSecond) }},
	{"subm p50", 8, func(l Level) string { return submitTime(l.Submit, func(s Latency) Millis { return s.P50 }) }},
	{"p99", 7, func(l Level) string { return submitTime(l.Submit, func(s Latency) Millis { return s.P99 }) }},
	{"e2e p50", 8, func(l Level) string { return shortTime(l.EndToEnd.P50) }},
	{"p99", 7, func(l Level) string { return shortTime(l.EndToEnd.P99) }},
	{"skald", 6, func(l Level) string { return shortCores(l.Cores.Skald) }},
	{"postgres", 8, func(l Level) string { return postgresCores(l.Cores.Postgres) }},
	{"partic", 6, func(l Level) string { return shortCores(l.Cores.Participant) }},
	{"load", 5, func(l Level) string { return shortCores(l.Cores.Load) }},
	{"cpu/saga", 8, func(l Level) string { return shortTime(l.CPUPerSaga) }},
	{"other", 5, func(l Level) string { return shortCores(l.Cores.Other) }},
	{"RSS", 5, func(l Level) string { return megabytes(l.RSS) }},
	{"peak", 5, func(l Level) string { return megabytes(l.PeakRSS) }},
	{"WAL/saga", 8, func(l Level) string { return strconv.FormatInt(l.WALPerSaga, 10) }},
	{"HOT", 5, func(l Level) string { return fmt.Sprintf("%.0f%%", 100*l.HOTRatio) }},
	{"errors", 6, func(l Level) string { return strconv.Itoa(l.Errors) }},
}

// submitTime returns a figure of s, or a dash when there is none.
func submitTime(s *Latency, figure func(Latency) Millis) string {
	if s == nil {
		return "-"
	}
	return shortTime(figure(*s))
}

func shortTime(m Millis) string { return fmt.Sprintf("%.2f", float64(m)) }

func postgresCores(c *float64) string {
	if c == nil {
		return "-"
	}
	return shortCores(*c)
}

func shortCores(c float64) string { return fmt.Sprintf("%.2f", c) }

func megabytes(bytes int64) string { return fmt.Sprintf("%.0f", float64(bytes)/1e6) }

// thousands writes n with commas.
func thousands(n int) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// The table goes to a terminal; if that is gone, errors cannot be shown anywhere, so the print
// functions ignore write errors.

func printMachine(w io.Writer, m Machine) {
	fmt.Fprintf(w, "machine     %d cores, %s, %s, load average %s\n", m.Cores, m.Processor, m.OS, m.LoadAverage)
	fmt.Fprintf(w, "server      built with %s\n", m.ServerGo)
	fmt.Fprintf(w, "postgresql  %s", m.Database)
	for _, name := range durableSettings {
		fmt.Fprintf(w, ", %s=%s", name, m.DatabaseSettings[name])
	}
	fmt.Fprint(w, "\n\n")
}

// openDescribed opens the database, and prints the machine, the database and the server
// that are measured.
func openDescribed(ctx context.Context, url, server string, out io.Writer) (*database, error) {
	db, err := openDatabase(ctx, url)
	if err != nil {
		return nil, err
	}
	machine, err := describeMachine(server, db)
	if err != nil {
		db.close()
		return nil, err
	}
	printMachine(out, machine)
	return db, nil
}

func printTableHead(w io.Writer) {
	fmt.Fprintln(
		w,
		"Sagas of three steps over HTTP. Times in ms, CPU in cores by process, RSS of skald in MB, WAL in bytes.",
	)
	titles := make([]string, len(columns))
	for i, c := range columns {
		titles[i] = c.title
	}
	printCells(w, titles)
}

func printRow(w io.Writer, l Level) {
	cells := make([]string, len(columns))
	for i, c := range columns {
		cells[i] = c.value(l)
	}
	printCells(w, cells)
	if l.Errors > 0 {
		fmt.Fprintf(w, "  errors: %d, the first: %s\n", l.Errors, l.FirstError)
	}
}

// printCells writes one line, texts left-aligned and figures right-aligned.
func printCells(w io.Writer, cells []string) {
	var line strings.Builder
	for i, cell := range cells {
		width := columns[i].width
		if i < 2 {
			width = -width
		}
		fmt.Fprintf(&line, "%*s ", width, cell)
	}
	fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
}

// disturbed is how many cores other processes may use before the rates of a level are
// unreliable.
const disturbed = 0.1

func printSummary(w io.Writer, r *Report) {
	fmt.Fprintf(w, "\nready after %s with migrations, %s on an existing database, %s after the load\n",
		startTime(r.Ready.EmptyDatabase), startTime(r.Ready.ExistingDatabase), startTime(r.Ready.AfterLoad))
	var other float64
	for _, l := range r.Levels {
		other = max(other, l.Cores.Other)
	}
	if other > disturbed {
		fmt.Fprintf(
			w,
			"NOT ALONE: processes that are not part of the run used up to %.2f of the machine's %d cores\n",
			other,
			r.Machine.Cores,
		)
	}
	for _, t := range r.Targets {
		verdict := "MISSED"
		if t.Met {
			verdict = "met"
		}
		fmt.Fprintf(w, "%-7s %-50s %8.2f  (target %g)\n", verdict, t.Name, t.Measured, t.Limit)
	}
}

func startTime(m Millis) string {
	if m == 0 {
		return "(not measured)"
	}
	return fmt.Sprintf("%.0f ms", float64(m))
}

// printServerLog shows the end of the server's log.
func printServerLog(w io.Writer, path string) {
	const show = 20
	raw, err := os.ReadFile(path)
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	if err != nil || lines[0] == "" {
		return
	}
	fmt.Fprintf(w, "\nthe server's log lines at warn or above (%d", len(lines))
	if len(lines) > show {
		lines = lines[len(lines)-show:]
		fmt.Fprintf(w, ", of which these are the last %d", show)
	}
	fmt.Fprintf(w, "):\n%s\n", strings.Join(lines, "\n"))
}
