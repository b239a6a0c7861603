package dlqdb_test

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/auditdb"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/dlqdb"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

var _ dlq.Overview = (*dlqdb.Letters)(nil)

func failing(topic, message string) func(*dlq.Letter) {
	return func(l *dlq.Letter) { l.OriginalTopic, l.Failure.Message = topic, message }
}

// terminalLetter is a letter that has become terminal.
func terminalLetter(l dlq.Letter, s dlq.Status, r dlq.Resolution) dlq.Letter {
	l.Status, l.Resolution, l.NextRetryAt, l.TerminalAt = s, r, nil, &l.CreatedAt
	return l
}

func TestGroupsCountTheirOpenLetters(t *testing.T) {
	t.Parallel()
	b := pgtest.NewLetterStore(t)
	b.PushAll(t, b.NewLetter(failing("refunds", "no such account")))
	letters := b.PushAll(t, terminalLetter(b.NewLetter(), dlq.Dead, dlq.Discarded), b.NewLetter(), b.NewLetter(),
		b.NewLetter(func(l *dlq.Letter) { l.MaxRetries = 0 }))
	found, err := b.Groups(t.Context(), b.Tenant, dlq.GroupFilter{}, page.Request[page.TimeKey]{Limit: 1, Total: true})
	if err != nil || found.Total != 2 || !found.More || len(found.Items) != 1 {
		t.Fatalf("page 1: %+v, %v", found, err)
	}
	g := found.Items[0]
	group := g
	group.Topic, group.State, group.Version, group.Sample = "orders", dlq.GroupNew, 1, letters[3].ID
	group.Received, group.Open, group.OpenCapped = 4, 3, false
	if diff := cmp.Diff(group, g); diff != "" {
		t.Errorf("group (-want +got):\n%s", diff)
	}
	found, err = b.Groups(t.Context(), b.Tenant, dlq.GroupFilter{},
		page.Request[page.TimeKey]{Limit: 1, After: &page.TimeKey{At: g.LastSeen, Key: g.Fingerprint}})
	if err != nil || found.More || len(found.Items) != 1 || found.Items[0].Topic != "refunds" {
		t.Errorf("page 2: %+v, %v", found, err)
	}
	for name, f := range map[string]dlq.GroupFilter{
		"another state": {States: []dlq.GroupState{dlq.GroupResolved}}, "another type": {ErrorType: "none"},
		"another topic": {Topic: "none"}} {
		found, err := b.Groups(t.Context(), b.Tenant, f, page.Request[page.TimeKey]{Limit: 10})
		if err != nil || len(found.Items) != 0 {
			t.Errorf("%s: %+v, %v", name, found, err)
		}
	}

	edited, err := g.Edited(dlq.GroupEdit{State: new(dlq.GroupResolved), Assignee: new("ann"), Note: new("fixed")},
		pgtest.Now())
	if err != nil {
		t.Fatal(err)
	}
	change := b.Did(operator.DeadGroup, g.Fingerprint, "update")
	if err := b.ChangeGroup(t.Context(), edited, change); err != nil {
		t.Fatal(err)
	}
	if err := b.ChangeGroup(t.Context(), edited, b.Did(operator.DeadGroup, g.Fingerprint, "update")); !fault.IsCode(err,
		dlq.CodeStale) {
		t.Errorf("a second change of one version: %v", err)
	}
	if got, err := b.Group(t.Context(), b.Tenant, g.Fingerprint); err != nil || cmp.Diff(edited, got) != "" {
		t.Errorf("changed: %v (-want +got):\n%s", err, cmp.Diff(edited, got))
	}
	b.PushAll(t, b.NewLetter())
	got, err := b.Group(t.Context(), b.Tenant, g.Fingerprint)
	if err != nil {
		t.Fatal(err)
	}
	want := got
	want.State, want.Version, want.Received, want.Open = dlq.GroupRegressed, 3, 5, 4
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("after another letter (-want +got):\n%s", diff)
	}
	if _, err := b.Group(t.Context(), pgtest.NewID(), g.Fingerprint); !fault.IsCode(err, dlq.CodeGroupNotFound) {
		t.Errorf("somebody else's group: %v", err)
	}
	foreign := edited
	foreign.TenantID = pgtest.NewID()
	by := b.Did(operator.DeadGroup, g.Fingerprint, "update")
	by.TenantID = foreign.TenantID
	if err := b.ChangeGroup(t.Context(), foreign, by); !fault.IsCode(err, dlq.CodeGroupNotFound) {
		t.Errorf("a change of somebody else's group: %v", err)
	}
	b.Actions(t, operator.Filter{Kind: operator.DeadGroup, Verb: "update", ByTime: page.ByTime{Limit: 10}},
		change.From(g.Audited(), edited.Audited()))
}

