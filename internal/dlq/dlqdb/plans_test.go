package dlqdb_test

import (
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/dlqdb"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

// A hundred thousand letters: this many distinct ones written by the store, and copies of them with
// the same terms.
const (
	differentLetters = 2000
	copiesOfLetters  = 50
)

// manyLetters fills a database. Half of the letters that have ended are archived.
func manyLetters(t *testing.T) (pgtest.LetterStore, []dlq.Letter) {
	t.Helper()
	b := pgtest.NewLetterStore(t)
	all := b.VariedLetters(t, differentLetters)
	// The rare letter is rarer than VariedLetters makes it.
	rare := b.PushAll(t, b.NewLetter(b.Everything, func(l *dlq.Letter) {
		l.OriginalTopic, l.Failure.Message, l.Content.Payload = "rare.topic", "an unheard of mishap",
			[]byte(`{"rare":{"id":77}}`)
		l.Failure.Type, l.ConsumerGroup, l.Assignee, l.Labels = "Rare", "rare", "nobody else", []string{"unique"}
		l.Content.Key, l.Content.Headers = []byte("rare"), []dlq.Header{{Name: "rare", Value: []byte("1")}}
	}))
	names := strings.Split(dlqdb.MovedColumns, ",")
	for i, name := range names {
		switch names[i] = "m." + strings.TrimSpace(name); names[i] {
		case "m.id", "m.root_id": // copies of letters that came back have their own roots
			names[i] = "md5(" + names[i] + " || ' ' || n)::uuid"
		case "m.tenant_id": // a fifth belongs to another tenant
			names[i] = "CASE WHEN n % 5 = 0 THEN 'c0000000-0000-4000-8000-000000000000' ELSE m.tenant_id END"
		case "m.seq":
			names[i] = "(SELECT max(seq) FROM dlq.dlq_messages) + row_number() OVER ()"
		case "m.created_at":
			names[i] += " - n * interval '1 day'"
		case "m.dedupe_key", "m.dlq_topic", "m.dlq_partition", "m.dlq_offset":
			names[i] = "CASE WHEN n < 3 AND m.dlq_topic IS NOT NULL THEN " + strings.Replace(names[i], "m.dlq_topic", "m.dlq_topic || n", 1) + " END"
			if strings.Contains(names[i], "dedupe_key") {
				names[i] = "CASE WHEN n < 3 THEN m.dedupe_key || n END"
			}
		}
	}
	// A separate connection without the statement timeout, because a busy machine is
	// slow.
	owner := pgtest.Observer(t, b.Dsn)
	for _, s := range []string{
		fmt.Sprintf(`INSERT INTO dlq.dlq_messages (%s) OVERRIDING SYSTEM VALUE SELECT %s FROM dlq.dlq_messages m, generate_series(1, %d) AS n WHERE m.error_type <> 'Rare'`,
			dlqdb.MovedColumns, strings.Join(names, ", "), copiesOfLetters),
		`UPDATE dlq.dlq_messages SET retry_token = gen_random_uuid(), retry_lease_until = now(), status = 'RETRYING', next_retry_at = NULL WHERE id IN (SELECT id FROM dlq.dlq_messages WHERE status = 'PENDING' LIMIT 50)`,
		`UPDATE dlq.dlq_messages SET message_key = 'k', ordered = true WHERE id IN (SELECT id FROM dlq.dlq_messages WHERE status = 'PENDING' LIMIT 500)`,
		`SELECT dlq.archive_batch(0, 0, 25000)`,
		`VACUUM (ANALYZE) dlq.dlq_messages, dlq.dlq_messages_archive, dlq.dlq_groups, saga.audit_actions`,
	} {
		pgtest.Execute(t, owner, s)
	}
	return b, append(all, rare...)
}

// TestLargeQueue checks that each letter filter and each query of the loops is served by an index,
// and that each index serves at least one of them.
func TestLargeQueue(t *testing.T) {
	t.Parallel()
	b, all := manyLetters(t)
	rare, like := &all[len(all)-1], &all[1000]
	seen := map[string]bool{}
	check := func(t *testing.T, p pgtest.Plan, want ...string) {
		t.Helper()
		for _, w := range want {
			for name := range strings.SplitSeq(w, "|") {
				seen[name] = true
			}
		}
		pgtest.WantIndexes(t, p, want...)
	}
	lists := pgtest.InTenant(t, b.DB, b.Tenant)
	const inOrder, terms = "idx_dlq_messages_created_at", "idx_dlq_messages_terms"
	for _, tt := range letterPurposes(rare, like) {
		t.Run(tt.name, func(t *testing.T) {
			for _, q := range []dlq.Query{{ByTime: page.ByTime{Limit: 50}},
				{ByTime: page.ByTime{Limit: 50, After: &page.TimeID{At: like.CreatedAt.Add(-20 * 24 * time.Hour), ID: like.ID}}}, {ByTime: page.ByTime{Limit: 50},
					Oldest: true}} {
				q.Filter = tt.Filter
				query, args := dlqdb.PageOfLetters(b.Tenant, q)
				check(t, pgtest.Explain(t, lists, query, args...), tt.indexes...)
			}
			query, args := dlqdb.CountOfLetters(b.Tenant, dlq.Query{Filter: tt.Filter, ByTime: page.ByTime{TotalCap: 10_000}})
			check(t, pgtest.Explain(t, lists, query, args...), tt.indexes...)
		})
	}
	t.Run("what a status holds in order is not sorted", func(t *testing.T) {
		query, args := dlqdb.PageOfLetters(b.Tenant,
			dlq.Query{ByTime: page.ByTime{Limit: 50}, Filter: dlq.Filter{Statuses: []dlq.Status{dlq.Dead}}})
		p := pgtest.Explain(t, lists, query, args...)
		if p.Has("Bitmap Heap Scan") || !p.Has("Index Only Scan") {
			t.Errorf("the plan reads all of them:\n%s", p)
		}
	})
	t.Run("what many have is read in order, not gathered", func(t *testing.T) {
		query, args := dlqdb.PageOfLetters(b.Tenant,
			dlq.Query{ByTime: page.ByTime{Limit: 50}, Filter: dlq.Filter{Classes: []dlq.ErrorClass{dlq.Permanent}}})
		check(t, pgtest.Explain(t, lists, query, args...), inOrder)
	})
	t.Run("a group's letters of a topic are found without a row", func(t *testing.T) {
		for _, topic := range []string{"orders.made", "stock", "orders.*"} {
			query, args := dlqdb.PageOfLetters(b.Tenant,
				dlq.Query{ByTime: page.ByTime{Limit: 50}, Filter: dlq.Filter{Fingerprint: like.Fingerprint, Topic: topic}})
			p := pgtest.Explain(t, lists, query, args...)
			if check(t, p, "idx_dlq_messages_group"); p.Has("Bitmap Heap Scan") {
				t.Errorf("%s: the plan reads rows to find which they are:\n%s", topic, p)
			}
		}
	})
	t.Run("what terms have beside them is found in one index", func(t *testing.T) {
		gathering := pgtest.InTenant(t, b.DB, b.Tenant)
		if _, err := gathering.ExecContext(t.Context(), dlqdb.ByBitmaps); err != nil {
			t.Fatal(err)
		}
		for _, f := range []dlq.Filter{
			{Topic: "orders.made"}, {Statuses: []dlq.Status{dlq.Dead}}, {Topic: "orders.made", Resolutions: []dlq.Resolution{dlq.Discarded, dlq.Exhausted}},
		} {
			f.Classes = []dlq.ErrorClass{dlq.Permanent}
			query, args := dlqdb.PlacesOfLetters(b.Tenant, dlq.Query{Filter: f})
			if p := pgtest.Explain(t, gathering, query, args...); !slices.Equal(p.Indexes(), []string{terms}) {
				t.Errorf("%+v: the plan uses %v, want %s alone:\n%s", f, p.Indexes(), terms, p)
			}
		}
	})
	t.Run("in turns", func(t *testing.T) { testEverySearch(t, b, rare, like) })
	archived := []letterPurpose{
		{"the archive", dlq.Filter{}, []string{"idx_dlq_messages_archive_at"}},
		{"the archive of a topic", dlq.Filter{Topic: "stock"}, []string{"idx_dlq_messages_archive_topic"}},
		{"the archive by resolution", dlq.Filter{Resolutions: []dlq.Resolution{dlq.Manual}}, []string{"idx_dlq_messages_archive_resolution"}},
		{"the archive by what few have", dlq.Filter{ErrorContains: "unheard"}, []string{"idx_dlq_messages_archive_terms"}},
		{"the archive of a lineage", dlq.Filter{RootID: like.RootID}, []string{"idx_dlq_messages_archive_lineage"}},
	}
	lists = pgtest.InTenant(t, b.DB, b.Tenant) // the previous one may have been idle for too long
	for _, tt := range archived {
		t.Run(tt.name, func(t *testing.T) {
			query, args := dlqdb.PageOfArchive(b.Tenant, dlq.Query{ByTime: page.ByTime{Limit: 50}, Filter: tt.Filter})
			check(t, pgtest.Explain(t, lists, query, args...), tt.indexes...)
		})
	}
	points := pgtest.Connection(t, b.DB.Points())
	for name, tt := range map[string]struct {
		query   string
		indexes []string
	}{
		"one letter": {dlqdb.GetLetter, []string{"dlq_messages_pkey", "dlq_messages_archive_pkey"}},
		"a lineage":  {dlqdb.Lineage, []string{"dlq_messages_pkey", "idx_dlq_messages_lineage", "idx_dlq_messages_archive_lineage"}},
	} {
		t.Run(name, func(t *testing.T) {
			check(t, pgtest.Explain(t, points, tt.query, b.Tenant, like.ID), tt.indexes...)
			check(t, pgtest.ExplainGeneric(t, points, tt.query, b.Tenant, like.ID), tt.indexes...)
		})
	}
	points.Close()
	testLoopPlans(t, b, rare, check)
	t.Run("every index has a purpose", func(t *testing.T) {
		names := strings.Fields(pgtest.Ask[string](t, b.DB.SQL(), `SELECT string_agg(indexname, ' ') FROM pg_indexes WHERE schemaname = 'dlq' AND tablename IN ('dlq_messages', 'dlq_messages_archive')`))
		for _, name := range names {
			if !seen[name] && !strings.HasSuffix(name, "_pkey") {
				t.Errorf("no query needs %s", name)
			}
		}
		if !slices.Contains(names, terms) {
			t.Errorf("there are only %v", names)
		}
	})
}

// placesInDoubt is the query within dlq.places_in_doubt.
func placesInDoubt(t *testing.T, conn *sql.Conn) string {
	t.Helper()
	var source string
	if err := conn.QueryRowContext(t.Context(), `SELECT prosrc FROM pg_proc WHERE oid = 'dlq.places_in_doubt'::regproc`).Scan(&source); err != nil {
		t.Fatal(err)
	}
	_, query, found := strings.Cut(source, "RETURN (")
	query, _, ends := strings.Cut(query, ");\nEND")
	if !found || !ends {
		t.Fatalf("dlq.places_in_doubt has another form: %s", source)
	}
	return strings.NewReplacer("p_tenants", "$1::uuid[]", "p_topics", "$2::text[]", "p_partitions", "$3::bigint[]",
		"p_firsts", "$4::bigint[]",
		"p_lasts", "$5::bigint[]", "p_lives", "$6::uuid[]").Replace(query)
}

type letterPurpose struct {
	name string
	dlq.Filter
	indexes []string
}

func letterPurposes(rare, like *dlq.Letter) []letterPurpose {
	const inOrder, terms, topic, status = "idx_dlq_messages_created_at", "idx_dlq_messages_terms", "idx_dlq_messages_original_topic",
		"idx_dlq_messages_status"
	at := like.CreatedAt
	by := func(name string, f dlq.Filter, indexes ...string) letterPurpose {
		return letterPurpose{name, f, indexes}
	}
	return []letterPurpose{
		by("all", dlq.Filter{}, inOrder),
		by("topic", dlq.Filter{Topic: "orders.made"}, topic),
		by("topic and status", dlq.Filter{Topic: "orders.made", Statuses: []dlq.Status{dlq.Dead}}, topic),
		by("few topics", dlq.Filter{Topic: "rare.*"}, topic),
		by("many topics", dlq.Filter{Topic: "orders.*"}, topic+"|"+inOrder),
		by("status", dlq.Filter{Statuses: []dlq.Status{dlq.Pending}}, status),
		by("statuses", dlq.Filter{Statuses: []dlq.Status{dlq.Pending, dlq.Dead}}, status),
		by("resolution", dlq.Filter{Resolutions: []dlq.Resolution{dlq.Manual}}, "idx_dlq_messages_resolution|idx_dlq_messages_original_topic"),
		by("group", dlq.Filter{Fingerprint: like.Fingerprint}, "idx_dlq_messages_group"),
		by("error type", dlq.Filter{ErrorType: "Rare"}, terms),
		by("error words", dlq.Filter{ErrorContains: "unheard mishap"}, terms),
		by("consumer group", dlq.Filter{ConsumerGroup: "rare"}, terms),
		by("key", dlq.Filter{Key: []byte("rare")}, terms),
		by("header", dlq.Filter{Headers: map[string]string{"rare": "1"}}, terms),
		by("payload", dlq.Filter{Payload: map[string]string{"rare.id": "77"}}, terms),
		by("label", dlq.Filter{Labels: []string{"unique"}}, terms),
		by("label and status", dlq.Filter{Labels: []string{"unique"}, Statuses: []dlq.Status{dlq.Dead}}, terms),
		by("assignee", dlq.Filter{Assignee: "nobody else"}, terms),
		by("correlation id", dlq.Filter{CorrelationID: "c-1"}, terms),
		by("trace id", dlq.Filter{TraceID: "t-1"}, terms),
		by("saga", dlq.Filter{SagaID: rare.Link.SagaID}, terms),
		by("job run", dlq.Filter{JobRunID: rare.Link.JobRunID}, terms),
		by("source", dlq.Filter{Sources: []dlq.Source{dlq.FromSaga}}, terms+"|"+inOrder),
		by("lineage", dlq.Filter{RootID: rare.RootID}, "idx_dlq_messages_lineage", "dlq_messages_pkey"),
		by("redrive", dlq.Filter{RedriveID: rare.RedriveID}, "idx_dlq_messages_redrive"),
		by("created", dlq.Filter{CreatedFrom: at.Add(-time.Hour), CreatedTo: at}, inOrder),
		by("retried", dlq.Filter{LastRetryFrom: at.Add(-48 * time.Hour), LastRetryTo: at.Add(-48*time.Hour + 10*time.Minute)},
			"idx_dlq_messages_retried|"+inOrder),
		by("retried in a short while", dlq.Filter{LastRetryFrom: at, LastRetryTo: at.Add(time.Microsecond)},
			"idx_dlq_messages_retried"),
		by("retries", dlq.Filter{RetryCountMin: new(3)}, "idx_dlq_messages_retry_count"),
		by("retries from and to", dlq.Filter{RetryCountMin: new(3), RetryCountMax: new(4)}, "idx_dlq_messages_retry_count"),
		by("generation", dlq.Filter{GenerationMin: 3}, "idx_dlq_messages_generation"),
	}
}

// testLoopPlans checks the queries over all tenants.
func testLoopPlans(t *testing.T, b pgtest.LetterStore, rare *dlq.Letter,
	check func(*testing.T, pgtest.Plan, ...string)) {
	reads := pgtest.Connection(t, b.DB.SQL())
	kinds := "{kafka,http}"
	one := func(v any) string { return fmt.Sprintf("{%v}", v) }
	for name, tt := range map[string]struct {
		query   string
		args    []any
		indexes []string
	}{
		"what is due":            {dlqdb.ClaimDue, []any{kinds, 60_000_000, 100, 64 << 20, true}, []string{"idx_dlq_messages_due", "idx_dlq_messages_order"}},
		"what is held no longer": {dlqdb.FreedLetters, []any{100, true}, []string{"idx_dlq_messages_held"}},
		"what was pushed before": {dlqdb.KnownLetters, []any{"{1}", one(b.Tenant), one(uuid.Max), one(rare.DedupeKey), one("orders.dlq"), "{1}", "{7}", one(uuid.Nil), one(uuid.Max)},
			[]string{"dlq_messages_pkey", "dlq_messages_archive_pkey", "idx_dlq_messages_dedupe", "idx_dlq_messages_place", "idx_dlq_messages_archive_place"}},
		"what is at a place": {dlqdb.AtPlaces, []any{"{1}", one(b.Tenant), one("orders.dlq"), "{1}", "{7}"}, []string{"idx_dlq_messages_place", "idx_dlq_messages_archive_place"}},
		"what came back":     {dlqdb.Parents, []any{"{1}", one(b.Tenant), one(uuid.Max), "{3}"}, []string{"dlq_messages_pkey", "idx_dlq_messages_lineage", "idx_dlq_messages_archive_lineage"}},
		"what is archived": {`SELECT m.id FROM dlq.dlq_messages m WHERE m.status IN ('RESOLVED', 'DEAD') AND m.terminal_at < clock_timestamp() - interval '30 days'
			 ORDER BY m.terminal_at, m.id LIMIT 1000 FOR UPDATE OF m SKIP LOCKED`, nil, []string{"idx_dlq_messages_terminal"}},
		"what is purged": {`SELECT m.id FROM dlq.dlq_messages_archive m WHERE m.archived_at < clock_timestamp() - interval '365 days'
			 ORDER BY m.archived_at, m.id LIMIT 1000 FOR UPDATE OF m SKIP LOCKED`, nil, []string{"idx_dlq_messages_archive_age"}},
	} {
		t.Run(name, func(t *testing.T) { check(t, pgtest.Explain(t, reads, tt.query, tt.args...), tt.indexes...) })
	}
	t.Run("retries that are lost", func(t *testing.T) {
		// The planner would otherwise scan the table of sagas, which is empty here.
		if _, err := reads.ExecContext(t.Context(), `SET enable_seqscan = off`); err != nil {
			t.Fatal(err)
		}
		check(t, pgtest.Explain(t, reads, dlqdb.LostRetries, 100), "idx_dlq_messages_lease")
	})
	reads.Close()
	t.Run("a batch is stored without a scan", func(t *testing.T) {
		writers := pgtest.Connection(t, b.DB.Write.DB)
		args := dlqdb.PushParameters(t, []dlq.Letter{b.NewLetter(), b.NewLetter()})
		for _, p := range []pgtest.Plan{pgtest.Explain(t, writers, dlqdb.PushLetters, args...),
			pgtest.ExplainGeneric(t, writers, dlqdb.PushLetters, args...)} {
			check(t, p, "dlq_messages_archive_pkey", "dlq_groups_pkey")
			pgtest.WantNestedLoops(t, p)
		}
		args = dlqdb.PushAuditedParameters(t, []dlq.Letter{b.NewLetter(), b.NewLetter()})
		for _, p := range []pgtest.Plan{pgtest.Explain(t, writers, dlqdb.PushAudited, args...),
			pgtest.ExplainGeneric(t, writers, dlqdb.PushAudited, args...)} {
			check(t, p, "dlq_messages_archive_pkey", "dlq_groups_pkey")
			pgtest.WantNestedLoops(t, p)
		}
		one, other := b.NewLetter(), b.NewLetter() // created at different times
		for want, batch := range map[string][]dlq.Letter{
			dlqdb.ArriveLetters: {one, other}, dlqdb.ArriveAlike: {one, one},
		} {
			insert, args := dlqdb.ArriveParameters(t, batch)
			if insert != want {
				t.Errorf("a batch is stored with\n%s\nwant\n%s", insert, want)
			}
			for _, p := range []pgtest.Plan{pgtest.Explain(t, writers, insert, args...),
				pgtest.ExplainGeneric(t, writers, insert, args...)} {
				check(t, p, "dlq_groups_pkey")
				pgtest.WantNestedLoops(t, p)
			}
		}
		// A function in the statement decides whether any record is known.
		asks, place := placesInDoubt(t, writers), b.NewLetter()
		args = []any{"{" + place.TenantID.String() + "}", "{orders.dlq}", "{0}", "{7}", "{9}",
			"{" + pgtest.NewID().String() + "}"}
		for _, p := range []pgtest.Plan{pgtest.Explain(t, writers, asks, args...),
			pgtest.ExplainGeneric(t, writers, asks, args...)} {
			check(t, p, "idx_dlq_messages_place", "idx_dlq_messages_archive_place")
			pgtest.WantNestedLoops(t, p)
		}
	})
}
