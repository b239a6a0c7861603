package workerapi_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
)

// oddities lists odd members of an item, or odd values in place of an item, with the pointer and
// code of the problem that each causes. "" means no problem, because the value is made storable or
// left unchanged.
var oddities = []struct{ more, pointer, code string }{
	{`,"progress":{"percent":100.0000001}`, "/progress/percent", "maximum"},
	{`,"progress":{"percent":-1}`, "/progress/percent", "minimum"},
	{`,"progress":{"percent":1e300}`, "/progress/percent", "maximum"},
	{`,"progress":{"percent":1e399}`, "/progress/percent", "nullable"},
	{`,"progress":{"percent":1e400}`, "/progress/percent", "number_out_of_range"},
	{`,"progress":{"percent":NaN}`, "/progress/percent", "syntax"},
	{`,"progress":{"percent":-Infinity}`, "/progress/percent", "syntax"},
	{`,"progress":{"percent":"50"}`, "/progress/percent", "type"},
	{`,"progress":{"percent":1,"percent":2}`, "/progress/percent", "duplicate_key"},
	{`,"progress":{"percent":1,"other":2}`, "/progress/other", "unknown"},
	{`,"progress":{"counters":{"a":"b"}}`, "/progress/counters/a", "type"},
	{`,"progress":{"counters":{"a\u0000":1}}`, "/progress/counters", "nul_character"},
	{`,"progress":[1,2`, "/progress", "syntax"},
	{`,"progress":7`, "/progress", "type"},
	{`,"progress":{"message":"a\u0000b"}`, "", ""},
	{`,"progress":{"message":"\ud800"}`, "", ""},
	{",\"progress\":{\"message\":\"\xff\"}", "", ""},
	{`,"progress":{"message":"` + strings.Repeat("é", 5000) + `"}`, "", ""},
	{`,"checkpoint":{"a":"\u0000"}`, "/checkpoint/a", "nul_character"},
	{`,"checkpoint":{"a":"\ud800"}`, "/checkpoint/a", "lone_surrogate"},
	{`,"checkpoint":{"a":1,"a":2}`, "/checkpoint/a", "duplicate_key"},
	{`,"checkpoint":1e400`, "/checkpoint", "number_out_of_range"},
	{`,"checkpoint":` + strings.Repeat("[", 100) + strings.Repeat("]", 100), "", "too_deep"},
	{`,"checkpoint":[1}`, "/checkpoint", "syntax"},
	{`,"checkpoint":{"a":[}`, "/checkpoint/a/0", "syntax"},
	{`,"checkpoint":{"a" "b"}`, "/checkpoint", "syntax"},
	{`,"checkpoint":undefined`, "/checkpoint", "syntax"},
	{`,"checkpoint":{'a':1}`, "/checkpoint", "syntax"},
}

// TestOneOddItemOfAHeartbeatCostsNoLease checks that odd progress in an item is refused on its own,
// and that the lease is renewed.
func TestOneOddItemOfAHeartbeatCostsNoLease(t *testing.T) {
	t.Parallel()
	s := newWorkerEdge(t)
	w := s.worker(`,"max_runs":100`)
	for range len(oddities) + 1 {
		s.run(s.job)
	}
	runs := s.claim(w, fmt.Sprintf(`{"slots":%d,"start":true}`, len(oddities)+1))
	if len(runs) != len(oddities)+1 {
		t.Fatalf("claimed %d", len(runs))
	}
	items := []string{item(runs[len(oddities)], `,"progress":{"percent":5}`)}
	for i, o := range oddities {
		items = append(items, item(runs[i], o.more))
	}
	seq := 1
	s.exec(`UPDATE jobs.job_runs SET lease_expires_at = now() + interval '9 seconds'`)
	judge := func(items []string, from int) {
		t.Helper()
		r := s.Send("POST", workerPath(w, "heartbeat"),
			fmt.Sprintf(`{"seq":%d,"running":[%s]}`, seq, strings.Join(items, ",")))
		seq++
		var h client.Heartbeat
		if r.Into(&h); r.Status != 200 || len(h.Leases) != len(items) {
			t.Fatalf("%d %s", r.Status, r.Body)
		}
		for i, l := range h.Leases {
			code, pointer := "", ""
			if i > 0 {
				pointer, code = oddities[from+i-1].pointer, oddities[from+i-1].code
			}
			switch {
			case !l.Ok || l.LeaseExpiresAt == nil || (l.Problem != nil) != (code != ""):
				t.Errorf("%.60s: %+v", items[i], l)
			case l.Problem == nil && i > 0 && !slices.Equal(l.Adjusted, []string{"/progress/message"}):
				t.Errorf("%.60s: adjusted %v", items[i], l.Adjusted)
			case l.Problem != nil:
				if e := l.Problem.Errors[0]; e.Code != code || pointer != "" && e.Pointer != pointer {
					t.Errorf("%.60s: %+v", items[i], l.Problem)
				}
			}
		}
	}
	judge(items, 0)
	for i := range oddities { // and each of them alone beside a valid item
		judge([]string{items[0], items[i+1]}, i)
	}
	var short, told int
	err := s.raw.QueryRowContext(t.Context(), `
SELECT count(*) FILTER (WHERE lease_expires_at < now() + interval '10 seconds'),
       count(*) FILTER (WHERE (progress->>'percent')::float = 5) FROM jobs.job_runs`).Scan(&short, &told)
	if err != nil || short != 0 || told != 1 {
		t.Errorf("%d leases were not renewed, the progress of %d is known, %v", short, told, err)
	}
}

