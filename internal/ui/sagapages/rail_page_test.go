package sagapages

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/test/apitest"
	"github.com/skald-saga/skald/internal/ui/web"
)

func failed(v saga.Verdict, class retry.Class, code string) saga.Event {
	return saga.Answered{Outcome: saga.Outcome{Verdict: v, Class: class, Code: code, Message: "not now"}}
}

// told defines the words used in the stories of sagas below.
var told = map[string]saga.Event{
	"done":    saga.Answered{Outcome: saga.Outcome{Verdict: saga.Done, Code: "http_200", Output: json.RawMessage(`{}`)}},
	"503":     failed(saga.Unknown, retry.Unavailable, "http_503"),
	"429":     failed(saga.NotApplied, retry.Unavailable, "http_429"),
	"409":     failed(saga.Refused, retry.Refused, "http_409"),
	"later":   saga.Answered{Outcome: saga.Outcome{Verdict: saga.Later}},
	"timeout": failed(saga.Unknown, retry.Timeout, "timeout"),
	"turn":    saga.Turned{}, "cancel": saga.CancelRequested{By: "kim"}, "suspend": saga.SuspendRequested{By: "kim"},
	"fail":   saga.FailureForced{By: "kim"},
	"skip":   saga.StepOrdered{Order: saga.Order{Verb: saga.SkipStep, By: "kim"}},
	"settle": saga.StepOrdered{Order: saga.Order{Verb: saga.CompleteStep, By: "kim"}},
}

// tells stores a saga of the workflow "rail" or "rail-stops", and brings it into the state that its
// story describes. It applies only the rules: nothing is called, and nothing waits. "503*9" stands
// for nine such responses.
func tells(t *testing.T, e *apitest.Edge, story string) uuid.UUID {
	t.Helper()
	sagas := e.Store.Sagas
	workflow := "rail"
	if rest, is := strings.CutPrefix(story, "stops: "); is {
		workflow, story = "rail-stops", rest
	}
	w, err := e.Store.Workflows.Get(t.Context(), apitest.Tenant.ID, workflow, 1)
	if err != nil {
		t.Fatal(err)
	}
	id, owner := uuid.Must(uuid.NewV7()), int64(42)
	first := saga.New(saga.Spec{ID: id, Tenant: apitest.Tenant, Payload: json.RawMessage(`{}`), TimeoutMS: 3_600_000},
		w.Definition, 1, &owner, e.Cfg.Now(), 0)
	if _, err := sagas.Create(t.Context(), []saga.NewSaga{{Saga: first}}); err != nil {
		t.Fatal(err)
	}
	run := e.Node.Instance(id)
	for _, word := range strings.Fields(story) {
		word, times, _ := strings.Cut(word, "*")
		n, _ := strconv.Atoi(times)
		for range max(n, 1) {
			happening, known := told[word]
			switch word {
			case "deadline":
				happening, known = saga.DeadlinePassed{At: *run.TimeoutAt}, true
			case "skip", "settle":
				order := happening.(saga.StepOrdered)
				order.Step = run.CurrentStep
				happening = order
			}
			if !known {
				t.Fatalf("%s: no such word", word)
			}
			now := e.Cfg.Now()
			if a, is := happening.(saga.Answered); is {
				a.StartedAt, a.EndedAt = now, now
				happening = a
			}
			change, err := saga.Apply(run, happening, saga.Moment{Now: now, NewID: uuid.New})
			if err != nil {
				t.Fatalf("%s of %q: %v", word, story, err)
			}
			if refused, err := sagas.Commit(t.Context(), []saga.Change{change}); err != nil || refused[0] != nil {
				t.Fatalf("%s of %q: %v %v", word, story, refused, err)
			}
			run = change.After
		}
	}
	return id
}

var (
	railRows   = regexp.MustCompile(`(?s)<tr id="step-(\d)".*?<td class="states">(.*?)</td>`)
	railStates = regexp.MustCompile(`<span class="state (\w*)">(?:<span aria-hidden="true">[^<]*</span> )?([^<]*)</span>`)
)

