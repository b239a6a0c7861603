package jobrun_test

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/schedule"
)

func TestOneMistakeHasOnePointer(t *testing.T) {
	t.Parallel()
	hourly := &schedule.Spec{Type: schedule.Interval, Value: "1h"}
	for name, tt := range map[string]struct {
		change func(*jobrun.Spec)
		at     string // "": there is none
		code   string
	}{
		"nothing":                 {func(*jobrun.Spec) {}, "", ""},
		"time without a schedule": {func(s *jobrun.Spec) { s.Type = jobrun.OnTime }, "/schedule", "required"},
		"a schedule by hand":      {func(s *jobrun.Spec) { s.Schedule = hourly }, "/schedule", "excluded"},
		"time with one":           {func(s *jobrun.Spec) { s.Type, s.Schedule = jobrun.OnTime, hourly }, "", ""},
		"events of no type":       {func(s *jobrun.Spec) { s.Type = jobrun.OnEvent }, "/event", "required"},
		"an event by hand":        {func(s *jobrun.Spec) { s.Event = &jobrun.EventTrigger{EventType: "a"} }, "/event", "excluded"},
		"an event":                {func(s *jobrun.Spec) { s.Type, s.Event = jobrun.OnEvent, &jobrun.EventTrigger{EventType: "a.*"} }, "", ""},
		"a star in the middle":    {func(s *jobrun.Spec) { s.Type, s.Event = jobrun.OnEvent, &jobrun.EventTrigger{EventType: "a.*.b"} }, "/event/event_type", "pattern"},
		"arguments of something else": {func(s *jobrun.Spec) {
			s.Type, s.Event = jobrun.OnEvent, &jobrun.EventTrigger{EventType: "a", Args: "x"}
		}, "/event/args_from", "enum"},
		"a value that is none": {func(s *jobrun.Spec) {
			s.Type, s.Event = jobrun.OnEvent, &jobrun.EventTrigger{EventType: "a",
				Match: map[string]json.RawMessage{"b/c": json.RawMessage(`{}`)}}
		}, "/event/match/b~1c", "type"},
		"a key where all may run": {func(s *jobrun.Spec) { s.ConcurrencyKey, s.Concurrency = "k", jobrun.Allow }, "/concurrency_key", "excluded"},
		"a key":                   {func(s *jobrun.Spec) { s.ConcurrencyKey, s.Concurrency = "k", jobrun.Queue }, "", ""},
		"a policy that is none":   {func(s *jobrun.Spec) { s.Concurrency = "maybe" }, "/concurrency_policy", "enum"},
		"a queue of another form": {func(s *jobrun.Spec) { s.Queue = "-a" }, "/queue", "pattern"},
		"Skald's queue":           {func(s *jobrun.Spec) { s.Queue = jobrun.SystemQueue }, "/queue", "reserved"},
		"no command":              {func(s *jobrun.Spec) { s.CommandName = "" }, "/command_name", "required"},
		"a NUL":                   {func(s *jobrun.Spec) { s.Description = "a\x00" }, "/description", "pattern"},
		"no UTF-8":                {func(s *jobrun.Spec) { s.Description = "\xff" }, "/description", "pattern"},
		"half of a multiplier":    {func(s *jobrun.Spec) { s.Retry.Multiplier = 0.5 }, "/retry/multiplier", "out_of_range"},
		"no number as multiplier": {func(s *jobrun.Spec) { s.Retry.Multiplier = math.NaN() }, "/retry/multiplier", "out_of_range"},
		"no number as jitter":     {func(s *jobrun.Spec) { s.Retry.Jitter = new(math.NaN()) }, "/retry/jitter", "out_of_range"},
		"a schema that is none":   {func(s *jobrun.Spec) { s.ArgsSchema = json.RawMessage(`{"type":"no"}`) }, "/args_schema", "schema"},
		"arguments beyond the schema": {func(s *jobrun.Spec) {
			s.ArgsSchema, s.DefaultArgs = json.RawMessage(`{"required":["a"]}`), json.RawMessage(`{}`)
		}, "/default_args", "required"},
		"arguments that fit it": {func(s *jobrun.Spec) {
			s.ArgsSchema, s.DefaultArgs = json.RawMessage(`{"required":["a"]}`), json.RawMessage(`{"a":1}`)
		}, "", ""},
		"too many arguments": {func(s *jobrun.Spec) { s.DefaultArgs = make(json.RawMessage, jobrun.MaxArgs+1) }, "/default_args", "too_large"},
	} {
		s := jobrun.Spec{Type: jobrun.OnDemand, CommandName: "report"}
		tt.change(&s)
		f := fault.As(jobrun.CheckNew("job", &s))
		switch {
		case tt.at == "" && f != nil:
			t.Errorf("%s: %v", name, f)
		case tt.at != "" && (f == nil || len(f.Fields) != 1 || f.Fields[0].Pointer != tt.at || f.Fields[0].Code != tt.code):
			t.Errorf("%s: %+v, want %s at %s", name, f, tt.code, tt.at)
		}
	}
}

