package chaos

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/skald-saga/skald/examples/order/ledger"
)

// soundOutage returns the record of an outage in which every promise was kept: the dead participant
// is held after thirty calls and gets a canary every five seconds, and once it is healthy the
// waiting sagas return in a ramp of five steps.
func soundOutage() *outageRecord {
	at := func(s float64) time.Time { return soundEpoch.Add(time.Duration(s * float64(time.Second))) }
	r := &outageRecord{
		rules: gateRules{ratio: 0.5, least: 20, window: 10 * time.Second, canary: 5 * time.Second, start: 20, factor: 1.5},
		ill:   interval{at(20), at(80)},
	}
	n := 0
	call := func(participant string, s float64, failed bool) {
		n++
		r.arrivals = append(r.arrivals, arrival{at: at(s), participant: participant, saga: fmt.Sprint(n), step: "s0",
			action: ledger.Execute, attempt: 1, failed: failed})
	}
	for s := 0.0; s < 20; s++ {
		call(theDead, s, false)
	}
	for i := range 30 {
		call(theDead, 20+float64(i)/20, true)
	}
	r.gates = []gateView{
		{participant: theDead, state: "OPEN", at: at(0), since: at(0)},
		{participant: theWell, state: "OPEN", at: at(0), since: at(0)},
		{participant: theDead, state: "HELD", at: at(22), since: at(22)},
	}
	for s := 27.0; s < 80; s += 5 {
		call(theDead, s, true)
		r.gates = append(r.gates, gateView{participant: theDead, state: "HELD", at: at(s), since: at(22)})
	}
	call(theDead, 82, false)
	for i := range 5 {
		s, rate := 82.5+float64(i), 20*math.Pow(1.5, float64(i))
		r.gates = append(r.gates, gateView{participant: theDead, state: "RELEASING", at: at(s), since: at(82.5), rate: rate,
			waits: 1000})
		for k := range int(rate) {
			call(theDead, s+float64(k)/rate, false)
		}
	}
	r.gates = append(r.gates, gateView{participant: theDead, state: "OPEN", at: at(88), since: at(88)})
	call(theDead, 100, false)
	for range 2 * enoughSagas {
		r.before.sagas = append(r.before.sagas, 20*time.Millisecond)
		r.during.sagas = append(r.during.sagas, 30*time.Millisecond)
	}
	r.before.control, r.during.control = r.before.sagas, r.before.sagas
	return r
}