// TestOneOddItemOfABatchIsRefusedAlone checks that the other items are processed.
func TestOneOddItemOfABatchIsRefusedAlone(t *testing.T) {
	t.Parallel()
	s := newWorkerEdge(t)
	odd := func(c client.ClaimedRun) []string {
		return []string{
			item(c, `,"result":{"a":"\u0000"}`), item(c, `,"result":"\ud800"`), item(c, `,"result":{"a":1,"a":2}`),
			item(c, `,"result":1e400`), item(c, `,"exit_code":1e400`), item(c, `,"exit_code":"1"`),
			item(c, `,"exit_code":1.0`),
			item(c, `,"exit_code":99999999999`), item(c, `,"resources":{"cpu_seconds_total":-1}`),
			item(c, `,"resources":{"cpu_seconds_total":NaN}`),
			item(c, `,"result":`+strings.Repeat("[", 100)+strings.Repeat("]", 100)),
			item(c, `,"result":"`+strings.Repeat("x", 1<<20)+`"`), item(c, `,"surplus":1`),
			item(c, `,"error":{"message":"a"}`),
			item(c, `,"error":7`), item(c, `,"error":{"code":"E","retryable":"no"}`), item(c, `,"timed_out":true`),
			item(c, `,"emit":[{}]`),
			item(c, `,"emit":[{"event":{"event_type":"a","occurred_at":"2025-02-29T00:00:00Z"}}]`),
			item(c, `,"result":{"a" "b"}`), item(c, `,"result":[1`), item(c, `,"result":'a'`),
			`{"run_id":"` + c.RunID.String() + `"}`,
			`{"run_id":7}`, `{}`, `[]`, `null`, `7`, `"x"`, ``, `undefined`, `{"a":}`,
		}
	}
	for name, path := range map[string]string{"complete": "complete", "start": "start"} {
		w := s.worker(`,"max_runs":100`)
		s.run(s.job)
		bad := s.claim(w, `{"slots":1,"start":true}`)[0]
		for i, text := range odd(bad) {
			if name == "start" && i < 19 && i != 12 {
				continue // it does not have these members, so they are all unknown
			}
			s.run(s.job)
			good := s.claim(w, `{"slots":1,"start":true}`)[0]
			r := s.Send("POST", workerPath(w, path), `{"runs":[`+text+`,`+item(good, "")+`]}`)
			var out client.RunResults
			if r.Into(&out); r.Status != 200 || len(out.Results) != 2 {
				t.Errorf("%s %.100q: %d %.300s", name, text, r.Status, r.Body)
				continue
			}
			first, second := out.Results[0], out.Results[1]
			if first.Status != 422 && first.Status != 400 || first.Problem == nil || second.Status != 200 {
				t.Errorf("%s %.100q: %+v, %+v", name, text, first, second)
			}
			if strings.Contains(text, `"run_id":"`) && (first.RunID == nil || *first.RunID != bad.RunID) {
				t.Errorf("%s %.100q: the run of the answer is %v", name, text, first.RunID)
			}
			if name == "start" {
				s.call(w, good, "complete", "").Ended("SUCCEEDED", false)
			}
		}
		if got := s.state(bad.RunID); got != "RUNNING" {
			t.Errorf("%s: the run of the refused items is %s", name, got)
		}
	}
}

func TestARunThatABatchNamesTwiceIsDoneOnce(t *testing.T) {
	t.Parallel()
	s := newWorkerEdge(t)
	w := s.worker("")
	s.run(s.job)
	c := s.claim(w, `{"slots":1,"start":true}`)[0]
	r := s.Send("POST", workerPath(w, "complete"), `{"runs":[`+item(c, "")+`,`+item(c, `,"error":{"code":"E"}`)+`]}`)
	var out client.RunResults
	if r.Into(&out); out.Results[0].Status != 200 || out.Results[1].Status != 422 ||
		out.Results[1].Problem.Errors[0].Pointer != "/run_id" || s.state(c.RunID) != "SUCCEEDED" {
		t.Errorf("%d %s", r.Status, r.Body)
	}
}

