package demo

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/skald-saga/skald/api/client"
)

// printTimeline prints a saga's calls in the order in which they were made.
func printTimeline(out io.Writer, title string, s *client.Saga) {
	fmt.Fprintf(out, "\n%s\n", title)
	logs := slices.Clone(s.StepLogs)
	slices.SortStableFunc(logs, func(a, b client.StepLog) int { return a.StartedAt.Compare(b.StartedAt) })
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "  at\tstep\taction\tattempt\tstatus\tresponse")
	for _, l := range logs {
		answer := string(l.ResponsePayload)
		if l.ErrorMessage != nil {
			answer = *l.ErrorMessage
		}
		fmt.Fprintf(w, "  %+d ms\t%s\t%s\t%d\t%s\t%s\n",
			l.StartedAt.Sub(s.CreatedAt).Milliseconds(), l.StepName, l.Action, l.Attempt, l.Status, answer)
	}
	w.Flush()
	fmt.Fprintf(out, "  saga %s: %s (%s), version %d\n", s.SagaID, s.Status, s.State, s.Version)
}
