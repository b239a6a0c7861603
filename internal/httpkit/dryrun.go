package httpkit

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/httpkit/dryrun"
)

// DryRun reports whether a request is a dry run.
func DryRun(ctx context.Context) bool {
	dry, _ := strconv.ParseBool(RequestOf(ctx).Values().Get("dry_run"))
	return dry
}

// Differences returns the changes between two states of a resource, in the form in which the API
// returns it.
func Differences(before, after any) (*api.PlannedChanges, error) {
	was, err := json.Marshal(before)
	if err != nil {
		return nil, err
	}
	is, err := json.Marshal(after)
	if err != nil {
		return nil, err
	}
	all, err := dryrun.Between(was, is)
	return Planned(all), err
}

// Would returns the answer to a dry run of a change to one resource: the resource as it would be
// after the change, and the list of changes. is is the answer with the current resource, whose ETag
// is kept. changes is the member for the changes.
func Would[T any](is Answer, after T, changes func(*T) **api.PlannedChanges) (Answer, error) {
	found, err := Differences(is.Body, after)
	if err != nil {
		return Answer{}, err
	}
	*changes(&after) = found
	is.Body = after
	return is, nil
}

// Planned returns the member of a resource for the changes to it.
func Planned(all dryrun.List) *api.PlannedChanges {
	return new(PlannedChanges(all))
}

// PlannedChanges returns the changes of a dry run in the form of the contract.
func PlannedChanges(all dryrun.List) []api.PlannedChange {
	out := make([]api.PlannedChange, len(all))
	for i, c := range all {
		out[i] = api.PlannedChange{Member: c.Member, From: UnlessEmpty(c.From), To: UnlessEmpty(c.To)}
		if c.Count > 0 {
			out[i].Of, out[i].Count = new(api.PlannedChangeOf(c.Of)), &c.Count
		}
	}
	return out
}