func TestTopicsAreCountedByStatusAndAge(t *testing.T) {
	t.Parallel()
	b := pgtest.NewLetterStore(t)
	none, err := b.Stats(t.Context(), b.Tenant)
	if err != nil || len(none) != 0 {
		t.Errorf("of nobody: %+v, %v", none, err)
	}
	orders := b.PushAll(t, terminalLetter(b.NewLetter(), dlq.Resolved, dlq.Manual), b.NewLetter(),
		b.NewLetter(func(l *dlq.Letter) { l.MaxRetries = 0 }))
	b.PushAll(t, b.NewLetter(failing("a/b c", "x")), b.NewLetter(failing("Zebra", "y")))
	want := map[dlq.Status]int64{dlq.Pending: 1, dlq.Resolved: 1, dlq.Dead: 1}
	seen := map[string]map[dlq.Status]int64{}
	for next, more := (page.Request[string]{Limit: 2}), true; more; {
		found, err := b.Topics(t.Context(), b.Tenant, "", next, 0)
		if err != nil || len(found.Items) == 0 {
			t.Fatalf("topics after %q: %+v, %v", next.Start(), found, err)
		}
		for _, topic := range found.Items {
			next.After = &topic.Topic
			seen[topic.Topic] = topic.Counts
		}
		more = found.More
	}
	if diff := cmp.Diff(map[string]map[dlq.Status]int64{"orders": want, "a/b c": {dlq.Pending: 1},
		"Zebra": {dlq.Pending: 1}}, seen); diff != "" {
		t.Errorf("topics (-want +got):\n%s", diff)
	}
	for topic, want := range map[string]string{"*": "Zebra a/b c orders", "a*": "a/b c", "o*": "orders",
		"orders": "orders", "order": "", "orders*": "orders", "ordersx*": "", "_*": "", "%*": "", "Z*": "Zebra", "zz*": "",
		"a/b c": "a/b c"} {
		found, err := b.Topics(t.Context(), b.Tenant, topic, page.Request[string]{Limit: 2}, 0)
		var names []string
		for _, s := range found.Items {
			names = append(names, s.Topic)
		}
		if got := strings.Join(names, " "); err != nil || got != want && !(found.More && strings.HasPrefix(want, got)) {
			t.Errorf("topics %s: %s, want %s (%v)", topic, got, want, err)
		}
	}
	got, err := b.Topic(t.Context(), b.Tenant, "orders")
	if err != nil {
		t.Fatal(err)
	}
	topic := got
	topic.Counts, topic.Oldest, topic.Alerts = want, &orders[1].CreatedAt, nil
	topic.Last5m, topic.Last1h, topic.Last24h = 3, 3, 3
	topic.Hourly = [24]int64{23: 3}
	if diff := cmp.Diff(topic, got, cmpopts.EquateEmpty()); diff != "" || len(got.TopGroups) != 1 ||
		got.TopGroups[0].Open != 2 {
		t.Errorf("orders with the groups %+v (-want +got):\n%s", got.TopGroups, diff)
	}
	_, err = pgtest.Observer(t, b.Dsn).ExecContext(t.Context(), `
		INSERT INTO dlq.dlq_arrivals (tenant_id, topic, minute, received)
		SELECT $1, 'orders', now() - i * interval '1 hour' - interval '30 minutes', 10 * i FROM unnest(ARRAY[5, 23, 24]) AS i`, b.Tenant)
	if err != nil {
		t.Fatal(err)
	}
	if got, err = b.Topic(t.Context(), b.Tenant, "orders"); err != nil ||
		got.Hourly != [24]int64{23 - 5: 50, 0: 230, 23: 3} || got.Last24h != 283 {
		t.Errorf("arrivals by hour: %v of %d, %v", got.Hourly, got.Last24h, err)
	}
	stats, err := b.Stats(t.Context(), b.Tenant)
	if err != nil || len(stats) != 3 {
		t.Errorf("stats: %+v, %v", stats, err)
	}
	for _, s := range stats {
		if diff := cmp.Diff(seen[s.Topic], s.Counts); diff != "" {
			t.Errorf("%s (-want +got):\n%s", s.Topic, diff)
		}
	}
	for _, tenant := range []uuid.UUID{b.Tenant, pgtest.NewID()} {
		if _, err := b.Topic(t.Context(), tenant, "none"); !fault.IsCode(err, dlq.CodeTopicNotFound) {
			t.Errorf("no topic: %v", err)
		}
	}
}