// TestTheWholeCallIsRefusedOnlyForWhatIsAroundTheItems checks the parts of a call that are not a
// list of items.
func TestTheWholeCallIsRefusedOnlyForWhatIsAroundTheItems(t *testing.T) {
	t.Parallel()
	s := newWorkerEdge(t)
	w := s.worker("")
	s.run(s.job)
	c := s.claim(w, `{"slots":1,"start":true}`)[0]
	for body, code := range map[string]string{
		`{"runs":[]}`: "REQ_SCHEMA", `{"runs":{}}`: "REQ_SCHEMA", `{}`: "REQ_SCHEMA", `[]`: "REQ_SCHEMA",
		`{"runs":[` + item(c, "") + `],"x":1}`:             "REQ_SCHEMA",
		`{"runs":[` + item(c, "") + `,{}],"x":1}`:          "REQ_SCHEMA",
		`{"runs":[{}],"runs":[` + item(c, "") + `]}`:       "REQ_DUPLICATE_KEY",
		`{"runs":[` + item(c, "") + `,{"a":"}]}`:           "REQ_INVALID_JSON",
		`{"runs":[` + strings.Repeat(`{},`, 1000) + `{}]}`: "REQ_SCHEMA",
		`{"runs":[` + strings.Repeat(`,`, 2000) + `]}`:     "REQ_INVALID_JSON",
		`nonsense`: "REQ_INVALID_JSON",
	} {
		if r := s.Send("POST", workerPath(w, "complete"), body); r.Status/100 != 4 || r.Problem().Code != code {
			t.Errorf("%.60s: %d %.200s", body, r.Status, r.Body)
		}
	}
	for _, load := range []string{"NaN", "-1", `"high"`, "1e400"} {
		r := s.Send("POST", workerPath(w, "heartbeat"), `{"seq":5,"load":`+load+`,"running":[`+item(c, "")+`]}`)
		var h client.Heartbeat
		if r.Into(&h); r.Status != 200 || !h.Leases[0].Ok || h.Problem == nil {
			t.Errorf("load %s: %d %s", load, r.Status, r.Body)
		}
	}
	r := s.Send("POST", workerPath(w, "heartbeat"),
		`{"seq":6,"running":[`+item(c, "")+`,{"run_id":7},{"run_id":"`+c.RunID.String()+`","attempt":1.5}]}`)
	var h client.Heartbeat
	if r.Into(&h); r.Status != 200 || len(h.Leases) != 3 || !h.Leases[0].Ok || h.Leases[1].Ok ||
		h.Leases[1].RunID != nil || h.Leases[1].Problem == nil || h.Leases[2].Ok ||
		h.Leases[2].RunID == nil || *h.Leases[2].RunID != c.RunID {
		t.Errorf("%d %s", r.Status, r.Body)
	}
	if got := s.state(c.RunID); got != "RUNNING" {
		t.Errorf("the run is %s", got)
	}
}

// TestTheTextsOfAFailureAreStoredWhateverTheyContain checks that a failure keeps its retries.
func TestTheTextsOfAFailureAreStoredWhateverTheyContain(t *testing.T) {
	t.Parallel()
	s := newWorkerEdge(t)
	w := s.worker("")
	text := `a\u0000b\ud800` + "\xff" + strings.Repeat("é", 40_000)
	const stored = "a\uFFFDb\uFFFD\uFFFDéé"
	failure := `,"error":{"code":"` + text + `","type":"` + text + `","message":"` + text + `","stack":"` + text + `"}`
	want := []string{"/error/code", "/error/message", "/error/stack", "/error/type"}
	for _, way := range []string{"fail", "complete"} {
		id := s.run(s.job)
		c := s.claim(w, `{"slots":1,"start":true}`)[0]
		s.call(w, c, "progress", `,"message":"`+text+`"`)
		s.call(w, c, "logs", `,"seq":0,"chunk":"a\u0000b"`)
		var adjusted []string
		var retry *uuid.UUID
		if way == "fail" {
			ended := s.call(w, c, way, failure).Ended("FAILED", false)
			adjusted, retry = ended.Adjusted, ended.RetryRunID
		} else {
			r := s.Send("POST", workerPath(w, way), `{"runs":[`+item(c, failure)+`]}`)
			var out client.RunResults
			r.Into(&out)
			adjusted, retry = out.Results[0].Adjusted, out.Results[0].RetryRunID
		}
		if !slices.Equal(adjusted, want) || retry == nil {
			t.Errorf("%s: adjusted %v, retry %v", way, adjusted, retry)
		}
		var code, kind, message, stack, told string
		if err := s.raw.QueryRowContext(t.Context(), `
SELECT error->>'code', error->>'type', error->>'message', error->>'stack', progress->>'message'
  FROM jobs.job_runs WHERE id = $1`, id).Scan(&code, &kind, &message, &stack, &told); err != nil {
			t.Fatal(err)
		}
		for text, most := range map[string]int{code: 100, kind: 255, message: 8192, stack: 65536} {
			if !strings.HasPrefix(text, stored) || len(text) > most || len(text) < most-1 {
				t.Errorf("%s: %d bytes of %d are stored: %.30q", way, len(text), most, text)
			}
		}
		if n := len([]rune(told)); n != 1000 || !strings.HasPrefix(told, stored) {
			t.Errorf("%s: the message of the progress has %d characters: %.30q", way, n, told)
		}
	}
	s.run(s.job)
	c := s.claim(w, `{"slots":1,"start":true}`)[0]
	ended := s.call(w, c, "release", `,"reason":"`+text+`"`).Ended("ORPHANED", false)
	if !slices.Equal(ended.Adjusted, []string{"/reason"}) {
		t.Errorf("released: %+v", ended)
	}
}