// TestTheJudgeOfOutages plants a defect of each kind into the record of an outage; the judge must
// report it.
func TestTheJudgeOfOutages(t *testing.T) {
	at := func(s float64) time.Time { return soundEpoch.Add(time.Duration(s * float64(time.Second))) }
	// more adds calls to the dead participant, each from a different saga, at a steady pace.
	more := func(r *outageRecord, n int, from, to float64) {
		for i := range n {
			r.arrivals = append(r.arrivals, arrival{at: at(from + (to-from)*float64(i)/float64(n)), participant: theDead,
				saga: fmt.Sprint("more-", i), step: "s0", action: ledger.Execute, attempt: 1, failed: true})
		}
		slices.SortStableFunc(r.arrivals, func(a, b arrival) int { return a.at.Compare(b.at) })
	}
	// less removes three out of four calls between two times.
	less := func(r *outageRecord, from, to float64) {
		i := 0
		r.arrivals = slices.DeleteFunc(r.arrivals, func(a arrival) bool {
			i++
			return a.at.After(at(from)) && a.at.Before(at(to)) && i%4 != 0
		})
	}
	gate := func(r *outageRecord, state string) *gateView {
		i := slices.IndexFunc(r.gates, func(g gateView) bool { return g.state == state })
		return &r.gates[i]
	}
	for _, tt := range []struct {
		name string
		rule string // "": no rule is broken
		do   func(*outageRecord)
	}{
		{"nothing is wrong", "", func(*outageRecord) {}},
		{"a saga goes on trying while its participant is held", "held", func(r *outageRecord) { more(r, 3, 40, 60) }},
		{"a call was sent again when its connection broke", "", func(r *outageRecord) {
			i := slices.IndexFunc(r.arrivals, func(a arrival) bool { return a.at.Equal(at(42)) })
			for range 5 {
				r.arrivals = slices.Insert(r.arrivals, i, r.arrivals[i])
			}
		}},
		{"calls that were in flight when it was held", "", func(r *outageRecord) { more(r, 100, 22, 24) }},
		{"a node does not learn that it is held", "held", func(r *outageRecord) { more(r, 100, 22, 27) }},
		{"nothing holds the dead one", "dead", func(r *outageRecord) {
			r.gates = slices.DeleteFunc(r.gates, func(g gateView) bool { return g.state != "OPEN" })
		}},
		{"it is held too late", "dead", func(r *outageRecord) {
			for i := range r.gates {
				if g := &r.gates[i]; g.state == "HELD" {
					g.since = at(26)
				}
			}
		}},
		{"it is released although no canary has succeeded", "dead", func(r *outageRecord) {
			r.gates = slices.Insert(r.gates, 6, gateView{participant: theDead, state: "RELEASING", at: at(50), since: at(50),
				rate: 20})
			r.gates = slices.Insert(r.gates, 7, gateView{participant: theDead, state: "HELD", at: at(51), since: at(51)})
		}},
		{"all that waited is let through at once", "flood", func(r *outageRecord) { more(r, 200, 83, 84) }},
		{"calls are more than the rate says", "flood", func(r *outageRecord) { more(r, 100, 85, 87) }},
		{"calls are fewer than the rate says", "ramp", func(r *outageRecord) { less(r, 82.5, 88) }},
		{"calls are fewer on a machine that cannot keep the pace", "", func(r *outageRecord) {
			less(r, 82.5, 88)
			for i := range r.before.sagas {
				r.before.sagas[i] = time.Second
			}
		}},
		{"calls are fewer because none is left", "", func(r *outageRecord) {
			less(r, 82.5, 88)
			for i := range r.gates {
				r.gates[i].waits = 0
			}
		}},
		{"it begins faster than it is set", "ramp", func(r *outageRecord) { gate(r, "RELEASING").rate = 30 }},
		{"it never grows", "ramp", func(r *outageRecord) {
			for i := range r.gates {
				if g := &r.gates[i]; g.state == "RELEASING" && g.rate > 40 {
					g.at = g.at.Add(10 * time.Second)
				}
			}
		}},
		{"it grows twice in a second", "ramp", func(r *outageRecord) {
			for i := range r.gates {
				if g := &r.gates[i]; g.state == "RELEASING" && g.rate > 60 {
					g.at = g.at.Add(-500 * time.Millisecond)
				}
			}
		}},
		{"its gate stays closed", "stays closed", func(r *outageRecord) { r.gates = r.gates[:len(r.gates)-1] }},
		{"it got no calls that say anything", "input", func(r *outageRecord) {
			r.arrivals = slices.DeleteFunc(r.arrivals, func(a arrival) bool { return a.at.Before(r.ill.to) })
		}},
		{"others are slowed down", "others", func(r *outageRecord) {
			for i := range r.during.sagas {
				r.during.sagas[i] *= 2
			}
		}},
		{"the whole machine is slower", "", func(r *outageRecord) {
			for i := range r.during.sagas {
				r.during.sagas[i] *= 2
			}
			r.during.control = r.during.sagas
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := soundOutage()
			tt.do(r)
			found := map[string]string{}
			r.judge(func(rule, format string, args ...any) { found[rule] = fmt.Sprintf(format, args...) })
			if _, named := found[tt.rule]; tt.rule == "" && len(found) > 0 || tt.rule != "" && !named {
				t.Errorf("the judge says %v, want %q", found, tt.rule)
			}
		})
	}
}
