package workflowpages

import (
	"fmt"
	"testing"

	"github.com/skald-saga/skald/api/client"
)

func TestAMistakeIsMarkedAtItsPlace(t *testing.T) {
	text := "name: order\nsteps:\n  - name: a\n    when: >\n      payload.n > 2 &&\n      paylod.x\n" +
		"    action: {http: {url: 'http://é/${payload.n +}'}}\n"
	for _, c := range []struct {
		pointer, message, want string
	}{
		{"/steps/0/when", `there is no variable "paylod"`, "6 7 <paylod>"},
		{"/steps/0/action/http/url", `"payload.n +" is not an expression at character 12: Syntax error`, "7 38 <payload.n +>"},
		{"/steps/0/action/http/url", `"payload.n +" is not an expression at character 11: Syntax error`, "7 48 <+>"},
		{"/steps/0/action/http/url", `"payload.n +" is not an expression`, "7 38 <payload.n +>"},
		{"/steps/0/action/http/url", "is too long", "7 0 <>"},
		{"/steps/0/action/http/url", `there is no step "order"`, "7 0 <>"}, // those words are elsewhere
		{"/name", `"or\"der" or "order"`, "1 7 <order>"},
		{"/none", "is required", "1 0 <>"},
	} {
		all := placed(text, []client.ProblemField{{Pointer: c.pointer, Message: c.message}})
		marked := ""
		for _, row := range listing(text, all, map[int][]string{}) {
			marked += row.Marked
		}
		if got := fmt.Sprintf("%d %d <%s>", all[0].Line, all[0].Column, marked); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.pointer, c.message, got, c.want)
		}
	}
}
