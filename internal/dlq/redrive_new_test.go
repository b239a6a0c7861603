package dlq_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/fault"
)

var (
	limits  = dlq.RedriveLimits{DefaultRate: 50, MaxRate: 1000, Bulk: 100}
	newAt   = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	someIDs = []uuid.UUID{uuid.MustParse("01234567-89ab-7def-8123-456789abcdef"), uuid.MustParse("01234567-89ab-7def-8123-456789abcdee")}
)

// pointers returns the pointers to the mistakes that a fault reports, or none without a fault.
func pointers(t *testing.T, err error) []string {
	t.Helper()
	out := []string{}
	if err == nil {
		return out
	}
	f := fault.As(err)
	if f == nil || f.Kind != fault.Invalid || f.Code != dlq.CodeInvalid {
		t.Fatalf("got %v, want a fault of kind Invalid", err)
	}
	for _, field := range f.Fields {
		if field.Code == "" || field.Message == "" {
			t.Errorf("%s has no code or message", field.Pointer)
		}
		out = append(out, field.Pointer)
	}
	slices.Sort(out)
	return out
}

func TestARedriveIsRefusedWithEveryMistake(t *testing.T) {
	t.Parallel()
	retry := func(change func(*dlq.Redrive)) dlq.Redrive {
		r := dlq.Redrive{Action: dlq.BulkRetry, Reason: "r", Filter: &dlq.Filter{Topic: "orders"}}
		change(&r)
		return r
	}
	many := make([]uuid.UUID, dlq.MaxSelected+1)
	for i := range many {
		many[i][15], many[i][14], many[i][0] = byte(i), byte(i>>8), 1
	}
	for name, tt := range map[string]struct {
		redrive dlq.Redrive
		all     bool
		wrong   []string
	}{
		"by a filter":                  {retry(func(*dlq.Redrive) {}), false, nil},
		"by ids":                       {dlq.Redrive{Action: dlq.BulkRetry, Reason: "r", IDs: someIDs}, false, nil},
		"of everything":                {dlq.Redrive{Action: dlq.BulkRetry, Reason: "r"}, true, nil},
		"of everything, with a filter": {retry(func(r *dlq.Redrive) { r.Filter = &dlq.Filter{} }), true, nil},
		"of nothing":                   {dlq.Redrive{Action: dlq.BulkRetry, Reason: "r"}, false, []string{"/ids"}},
		"by a filter that is empty":    {retry(func(r *dlq.Redrive) { r.Filter = &dlq.Filter{} }), false, []string{"/filter"}},
		"by a filter that says nothing": {retry(func(r *dlq.Redrive) {
			r.Filter = &dlq.Filter{
				Topic: "*", ErrorContains: " ! ", Statuses: []dlq.Status{}, Headers: map[string]string{},
				Payload: map[string]string{}, RetryCountMin: new(0),
			}
		}), false, []string{"/filter"}},
		"by an empty key":                 {retry(func(r *dlq.Redrive) { r.Filter = &dlq.Filter{Key: []byte{}} }), false, nil},
		"of everything and something":     {retry(func(*dlq.Redrive) {}), true, []string{"/all"}},
		"by ids and a filter":             {retry(func(r *dlq.Redrive) { r.IDs = someIDs }), false, []string{"/ids"}},
		"by no ids":                       {dlq.Redrive{Action: dlq.BulkRetry, Reason: "r", IDs: []uuid.UUID{}}, false, []string{"/ids"}},
		"by too many ids":                 {dlq.Redrive{Action: dlq.BulkRetry, Reason: "r", IDs: many}, false, []string{"/ids"}},
		"by as many ids as may be":        {dlq.Redrive{Action: dlq.BulkRetry, Reason: "r", IDs: many[1:]}, false, nil},
		"faster than may be":              {retry(func(r *dlq.Redrive) { r.Rate = 1001 }), false, []string{"/rate_per_second"}},
		"slower than makes sense":         {retry(func(r *dlq.Redrive) { r.Rate = 0.001 }), false, []string{"/rate_per_second"}},
		"backwards":                       {retry(func(r *dlq.Redrive) { r.Rate, r.Concurrency, r.Max = -1, -1, -1 }), false, []string{"/concurrency", "/max_messages", "/rate_per_second"}},
		"with too many at once":           {retry(func(r *dlq.Redrive) { r.Concurrency = 65 }), false, []string{"/concurrency"}},
		"of dead letters without force":   {retry(func(r *dlq.Redrive) { r.Filter.Statuses = []dlq.Status{dlq.Dead} }), false, []string{"/filter/status"}},
		"of dead letters with force":      {retry(func(r *dlq.Redrive) { r.Filter.Statuses, r.Force = []dlq.Status{dlq.Dead}, true }), false, nil},
		"of resolved letters":             {retry(func(r *dlq.Redrive) { r.Filter.Statuses, r.Force = []dlq.Status{dlq.Resolved}, true }), false, []string{"/filter/status"}},
		"in an order that does not exist": {retry(func(r *dlq.Redrive) { r.Order = "NEWEST" }), false, []string{"/order"}},
		"with a canary that is none": {
			retry(func(r *dlq.Redrive) { r.Canary = &dlq.Canary{WatchSeconds: -1, MaxBounceRatio: 2} }), false,
			[]string{"/canary/count", "/canary/max_bounce_ratio", "/canary/watch_seconds"}},
		"that stops on what cannot be": {retry(func(r *dlq.Redrive) { r.StopOn = dlq.StopOn{Failures: -1, FailureRatio: 1.1} }), false, []string{"/stop_on/failure_ratio", "/stop_on/failures"}},
		"with a patch that is none":    {retry(func(r *dlq.Redrive) { r.Transform = json.RawMessage(`[{"op":"twist","path":"/a"}]`) }), false, []string{"/transform/0/op"}},
		"to another topic":             {retry(func(r *dlq.Redrive) { r.Target = &dlq.Target{Kind: dlq.ToKafka, Topic: "retry"} }), false, nil},
		"to a saga":                    {retry(func(r *dlq.Redrive) { r.Target = &dlq.Target{Kind: dlq.ToSaga} }), false, []string{"/target/kind"}},
		"to no URL":                    {retry(func(r *dlq.Redrive) { r.Target = &dlq.Target{Kind: dlq.ToHTTP, URL: "ftp://h/", Method: "GET"} }), false, []string{"/target/method", "/target/url"}},
		"to a URL with a password":     {retry(func(r *dlq.Redrive) { r.Target = &dlq.Target{Kind: dlq.ToHTTP, URL: "http://u:p@h/"} }), false, []string{"/target/url"}},
		"to both":                      {retry(func(r *dlq.Redrive) { r.Target = &dlq.Target{Kind: dlq.ToKafka, URL: "http://h/"} }), false, []string{"/target/url"}},
		"in two years":                 {retry(func(r *dlq.Redrive) { r.ScheduledFor = new(newAt.AddDate(2, 0, 0)) }), false, []string{"/scheduled_for"}},
		"for a long reason":            {retry(func(r *dlq.Redrive) { r.Reason = strings.Repeat("ö", 501) }), false, []string{"/reason"}},
		"for a reason of 500 letters":  {retry(func(r *dlq.Redrive) { r.Reason = strings.Repeat("ö", 500) }), false, nil},
		"without a reason":             {retry(func(r *dlq.Redrive) { r.Reason = "" }), false, []string{"/reason"}},
		"for a reason of blanks":       {retry(func(r *dlq.Redrive) { r.Reason = " \t\n" }), false, []string{"/reason"}},
		"discarding without a reason":  {dlq.Redrive{Action: dlq.BulkDiscard, IDs: someIDs}, false, []string{"/reason"}},
		"discarding with what only retries have": {dlq.Redrive{
			Action: dlq.BulkDiscard, IDs: someIDs, Reason: "r", Force: true, Order: dlq.PerKey, Canary: &dlq.Canary{Count: 1},
			Transform: json.RawMessage(`[]`), Target: &dlq.Target{Kind: dlq.ToKafka},
		}, false, []string{"/canary", "/force", "/order", "/target", "/transform"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := dlq.NewRedrive(tt.redrive, dlq.RedriveRequest{All: tt.all}, someIDs[0], limits, newAt)
			if diff := cmp.Diff(append([]string{}, tt.wrong...), pointers(t, err)); diff != "" {
				t.Errorf("mistakes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestARedriveIsCompletedWithDefaults(t *testing.T) {
	t.Parallel()
	filter := dlq.Filter{Topic: "orders"}
	got, err := dlq.NewRedrive(dlq.Redrive{Action: dlq.BulkRetry, Reason: "r", Filter: &filter}, dlq.RedriveRequest{},
		someIDs[0], limits, newAt)
	if err != nil {
		t.Fatal(err)
	}
	want := dlq.Redrive{
		ID: someIDs[0], Version: 1, Action: dlq.BulkRetry, State: dlq.RedrivePending, Filter: &dlq.Filter{Topic: "orders",
			Statuses: []dlq.Status{dlq.Pending}},
		Rate: 50, Concurrency: dlq.DefaultConcurrency, Order: dlq.Oldest, Reason: "r", CreatedAt: newAt, UpdatedAt: newAt,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if filter.Statuses != nil {
		t.Error("the caller's filter was changed")
	}
	twice := dlq.Redrive{Action: dlq.BulkRetry, Reason: "r", IDs: []uuid.UUID{someIDs[1], someIDs[0], someIDs[1]},
		Approval: true}
	if got, err = dlq.NewRedrive(twice, dlq.RedriveRequest{}, someIDs[0], limits, newAt); err != nil ||
		got.State != dlq.AwaitingApproval || !slices.Equal(got.IDs, []uuid.UUID{someIDs[1], someIDs[0]}) {
		t.Errorf("got %v %v, %v", got.State, got.IDs, err)
	}
}

func TestWhatOnlyCountsNeedsNoReason(t *testing.T) {
	t.Parallel()
	for _, action := range dlq.RedriveActions {
		if _, err := dlq.NewRedrive(dlq.Redrive{Action: action, IDs: someIDs}, dlq.RedriveRequest{Unexplained: true},
			someIDs[0], limits, newAt); err != nil {
			t.Errorf("%s: %v", action, err)
		}
		_, err := dlq.NewRedrive(dlq.Redrive{Action: action, IDs: someIDs}, dlq.RedriveRequest{}, someIDs[0], limits, newAt)
		if got := pointers(t, err); !slices.Equal(got, []string{"/reason"}) {
			t.Errorf("%s: mistakes at %v", action, got)
		}
	}
}

func TestAnActionIsForLettersItCanDoSomethingTo(t *testing.T) {
	t.Parallel()
	for action, want := range map[dlq.RedriveAction][]dlq.Status{
		dlq.BulkRetry: {dlq.Pending}, dlq.BulkDiscard: {dlq.Pending}, dlq.BulkResolve: {dlq.Pending, dlq.Dead},
		dlq.BulkRequeue: {dlq.Dead}, dlq.BulkDelete: {dlq.Pending, dlq.Resolved, dlq.Dead},
	} {
		r, err := dlq.NewRedrive(dlq.Redrive{Action: action, Reason: "r"}, dlq.RedriveRequest{All: true},
			someIDs[0], limits, newAt)
		if err != nil || !slices.Equal(r.Filter.Statuses, want) {
			t.Errorf("%s is for %v, want %v (%v)", action, r.Filter.Statuses, want, err)
		}
	}
	r, err := dlq.NewRedrive(dlq.Redrive{Action: dlq.BulkRetry, Reason: "r", Force: true}, dlq.RedriveRequest{All: true},
		someIDs[0], limits, newAt)
	if err != nil || !slices.Equal(r.Filter.Statuses, []dlq.Status{dlq.Pending, dlq.Dead}) {
		t.Errorf("a forced retry is for %v (%v)", r.Filter.Statuses, err)
	}
}

func TestHowMuchAnOperatorMayTouchAtOnce(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		action dlq.RedriveAction
		ids    int
		bound  int64
		admin  bool
	}{
		{dlq.BulkRetry, 100, 0, false}, {dlq.BulkRetry, 101, 0, true}, {dlq.BulkRetry, 101, 100, false},
		{dlq.BulkRetry, 0, 100, false}, {dlq.BulkRetry, 0, 101, true}, {dlq.BulkRetry, 0, 0, true},
		{dlq.BulkDiscard, 1, 0, false}, {dlq.BulkResolve, 1, 0, false}, {dlq.BulkRequeue, 1, 0, true}, {dlq.BulkDelete, 1, 1, true},
	} {
		r := dlq.Redrive{Action: tt.action, Max: tt.bound}
		if tt.ids > 0 {
			r.IDs = make([]uuid.UUID, tt.ids)
		}
		if got := r.NeedsAdmin(limits.Bulk); got != tt.admin {
			t.Errorf("%s of %d ids, at most %d: needs an administrator: %t", tt.action, tt.ids, tt.bound, got)
		}
	}
}

func TestARedriveIsEditedUntilItIsOver(t *testing.T) {
	t.Parallel()
	edit := dlq.RedriveEdit{Rate: new(5.0), Concurrency: new(2), StopOn: &dlq.StopOn{Failures: 3}}
	for _, state := range dlq.RedriveStates {
		r := dlq.Redrive{State: state, Version: 3, Rate: 50, Concurrency: 8}
		got, err := r.Edited(edit, limits, newAt)
		if state.Terminal() {
			if !fault.IsCode(err, dlq.CodeRedriveConflict) {
				t.Errorf("%s: %v, want a conflict", state, err)
			}
			continue
		}
		want := dlq.Redrive{State: state, Version: 4, Rate: 5, Concurrency: 2, StopOn: dlq.StopOn{Failures: 3},
			UpdatedAt: newAt}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", state, err, diff)
		}
	}
	_, err := (dlq.Redrive{Rate: 50, Concurrency: 8}).Edited(dlq.RedriveEdit{Rate: new(0.0), Concurrency: new(0),
		StopOn: &dlq.StopOn{FailureRatio: 2}}, limits, newAt)
	if diff := cmp.Diff([]string{"/concurrency", "/rate_per_second", "/stop_on/failure_ratio"},
		pointers(t, err)); diff != "" {
		t.Errorf("mistakes (-want +got):\n%s", diff)
	}
}
