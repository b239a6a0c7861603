package workflowpages

import (
	"fmt"
	"strings"
	"testing"

	"github.com/skald-saga/skald/api/client"
)

// drawn describes which steps are in which layer, and the edges.
func drawn(g *graph) string {
	var b strings.Builder
	y := 0
	for _, n := range g.Nodes {
		if n.Y != y && b.Len() > 0 {
			b.WriteString("/ ")
		}
		y = n.Y
		b.WriteString(n.Name + " ")
	}
	for _, e := range g.Edges {
		sign := "-"
		if e.Order {
			sign = "."
		}
		b.WriteString(sign)
	}
	return b.String()
}

func TestStepsStandInLayersBelowWhatTheyWaitFor(t *testing.T) {
	for _, c := range []struct {
		steps []step
		want  string
	}{
		{nil, ""},
		{[]step{{Name: "a"}, {Name: "b"}, {Name: "c"}}, "a / b / c .."},
		{
			[]step{{Name: "a"}, {Name: "b", DependsOn: []string{"a"}}, {Name: "c", DependsOn: []string{"a"}},
				{Name: "d", DependsOn: []string{"b", "c"}}},
			"a / b c / d ----",
		},
		{[]step{{Name: "a"}, {Name: "b"}, {Name: "c", DependsOn: []string{"a", "b", "nobody"}}}, "a / b / c .--"},
	} {
		g := newGraph(c.steps)
		if got := drawn(g); got != c.want {
			t.Errorf("%v: %q, want %q", c.steps, got, c.want)
		}
		for i, n := range g.Nodes {
			if n.X < 0 || n.Y < 0 || n.X+n.W > g.W || n.Y+n.H > g.H {
				t.Errorf("%s stands outside: %+v of %d × %d", n.Name, n, g.W, g.H)
			}
			for _, m := range g.Nodes[:i] {
				if m.Y == n.Y && m.X+m.W > n.X && n.X+n.W > m.X {
					t.Errorf("%s and %s overlap", m.Name, n.Name)
				}
			}
		}
	}
}

func TestAGraphOfManyStepsIsNotDrawn(t *testing.T) {
	many := make([]step, mostDrawn+1)
	for i := range many {
		many[i].Name = fmt.Sprint(i)
	}
	if newGraph(many) != nil || newGraph(many[:mostDrawn]) == nil {
		t.Error("the limit does not hold")
	}
}

func TestAStepSaysThatTheNextDoesNotWaitForTheDisk(t *testing.T) {
	got := ""
	for _, s := range stepsOf(&client.WorkflowDefinition{Steps: []client.Step{
		{Name: "a", Checkpoint: new(false)}, {Name: "b", Checkpoint: new(true)}, {Name: "c"},
	}}) {
		if s.Ahead {
			got += s.Name
		}
	}
	if got != "a" {
		t.Errorf("of %q", got)
	}
}
