package stub

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/test/patience"
)

// skald receives the reports. It records which callback got which report, and accepts each report
// at the second attempt.
func skald(t *testing.T) (url string, reports chan string) {
	t.Helper()
	reports = make(chan string, 10)
	var mu sync.Mutex // two reports may arrive at the same time
	refused := map[string]bool{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		report := r.URL.Path + " " + string(body)
		mu.Lock()
		refused[report] = !refused[report]
		first := refused[report]
		mu.Unlock()
		if first {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		reports <- report
	}))
	t.Cleanup(server.Close)
	return server.URL, reports
}

// Steps of a story. E and C are calls of the action and its compensation, followed by the callback;
// "" means no callback.
func TestItAnswersLaterOnRequest(t *testing.T) {
	for fault, try := range map[string]struct {
		calls   []string // action, callback, and the expected status
		reports []string
		effects [2]string // effects of the action and of the compensation
		last    string    // a call after the reports
	}{
		"later": {
			[]string{"E /1 202", "E /2 202"}, []string{"/2 " + done}, [2]string{"1", "0"}, "E /3 200",
		},
		"later-refuse": {
			[]string{"E /1 202"}, []string{"/1 " + refused}, [2]string{"0", "0"}, "E /2 409",
		},
		"later-never": {[]string{"E /1 202", "E /2 202", "E  503"}, nil, [2]string{"0", "0"}, "E /3 202"},
		"later-twice": {
			[]string{"E /1 202"}, []string{"/1 " + done, "/1 " + done}, [2]string{"1", "0"}, "E /2 200",
		},
		"later-late": {
			[]string{"E /1 202", "E /2 200"}, []string{"/1 " + done}, [2]string{"1", "0"}, "E /3 200",
		},
		"later-heartbeat": {
			[]string{"E /1 202"}, []string{"/1 " + heartbeat, "/1 " + done}, [2]string{"1", "0"}, "E /2 200",
		},
		"ok, undone later":     {[]string{"E  200", "C /1 202"}, []string{"/1 " + undone}, [2]string{"1", "1"}, "C /2 200"},
		"later-never, undone":  {[]string{"E /1 202", "C  200"}, nil, [2]string{"0", "0"}, "E /2 409"},
		"later-late, undone":   {[]string{"E /1 202", "C  200"}, []string{"/1 " + done}, [2]string{"0", "0"}, "E /2 409"},
		"later, not asked for": {[]string{"E  400"}, nil, [2]string{"0", "0"}, "E  400"},
	} {
		t.Run(fault, func(t *testing.T) {
			url, reports := skald(t)
			word, story, _ := strings.Cut(fault, ", ")
			script := Script{"s/execute": {word}}
			if story == "undone later" {
				script["s/compensate"] = []string{"later"}
			}
			handler, err := New(Config{Script: script})
			if err != nil {
				t.Fatal(err)
			}
			var work []func() // the work ends only after all calls, however long they take
			handler.(*stub).afterFunc = func(_ time.Duration, end func()) *time.Timer {
				work = append(work, end)
				return nil
			}
			for _, c := range try.calls {
				called(t, handler, url, c)
			}
			for _, end := range work {
				end()
			}
			got := map[string]int{}
			for range try.reports {
				got[patience.Receive(t, "a report", reports)]++
			}
			for _, want := range try.reports {
				if got[want]--; got[want] < 0 {
					t.Errorf("no report %s: %v", want, got)
				}
			}
			called(t, handler, url, try.last)
			for i, action := range []string{"execute", "compensate"} {
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/?key=k/"+action, nil))
				if w.Body.String() != `{"effects":`+try.effects[i]+"}\n" {
					t.Errorf("%s: %s; want %s", action, w.Body, try.effects[i])
				}
			}
		})
	}
}

func called(t *testing.T, handler http.Handler, url, call string) {
	t.Helper()
	parts := strings.Split(call, " ")
	action := map[string]string{"E": "execute", "C": "compensate"}[parts[0]]
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/", strings.NewReader("{}"))
	r.Header.Set("X-Saga-Step", "s")
	r.Header.Set("X-Saga-Action", action)
	r.Header.Set("Idempotency-Key", "k/"+action)
	if parts[1] != "" {
		r.Header.Set("X-Saga-Callback", url+parts[1])
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	if parts[2] != strconv.Itoa(w.Code) {
		t.Errorf("%s: %d %s", call, w.Code, w.Body)
	}
}