func TestATopicHasItsPolicyOrTheTenantsDefault(t *testing.T) {
	t.Parallel()
	b := pgtest.NewLetterStore(t)
	got, err := b.Policy(t.Context(), b.Tenant, "orders")
	want := dlq.DefaultPolicy
	want.TenantID, want.Topic = b.Tenant, "orders"
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Fatalf("before: %v (-want +got):\n%s", err, diff)
	}
	put := func(topic string, version int64, retries int) (dlq.Policy, error) {
		p := dlq.DefaultPolicy
		p.TenantID, p.Topic, p.Version, p.MaxRetries, p.UpdatedBy, p.UpdatedAt = b.Tenant, topic, version, retries,
			"key:ann", pgtest.Now()
		p.Alert, p.Redact, p.AllowedTargets = dlq.Alert{Count: 1, AgeMS: 1, Rate: 1, NewGroup: true}, []string{"a.b"},
			[]string{"retry.*"}
		p.KeepHeaders, p.RetryPermanent = []string{"kafka_dlt-*"}, true
		return p, b.PutPolicy(t.Context(), p, b.Did(operator.TopicPolicy, topic, "update"))
	}
	common, err := put("", 1, 5)
	if err != nil {
		t.Fatal(err)
	}
	inherited := common
	inherited.Topic, inherited.Version, inherited.UpdatedBy, inherited.UpdatedAt = "orders", 0, "", time.Time{}
	if got, err = b.Policy(t.Context(), b.Tenant, "orders"); err != nil || cmp.Diff(inherited, got) != "" {
		t.Errorf("inherited: %v (-want +got):\n%s", err, cmp.Diff(inherited, got))
	}
	if _, err := put("orders", 1, 6); err != nil {
		t.Fatal(err)
	}
	for _, version := range []int64{1, 3} {
		if _, err := put("orders", version, 8); !fault.IsCode(err, dlq.CodeStale) {
			t.Errorf("version %d over 1: %v", version, err)
		}
	}
	own, err := put("orders", 2, 7)
	if err != nil {
		t.Fatal(err)
	}
	if got, err = b.Policy(t.Context(), b.Tenant, "orders"); err != nil || cmp.Diff(own, got) != "" {
		t.Errorf("its own: %v (-want +got):\n%s", err, cmp.Diff(own, got))
	}
	if got, err = b.Policy(t.Context(), pgtest.NewID(), "orders"); err != nil || got.Version != 0 ||
		got.MaxRetries != dlq.DefaultPolicy.MaxRetries {
		t.Errorf("somebody else's: %+v, %v", got, err)
	}
	topic, err := b.Topic(t.Context(), b.Tenant, "orders") // because a policy names it
	if err != nil || topic.Alerts != nil || topic.Oldest != nil {
		t.Errorf("a topic without letters: %+v, %v", topic, err)
	}
	b.PushAll(t, b.NewLetter(), b.NewLetter())
	topic, err = b.Topic(t.Context(), b.Tenant, "orders")
	if diff := cmp.Diff([]string{"count", "rate", "age", "new_group"}, topic.Alerts); diff != "" || err != nil {
		t.Errorf("alerts: %v (-want +got):\n%s", err, diff)
	}
}