// TestTheRailSaysOnlyWhatWasAnswered checks on the page of a real saga that the forward execution
// and the compensation of each step show the outcome of their own last attempt. Only work that was
// reported as done is green.
func TestTheRailSaysOnlyWhatWasAnswered(t *testing.T) {
	e, pages := railEdge(t)
	for _, tt := range []struct {
		story string
		want  string // of both steps: the way forward, and after a bar the compensation
	}{
		{"", "run running; muted pending"},
		{"done done", "done done; done done"},
		{"503", "wait waits to retry, may have been done; muted pending"},
		{"429", "wait waits to retry; muted pending"},
		{"503*999", "wait waits to retry, may have been done 999/1000; muted pending"},
		{"later", "wait waits for a report; muted pending"},
		{"503 later", "wait waits for a report, may have been done 2/1000; muted pending"},
		{"503*1000", "wait may have been done 1000/1000 | undo being undone; muted never reached"},
		{"503*1000 done", "wait may have been done 1000/1000 | undo undone; muted never reached"},
		{"503*1000 409", "wait may have been done 1000/1000 | bad undo gave up 1/2; muted never reached"},
		{"done 503*1000", "done done | undo undo pending; wait may have been done 1000/1000 | undo being undone"},
		{"done 503*1000 done", "done done | undo being undone; wait may have been done 1000/1000 | undo undone"},
		{"done 503*1000 done done", "done done | undo undone; wait may have been done 1000/1000 | undo undone"},
		{"429*1000", "bad gave up 1000/1000; muted never reached"},
		{"done 409", "done done | undo being undone; bad refused"},
		{"done 409 done", "done done | undo undone; bad refused"},
		{"done 409 503", "done done | undo being undone; bad refused"},
		{"done 409 503*2", "done done | bad undo gave up 2/2; bad refused"},
		{"timeout 409", "wait may have been done 2/1000 | undo being undone; muted never reached"},
		{"done timeout deadline turn", "done done | undo undo pending; wait may have been done | undo being undone"},
		{"done deadline turn done", "done done | undo undone; muted never reached"},
		{"done timeout cancel turn done done", "done done | undo undone; wait may have been done | undo undone"},
		{"done cancel turn", "done done | undo being undone; muted never reached"},
		{"done timeout suspend", "done done; wait suspended, may have been done"},
		{"done suspend", "done done; wait suspended"},
		{"503 skip turn", "wait skipped, may have been done; run running"},
		{"503 skip turn 409", "wait skipped, may have been done | undo being undone; bad refused"},
		{"done 429 skip turn", "done done; muted skipped"},
		{"429 settle done", "done done 2/1000; run running"}, // the answer arrived before the order was carried out
		{"429 settle turn done", "done completed by a person; done done"},
		{"stops: 409", "bad suspended, refused; muted pending"},
		{"stops: 503*1000", "wait suspended, may have been done 1000/1000; muted pending"},
		{"stops: 409 settle turn", "done completed by a person; run running"},
		{"stops: done 409", "done done | muted nothing to undo; bad refused"}, // the pivot itself: the saga is compensated as usual
		{"stops: done 503*1000", "done done; wait suspended, may have been done 1000/1000"},
		{"stops: done 503*1000 settle turn", "done done; done completed by a person, 1000 attempts"},
		{"done timeout fail", "done done | undo not undone; wait may have been done"},
	} {
		t.Run(tt.story, func(t *testing.T) {
			id := tells(t, e, tt.story)
			out := httptest.NewRecorder()
			pages.ServeHTTP(out, httptest.NewRequest("GET", "/ui/sagas/"+id.String(), nil))
			var rows []string
			for _, row := range railRows.FindAllStringSubmatch(out.Body.String(), -1) {
				var lanes []string
				for _, s := range railStates.FindAllStringSubmatch(row[2], -1) {
					lanes = append(lanes, s[1]+" "+html.UnescapeString(s[2]))
				}
				rows = append(rows, strings.Join(lanes, " | "))
			}
			if got := strings.Join(rows, "; "); out.Code != 200 || got != tt.want {
				t.Errorf("%d: the rail says\n%s\nwant\n%s", out.Code, got, tt.want)
			}
			onlyWhatIsDoneIsGreen(t, e, id, rows)
		})
	}
}

