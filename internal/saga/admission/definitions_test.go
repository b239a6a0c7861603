package admission

import (
	"testing"

	"github.com/skald-saga/skald/internal/saga/workflow"
)

func TestCachesStaySmall(t *testing.T) {
	d := NewDefinitions(nil, workflow.Limits{}, nil)
	for i := range 3 * maxCached {
		remember(&d.mu, d.versions, versionKey{version: i}, nil)
	}
	if len(d.versions) != maxCached {
		t.Errorf("%d entries, want %d", len(d.versions), maxCached)
	}
	if _, ok := d.versions[versionKey{version: 3*maxCached - 1}]; !ok {
		t.Error("the newest entry is not there")
	}
}
