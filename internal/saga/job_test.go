package saga

import "testing"

// A change that requests a run leaves its saga waiting for that run. Without a definition there is
// no run, and nothing would ever wake the saga.
func TestASagaWhoseJobDoesNotExistIsDriven(t *testing.T) {
	t.Parallel()
	for _, released := range []bool{false, true} {
		r := started("uu")
		r.Def.Steps[1].Action.HTTP, r.Def.Steps[1].Action.Job = nil, "report"
		r, _, c := tell(t, r, "done")
		if c.Run == nil || c.Run.Job != "report" || c.Run.Step != 1 {
			t.Fatalf("a step that is a job asks for %+v", c.Run)
		}
		now := c.After.UpdatedAt
		if got := r.Next(now); got != Wait {
			t.Fatalf("with a run in flight: %v, want to wait for it", got)
		}
		if released {
			c = c.Released(now)
		}
		c = c.WithoutRun()
		if got := c.After.Next(now); got != CheckJobRun {
			t.Errorf("released %v: %v, due %v; want it to be looked after", released, got, c.After.NextRunAt)
		}
	}
}