func TestNamesOfDefinitions(t *testing.T) {
	t.Parallel()
	s := jobrun.Spec{Type: jobrun.OnDemand, CommandName: "report"}
	for name, good := range map[string]bool{
		"a": true, "A-1.b_c:d": true, "0": true, strings.Repeat("a", jobrun.MaxName): true,
		strings.Repeat("a", jobrun.MaxName+1): false, "": false, "-a": false,
		"a b": false, "a/b": false, "ä": false, "a*": false, uuid.NewString(): false, jobrun.SystemPrefix + "x": false,
	} {
		if err := jobrun.CheckNew(name, &s); (err == nil) != good {
			t.Errorf("%q: %v", name, err)
		}
	}
	if err := jobrun.Check(jobrun.SystemPrefix+"x", &s); err != nil {
		t.Errorf("Skald's own name: %v", err)
	}
}

func TestLabels(t *testing.T) {
	t.Parallel()
	many := map[string]string{}
	for i := range jobrun.MaxLabels + 1 {
		many[strings.Repeat("a", i+1)] = ""
	}
	for name, tt := range map[string]struct {
		labels map[string]string
		at     string
	}{
		"none":              {nil, ""},
		"some":              {map[string]string{"gpu": "yes", "zone": ""}, ""},
		"a name of none":    {map[string]string{"": "x"}, "/labels/"},
		"a name with =":     {map[string]string{"a=b": "x"}, "/labels/a=b"},
		"a long value":      {map[string]string{"a": strings.Repeat("ä", jobrun.MaxWord+1)}, "/labels/a"},
		"a value that fits": {map[string]string{"a": strings.Repeat("ä", jobrun.MaxWord)}, ""},
		"too many":          {many, "/labels"},
	} {
		f := fault.As(jobrun.CheckLabels("/labels", tt.labels))
		if (f == nil) != (tt.at == "") || f != nil && f.Fields[0].Pointer != tt.at {
			t.Errorf("%s: %+v, want a mistake at %q", name, f, tt.at)
		}
	}
}

func TestSettingsOutOfBoundsCountAsTheDefault(t *testing.T) {
	t.Parallel()
	for _, d := range jobrun.SettingsList {
		for v, good := range map[float64]bool{d.Default: true, d.Min: true, d.Max: true, d.Min - 1: false, d.Max + 1: false,
			math.NaN(): false, math.Inf(1): false} {
			err := jobrun.CheckSetting(d.Name, v)
			if (err == nil) != good {
				t.Errorf("%s = %v: %v", d.Name, v, err)
			}
			s := jobrun.NewSettings(1, map[string]float64{d.Name: v})
			want := d.Default
			if good {
				want = v
			}
			if got := s.Number(d.Name); got != want || s.IsDefault(d.Name) == good {
				t.Errorf("%s = %v counts as %v, by default %v", d.Name, v, got, s.IsDefault(d.Name))
			}
		}
		if err := jobrun.CheckSetting(d.Name, d.Min+(d.Max-d.Min)/2+0.001); d.Integer && err == nil {
			t.Errorf("%s takes half of one", d.Name)
		}
	}
	if err := jobrun.CheckSetting("nothing", 1); !fault.IsCode(err, jobrun.CodeSetting) {
		t.Errorf("a setting that is none: %v", err)
	}
}

