// Package player plays the vectors of sdk/conformance against a participant over HTTP, counts
// effects, and lets package certification judge the results.
//
// Files, each on top of those before it: client, call, callbacks, restart, player, inbox, later, cut, play, robust,
// runner, stories.
package player

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/skald-saga/skald/internal/saga/certification"
	"github.com/skald-saga/skald/sdk/conformance"
)

// ErrUntried means that nothing was learned about the participant.
var ErrUntried = errors.New("the participant could not be tested")

// Run tests the participant. A report with findings is not an error.
func Run(ctx context.Context, cfg Config) (certification.Report, error) {
	report := certification.Report{
		URL: cfg.URL, Version: cfg.Version, Effects: cfg.Effects != "", Later: cfg.Later,
		Findings: []certification.Finding{}, Warnings: []certification.Warning{},
		Played: []string{}, Untried: []certification.Untried{},
	}
	all, err := conformance.Load()
	if err != nil {
		return report, err
	}
	c, err := newPlayer(cfg)
	if err != nil {
		return report, err
	}
	defer c.client.CloseIdleConnections()
	if err := c.reachable(ctx, soon, starting); err != nil {
		return report, fmt.Errorf("%w: %w", ErrUntried, err)
	}
	if cfg.Later {
		return c.finishLater(ctx, report)
	}
	if err := c.servesAtAll(ctx); err != nil {
		return report, fmt.Errorf("%w: %w", ErrUntried, err)
	}
	plan, untried := certification.Plan(all, c.Step, cfg.Restart != nil)
	report.Untried = append(report.Untried, untried...)
	plays, err := c.playAll(ctx, plan)
	if err != nil {
		return report, fmt.Errorf("%w: %w", ErrUntried, err)
	}
	var shown []certification.Shown
	for _, p := range plays {
		breach, untried := certification.Judge(p.Played)
		switch {
		case untried != nil:
			report.Untried = append(report.Untried, *untried)
			continue
		case breach != nil:
			shown = append(shown, certification.Shown{Vector: p.Vector.Name, Breach: *breach, Curl: p.curl(breach.Call)})
		}
		report.Played = append(report.Played, p.Vector.Name)
	}
	if cfg.RaceFor > 0 && len(report.Played) > 0 {
		more, repeated := c.race(ctx, plan)
		shown, report.Repeated = append(shown, more...), repeated
	}
	if cfg.Robust && len(report.Played) > 0 {
		report.Warnings = c.robustness(ctx)
	}
	return ended(ctx, report, shown)
}

// finishLater tests how the participant handles deferred answers.
func (c *player) finishLater(ctx context.Context, report certification.Report) (certification.Report, error) {
	shown, err := c.answersLater(ctx, &report)
	if err != nil && ctx.Err() == nil {
		return report, fmt.Errorf("%w: %w", ErrUntried, err)
	}
	return ended(ctx, report, shown)
}

// ended assembles the report.
func ended(
	ctx context.Context, report certification.Report, shown []certification.Shown,
) (certification.Report, error) {
	report.Findings = certification.Findings(shown)
	report.Finish()
	if err := ctx.Err(); err != nil {
		return report, fmt.Errorf("%w: the test took longer than allowed: %w", ErrUntried, err)
	}
	if len(report.Played) == 0 {
		why := certification.NeedsRestart
		for _, u := range report.Untried {
			if u.Reason != certification.NeedsRestart {
				why = u.Reason
			}
		}
		return report, fmt.Errorf("%w: %s", ErrUntried, why)
	}
	return report, nil
}

// servesAtAll makes one plain call. If the participant refuses it, the vectors would prove nothing.
func (c *player) servesAtAll(ctx context.Context) error {
	p := c.begin(c.plain())
	if err := p.until(ctx, len(p.Vector.Calls)); err != nil {
		return err
	}
	if err := p.count(ctx); err != nil {
		return err
	}
	if _, untried := certification.Judge(p.Played); untried != nil {
		return errors.New(untried.Reason + "; to test a step that answers later, use --later, or later in the request")
	}
	return nil
}

// playAll plays the vectors, and restarts the participant once for all vectors that need a restart.
func (c *player) playAll(ctx context.Context, plan []conformance.Vector) ([]*play, error) {
	var plays []*play
	restart, played := false, 0
	c.Progress(0, len(plan))
	ended := func() {
		played++
		c.Progress(played, len(plan))
	}
	for _, v := range plan {
		p, err := c.untilRestart(ctx, v)
		if err != nil {
			return nil, err
		}
		plays = append(plays, p)
		if p.next < len(p.Vector.Calls) {
			restart = true
			continue
		}
		ended()
	}
	if restart {
		if err := c.restarted(ctx, func() {}); err != nil {
			return nil, err
		}
	}
	for _, p := range plays {
		waited := p.next < len(p.Vector.Calls)
		if err := p.until(ctx, len(p.Vector.Calls)); err != nil {
			return nil, err
		}
		if err := p.count(ctx); err != nil {
			return nil, err
		}
		if waited {
			ended()
		}
	}
	return plays, nil
}

// untilRestart plays a vector up to the restart that it needs. It starts again with another saga if
// a call was answered before its connection could be cut.
func (c *player) untilRestart(ctx context.Context, v conformance.Vector) (*play, error) {
	for n := 1; ; n++ {
		p := c.begin(v)
		if err := p.until(ctx, p.pauseAt()); err != nil || !p.Stayed || n == orders {
			return p, err
		}
	}
}

// race repeats the vectors that contain races, with several clients at once.
func (c *player) race(ctx context.Context, plan []conformance.Vector) (shown []certification.Shown, repeated int) {
	plan = slices.DeleteFunc(slices.Clone(plan), func(v conformance.Vector) bool {
		races := func(c conformance.Call) bool { return c.AtOnce > 1 || c.Together != "" || c.Cut }
		restarts := func(c conformance.Call) bool { return c.Restart }
		return !slices.ContainsFunc(v.Calls, races) || slices.ContainsFunc(v.Calls, restarts)
	})
	enough, cancel := context.WithTimeout(ctx, c.RaceFor)
	defer cancel()
	var mu sync.Mutex
	var group sync.WaitGroup
	for range clients {
		group.Go(func() {
			for n := 0; enough.Err() == nil && len(plan) > 0; n++ {
				p := c.begin(plan[n%len(plan)])
				if p.until(ctx, len(p.Vector.Calls)) != nil || p.count(ctx) != nil {
					return
				}
				breach, _ := certification.Judge(p.Played)
				mu.Lock()
				repeated++
				if breach != nil && len(shown) < 1000 {
					shown = append(shown, certification.Shown{Vector: p.Vector.Name, Breach: *breach, Curl: p.curl(breach.Call)})
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	return shown, repeated
}
