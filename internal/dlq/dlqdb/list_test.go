package dlqdb_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/dlqdb"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

// letterFilter is a filter, and the letters it must find.
type letterFilter struct {
	name string
	dlq.Filter
	fits func(l *dlq.Letter) bool
}

// letterFilters covers every member of dlq.Filter, with values that some letters of VariedLetters
// have. like is one of these letters.
func letterFilters(like *dlq.Letter) []letterFilter {
	at, half := like.CreatedAt, time.Hour
	has := func(name, value string) func(l *dlq.Letter) bool {
		return func(l *dlq.Letter) bool {
			return slices.ContainsFunc(l.Content.Headers, func(h dlq.Header) bool {
				return h.Name == name && h.Value != nil &&
					string(h.Value) == value
			})
		}
	}
	payload := func(doc string) func(l *dlq.Letter) bool {
		return func(l *dlq.Letter) bool { return bytes.Contains(l.Content.Payload, []byte(doc)) }
	}
	return []letterFilter{
		{"everything", dlq.Filter{}, func(*dlq.Letter) bool { return true }},
		{"topic", dlq.Filter{Topic: "orders.made"}, func(l *dlq.Letter) bool { return l.OriginalTopic == "orders.made" }},
		{"topic and statuses", dlq.Filter{Topic: "orders.made", Statuses: []dlq.Status{dlq.Dead, dlq.Pending, dlq.Dead}},
			func(l *dlq.Letter) bool {
				return l.OriginalTopic == "orders.made" && (l.Status == dlq.Dead || l.Status == dlq.Pending)
			}},
		{"topic and resolution", dlq.Filter{Topic: "orders.made", Resolutions: []dlq.Resolution{dlq.Manual}}, func(l *dlq.Letter) bool { return l.OriginalTopic == "orders.made" && l.Resolution == dlq.Manual }},
		{"topics", dlq.Filter{Topic: "orders.*"}, func(l *dlq.Letter) bool { return strings.HasPrefix(l.OriginalTopic, "orders.") }},
		{"all topics", dlq.Filter{Topic: "*"}, func(*dlq.Letter) bool { return true }},
		{"topics that nobody has", dlq.Filter{Topic: "order\U0010FFFF*"}, func(*dlq.Letter) bool { return false }},
		{"status", dlq.Filter{Statuses: []dlq.Status{dlq.Resolved}}, func(l *dlq.Letter) bool { return l.Status == dlq.Resolved }},
		{"statuses", dlq.Filter{Statuses: []dlq.Status{dlq.Resolved, dlq.Dead}}, func(l *dlq.Letter) bool { return l.Status.Terminal() }},
		{"resolutions", dlq.Filter{Resolutions: []dlq.Resolution{dlq.Manual, dlq.Exhausted}}, func(l *dlq.Letter) bool {
			return l.Resolution == dlq.Manual || l.Resolution == dlq.Exhausted
		}},
		{"what cannot be", dlq.Filter{Statuses: []dlq.Status{dlq.Dead}, Resolutions: []dlq.Resolution{dlq.Manual}}, func(*dlq.Letter) bool { return false }},
		{"what can be, in part", dlq.Filter{Statuses: []dlq.Status{dlq.Dead, dlq.Pending},
			Resolutions: []dlq.Resolution{dlq.Manual, dlq.Exhausted}}, func(l *dlq.Letter) bool {
			return l.Resolution == dlq.Exhausted
		}},
		{"source", dlq.Filter{Sources: []dlq.Source{dlq.FromKafka}}, func(l *dlq.Letter) bool { return l.Source == dlq.FromKafka }},
		{"sources", dlq.Filter{Sources: []dlq.Source{dlq.FromKafka, dlq.FromSaga}}, func(l *dlq.Letter) bool { return l.Source == dlq.FromKafka || l.Source == dlq.FromSaga }},
		{"class", dlq.Filter{Classes: []dlq.ErrorClass{dlq.Permanent}}, func(l *dlq.Letter) bool { return l.Failure.Class == dlq.Permanent }},
		{"fingerprint", dlq.Filter{Fingerprint: like.Fingerprint}, func(l *dlq.Letter) bool { return l.Fingerprint == like.Fingerprint }},
		{"error type", dlq.Filter{ErrorType: "E1"}, func(l *dlq.Letter) bool { return l.Failure.Type == "E1" }},
		{"words", dlq.Filter{ErrorContains: "REFUSED ärger"}, func(l *dlq.Letter) bool { return strings.Contains(l.Failure.Message, "refused: Ärger") }},
		{"no word", dlq.Filter{ErrorContains: "?"}, func(*dlq.Letter) bool { return false }},
		{"a part of a word", dlq.Filter{ErrorContains: "refus"}, func(*dlq.Letter) bool { return false }},
		{"consumer group", dlq.Filter{ConsumerGroup: "g2"}, func(l *dlq.Letter) bool { return l.ConsumerGroup == "g2" }},
		{"key", dlq.Filter{Key: []byte{1}}, func(l *dlq.Letter) bool { return bytes.Equal(l.Content.Key, []byte{1}) && l.Content.Key != nil }},
		{"an empty key", dlq.Filter{Key: []byte{}}, func(l *dlq.Letter) bool { return l.Content.Key != nil && len(l.Content.Key) == 0 }},
		{"header", dlq.Filter{Headers: map[string]string{"h": "1"}}, has("h", "1")},
		{"headers", dlq.Filter{Headers: map[string]string{"h": "1", "i": "2"}}, func(l *dlq.Letter) bool { return has("h", "1")(l) && has("i", "2")(l) }},
		{"payload", dlq.Filter{Payload: map[string]string{"customer.id": "1"}}, payload(`"id":1,`)},
		{"a text of digits in a payload", dlq.Filter{Payload: map[string]string{"customer.name": `"1"`}}, payload(`"name":"1"`)},
		{"a text in a list", dlq.Filter{Payload: map[string]string{"lines.1": "b 2"}}, payload(`"b 2"`)},
		{"label", dlq.Filter{Labels: []string{"red"}}, func(l *dlq.Letter) bool { return slices.Contains(l.Labels, "red") }},
		{"labels", dlq.Filter{Labels: []string{"red", "blue"}}, func(l *dlq.Letter) bool { return slices.Contains(l.Labels, "red") && slices.Contains(l.Labels, "blue") }},
		{"assignee", dlq.Filter{Assignee: "ada"}, func(l *dlq.Letter) bool { return l.Assignee == "ada" }},
		{"correlation id", dlq.Filter{CorrelationID: "c1"}, func(l *dlq.Letter) bool { return l.CorrelationID == "c1" }},
		{"trace id", dlq.Filter{TraceID: "t1"}, func(l *dlq.Letter) bool { return l.TraceID == "t1" }},
		{"saga", dlq.Filter{SagaID: pgtest.SomeSaga}, func(l *dlq.Letter) bool { return l.Link.SagaID == pgtest.SomeSaga }},
		{"job run", dlq.Filter{JobRunID: pgtest.SomeSaga}, func(l *dlq.Letter) bool { return l.Link.JobRunID == pgtest.SomeSaga }},
		{"lineage", dlq.Filter{RootID: like.RootID}, func(l *dlq.Letter) bool { return l.RootID == like.RootID }},
		{"redrive", dlq.Filter{RedriveID: pgtest.SomeSaga}, func(l *dlq.Letter) bool { return l.RedriveID == pgtest.SomeSaga }},
		{"created", dlq.Filter{CreatedFrom: at.Add(-half), CreatedTo: at}, func(l *dlq.Letter) bool { return !l.CreatedAt.Before(at.Add(-half)) && l.CreatedAt.Before(at) }},
		{"retried", dlq.Filter{LastRetryFrom: at.Add(-half), LastRetryTo: at}, func(l *dlq.Letter) bool {
			return l.LastRetryAt != nil && !l.LastRetryAt.Before(at.Add(-half)) && l.LastRetryAt.Before(at)
		}},
		{"retries", dlq.Filter{RetryCountMin: new(2), RetryCountMax: new(3)}, func(l *dlq.Letter) bool { return l.RetryCount == 2 || l.RetryCount == 3 }},
		{"many retries", dlq.Filter{RetryCountMin: new(2)}, func(l *dlq.Letter) bool { return l.RetryCount >= 2 }},
		{"no retries", dlq.Filter{RetryCountMax: new(0)}, func(l *dlq.Letter) bool { return l.RetryCount == 0 }},
		{"any retries", dlq.Filter{RetryCountMin: new(0)}, func(*dlq.Letter) bool { return true }},
		{"generation", dlq.Filter{GenerationMin: 2}, func(l *dlq.Letter) bool { return l.Generation >= 2 }},
	}
}