// railEdge is an API with the workflow "rail", whose steps call one participant, and the pages on
// top of it.
func railEdge(t *testing.T) (*apitest.Edge, *web.Kit) {
	t.Helper()
	e := apitest.NewEdge(t)
	at, err := url.Parse(e.URL)
	if err != nil {
		t.Fatal(err)
	}
	call := func(path string) string { return `{"http": {"url": "http://127.0.0.1:9/` + path + `"}}` }
	step := func(name string) string {
		return fmt.Sprintf(`{"name": %q, "action": %s, "compensation": %s,
			"answer": {"later": "status == 202"}}`, name, call(name), call("undo"))
	}
	e.Send("POST", "/api/v1/workflows", `{"name": "rail", "retry": {"max_attempts": 1000, "initial_interval_ms": 1,
		"max_interval_ms": 1}, "compensation_retry": {"max_attempts": 2, "initial_interval_ms": 1},
		"steps": [`+step("reserve")+`, `+step("charge")+`]}`).Wants2xx()
	e.Send("POST", "/api/v1/workflows", `{"name": "rail-stops", "retry": {"max_attempts": 1000, "initial_interval_ms": 1,
		"max_interval_ms": 1}, "steps": [
		{"name": "reserve", "action": `+call("reserve")+`, "compensation": "none", "on_failure": "suspend"},
		{"name": "ship", "pivot": true, "action": `+call("ship")+`, "compensation": "none"}]}`).Wants2xx()
	return e, largestPages(t, &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(at) }})
}

// onlyWhatIsDoneIsGreen compares the rows of a rail with the step logs of the API.
func onlyWhatIsDoneIsGreen(t *testing.T, e *apitest.Edge, id uuid.UUID, rows []string) {
	t.Helper()
	last := map[string]*client.StepLog{}
	s := e.Saga(apitest.SagasPath + "/" + id.String())
	for i := range s.StepLogs {
		l := &s.StepLogs[i]
		last[fmt.Sprint(l.StepIndex, l.Action)] = l
	}
	for i, row := range rows {
		forward, back, _ := strings.Cut(row, " | ")
		done := last[fmt.Sprint(i, client.StepActionEXECUTE)]
		if is := done != nil && done.Status == client.StepLogStatusSUCCESS; is != strings.HasPrefix(forward, "done ") {
			t.Errorf("step %d: the rail says %q, its last log %+v", i, forward, done)
		}
		undone := last[fmt.Sprint(i, client.StepActionCOMPENSATE)]
		if is := undone != nil && undone.Status == client.StepLogStatusSUCCESS; is != (back == "undo undone") {
			t.Errorf("step %d: the rail says %q, its last log %+v", i, back, undone)
		}
	}
}

// TestThePageSaysWhetherTheParticipantAnswersOthers covers a saga that waits for its next attempt
// while others call the same host.
func TestThePageSaysWhetherTheParticipantAnswersOthers(t *testing.T) {
	e, pages := railEdge(t)
	waits := tells(t, e, "done 503")
	for _, tt := range []struct {
		story   string // of another saga
		answers client.ExplainedParticipantAnswers
		says    string
	}{
		{"", client.ExplainedParticipantAnswersUnknown, "No other saga has called 127.0.0.1:9 since the last attempt."},
		{"503", client.ExplainedParticipantAnswersNo, "Calls of other sagas to 127.0.0.1:9 fail as well."},
		{"409", client.ExplainedParticipantAnswersNo, "Calls of other sagas to 127.0.0.1:9 fail as well."},
		{"done", client.ExplainedParticipantAnswersAgain, "has been answering again since "},
		{"done done", client.ExplainedParticipantAnswersAgain, "has been answering again since "},
		{"done 503", client.ExplainedParticipantAnswersNo, "Calls of other sagas to 127.0.0.1:9 fail as well."},
	} {
		_ = tells(t, e, tt.story)
		res, err := e.ExplainSagaWithResponse(t.Context(), waits)
		if err != nil || res.JSON200 == nil || res.JSON200.Participant == nil {
			t.Fatalf("%q: %v %s", tt.story, err, res.Body)
		}
		p := res.JSON200.Participant
		if p.Answers != tt.answers || p.Host != "127.0.0.1:9" || (p.AnswersSince != nil) != (tt.answers == "again") {
			t.Errorf("after %q: %s", tt.story, res.Body)
		}
		out := httptest.NewRecorder()
		pages.ServeHTTP(out, httptest.NewRequest("GET", "/ui/sagas/"+waits.String(), nil))
		_, line, _ := strings.Cut(out.Body.String(), `<p id="participant">`)
		if line, _, _ = strings.Cut(line, "</p>"); !strings.Contains(line, tt.says) {
			t.Errorf("after %q the page says %q", tt.story, line)
		}
	}
	for _, story := range []string{"done", "done 409", "503 done done", "timeout suspend"} {
		id := tells(t, e, story)
		res, err := e.ExplainSagaWithResponse(t.Context(), id)
		if err != nil || res.JSON200 == nil || (res.JSON200.Participant != nil) != (story == "timeout suspend") {
			t.Errorf("%q: %v %s", story, err, res.Body)
		}
	}
}