func TestAWorkerMayMissAHeartbeat(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		interval, ttl, lease float64
		at                   string
	}{
		"as they are":           {5, 15, 30, ""},
		"twice is enough":       {5, 10, 10, ""},
		"a lease that is short": {5, 10, 9, "/values/" + jobrun.RunLease},
		"a worker lost at once": {5, 9, 10, "/values/" + jobrun.HeartbeatTTL},
	} {
		values := map[string]float64{jobrun.HeartbeatInterval: tt.interval, jobrun.HeartbeatTTL: tt.ttl,
			jobrun.RunLease: tt.lease}
		f := fault.As(jobrun.CheckSettings(map[string]*float64{jobrun.RunLease: &tt.lease}, jobrun.NewSettings(1, values)))
		if (f == nil) != (tt.at == "") || f != nil && (len(f.Fields) != 1 || f.Fields[0].Pointer != tt.at) {
			t.Errorf("%s: %+v", name, f)
		}
	}
	f := fault.As(jobrun.CheckSettings(map[string]*float64{"b": new(1.0), "a": new(1.0), jobrun.MaxLosses: nil}, settings))
	if f == nil || len(f.Fields) != 2 || f.Fields[0].Pointer != "/values/a" {
		t.Errorf("every mistake, in order: %+v", f)
	}
}