// newestFirst sorts letters as lists do.
func newestFirst(letters []dlq.Letter) []dlq.Letter {
	slices.SortFunc(letters, func(a, b dlq.Letter) int {
		if c := b.CreatedAt.Compare(a.CreatedAt); c != 0 {
			return c
		}
		return bytes.Compare(b.ID[:], a.ID[:])
	})
	return letters
}

func idsOf(letters []dlq.Letter) []string {
	out := make([]string, len(letters))
	for i, l := range letters {
		out[i] = l.ID.String()
	}
	return out
}

func TestEveryFilterFindsItsLetters(t *testing.T) {
	t.Parallel()
	b := pgtest.NewLetterStore(t)
	all := newestFirst(b.VariedLetters(t, 240))
	other := b
	other.Tenant = pgtest.NewID()
	other.VariedLetters(t, 20)
	filters := letterFilters(&all[100])
	asked := map[string]bool{}
	for _, f := range filters {
		v := reflect.ValueOf(f.Filter)
		for i := range v.NumField() {
			if !v.Field(i).IsZero() {
				asked[v.Type().Field(i).Name] = true
			}
		}
		var want []dlq.Letter
		for i := range all {
			if f.fits(&all[i]) {
				want = append(want, all[i])
			}
		}
		if len(want) == 0 &&
			!slices.Contains([]string{"no word", "a part of a word", "topics that nobody has", "what cannot be"}, f.name) {
			t.Errorf("%s: nothing to find", f.name)
		}
		wantList(t, b, f.name, f.Filter, want)
	}
	for i := range reflect.TypeFor[dlq.Filter]().NumField() {
		if name := reflect.TypeFor[dlq.Filter]().Field(i).Name; !asked[name] {
			t.Errorf("no filter by %s", name)
		}
	}
	// Pairs of filters.
	r := rand.New(rand.NewPCG(5, 6))
	for range 60 {
		x, y := filters[r.IntN(len(filters))], filters[r.IntN(len(filters))]
		both, ok := merge(x.Filter, y.Filter)
		if !ok {
			continue
		}
		var want []dlq.Letter
		for i := range all {
			if x.fits(&all[i]) && y.fits(&all[i]) {
				want = append(want, all[i])
			}
		}
		wantList(t, b, x.name+" and "+y.name, both, want)
	}
}

