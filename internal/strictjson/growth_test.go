package strictjson

import (
	"errors"
	"strings"
	"testing"
)

func TestExponentsCannotBlowUpADocument(t *testing.T) {
	few := "[" + strings.TrimSuffix(strings.Repeat("1e399,", 150), ",") + "]"
	if _, err := Canonical(nil, []byte(few), Limits{}); err != nil {
		t.Errorf("150 numbers of 400 digits: %v, want them accepted", err)
	}
	many := "[" + strings.TrimSuffix(strings.Repeat("1e399,", 200), ",") + "]"
	out, err := Canonical(nil, []byte(many), Limits{})
	var e *Error
	if !errors.As(err, &e) || e.Code != CodeNumberOutOfRange {
		t.Errorf("200 numbers of 400 digits: %d bytes, %v; want %s", len(out), err, CodeNumberOutOfRange)
	}
}
