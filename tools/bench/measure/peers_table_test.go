package measure

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPrintPeers(t *testing.T) {
	reached := func(rate float64, cpu time.Duration, wal int64) turn {
		return turn{perSecond: rate, cpu: cpu, wal: wal, rss: 100e6, answers: Latency{P50: Millis(1000 / rate)}}
	}
	rates := func(rates ...float64) (turns []turn) {
		for _, rate := range rates {
			turns = append(turns, turn{perSecond: rate})
		}
		return turns
	}
	lose := turn{lost: "lost 3 of 1,200"}
	rows := []*peerRow{
		{title: "16 clients", names: []string{skaldName, aheadName, "DTM", restateName}, turns: map[string][]turn{
			skaldName:   {reached(1000, 2*time.Millisecond, 8000), reached(1100, 2*time.Millisecond, 8000)},
			aheadName:   {reached(2000, time.Millisecond, 6000), reached(2000, time.Millisecond, 6000)},
			"DTM":       {reached(500, 4*time.Millisecond, 5000), lose},
			restateName: {reached(500, 4*time.Millisecond, 0), reached(400, 4*time.Millisecond, 0)},
		}},
		{title: "64 clients", names: []string{skaldName, aheadName, "DTM", restateName}, turns: map[string][]turn{
			skaldName: {lose, lose}, aheadName: rates(2000, 2000), "DTM": {lose, lose}, restateName: rates(1000, 1000),
		}},
		{title: "not measured"},
		{title: "jobs", jobs: true, names: []string{skaldName, "River"}, turns: map[string][]turn{
			skaldName: rates(1000, 1000), "River": rates(4000, 4000),
		}},
	}
	var out bytes.Buffer
	printPeers(&out, 2, rows)
	_, tables, _ := strings.Cut(out.String(), "\n\n")
	want := `| sagas a second | Skald | Skald, checkpoint: false | DTM | Restate |
|---|---|---|---|---|
| 16 clients | 1000 | 2000 | 500 (2.00 / 4.00); lost 3 of 1,200 | 400 (2.00 ±38 % / 4.00 ±25 %) |
| 64 clients | lost 3 of 1,200; lost 3 of 1,200 | 2000 | lost 3 of 1,200; lost 3 of 1,200 | 1000 (– / 2.00) |

| CPU of all processes for a saga | Skald | Skald, checkpoint: false | DTM | Restate |
|---|---|---|---|---|
| 16 clients | 2.00 ms | 1.00 ms | 4.00 ms (0.50 / 0.25) | 4.00 ms (0.50 / 0.25) |
| 64 clients |  | 0.00 ms |  | 0.00 ms (– / –) |

| WAL for a saga | Skald | Skald, checkpoint: false | DTM | Restate |
|---|---|---|---|---|
| 16 clients | 8.0 kB | 6.0 kB | 5.0 kB (1.60 / 1.20) |  |
| 64 clients |  | 0.0 kB |  |  |

| p50 of a client's request | Skald | Skald, checkpoint: false | DTM | Restate |
|---|---|---|---|---|
| 16 clients | 0.9 ms | 0.5 ms | 2.0 ms (0.50 / 0.25) | 2.0 ms (0.36 / 0.20) |
| 64 clients |  | 0.0 ms |  | 0.0 ms (– / –) |

| RSS of the server | Skald | Skald, checkpoint: false | DTM | Restate |
|---|---|---|---|---|
| 16 clients | 100 MB | 100 MB | 100 MB (1.00 / 1.00) | 100 MB (1.00 / 1.00) |
| 64 clients |  | 0 MB |  | 0 MB (– / –) |

| the rate of each round | Skald | Skald, checkpoint: false | DTM | Restate |
|---|---|---|---|---|
| 16 clients | 1000, 1100 | 2000, 2000 | 500, lost | 500, 400 |
| 64 clients | lost, lost | 2000, 2000 | lost, lost | 1000, 1000 |

| job runs a second | Skald | River |
|---|---|---|
| jobs | 1000 | 4000 (0.25) |

| the rate of each round | Skald | River |
|---|---|---|
| jobs | 1000, 1000 | 4000, 4000 |
`
	if diff := cmp.Diff(want, tables); diff != "" {
		t.Errorf("tables (-want +got):\n%s", diff)
	}
}