func TestTheStoryOfARunTellsEverythingInOrder(t *testing.T) {
	t.Parallel()
	minute := func(n int) *time.Time { return new(noon.Add(time.Duration(n) * time.Minute)) }
	r := underWay()
	r.CreatedAt, r.State, r.Version = noon, jobrun.Succeeded, 9
	r.AssignedAt, r.StartedAt, r.FinishedAt = minute(5), minute(6), minute(7)
	lost := jobrun.Attempt{Number: 1, AssignedAt: *minute(1), StartedAt: minute(2), EndedAt: minute(3),
		Outcome: jobrun.AttemptOrphaned}
	stored := []jobrun.HistoryEvent{{At: *minute(3), Kind: jobrun.WasOrphaned, From: jobrun.Running, To: jobrun.Orphaned},
		{At: *minute(4), Kind: jobrun.WasReassigned}}
	var got []jobrun.EventKind
	state := jobrun.State("")
	for _, e := range r.Story([]jobrun.Attempt{lost}, stored) {
		got = append(got, e.Kind)
		if e.To != "" && e.To != e.From {
			if e.From != state {
				t.Errorf("%s leads from %s, and it was %s", e.Kind, e.From, state)
			}
			state = e.To
		}
	}
	want := []jobrun.EventKind{
		jobrun.WasCreated, jobrun.WasAssigned, jobrun.WasStarted, jobrun.WasOrphaned, jobrun.WasReassigned,
		jobrun.WasAssigned, jobrun.WasStarted, jobrun.WasSucceeded,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if all := r.WithPresent([]jobrun.Attempt{lost}); len(all) != 2 || all[1].Outcome != "SUCCEEDED" ||
		all[1].Fence != r.Fence() {
		t.Errorf("%+v", all)
	}
	if all := r.WithPresent([]jobrun.Attempt{lost, {Number: 2}}); len(all) != 2 {
		t.Errorf("the present attempt is told twice: %+v", all)
	}
	var never jobrun.Run
	if all := never.WithPresent(nil); len(all) != 0 {
		t.Errorf("an attempt of a run that nobody had: %+v", all)
	}
}

func TestWhereARunComesFrom(t *testing.T) {
	t.Parallel()
	id := uuid.UUID{1}
	for want, r := range map[string]jobrun.Run{
		"by the schedule":                          {Trigger: jobrun.ByTime},
		"by event " + id.String():                  {Trigger: jobrun.ByEvent, EventID: id},
		"retry 2 of run " + id.String():            {Trigger: jobrun.ByRetry, RetryNumber: 2, RetryOfRunID: id},
		"by backfill " + id.String():               {Trigger: jobrun.ByBackfill, BackfillID: id},
		"by step 3 of saga " + id.String():         {Trigger: jobrun.BySaga, SagaStep: 3, SagaID: id},
		"by a retry of dead letter " + id.String(): {Trigger: jobrun.ByLetter, LetterID: id},
		"manual rerun of run " + id.String():       {Trigger: jobrun.ByHand, RetryOfRunID: id},
		"manually":                                 {Trigger: jobrun.ByHand},
	} {
		if got := r.Story(nil, nil)[0].Reason; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestALogLineIsItsChunk(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"", "plain", "ä\n", "\xff\x00", "\xc3"} {
		c := jobrun.LogChunk{LogPosition: jobrun.LogPosition{Attempt: 2, Seq: 3}, At: noon, Stream: "stdout",
			Body: []byte(body)}
		l := jobrun.LineOf(&c)
		if (l.Chunk != nil) != utf8.ValidString(body) {
			t.Errorf("%q: as text %v", body, l.Chunk)
		}
		if diff := cmp.Diff(c, l.Content()); diff != "" {
			t.Error(diff)
		}
	}
}

// D-41: the archive of dead letters runs every day automatically.
func TestTheArchiveOfLettersRunsDaily(t *testing.T) {
	t.Parallel()
	i := slices.IndexFunc(jobrun.BuiltIns, func(b jobrun.BuiltIn) bool { return b.Name == jobrun.SystemArchive })
	d, err := jobrun.BuiltIns[i].Definition(uuid.UUID{2}, uuid.UUID{3}, noon)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(noon.Year(), noon.Month(), noon.Day()+1, 2, 10, 0, 0, time.UTC)
	if d.NextDueAt == nil || !d.NextDueAt.Equal(at) || !d.Enabled {
		t.Errorf("enabled %v, due at %v, want %v", d.Enabled, d.NextDueAt, at)
	}
	if c, err := d.Spec.Schedule.Compile(); err != nil {
		t.Error(err)
	} else if next, ok := c.Next(at); !ok || !next.At.Equal(at.AddDate(0, 0, 1)) {
		t.Errorf("and then at %v", next)
	}
}

func TestBuiltInDefinitionsAreInOrder(t *testing.T) {
	t.Parallel()
	for _, b := range jobrun.BuiltIns {
		d, err := b.Definition(uuid.UUID{2}, uuid.UUID{3}, noon)
		if err != nil {
			t.Fatal(err)
		}
		want := d
		want.BuiltIn, want.Enabled, want.Spec.Queue, want.Spec.CommandName = true, true, jobrun.SystemQueue, b.Name
		if diff := cmp.Diff(want, d); diff != "" || !strings.HasPrefix(d.Name, jobrun.SystemPrefix) {
			t.Errorf("%s (-want +got):\n%s", d.Name, diff)
		}
		if err := jobrun.Check(d.Name, &d.Spec); err != nil {
			t.Errorf("%s: %v", b.Name, err)
		}
		if (d.Spec.Schedule != nil) != (d.NextDueAt != nil) {
			t.Errorf("%s is due at %v", b.Name, d.NextDueAt)
		}
	}
	for args, beyond := range map[string]bool{"": true, `{}`: true, `{"max_messages":0}`: true,
		`{"max_messages":10}`: false, `{"max_messages":11}`: true, `no`: true} {
		if jobrun.Beyond(jobrun.SystemRedrive, json.RawMessage(args), 10) != beyond ||
			jobrun.Beyond(jobrun.SystemPurge, json.RawMessage(args), 10) {
			t.Errorf("arguments %s: beyond should be %v, and for redrives alone", args, beyond)
		}
	}
}
