package measure

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
)

func TestOpenPagesAskAgainForWhatTheyHave(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"a"`)
		w.Header().Set("Skald-Refresh", "7")
		if r.Header.Get("If-None-Match") == `"a"` {
			w.WriteHeader(http.StatusNotModified)
		}
	}))
	defer server.Close()
	var out bytes.Buffer
	r := &reader{
		ReadConfig: ReadConfig{Out: &out}, url: server.URL, client: server.Client(), now: time.Now, server: os.Getpid(),
	}
	for _, has := range []shown{{}, {`"a"`, "-"}} {
		status, next, every, err := r.again(t.Context(), "/ui/", has)
		if err != nil || next != (shown{`"a"`, "-"}) || every != 7*time.Second ||
			(status == http.StatusNotModified) != (has.tag != "") {
			t.Errorf("with %v: %d, %v, %v", has, status, next, err)
		}
	}
	k := known{samples: []sample{{id: "01a2091b-fa88-725f-9eff-1c3f0c31ac68"}}}
	if got := openPages(UIConfig{Overviews: 2, SagaPages: 4}, k); len(got) != 6 || got[2].every != time.Second {
		t.Errorf("open pages: %+v", got)
	}
	err := r.watch(t.Context(), UIConfig{Overviews: 3, SagaPages: 2, Watch: 50 * time.Millisecond}, k)
	if err != nil || !strings.Contains(out.String(), "3 overviews and 2 saga pages") {
		t.Errorf("%v: %s", err, out.String())
	}
}
