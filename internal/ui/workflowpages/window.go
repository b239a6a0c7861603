package workflowpages

import (
	"net/url"
	"slices"
	"time"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// window is the period covered by a page of statistics: sagas created within it are counted.
type window struct {
	From, To time.Time
	Name     string // name of its length
	Bucket   client.SeriesBucketLength
	Length   time.Duration // length of a bucket
	Chooser  []web.Tab
	Earlier  string // URL of the previous window; empty: there is none
	Later    string // URL of the next window
	Today    string // URL of the latest window; empty: this is the latest
}

var lengths = []struct {
	name, words  string
	span, length time.Duration
	bucket       client.SeriesBucketLength
}{
	{"1h", "1 hour", time.Hour, time.Minute, client.SeriesBucketLengthN1M},
	{"24h", "24 hours", 24 * time.Hour, time.Hour, client.SeriesBucketLengthN1H},
	{"7d", "7 days", 7 * 24 * time.Hour, time.Hour, client.SeriesBucketLengthN1H},
	{"30d", "30 days", 30 * 24 * time.Hour, 24 * time.Hour, client.SeriesBucketLengthN1D},
}

// minutesKept is how far back the API can count by the minute.
const minutesKept = 3 * 24 * time.Hour

// windowOf parses the parameters window and until; other parameters are kept in the URLs of other
// windows.
func windowOf(v *web.Visit) (*window, error) {
	q := v.URL.Query()
	at := slices.IndexFunc(lengths, func(l struct {
		name, words  string
		span, length time.Duration
		bucket       client.SeriesBucketLength
	},
	) bool {
		return l.name == q.Get("window")
	})
	switch {
	case q.Get("window") == "":
		at = 1
	case at < 0:
		return nil, web.Malformed("The window must be 1h, 24h, 7d or 30d.")
	}
	l := lengths[at]
	latest := v.Now.UTC().Truncate(l.length).Add(l.length)
	w := &window{To: latest, Name: l.words, Bucket: l.bucket, Length: l.length}
	if until := q.Get("until"); until != "" {
		t, err := time.Parse(time.RFC3339, until)
		if err != nil {
			return nil, web.Malformed("The end of the window must be a time such as 2026-03-01T12:00:00Z.")
		}
		if t = t.UTC().Truncate(l.length); t.Before(latest) {
			w.To = t
		}
	}
	w.From = w.To.Add(-l.span)
	with := func(name string, until time.Time) string {
		to := url.Values{}
		for k, values := range q {
			to[k] = values
		}
		to.Set("window", name)
		to.Del("until")
		if until.Before(latest) {
			to.Set("until", until.Format(time.RFC3339))
		}
		return "?" + to.Encode()
	}
	for _, other := range lengths {
		w.Chooser = append(w.Chooser, web.Tab{Name: other.words, URL: with(other.name, w.To), Current: other.name == l.name})
	}
	if l.length >= time.Hour || w.From.Add(-l.span).After(v.Now.Add(-minutesKept)) {
		w.Earlier = with(l.name, w.From)
	}
	if w.To.Before(latest) {
		w.Later, w.Today = with(l.name, w.To.Add(l.span)), with(l.name, latest)
	}
	return w, nil
}

// sagasURL returns the URL of the list of sagas created within a period, either of one workflow or
// of all.
func sagasURL(workflow string, from, to time.Time, more ...string) string {
	q := url.Values{"created_from": {from.Format(time.RFC3339)}, "created_to": {to.Format(time.RFC3339)}}
	if workflow != "" {
		q.Set("workflow_name", workflow)
	}
	for i := 0; i+1 < len(more); i += 2 {
		q.Set(more[i], more[i+1])
	}
	return "/ui/sagas?" + q.Encode()
}
