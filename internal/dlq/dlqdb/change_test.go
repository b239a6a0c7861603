package dlqdb_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/dlqdb"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

func TestAChangeIsStoredWithItsAction(t *testing.T) {
	t.Parallel()
	b := pgtest.NewLetterStore(t)
	l := b.PushAll(t, b.NewLetter(b.Everything))[0]
	for _, e := range []dlq.Event{
		dlq.EditRequested{Edit: dlq.Edit{MaxRetries: new(9), NextRetryAt: new(pgtest.Now().Add(time.Hour)),
			Labels: []string{"x"}, Assignee: new("bo"), Note: new("n")}},
		dlq.DiscardRequested{},
		dlq.RequeueRequested{Reset: true, Policy: &dlq.DefaultPolicy},
		dlq.ResolveRequested{},
		dlq.EditRequested{Edit: dlq.Edit{Labels: []string{}}},
	} {
		changed := pgtest.AppliedToLetter(t, l, e)
		by := b.Action(changed, "change")
		by.Detail = []byte(`{"a":1}`)
		if err := b.Change(t.Context(), changed, by); err != nil {
			t.Fatal(err)
		}
		if len(changed.Labels) == 0 {
			changed.Labels = nil
		}
		if diff := cmp.Diff(changed, b.Read(t, l.ID)); diff != "" {
			t.Errorf("(-changed +stored):\n%s", diff)
		}
		if got := b.AuditActions(t, operator.Filter{Subject: l.ID.String()}); len(got) == 0 || cmp.Diff(by, got[0]) != "" {
			t.Errorf("told %+v, want %+v", got, by)
		}
		// The same change is rejected the second time and records no action.
		n := len(b.AuditActions(t, operator.Filter{}))
		if err := b.Change(t.Context(), changed, b.Action(changed, "change")); !fault.IsCode(err, dlq.CodeStale) ||
			len(b.AuditActions(t, operator.Filter{})) != n {
			t.Errorf("the same version again: %v", err)
		}
		l = changed
	}
	// A changed letter is found by its new values.
	for label, want := range map[string]int{"x": 0, "b": 0} {
		if p, err := b.List(t.Context(), b.Tenant,
			dlq.Query{ByTime: page.ByTime{Limit: 5},
				Filter: dlq.Filter{Labels: []string{label}}}); err != nil || len(p.Items) != want {
			t.Errorf("label %s: %d letters, %v", label, len(p.Items), err)
		}
	}
	if p, err := b.List(t.Context(), b.Tenant,
		dlq.Query{ByTime: page.ByTime{Limit: 5}, Filter: dlq.Filter{Assignee: "bo"}}); err != nil ||
		len(p.Items) != 1 {
		t.Errorf("assignee: %d letters, %v", len(p.Items), err)
	}
}

func TestChangingAMissingOrForeignLetterIsNotFound(t *testing.T) {
	t.Parallel()
	b := pgtest.NewLetterStore(t)
	l := b.PushAll(t, b.NewLetter())[0]
	foreign := l
	foreign.TenantID = pgtest.NewID()
	foreign.Version++
	other := b
	other.Tenant = foreign.TenantID
	missing := b.NewLetter()
	for what, err := range map[string]error{
		"change a foreign one": b.Change(t.Context(), foreign, other.Action(foreign, "change")),
		"delete a foreign one": b.Delete(t.Context(), foreign, other.Action(foreign, "delete")),
		"change a missing one": b.Change(t.Context(), missing, b.Action(missing, "change")),
		"delete a missing one": b.Delete(t.Context(), missing, b.Action(missing, "delete")),
		"restore a foreign one": second(b.Restore(t.Context(), foreign.TenantID, l.ID, pgtest.Now(),
			other.Action(l, "restore"))),
		"restore a live one":   second(b.Restore(t.Context(), b.Tenant, l.ID, pgtest.Now(), b.Action(l, "restore"))),
		"lineage of another's": second(b.Lineage(t.Context(), foreign.TenantID, l.ID)),
	} {
		if fault.KindOf(err) != fault.NotFound {
			t.Errorf("%s: %v", what, err)
		}
	}
	told := b.AuditActions(t, operator.Filter{})
	if diff := cmp.Diff(l, b.Read(t, l.ID)); diff != "" || len(told) != 1 || told[0].Verb != dlq.VerbPush ||
		told[0].Subject != l.ID.String() {
		t.Errorf("something changed or was told: %+v\n%s", told, diff)
	}
}

func second[T any](_ T, err error) error { return err }

