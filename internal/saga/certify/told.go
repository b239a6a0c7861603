package certify

import (
	"encoding/json"
	"slices"

	"github.com/skald-saga/skald/internal/saga/reported"
)

// Told is what a participant that has answered "later" reports.
type Told struct {
	Result reported.Result `json:"result"`
	Output json.RawMessage `json:"output"`
	Wrong  string          `json:"-"` // not "": the report, because Skald would not take it
}

// ReadTold reads a report.
func ReadTold(body []byte) (t Told) {
	if json.Unmarshal(body, &t) != nil || !slices.Contains(reported.Results, t.Result) {
		return Told{Wrong: short(string(body))}
	}
	return t
}
