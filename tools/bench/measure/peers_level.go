package measure

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// peerLevel is a row of the comparison.
type peerLevel struct {
	key, title string
	mode       Mode
	clients    int
	last       string // the path of the last step
	steps      int    // of each order, 3 or more; only orders of 3 are compensated
	payload    int    // its size in bytes; 0: about 100
}

// The paths of last steps: done, refused, or every third one refused.
const (
	createPath = "/shipment/create"
	refusePath = "/shipment/refuse"
	thirdPath  = "/shipment" + refuseThird
)

// peerLevels are the rows about sagas. Those after them are about job runs.
var peerLevels = []peerLevel{
	{"wait-1", "1 client that waits", Wait, 1, createPath, 3, 0},
	{"wait-16", "16 clients that wait", Wait, 16, createPath, 3, 0},
	{"wait-64", "64 clients that wait", Wait, 64, createPath, 3, 0},
	{"wait-256", "256 clients that wait", Wait, 256, createPath, 3, 0},
	{"submit-64", "64 clients that submit", Submit, 64, createPath, 3, 0},
	{"undo-16", "16 clients that wait, compensated", Wait, 16, refusePath, 3, 0},
	{"mixed-16", "16 clients that wait, every third compensated", Wait, 16, thirdPath, 3, 0},
	{"wait-16-10k", "16 clients that wait, payloads of 10 kB", Wait, 16, createPath, 3, 10_000},
	{"wait-16-100k", "16 clients that wait, payloads of 100 kB", Wait, 16, createPath, 3, 100_000},
	{"wait-16-10-steps", "16 clients that wait, 10 steps", Wait, 16, createPath, 10, 0},
	{"wait-16-20-steps", "16 clients that wait, 20 steps", Wait, 16, createPath, 20, 0},
}

func (l peerLevel) orderSteps() []orderStep {
	steps := slices.Clone(firstSteps)
	for _, name := range furtherSteps[:l.steps-3] {
		steps = append(steps, orderStep{name: name, action: "/further/" + name})
	}
	return append(steps, lastStep(l.last))
}

// answers are those of an order to a client that waits, of which the contestant gives one if all steps
// were done and the other if they were undone.
func (l peerLevel) answers(done, undone OrderAnswer) []OrderAnswer {
	switch l.last {
	case refusePath:
		return []OrderAnswer{undone}
	case thirdPath:
		return []OrderAnswer{done, undone}
	}
	return []OrderAnswer{done}
}

// ended counts sagas that have ended since the beginning.
type ended struct{ completed, compensated int }

// loaded is what came of the orders of a load.
type loaded struct {
	LoadResult
	end        time.Time // when the last saga had ended
	before     int       // sagas of earlier turns that had not ended
	unfinished int       // calls and sagas that had not been made and ended when there was no more time
}

// The calls of an order whose last step is refused.
var undoneCalls = calls{1, 1, 0, 1, 1, 1}

// placedCalls are those of an order of this level whose steps all succeed.
func (l peerLevel) placedCalls() calls {
	made := calls{1, 1, 1}
	for i := range l.steps - 3 {
		made[len(callPaths)-len(furtherSteps)+i] = 1
	}
	return made
}

// undone: the participant has refused the last step of an order that made these calls, or must.
func (l peerLevel) undone(made calls) bool {
	return l.last == refusePath || l.last == thirdPath && made[refuseCalls] > 0
}

// leastCalls is how many calls a number of orders make at least.
func (l peerLevel) leastCalls(orders int) int {
	if l.last == refusePath {
		return orders * (l.steps + 2)
	}
	return orders * l.steps
}

// checkedCalls is what the participant got of the orders of a load.
type checkedCalls struct {
	undone   int // orders whose last step was refused
	repeated int // calls that were made again
	wrong    int // orders that did not make exactly their calls
	example  string
}

// checkCalls compares what was recorded with what each order must make.
func (l peerLevel) checkCalls(recorded map[string]calls, orders []string) (c checkedCalls) {
	for _, id := range orders {
		made, want, fits := recorded[id], l.placedCalls(), true
		if l.undone(made) {
			want = undoneCalls
			c.undone++
		}
		for i, n := range made {
			fits = fits && (n > 0) == (want[i] > 0)
			c.repeated += max(0, n-want[i])
		}
		if !fits {
			c.wrong++
			c.example = fmt.Sprintf("order %s called %s instead of %s", id, made, want)
		}
	}
	return c
}

// String lists the calls that were made, with their numbers if more than once.
func (c calls) String() string {
	var made []string
	for i, n := range c {
		switch {
		case n == 1:
			made = append(made, callPaths[i])
		case n > 1:
			made = append(made, fmt.Sprintf("%d × %s", n, callPaths[i]))
		}
	}
	return "[" + strings.Join(made, " ") + "]"
}

// lost says what is wrong with a load after which so many more sagas have ended, or "".
func (l loaded) lost(c checkedCalls, sagas ended) string {
	n := len(l.Accepted)
	missing := max(0, n-c.undone-sagas.completed) + max(0, c.undone-sagas.compensated)
	// A request that failed may have placed an order anyway, and a saga of an earlier turn may have ended.
	more := sagas.completed + sagas.compensated - n - l.Errors - l.before
	var all []string
	if missing > 0 {
		all = append(all, fmt.Sprintf("lost %s of %s", thousands(missing), thousands(n)))
	}
	if c.wrong > missing { // a lost order has seldom made its calls
		all = append(all, fmt.Sprintf("wrong calls of %s of %s", thousands(c.wrong), thousands(n)))
	}
	if more > 0 {
		all = append(all, fmt.Sprintf("%s more than the %s orders that were placed", thousands(more), thousands(n)))
	}
	if len(all) == 0 && l.unfinished > 0 {
		all = append(all, fmt.Sprintf("%s calls or sagas did not end", thousands(l.unfinished)))
	}
	return strings.Join(all, ", ")
}