// merge combines filters that have no member in common.
func merge(a, b dlq.Filter) (dlq.Filter, bool) {
	va, vb := reflect.ValueOf(&a).Elem(), reflect.ValueOf(b)
	for i := range va.NumField() {
		if vb.Field(i).IsZero() {
			continue
		}
		if !va.Field(i).IsZero() {
			return a, false
		}
		va.Field(i).Set(vb.Field(i))
	}
	return a, true
}

func TestACountStopsAtItsBound(t *testing.T) {
	t.Parallel()
	b := pgtest.NewLetterStore(t)
	b.VariedLetters(t, 60)
	for _, q := range []dlq.Query{{}, {Filter: dlq.Filter{Statuses: dlq.Statuses}},
		{Filter: dlq.Filter{Classes: dlq.Classes}}} {
		q.Limit, q.Total, q.TotalCap = 5, true, 20
		if p, err := b.List(t.Context(), b.Tenant, q); err != nil || p.Total != 20 || !p.TotalCapped {
			t.Errorf("%+v: total %d, capped %v, %v", q.Filter, p.Total, p.TotalCapped, err)
		}
	}
}

// A list of whole letters is limited; large letters are read separately.
func TestAListLeavesOutContentThatIsTooLarge(t *testing.T) {
	t.Parallel()
	b := pgtest.NewLetterStore(t)
	b.PushAll(t, b.NewLetter(func(l *dlq.Letter) { l.Content.Payload, l.Encoding = make([]byte, 1000), dlq.Binary }),
		b.NewLetter(func(l *dlq.Letter) { l.Content.Payload, l.Encoding = make([]byte, 1001), dlq.Binary }),
		b.NewLetter(func(l *dlq.Letter) {
			l.Content.Payload, l.Content.Headers = nil, []dlq.Header{{Name: "h", Value: make([]byte, 2000)}}
		}))
	for largest, omitted := range map[int]int{0: 0, 1000: 2, 500: 3} {
		p, err := b.List(t.Context(), b.Tenant, dlq.Query{ByTime: page.ByTime{Limit: 5}, Largest: largest})
		if err != nil {
			t.Fatal(err)
		}
		got := 0
		for _, l := range p.Items {
			if l.Omitted {
				got++
			}
			if empty := l.Content.Payload == nil && l.Content.Headers == nil && l.Content.Key == nil; empty != l.Omitted {
				t.Errorf("largest %d: omitted %v, content %d and %d bytes", largest, l.Omitted, len(l.Content.Payload), len(l.Content.Headers))
			}
		}
		if got != omitted || len(p.Items) != 3 {
			t.Errorf("largest %d: %d of %d letters are left out, want %d of 3", largest, got, len(p.Items), omitted)
		}
	}
}

