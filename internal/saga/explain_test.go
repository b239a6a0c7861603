package saga

import (
	"strings"
	"testing"
)

func TestTheExplanationOfAnEnd(t *testing.T) {
	for _, tt := range []struct{ name, story, want string }{
		{"completed", "done done", "It ended as completed."},
		{"compensated", "done refused done", `It ended as compensated. Step "s1": sold out.`},
		{"cancelled", "done cancel refused done", "It ended as cancelled. Cancelled by ann: too late."},
		{"a compensation gave up", "done refused refused", `The compensation of step "s0" gave up: sold out. ` +
			`Step "s0" and those before it are not compensated.`},
		{"the compensation's deadline passed", "done refused 500 deadline turn", "The compensation did not end before its deadline. " +
			`Step "s0" and those before it are not compensated.`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, _, _ := tell(t, started("uu"), tt.story)
			x := Explain(&r, nil, true, noon)
			got, _, _ := strings.Cut(x.Summary, " It waits for its dead letter ")
			if got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
