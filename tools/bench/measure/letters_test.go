package measure

import (
	"database/sql"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/dlqdb"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/postgres/devpg"
)

const lettersHere = 3000

// generatedLetters is a database with a few thousand generated letters.
func generatedLetters(t *testing.T) LettersConfig {
	t.Helper()
	server := startPostgres(t, map[string]string{"fsync": "off", "synchronous_commit": "off"})
	cfg := LettersConfig{DatabaseURL: server.DSN(devpg.Database), Letters: lettersHere}
	if err := GenerateLetters(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestGeneratedLettersAreAsTheRulesMakeThem(t *testing.T) {
	cfg := generatedLetters(t)
	store, err := postgres.Open(t.Context(), postgres.Config{DSN: cfg.DatabaseURL})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	letters := dlqdb.NewLetters(store, dlq.DefaultPolicy)
	total, mine := 0, 0
	statuses, sources, resolutions, encodings := map[dlq.Status]int{}, map[dlq.Source]int{}, map[dlq.Resolution]int{},
		map[dlq.Encoding]int{}
	for _, name := range append([]string{defaultTenant.String()}, otherTenants...) {
		tenant := uuid.MustParse(name)
		if p, err := letters.Policy(t.Context(), tenant, ""); err != nil || p.RetentionDays < 3650 {
			t.Errorf("a server would archive letters of %s: %+v, %v", tenant, p, err)
		}
		var after *page.TimeID
		for more := true; more; {
			found, err := letters.List(t.Context(), tenant, dlq.Query{ByTime: page.ByTime{Limit: 200, After: after}})
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range found.Items {
				statuses[l.Status]++
				sources[l.Source]++
				resolutions[l.Resolution]++
				encodings[l.Encoding]++
				if at := time.Unix(l.ID.Time().UnixTime()); l.ID.Version() != 7 || at.Sub(l.CreatedAt).Abs() > time.Millisecond {
					t.Errorf("letter %s, of %v, has the id of %v", l.ID, l.CreatedAt, at)
				}
				if l.NextRetryAt != nil {
					t.Errorf("letter %s is retried while lists are measured", l.ID)
				}
				if l.Fingerprint != dlq.Fingerprint(l.OriginalTopic, l.ConsumerGroup, l.Failure) {
					t.Errorf("letter %s is in another group", l.ID)
				}
				after = &page.TimeID{At: l.CreatedAt, ID: l.ID}
			}
			total += len(found.Items)
			if tenant == defaultTenant {
				mine += len(found.Items)
			}
			more = found.More
		}
	}
	if share := float64(mine) / float64(total); total != lettersHere || share < 0.88 || share > 0.92 {
		t.Errorf("%d letters, %.3f of them the main tenant's", total, share)
	}
	for _, want := range []struct{ got, of int }{{len(sources), len(dlq.Sources)},
		{len(resolutions), len(dlq.Resolutions) + 1}, {len(encodings), 3}} {
		if want.got != want.of {
			t.Errorf("%v %v %v %v", statuses, sources, resolutions, encodings)
		}
	}
}

func TestReadLettersAsksEverythingAndTellsWhatMissedItsTarget(t *testing.T) {
	cfg := generatedLetters(t)
	pool, err := sql.Open("postgres", cfg.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for _, tt := range []struct {
		name         string
		slow, missed []string
	}{
		{"all in time", nil, nil},
		{"some are slow", []string{"page_size=20&topic=unused", "/attempts", "/statistics/dead-letters", "/dlq/groups"}, []string{"a topic without letters", "the attempts of a letter"}},
		{"deep in a list", []string{"/messages?cursor=b&page_size=20"}, []string{"all letters"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			clock := time.Now()
			r := reader{
				ReadConfig: ReadConfig{Samples: 2, Depth: 2 * walkSize, Out: &out},
				db:         pool,
				url:        pages(t, &clock, tt.slow...),
				client:     http.DefaultClient,
				now:        func() time.Time { return clock },
			}
			if err := r.measureLetters(t.Context()); (err != nil) != (tt.missed != nil) {
				t.Errorf("measure = %v", err)
			}
			var missed []string
			names := map[string]bool{}
			for line := range strings.Lines(out.String()) {
				name := strings.TrimSpace(line[:min(62, len(line)-1)])
				names[name] = true
				if strings.HasSuffix(line, "MISSED\n") {
					missed = append(missed, name)
				}
			}
			if diff := cmp.Diff(tt.missed, missed); diff != "" {
				t.Errorf("missed (-want +got):\n%s\n%s", diff, &out)
			}
			for _, name := range []string{"all letters", "header of few, status DEAD", "label of some, topic orders.created", "a letter", "topics (no target)"} {
				if !names[name] {
					t.Errorf("%s was not asked for", name)
				}
			}
		})
	}
}