func TestActionsAreStoredAndFound(t *testing.T) {
	t.Parallel()
	b := pgtest.NewLetterStore(t)
	l := b.PushAll(t, b.NewLetter())[0]
	g, err := b.Group(t.Context(), b.Tenant, l.Fingerprint)
	if err != nil {
		t.Fatal(err)
	}
	var all []operator.Action
	for i, verb := range []string{"discard", "requeue", "discard"} {
		g.Version++
		a := b.Did(operator.DeadLetter, l.ID.String(), verb) // the action does not depend on the change
		if i == 1 {
			a.Credential, a.Address, a.Operation, a.Result = uuid.New(), "2001:db8::1", "requeueDeadLetter", "partly"
		}
		if i == 2 {
			a.Actor, a.Reason, a.RequestID, a.Detail = "", "", "", nil
		}
		if err := b.ChangeGroup(t.Context(), g, a); err != nil {
			t.Fatal(err)
		}
		all = append([]operator.Action{a}, all...)
	}
	// The store hashes the group, so each change begins where the previous one ended.
	kept, err := auditdb.NewActions(b.DB).Actions(t.Context(), b.Tenant, operator.Filter{ByTime: page.ByTime{Limit: 10}})
	if err != nil || len(kept.Items) != len(all)+1 || kept.Items[len(all)].Verb != "push" {
		t.Fatalf("%+v, %v; want what was done and, the oldest, the push of the letter", kept.Items, err)
	}
	for i := range all {
		all[i].Before, all[i].After = kept.Items[i].Before, kept.Items[i].After
		if len(all[i].After) != 32 || bytes.Equal(all[i].Before, all[i].After) || i > 0 &&
			!bytes.Equal(all[i-1].Before, all[i].After) {
			t.Errorf("action %d is from %x to %x", i, all[i].Before, all[i].After)
		}
	}
	all = append(all, kept.Items[len(all)])
	b.Actions(t, operator.Filter{ByTime: page.ByTime{Limit: 10}}, all...)
	b.Actions(t, operator.Filter{ByTime: page.ByTime{Limit: 10}, Verb: "requeue", Kind: operator.DeadLetter,
		Subject: l.ID.String(), Actor: "key:ann"}, all[1])
	ten := page.ByTime{Limit: 10}
	b.Actions(t, operator.Filter{ByTime: ten, Operation: "requeueDeadLetter", RequestID: all[1].RequestID}, all[1])
	b.Actions(t, operator.Filter{ByTime: ten, RequestID: "of nobody"})
	b.Actions(t, operator.Filter{ByTime: ten, From: all[1].At, To: all[0].At}, all[1])
	b.Actions(t, operator.Filter{ByTime: page.ByTime{Limit: 10, After: new(all[1].Place())}}, all[2:]...)
	b.Actions(t, operator.Filter{ByTime: page.ByTime{Limit: 1, Offset: 2}}, all[2])
	found, err := auditdb.NewActions(b.DB).Actions(t.Context(), b.Tenant,
		operator.Filter{ByTime: page.ByTime{Limit: 2, Total: true}})
	if err != nil {
		t.Fatal(err)
	}
	if found.Total != 4 || found.TotalCapped || !found.More || len(found.Items) != 2 {
		t.Errorf("page 1: %+v", found)
	}
	b.Tenant = pgtest.NewID()
	b.Actions(t, operator.Filter{ByTime: page.ByTime{Limit: 10}})
}

