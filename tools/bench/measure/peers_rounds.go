package measure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
)

// peerLine is a row with what measures it.
type peerLine struct {
	peerRow
	turnsOf []turnOf
}

// turnOf measures one contestant once.
type turnOf struct {
	name    string
	measure func(ctx context.Context) (turn, error)
}

// lines are those that were asked for.
func (p *peersRun) lines() (lines []*peerLine) {
	wanted := func(key string) bool { return len(p.cfg.Levels) == 0 || slices.Contains(p.cfg.Levels, key) }
	for _, l := range peerLevels {
		if !wanted(l.key) {
			continue
		}
		line := &peerLine{peerRow: peerRow{title: l.title}}
		for _, c := range p.contestants {
			line.turnsOf = append(line.turnsOf, turnOf{c.name(), func(ctx context.Context) (turn, error) {
				return p.turn(ctx, c, l)
			}})
		}
		lines = append(lines, line)
	}
	for _, l := range jobLevels {
		if !wanted(l.key) || !slices.Contains(p.cfg.Peers, "river") {
			continue
		}
		lines = append(lines, &peerLine{peerRow: peerRow{title: l.title, jobs: true}, turnsOf: []turnOf{
			{skaldName, func(ctx context.Context) (turn, error) { return p.jobTurn(ctx, l) }},
			{"River", func(ctx context.Context) (turn, error) { return p.riverTurn(ctx, l) }},
		}})
	}
	return lines
}

// measureRounds measures all lines in each of some rounds, and those that have not settled in further
// ones, up to a number of all rounds.
func measureRounds(ctx context.Context, out io.Writer, lines []*peerLine, rounds, most int) error {
	for round := range most {
		for _, line := range lines {
			if round >= rounds && line.settled(rounds) {
				continue
			}
			for _, c := range line.turnsOf {
				t, err := c.measure(ctx)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", c.name, line.title, err)
				}
				line.add(out, c.name, t)
			}
		}
	}
	return nil
}

// lossesOfSkald is an error if Skald lost something: of peers that is a result.
func lossesOfSkald(rows []*peerRow) error {
	var errs []error
	for _, row := range rows {
		for _, name := range skalds {
			for _, t := range row.turns[name] {
				if t.lost != "" {
					errs = append(errs, fmt.Errorf("LOST: %s, %s: %s", name, row.title, t.lost))
				}
			}
		}
	}
	return errors.Join(errs...)
}
