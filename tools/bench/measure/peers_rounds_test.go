package measure

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// scripted is a line whose contestants reach these rates, round by round; 0: it loses a saga.
func scripted(title string, rates map[string][]float64) *peerLine {
	line := &peerLine{peerRow: peerRow{title: title}}
	for _, name := range []string{skaldName, aheadName, "DTM"} {
		left := rates[name]
		if left == nil {
			continue
		}
		line.turnsOf = append(line.turnsOf, turnOf{name, func(context.Context) (turn, error) {
			if len(left) == 0 {
				return turn{}, errors.New("measured too often")
			}
			rate := left[0]
			left = left[1:]
			if rate == 0 {
				return turn{lost: "lost 3 of 1,200"}, nil
			}
			return turn{perSecond: rate}, nil
		}})
	}
	return line
}

func TestMeasureRounds(t *testing.T) {
	for _, tt := range []struct {
		name         string
		rounds, most int
		skald, dtm   []float64
		want         int // rounds
	}{
		{"one round", 1, 2, []float64{100}, []float64{50}, 1},
		{"ratios that agree", 3, 6, []float64{100, 110, 200}, []float64{50, 53, 95}, 3},
		{"one disturbed round", 3, 6, []float64{100, 100, 100, 100}, []float64{50, 20, 51, 52}, 4},
		{"ratios that never agree", 2, 4, []float64{100, 100, 100, 100}, []float64{10, 20, 40, 80}, 4},
		{"a peer that always loses", 2, 4, []float64{100, 100}, []float64{0, 0}, 2},
		{"a round with a loss", 3, 6, []float64{100, 100, 100}, []float64{50, 0, 51}, 3},
		{"no peer", 2, 4, []float64{100, 10}, nil, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			line := scripted("a row", map[string][]float64{skaldName: tt.skald, "DTM": tt.dtm})
			if err := measureRounds(t.Context(), &bytes.Buffer{}, []*peerLine{line}, tt.rounds, tt.most); err != nil {
				t.Fatal(err)
			}
			if got := len(line.turns[skaldName]); got != tt.want {
				t.Errorf("%d rounds, want %d", got, tt.want)
			}
		})
	}
}

func TestOnlyUnsettledRowsAreRepeated(t *testing.T) {
	var out bytes.Buffer
	lines := []*peerLine{
		scripted("settled", map[string][]float64{skaldName: {100, 100}, aheadName: {120, 120}, "DTM": {50, 50}}),
		scripted("unsettled", map[string][]float64{skaldName: {100, 100, 100}, aheadName: {90, 120, 118}, "DTM": {50, 50, 50}}),
	}
	if err := measureRounds(t.Context(), &out, lines, 2, 4); err != nil {
		t.Fatal(err)
	}
	if settled, unsettled := len(lines[0].turns["DTM"]), len(lines[1].turns["DTM"]); settled != 2 || unsettled != 3 {
		t.Errorf("%d and %d rounds, want 2 and 3\n%s", settled, unsettled, &out)
	}
}

func TestAnErrorEndsTheRounds(t *testing.T) {
	line := scripted("a row", map[string][]float64{skaldName: {100}, "DTM": {50}})
	err := measureRounds(t.Context(), &bytes.Buffer{}, []*peerLine{line}, 2, 4)
	if err == nil || err.Error() != "Skald, a row: measured too often" {
		t.Errorf("measureRounds = %v", err)
	}
}

func TestOnlyLossesOfSkaldAreErrors(t *testing.T) {
	lose := turn{lost: "lost 3 of 1,200"}
	rows := []*peerRow{
		{title: "a row", turns: map[string][]turn{skaldName: {{}}, aheadName: {{}, {}}, "DTM": {lose}}},
	}
	if err := lossesOfSkald(rows); err != nil {
		t.Errorf("a peer's loss gave %v", err)
	}
	rows[0].turns[aheadName][1] = lose
	want := "LOST: Skald, checkpoint: false, a row: lost 3 of 1,200"
	if err := lossesOfSkald(rows); err == nil || err.Error() != want {
		t.Errorf("lossesOfSkald = %v, want %s", err, want)
	}
}

func TestSpread(t *testing.T) {
	for _, tt := range []struct {
		ratios        []float64
		rounds        int
		between, away float64
	}{
		{nil, 3, 0, 0},
		{[]float64{2}, 3, 0, 0},
		{[]float64{2, 2.5}, 3, 0.25, 0.25},
		{[]float64{2.2, 2, 1.6}, 3, 0.375, 0.2},
		{[]float64{2.2, 9, 2, 0.1, 2}, 3, 0.1, 0.1},
	} {
		given := slices.Clone(tt.ratios)
		between, away := spread(tt.ratios, tt.rounds)
		if near := func(a, b float64) bool { return fmt.Sprintf("%.4f", a) == fmt.Sprintf("%.4f", b) }; !near(between, tt.between) ||
			!near(away, tt.away) {
			t.Errorf("spread(%v, %d) = %.4f, %.4f; want %.4f, %.4f", tt.ratios, tt.rounds, between, away, tt.between, tt.away)
		}
		if diff := cmp.Diff(given, tt.ratios); diff != "" {
			t.Errorf("spread changed its argument (-want +got):\n%s", diff)
		}
	}
}