func TestDuringARetryOnlyNotesOfALetterChange(t *testing.T) {
	t.Parallel()
	b := pgtest.NewLetterStore(t)
	before := b.PushAll(t, b.NewLetter())[0]
	d := b.Driven(t, before)
	edit := dlq.Edit{Note: new("mine"), Assignee: new("bo"), Labels: []string{"x"}}
	edited := pgtest.AppliedToLetter(t, d.Letter, dlq.EditRequested{Edit: edit})
	if err := b.Change(t.Context(), edited, b.Action(edited, dlq.VerbUpdate)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(edited, b.Read(t, edited.ID)); diff != "" {
		t.Errorf("(-edited +stored):\n%s", diff)
	}
	// A writer that read the letter before the retry began cannot end the retry.
	discarded := pgtest.AppliedToLetter(t, before, dlq.DiscardRequested{})
	if err := b.Change(t.Context(), discarded, b.Action(discarded, dlq.VerbDiscard)); !fault.IsCode(err, dlq.CodeStale) {
		t.Errorf("discard what is being retried: %v", err)
	}
	f := pgtest.Finished(&d, dlq.Result{Outcome: dlq.Acknowledged, StartedAt: pgtest.Now(), EndedAt: pgtest.Now()})
	if ok, err := dlqdb.NewQueue(b.DB, dlq.DefaultPolicy).Finish(t.Context(), []dlq.Finish{f}); err != nil || !ok[0] {
		t.Errorf("the retry lost its letter: %v, %v", ok, err)
	}
}

func TestADeletedLetterLeavesOnlyItsTombstone(t *testing.T) {
	t.Parallel()
	b := pgtest.NewLetterStore(t)
	l := b.PushAll(t, b.NewLetter())[0]
	kept := b.PushAll(t, b.NewLetter())[0]
	d := b.Driven(t, l)
	b.Driven(t, kept)
	if err := b.Delete(t.Context(), d.Letter, b.Action(l, dlq.VerbDelete)); !fault.IsCode(err, dlq.CodeStale) {
		t.Errorf("delete while it is retried: %v", err)
	}
	failed := dlq.Result{Outcome: dlq.FailedDrive, Error: "no", StartedAt: pgtest.Now(), EndedAt: pgtest.Now()}
	f := pgtest.Finished(&d, failed)
	if ok, err := dlqdb.NewQueue(b.DB, dlq.DefaultPolicy).Finish(t.Context(), []dlq.Finish{f}); err != nil || !ok[0] {
		t.Fatal(ok, err)
	}
	attempts, err := b.Attempts(t.Context(), b.Tenant, l.ID)
	if err != nil || len(attempts) != 1 || cmp.Diff(f.Attempt, attempts[0]) != "" {
		t.Errorf("attempts %+v, %v; want %+v", attempts, err, f.Attempt)
	}
	revisions, err := b.Revisions(t.Context(), b.Tenant, l.ID)
	if err != nil || len(revisions) != 1 {
		t.Fatalf("revisions %+v, %v", revisions, err)
	}
	want := revisions[0]
	want.Content.Payload, want.Patch, want.Number = []byte("edited"), []byte(`[{"op":"test"}]`), 1
	if diff := cmp.Diff(want, revisions[0]); diff != "" {
		t.Errorf("the revision (-want +got):\n%s", diff)
	}
	if strangers, err := b.Attempts(t.Context(), pgtest.NewID(), l.ID); err != nil || len(strangers) != 0 {
		t.Errorf("a stranger sees %v, %v", strangers, err)
	}
	l = b.Read(t, l.ID)
	tomb := b.Action(l, dlq.VerbDelete)
	tomb.Detail = l.Tombstone()
	if err := b.Delete(t.Context(), l, tomb); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Get(t.Context(), b.Tenant, l.ID); fault.KindOf(err) != fault.NotFound {
		t.Errorf("it is there: %v", err)
	}
	left := pgtest.Ask[string](t, b.DB.SQL(), fmt.Sprintf(`SELECT concat((SELECT count(*) FROM dlq.dlq_messages), ' ', (SELECT count(*) FROM dlq.dlq_revisions WHERE message_id = '%s'),
		' ', (SELECT count(*) FROM dlq.dlq_attempts WHERE message_id = '%[1]s'), ' ', (SELECT count(*) FROM dlq.dlq_revisions))`, l.ID))
	if left != "1 0 0 1" {
		t.Errorf("left: %s", left)
	}
	if got := b.AuditActions(t, operator.Filter{Verb: dlq.VerbDelete}); len(got) != 1 ||
		!strings.Contains(string(got[0].Detail), l.Fingerprint) {
		t.Errorf("told %+v", got)
	}
}

func TestAnArchivedLetterIsReadListedAndRestored(t *testing.T) {
	t.Parallel()
	b := pgtest.NewLetterStore(t)
	ended := func(l *dlq.Letter) {
		b.Everything(l)
		l.MaxRetries = 0
		l.RetryCount = 0
	}
	l := b.PushAll(t, b.NewLetter(ended))[0]
	keeper := b.PushAll(t, b.NewLetter())[0]
	b.ArchiveAll(t)
	got := b.Read(t, l.ID)
	if got.ArchivedAt == nil || got.ArchiveReason != "RETENTION" {
		t.Fatalf("archived at %v because of %q", got.ArchivedAt, got.ArchiveReason)
	}
	archived := got
	got.ArchivedAt, got.ArchiveReason = nil, ""
	if diff := cmp.Diff(l, got); diff != "" {
		t.Errorf("(-live +archived):\n%s", diff)
	}
	if p, err := b.ListArchived(t.Context(), b.Tenant,
		dlq.Query{ByTime: page.ByTime{Limit: 5, Total: true}}); err != nil ||
		len(p.Items) != 1 || p.Total != 1 || cmp.Diff(archived, p.Items[0]) != "" {
		t.Errorf("listed %+v, %v", p, err)
	}
	b.PushAll(t, b.NewLetter(func(o *dlq.Letter) { o.DedupeKey = l.DedupeKey })) // another letter has taken its key
	by := b.Action(l, "restore")
	restored, err := b.Restore(t.Context(), b.Tenant, l.ID, pgtest.Now(), by)
	if err != nil {
		t.Fatal(err)
	}
	want := l
	want.Version, want.Status, want.Resolution, want.TerminalAt, want.NextRetryAt = l.Version+1, dlq.Pending, "", nil, nil
	want.MaxRetries, want.DedupeKey, want.UpdatedAt = 1, "", restored.UpdatedAt
	if diff := cmp.Diff(want, restored); diff != "" {
		t.Errorf("(-want +restored):\n%s", diff)
	}
	if diff := cmp.Diff(restored, b.Read(t, l.ID)); diff != "" {
		t.Errorf("(-restored +stored):\n%s", diff)
	}
	if told := b.AuditActions(t, operator.Filter{Verb: "restore"}); len(told) != 1 || cmp.Diff(by, told[0]) != "" {
		t.Errorf("told %+v", told)
	}
	if _, err := b.Restore(t.Context(), b.Tenant, l.ID, pgtest.Now(),
		b.Action(l, "restore")); fault.KindOf(err) != fault.NotFound {
		t.Errorf("again: %v", err)
	}
	if diff := cmp.Diff(keeper, b.Read(t, keeper.ID)); diff != "" {
		t.Errorf("another one changed:\n%s", diff)
	}
}

func TestTheArchiveIsListedByEveryFilter(t *testing.T) {
	t.Parallel()
	b := pgtest.NewLetterStore(t)
	b.VariedLetters(t, 200)
	b.ArchiveAll(t)
	p, err := b.ListArchived(t.Context(), b.Tenant, dlq.Query{ByTime: page.ByTime{Limit: 200}})
	if err != nil || len(p.Items) < 50 {
		t.Fatalf("%d archived, %v", len(p.Items), err)
	}
	all := p.Items
	for _, f := range letterFilters(&all[20]) {
		var want, got []dlq.Letter
		for i := range all {
			if f.fits(&all[i]) {
				want = append(want, all[i])
			}
		}
		for after, more := (*page.TimeID)(nil), true; more; {
			p, err := b.ListArchived(t.Context(), b.Tenant,
				dlq.Query{Filter: f.Filter, ByTime: page.ByTime{Limit: 7, After: after, Total: true}})
			if err != nil {
				t.Fatal(f.name, err)
			}
			if after == nil && p.Total != int64(len(want)) {
				t.Errorf("%s: total %d, want %d", f.name, p.Total, len(want))
			}
			got = append(got, p.Items...)
			if more = p.More; more {
				last := p.Items[len(p.Items)-1]
				after = &page.TimeID{At: *last.ArchivedAt, ID: last.ID}
			}
		}
		if diff := cmp.Diff(idsOf(want), idsOf(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", f.name, diff)
		}
	}
}

func TestALineageIsLiveAndArchivedLetters(t *testing.T) {
	t.Parallel()
	b := pgtest.NewLetterStore(t)
	root := b.PushAll(t, b.NewLetter(func(l *dlq.Letter) { l.MaxRetries = 0 }))[0]
	var want []string
	back := func(parent uuid.UUID, generation int) dlq.Letter {
		return b.PushAll(t,
			b.NewLetter(func(l *dlq.Letter) { l.RootID, l.ParentID, l.Generation = root.ID, parent, generation }))[0]
	}
	first := back(root.ID, 1)
	last := back(first.ID, 2)
	b.PushAll(t, b.NewLetter()) // unrelated
	b.ArchiveAll(t)
	want = []string{root.ID.String(), first.ID.String(), last.ID.String()}
	for _, l := range []dlq.Letter{root, first, last} {
		got, err := b.Lineage(t.Context(), b.Tenant, l.ID)
		if err != nil || !slices.Equal(idsOf(got), want) || got[0].ArchivedAt == nil || got[1].ArchivedAt != nil {
			t.Errorf("lineage %v, %v; want %v", idsOf(got), err, want)
		}
	}
}
