package httpkit

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/httpkit/planned"
)

// DryRun reports whether a request only asks what it would do.
func DryRun(ctx context.Context) bool {
	dry, _ := strconv.ParseBool(RequestOf(ctx).Values().Get("dry_run"))
	return dry
}

// Differences are the changes between two states of one resource, as the API returns it.
func Differences(before, after any) (*api.PlannedChanges, error) {
	was, err := json.Marshal(before)
	if err != nil {
		return nil, err
	}
	is, err := json.Marshal(after)
	if err != nil {
		return nil, err
	}
	all, err := planned.Between(was, is)
	return Planned(all), err
}

// Planned is the member of a resource for what would change in it.
func Planned(all planned.List) *api.PlannedChanges {
	return new(PlannedChanges(all))
}

// PlannedChanges is what a dry run says about what would change.
func PlannedChanges(all planned.List) []api.PlannedChange {
	out := make([]api.PlannedChange, len(all))
	for i, c := range all {
		out[i] = api.PlannedChange{Member: c.Member, From: UnlessEmpty(c.From), To: UnlessEmpty(c.To)}
		if c.Count > 0 {
			out[i].Of, out[i].Count = new(api.PlannedChangeOf(c.Of)), &c.Count
		}
	}
	return out
}
