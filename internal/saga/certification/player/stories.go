package player

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/skald-saga/skald/internal/saga/callback/reported"
	"github.com/skald-saga/skald/internal/saga/certification"
	"github.com/skald-saga/skald/internal/strictjson"
)

// tales are played in this order against a participant that answers later. Those with work in
// progress at the restart come last.
var tales = []tale{
	{name: "later-and-finished", calls: []string{"execute", "execute"}, again: true, play: finishedLater},
	{name: "later-and-repeated", calls: []string{"execute", "execute", "execute"}, play: repeatedWhileLater},
	{name: "later-and-undone", calls: []string{"execute", "compensate", "execute"}, play: undoneWhileLater},
	{name: "later-finished-before-restart", calls: []string{"execute", "execute"},
		play: doneBeforeRestart, rest: afterDone},
	{name: "later-over-restart", calls: []string{"execute", "execute", "execute"},
		play: takenBeforeRestart, rest: afterTaken},
}

// answersLater tests how the participant handles deferred answers. It adds its findings to report.
func (c *player) answersLater(
	ctx context.Context, report *certification.Report,
) (shown []certification.Shown, err error) {
	at, every := c.Reports, inboxEvery
	if at == nil {
		own, err := listen(ctx, c.CallbackListen, c.CallbackURL)
		if err != nil {
			return nil, err
		}
		defer func() { _ = own.server.Close() }()
		at, every = own, pause
	}
	ended := func(s *story) error {
		shown = append(shown, s.found...)
		if s.untried != "" {
			report.Untried = append(report.Untried, certification.Untried{Vector: s.name, Reason: s.untried})
		} else {
			report.Played = append(report.Played, s.name)
		}
		c.Progress(len(report.Untried)+len(report.Played), len(tales))
		return s.err
	}
	c.Progress(0, len(tales))
	var waiting []*story
	var took time.Duration
	for _, told := range tales {
		s := c.tell(told, at)
		s.took, s.every = &took, every
		if told.rest != nil && c.Restart == nil {
			s.untried = certification.NeedsRestart
		} else {
			told.play(ctx, s)
		}
		if s.goesOn {
			waiting = append(waiting, s)
		} else if err := ended(s); err != nil {
			return shown, err
		}
	}
	if len(waiting) > 0 && ctx.Err() == nil {
		err := c.restarted(ctx, func() {
			for _, s := range waiting {
				_, s.before = s.await(ctx, 0, 2, 1)
			}
		})
		if err != nil {
			return shown, err
		}
	}
	for _, s := range waiting {
		s.rest(ctx, s)
		if err := ended(s); err != nil {
			return shown, err
		}
	}
	return shown, ctx.Err()
}

// finishedLater: the report arrives, even if the first one is rejected, and a repeat gets the same
// result.
func finishedLater(ctx context.Context, s *story) {
	if !s.promised(ctx) {
		return
	}
	if t, call := s.outcome(ctx, 1, 1); call > 0 {
		s.final(ctx, 2, t)
	}
}

// repeatedWhileLater: a repeat starts no new work, and the report goes to the newest callback.
func repeatedWhileLater(ctx context.Context, s *story) {
	if !s.promised(ctx) || !s.repeated(ctx) {
		return
	}
	t, call := s.outcome(ctx, 2, 2, 1)
	s.newest(ctx, call)
	if call > 0 {
		s.final(ctx, 3, t)
	}
}

// undoneWhileLater: work that is compensated while it is in progress does not take effect
// afterwards.
func undoneWhileLater(ctx context.Context, s *story) {
	if !s.promised(ctx) {
		return
	}
	r := s.reply(ctx, 2)
	if r.Status == http.StatusAccepted {
		if t, call := s.outcome(ctx, 2, 2); call == 0 || t.Result != reported.Done {
			return
		}
	} else if r.Status/100 != 2 {
		s.breach("later_undo_refused", 2, "got %d %s while the work was in progress; expected 2xx", r.Status, r.Error)
		return
	}
	_, early := s.await(ctx, 0, 1) // early if the work was done before the compensation
	// It would have arrived by now, judging by the reports of the previous stories.
	quiet := min(s.LaterFor, 2**s.took+settle*pause)
	if t, late := s.await(ctx, quiet, 1); early == 0 && late > 0 && t.Result == reported.Done {
		s.breach("later_done_after_undo", 2, "got %d, but the action was reported as done afterwards", r.Status)
		return
	}
	if s.counter() != "" {
		done, err := s.effectsOf(ctx, s.keyOf(s.Vector.Calls[0]))
		undone, err2 := s.effectsOf(ctx, s.keyOf(s.Vector.Calls[1]))
		switch {
		case err != nil || err2 != nil:
			s.untried = "the effects could not be counted"
			return
		case done > undone:
			s.breach("later_done_after_undo", 2, "got %d, but an effect of the action remained", r.Status)
			return
		}
	}
	if r := s.reply(ctx, 3); r.Status/100 == 2 && early == 0 {
		s.breach("late_do_accepted", 3, "got %d after its compensation; expected a refusal (409)", r.Status)
	}
}

