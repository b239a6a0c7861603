package systempages

import (
	"net/url"
	"time"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// hour shows what happened in the last minutes, as a chart for each counted quantity and as a
// table.
type hour struct {
	Charts []chart
	Rows   []minute // newest first; minutes in which nothing happened are omitted
}

// chart shows one quantity that is counted by the minute.
type chart struct {
	Label, URL string
	Total      string
	Spark      *web.Spark // nil: there were none
}

// minute is a row of the table with the text of its cells.
type minute struct{ From, Words, Started, Failed, Letters string }

// counted lists the charts in order.
var counted = []struct {
	label, tone, url string
	of               func(*client.OverviewMinute) *int64
}{
	{"sagas started", "", "/ui/sagas?", func(m *client.OverviewMinute) *int64 { return m.SagasStarted }},
	{"of these, failed or undone", "bad", "/ui/sagas?state=compensated&state=failed&state=cancelled&state=timed_out&",
		func(m *client.OverviewMinute) *int64 { return m.SagasFailed }},
	{"dead letters arrived", "undo", "/ui/dlq/letters?", func(m *client.OverviewMinute) *int64 { return m.Letters }},
}

// lastHour draws the minutes of an overview, or returns nil if it has none.
func lastHour(minutes []client.OverviewMinute) *hour {
	if len(minutes) == 0 {
		return nil
	}
	h := &hour{}
	for _, c := range counted {
		values := make([]int64, len(minutes))
		var total int64
		known := 0
		for i := range minutes {
			if n := c.of(&minutes[i]); n != nil {
				values[i], total, known = *n, total+*n, known+1
			}
		}
		if known == 0 {
			continue
		}
		from := url.Values{"created_from": {minutes[0].From.UTC().Format(time.RFC3339)}}
		h.Charts = append(h.Charts, chart{Label: c.label, URL: c.url + from.Encode(),
			Total: web.Count(total, known < len(minutes)),
			Spark: web.Minutely(c.label, c.tone, minutes[0].From, values)})
	}
	for i := len(minutes) - 1; i >= 0; i-- {
		m := &minutes[i]
		if some(m.SagasStarted) || some(m.SagasFailed) || some(m.Letters) {
			h.Rows = append(h.Rows, minute{web.Stamp(m.From), web.Minute(m.From), cell(m.SagasStarted), cell(m.SagasFailed),
				cell(m.Letters)})
		}
	}
	return h
}

func some(n *int64) bool { return n != nil && *n > 0 }

// cell formats a number in the table; it is empty if the quantity was not counted.
func cell(n *int64) string {
	if n == nil {
		return ""
	}
	return web.Count(*n)
}
