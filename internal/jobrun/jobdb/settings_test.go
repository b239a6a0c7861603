package jobdb_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/auditdb"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobdb"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/test/testdb"
)

func jobAction(tenant uuid.UUID, kind operator.Kind, subject, verb string) operator.Action {
	return operator.By{Actor: "key:ops", Reason: "a test", RequestID: "r1"}.Did(uuid.Must(uuid.NewV7()), tenant,
		time.Now().UTC(), kind, subject, verb, nil)
}

func openJobs(t *testing.T) *postgres.DB {
	t.Helper()
	db, err := postgres.Open(t.Context(), postgres.Config{DSN: testdb.DSN(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

func TestSettingsAreChangedAllOrNone(t *testing.T) {
	t.Parallel()
	db := openJobs(t)
	st, other := jobdb.NewSettings(db), jobdb.NewSettings(db)
	tenant := uuid.New()
	did := func() operator.Action { return jobAction(tenant, operator.JobSettings, jobrun.RunLease, "change") }
	change := func(version int64, values map[string]*float64) (jobrun.Settings, error) {
		return st.ChangeSettings(t.Context(), version, values, did())
	}
	first, err := st.Current(t.Context())
	if err != nil || first.Version != 1 || first.Number(jobrun.RunLease) != 30 ||
		first.Number(jobrun.ConfirmFor) != 30 || !first.IsDefault(jobrun.RunLease) {
		t.Fatalf("at first: %+v, %v", first, err)
	}
	after, err := change(first.Version, map[string]*float64{jobrun.RunLease: new(45.5), jobrun.MaxLosses: new(7.0)})
	if err != nil || after.Version != 2 || after.Number(jobrun.RunLease) != 45.5 || after.Int(jobrun.MaxLosses) != 7 {
		t.Fatalf("changed: %+v, %v", after, err)
	}
	if now, err := st.Current(t.Context()); err != nil || now.Version != 2 {
		t.Errorf("the node that changed them sees %+v, %v", now, err)
	}
	if _, err := change(1, map[string]*float64{jobrun.RunLease: new(50.0)}); fault.KindOf(err) != fault.Precondition ||
		!fault.IsCode(err, jobrun.CodeStale) {
		t.Errorf("with an old version: %v", err)
	}
	for name, values := range map[string]map[string]*float64{
		"unknown": {jobrun.RunLease: new(50.0), "colour": new(1.0)}, "out of bounds": {jobrun.RunLease: new(0.0)},
		"not whole": {jobrun.MaxLosses: new(1.5)}, "leases shorter than heartbeats": {jobrun.HeartbeatInterval: new(40.0)},
		"unknown, to its default": {"colour": nil},
	} {
		if _, err := change(0, values); fault.KindOf(err) != fault.Invalid || !fault.IsCode(err, jobrun.CodeSetting) {
			t.Errorf("%s: %v", name, err)
		}
	}
	same, err := change(0, map[string]*float64{jobrun.RunLease: new(45.5)})
	if err != nil || same.Version != 2 {
		t.Errorf("what is so already: %+v, %v", same, err)
	}
	last, err := change(0, map[string]*float64{jobrun.RunLease: nil})
	if err != nil || last.Version != 3 || last.Number(jobrun.RunLease) != 30 {
		t.Errorf("back to the default: %+v, %v", last, err)
	}
	seen, err := other.Settings(t.Context())
	if err != nil || seen.Version != 3 || seen.Int(jobrun.MaxLosses) != 7 || !seen.IsDefault(jobrun.RunLease) {
		t.Errorf("another node sees %+v, %v", seen, err)
	}
	history, err := st.SettingsHistory(t.Context(), 10)
	if err != nil || len(history) != 3 {
		t.Fatalf("history: %+v, %v", history, err)
	}
	last3 := history[0]
	last3.Version, last3.Old, last3.New, last3.By, last3.Reason = 3, new(45.5), nil, "key:ops", "a test"
	if diff := cmp.Diff(last3, history[0]); diff != "" {
		t.Errorf("the last change (-want +got):\n%s", diff)
	}
	values, version, err := st.SettingValues(t.Context())
	if err != nil || version != 3 || len(values) != len(jobrun.SettingsList) {
		t.Fatalf("values: %d, %v", version, err)
	}
	for _, v := range values {
		if v.IsDefault != (v.Name != jobrun.MaxLosses) || v.IsDefault && v.Value != v.Default {
			t.Errorf("%+v", v)
		}
	}
	found, err := auditdb.NewActions(db).Actions(t.Context(), tenant,
		operator.Filter{Kind: operator.JobSettings, ByTime: page.ByTime{Limit: 10}})
	if err != nil || len(found.Items) != 2 {
		t.Errorf("%d actions were recorded (%v), want one for each change", len(found.Items), err)
	}
}