// doneBeforeRestart: the outcome of the work is still known after a restart.
func doneBeforeRestart(ctx context.Context, s *story) {
	if !s.promised(ctx) {
		return
	}
	_, call := s.outcome(ctx, 1, 1)
	s.goesOn = call > 0
}

func afterDone(ctx context.Context, s *story) {
	t, _ := s.await(ctx, 0, 1)
	r := s.reply(ctx, 2)
	switch {
	case t.Result == reported.NotApplied, t.Result == reported.Unknown: // it may begin again
	case r.Status == http.StatusAccepted:
		s.breach("done_again_after_restart", 2, "was answered later again after the restart, although %s had been reported", t.Result)
	case !s.equal(r, t):
		s.breach("answer_changed_after_restart", 2, "got %d %.100s after the restart, although %s %.100s had been reported",
			r.Status, r.Body, t.Result, t.Output)
	default:
		s.counted(ctx, 2, t)
	}
}

// takenBeforeRestart: accepted work is done after a restart, or the repeat returns its outcome.
func takenBeforeRestart(ctx context.Context, s *story) {
	s.goesOn = s.promised(ctx) && s.repeated(ctx)
}

func afterTaken(ctx context.Context, s *story) {
	if s.before > 0 {
		s.untried = "the work was finished before the participant was restarted: it must take longer than the restart"
		return
	}
	t, call := s.await(ctx, cmp.Or(s.forgets, s.LaterFor), 2, 1)
	switch {
	case s.err != nil:
		return
	case call > 0 && t.Wrong != "":
		s.invalid(2, t)
		return
	case call > 0:
		s.newest(ctx, call)
		s.final(ctx, 3, t)
		return
	}
	// The work may have been completed just before the process ended. In that case its report is
	// lost, and the repeat gets the outcome.
	switch r := s.reply(ctx, 3); {
	case r.Status == http.StatusAccepted, r.Status == 0, r.Status >= http.StatusInternalServerError:
		s.breach("later_never_reported_after_restart", 3,
			"got %d %s, and no report that Skald would accept arrived within %s of the restart", r.Status, r.Error, s.LaterFor)
	case r.Status == http.StatusOK, r.Status == http.StatusNoContent:
		s.counted(ctx, 3, certification.Told{Result: reported.Done})
	}
}

// final makes call n, whose answer must repeat what was reported.
func (s *story) final(ctx context.Context, n int, t certification.Told) {
	r := s.reply(ctx, n)
	switch {
	case t.Result == reported.NotApplied, t.Result == reported.Unknown: // it may begin again
	case r.Status == http.StatusAccepted:
		s.breach("later_repeat_not_final", n, "was answered later again after %s had been reported", t.Result)
	case !s.equal(r, t):
		s.breach("later_answer_changed", n, "got %d %.100s after %s %.100s had been reported",
			r.Status, r.Body, t.Result, t.Output)
	}
	s.counted(ctx, n, t)
}

// equal reports whether an answer matches what was reported.
func (s *story) equal(r certification.Reply, t certification.Told) bool {
	if t.Result == reported.Refused {
		return r.Status >= 400 && r.Status < 500
	}
	return (r.Status == http.StatusOK || r.Status == http.StatusNoContent) && same(t.Output, []byte(r.Body))
}

// counted compares the number of effects with what was reported.
func (s *story) counted(ctx context.Context, n int, t certification.Told) {
	if s.counter() == "" || t.Result != reported.Done {
		return
	}
	switch effects, err := s.effectsOf(ctx, s.keyOf(s.Vector.Calls[0])); {
	case err != nil:
		s.untried = err.Error()
	case effects > 1:
		s.breach("later_done_again", n, "ended with %d effects under its key; expected 1", effects)
	case effects == 0:
		s.breach("later_done_without_effect", n, "had no effect, although it was reported as done")
	}
}

// same reports whether two outputs are equal as JSON. A missing output equals null.
func same(a, b []byte) bool {
	if len(a) == 0 {
		a = []byte("null")
	}
	if len(b) == 0 {
		b = []byte("null")
	}
	return strictjson.Same(a, b)
}