func TestTopicsAreCountedUpToANumber(t *testing.T) {
	t.Parallel()
	b := pgtest.NewLetterStore(t)
	b.PushAll(t, b.NewLetter(), b.NewLetter(), b.NewLetter(), terminalLetter(b.NewLetter(), dlq.Resolved, dlq.Manual),
		terminalLetter(b.NewLetter(), dlq.Resolved, dlq.Manual), b.NewLetter(failing("refunds", "x")))
	for most, want := range map[int64][]dlq.TopicStats{
		1: {
			{Counts: map[dlq.Status]int64{dlq.Pending: 1, dlq.Resolved: 1}, Capped: []dlq.Status{dlq.Pending, dlq.Resolved}},
			{Counts: map[dlq.Status]int64{dlq.Pending: 1}},
		},
		2: {
			{Counts: map[dlq.Status]int64{dlq.Pending: 2, dlq.Resolved: 2}, Capped: []dlq.Status{dlq.Pending}},
			{Counts: map[dlq.Status]int64{dlq.Pending: 1}},
		},
		3: {{Counts: map[dlq.Status]int64{dlq.Pending: 3, dlq.Resolved: 2}}, {Counts: map[dlq.Status]int64{dlq.Pending: 1}}},
		0: {{Counts: map[dlq.Status]int64{dlq.Pending: 3, dlq.Resolved: 2}}, {Counts: map[dlq.Status]int64{dlq.Pending: 1}}},
	} {
		found, err := b.Topics(t.Context(), b.Tenant, "", page.Request[string]{Limit: 10}, most)
		if err != nil {
			t.Fatal(err)
		}
		var got []dlq.TopicStats
		for _, f := range found.Items {
			slices.Sort(f.Capped)
			got = append(got, dlq.TopicStats{Counts: f.Counts, Capped: f.Capped})
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("up to %d (-want +got):\n%s", most, diff)
		}
	}
}

// TestTopicsAreCountedWhileTheirLettersAreRetried checks that no count misses letters that are changing their status.
func TestTopicsAreCountedWhileTheirLettersAreRetried(t *testing.T) {
	t.Parallel()
	b := pgtest.NewLetterStore(t)
	const letters, retriers = 400, 4
	var batch []dlq.Letter
	for range letters {
		batch = append(batch, b.NewLetter())
	}
	batch = b.PushAll(t, batch...)
	queue := dlqdb.NewQueue(b.DB, dlq.DefaultPolicy)
	var wg sync.WaitGroup
	for r := range retriers {
		wg.Go(func() {
			for i := r; i < letters; i += retriers {
				d := b.Driven(t, batch[i])
				f := pgtest.Finished(&d, dlq.Result{Outcome: dlq.Acknowledged, StartedAt: pgtest.Now(), EndedAt: pgtest.Now()})
				if held, err := queue.Finish(t.Context(), []dlq.Finish{f}); err != nil || !held[0] {
					t.Errorf("letter %d: %v, %v", i, held, err)
				}
			}
		})
	}
	over := make(chan struct{})
	go func() { wg.Wait(); close(over) }()
	for done := false; !done; {
		select {
		case <-over:
			done = true
		default:
		}
		one, err := b.Topic(t.Context(), b.Tenant, "orders")
		if err != nil {
			t.Fatal(err)
		}
		list, err := b.Topics(t.Context(), b.Tenant, "", page.Request[string]{Limit: 1}, letters)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []dlq.TopicStats{one, list.Items[0]} {
			sum := s.Counts[dlq.Pending] + s.Counts[dlq.Retrying] + s.Counts[dlq.Resolved]
			if sum != letters || s.Last5m != letters {
				t.Fatalf("%d letters of %d that arrived, want %d: %v", sum, s.Last5m, letters, s.Counts)
			}
		}
		if done && one.Counts[dlq.Resolved] != letters {
			t.Errorf("in the end: %v", one.Counts)
		}
	}
}
