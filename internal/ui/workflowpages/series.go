package workflowpages

import (
	"fmt"
	"math"
	"time"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// series shows sagas over time: how many were created, how they ended, and how long they took.
type series struct {
	*window
	AsOf     time.Time
	Legend   []part
	Rows     []seriesRow // buckets with sagas, newest first
	Empty    int         // number of buckets without sagas
	Columns  []column    // columns of both charts
	Width    int
	Count    axis
	Took     *axis // nil: no saga has ended
	Times    []time.Time
	Days     bool // each bucket is a day
	Workflow string
	Sampled  bool // some durations cover only some of the sagas
	Total    int64
}

// axis contains the labels of the vertical axis, from the top.
type axis []string

// part is one kind of outcome.
type part struct {
	Tone, Word string
	Sagas      int64
	of         func(*client.SagaSeriesBucket) int64
}

// column is one bucket.
type column struct {
	X, Wide    int
	URL, Title string
	Parts      []block
	Took       []block
}

type block struct {
	Y, H int
	Tone string
}

type seriesRow struct {
	client.SagaSeriesBucket
	URL      string
	P50, P95 string
}

// Failed returns the number of sagas that failed and were not canceled by a user.
func (r *seriesRow) Failed() int64 { return r.FailedCount - r.CancelledCount }

const (
	columnStep = 10
	chartTall  = 1000
)

func outcomeParts() []part {
	return []part{
		{"done", "completed", 0, func(b *client.SagaSeriesBucket) int64 { return b.CompletedCount }},
		{"undo", "compensated", 0, func(b *client.SagaSeriesBucket) int64 { return b.CompensatedCount }},
		{"bad", "failed or timed out", 0, func(b *client.SagaSeriesBucket) int64 { return b.FailedCount - b.CancelledCount }},
		{"muted", "cancelled", 0, func(b *client.SagaSeriesBucket) int64 { return b.CancelledCount }},
		{"run", "not ended", 0, func(b *client.SagaSeriesBucket) int64 { return b.ActiveCount }},
	}
}

// seriesOf reads the series of a workflow, or of all workflows if name is empty.
func (p *pages) seriesOf(v *web.Visit, name string) (*series, error) {
	w, err := windowOf(v)
	if err != nil {
		return nil, err
	}
	ask := &client.GetSagaSeriesParams{Bucket: &w.Bucket, CreatedFrom: &w.From, CreatedTo: &w.To}
	if name != "" {
		ask.WorkflowName = &name
	}
	res, err := p.kit.Client.GetSagaSeriesWithResponse(v.Context(), ask)
	if err != nil {
		return nil, err
	}
	got, err := web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
	if err != nil {
		return nil, err
	}
	return drawSeries(w, name, got, p.kit.Base), nil
}

// drawSeries creates the charts and the table of a series.
func drawSeries(w *window, name string, got *client.SagaSeries, base string) *series {
	s := &series{
		window: w, AsOf: got.AsOf, Legend: outcomeParts(), Workflow: name, Days: w.Length >= 24*time.Hour,
		Width: len(got.Buckets) * columnStep,
	}
	var most int64
	var slowest float64
	for i := range got.Buckets {
		b := &got.Buckets[i]
		most = max(most, b.CreatedCount)
		if b.Duration != nil {
			slowest = max(slowest, b.Duration.P95Ms)
		}
	}
	top := max(web.NiceAbove(float64(most)), 2)
	s.Count = axis{web.Count(int64(top)), web.Count(int64(math.Round(top / 2))), "0"}
	slow := web.NiceAbove(slowest)
	if slowest > 0 {
		s.Took = &axis{milliseconds(slow), milliseconds(slow / 2), "0"}
	}
	for i := range got.Buckets {
		b := &got.Buckets[i]
		c := column{X: i * columnStep, Wide: columnStep - 2, URL: base + sagasURL(name, b.From, b.To)}
		c.Title = b.From.UTC().Format("2006-01-02 15:04") + " UTC: " + web.Count(b.CreatedCount) + " created"
		y := chartTall
		for k := range s.Legend {
			part := &s.Legend[k]
			n := part.of(b)
			if n == 0 {
				continue
			}
			part.Sagas += n
			h := max(int(float64(n)*chartTall/top), 4) // make non-zero values visible
			y -= h
			c.Parts = append(c.Parts, block{y, h, part.Tone})
			c.Title += fmt.Sprintf(", %s %s", web.Count(n), part.Word)
		}
		row := seriesRow{SagaSeriesBucket: *b, URL: c.URL}
		if d := b.Duration; d != nil {
			row.P50, row.P95 = milliseconds(d.P50Ms), milliseconds(d.P95Ms)
			c.Title += "; median " + row.P50 + ", 95 % within " + row.P95
			low, high := chartTall-int(d.P50Ms*chartTall/slow), chartTall-int(d.P95Ms*chartTall/slow)
			c.Took = []block{{high, max(low-high, 8), "span"}, {min(low, chartTall-16), 16, "mid"}}
			s.Sampled = s.Sampled || d.Sampled
		}
		if s.Total += b.CreatedCount; b.CreatedCount > 0 {
			s.Columns = append(s.Columns, c)
			s.Rows = append([]seriesRow{row}, s.Rows...)
		} else {
			s.Empty++
		}
	}
	for i := range int64(5) {
		s.Times = append(s.Times, w.From.Add(time.Duration(i)*w.To.Sub(w.From)/4))
	}
	return s
}

// milliseconds formats a duration, with one decimal if it is short.
func milliseconds(ms float64) string {
	if ms < 10 {
		return fmt.Sprintf("%.1f ms", ms)
	}
	return web.Duration(time.Duration(ms * float64(time.Millisecond)))
}

// statisticsPage shows the series of all workflows.
type statisticsPage struct {
	Series *series
	Now    time.Time
}

func (p *pages) statistics(v *web.Visit) (*web.Page, error) {
	d := &statisticsPage{Now: v.Now}
	var err error
	if d.Series, err = p.seriesOf(v, ""); err != nil {
		return nil, err
	}
	return &web.Page{Template: "statistics", Title: "Statistics", Nav: "Workflows", Refresh: 10, Data: d}, nil
}