// wantList reads a list in every possible way, and compares it with want, which is newest first.
func wantList(t *testing.T, b pgtest.LetterStore, name string, f dlq.Filter, want []dlq.Letter) {
	t.Helper()
	list := func(q dlq.Query) page.Of[dlq.Letter] {
		q.Filter, q.Total = f, true
		p, err := b.List(t.Context(), b.Tenant, q)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return p
	}
	for _, oldest := range []bool{false, true} {
		expected := slices.Clone(want)
		if oldest {
			slices.Reverse(expected)
		}
		const limit = 17
		var byCursor, byPage []dlq.Letter
		var after *page.TimeID
		for {
			p := list(dlq.Query{ByTime: page.ByTime{Limit: limit, After: after}, Oldest: oldest})
			byCursor = append(byCursor, p.Items...)
			if p.Total != int64(len(want)) && after == nil || p.TotalCapped {
				t.Errorf("%s: total %d, capped %v; want %d", name, p.Total, p.TotalCapped, len(want))
			}
			if !p.More {
				break
			}
			last := p.Items[len(p.Items)-1]
			after = &page.TimeID{At: last.CreatedAt, ID: last.ID}
		}
		for offset := 0; ; offset += limit {
			p := list(dlq.Query{ByTime: page.ByTime{Limit: limit, Offset: offset}, Oldest: oldest, Bare: true})
			byPage = append(byPage, p.Items...)
			if !p.More {
				break
			}
		}
		// This is the other method for finding a page, which is used if the first one takes long.
		gathered, total, ok, err := dlqdb.GatherLetters(t.Context(), b.Letters, b.Tenant,
			dlq.Query{Filter: f, ByTime: page.ByTime{Limit: limit, Offset: 3}, Oldest: oldest}, math.Inf(1))
		if rest := expected[min(3, len(expected)):]; err != nil || !ok ||
			(total != int64(len(want)) || !slices.Equal(idsOf(gathered), idsOf(rest[:min(limit+1, len(rest))]))) {
			t.Errorf("%s gathered: %v of %d, %v, %v; want a page of %d", name, idsOf(gathered), total, ok, err, len(want))
		}
		if diff := cmp.Diff(idsOf(expected), idsOf(byCursor)); diff != "" {
			t.Fatalf("%s by cursor, oldest first %v (-want +got):\n%s", name, oldest, diff)
		}
		if diff := cmp.Diff(idsOf(expected), idsOf(byPage)); diff != "" {
			t.Fatalf("%s by page, oldest first %v (-want +got):\n%s", name, oldest, diff)
		}
		// Finding a difference takes a hundred times longer than finding that there is none.
		if len(expected) > 0 && !reflect.DeepEqual(expected, byCursor) {
			if diff := cmp.Diff(expected, byCursor); diff != "" {
				t.Errorf("%s (-stored +listed):\n%s", name, diff)
			}
		}
		for _, l := range byPage {
			if l.Content.Payload != nil || l.Content.Headers != nil || l.Content.Key != nil || l.Failure.Stack != "" {
				t.Errorf("%s: a bare letter has content", name)
			}
		}
	}
}
