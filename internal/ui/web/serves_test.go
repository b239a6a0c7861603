package web

import (
	"net/http"
	"testing"
)

func TestTheKitKnowsItsPages(t *testing.T) {
	k, err := New(Config{API: http.NotFoundHandler()})
	if err != nil {
		t.Fatal(err)
	}
	k.Page("GET /ui/things/{thing}", nil)
	k.Page("GET /ui/things/new", nil)
	for path, want := range map[string]bool{
		"/ui/things/new": true, "/ui/things/errors": false, "/ui/things/a/b": false, "/ui/none": false,
	} {
		if got := k.Serves(path); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
}
