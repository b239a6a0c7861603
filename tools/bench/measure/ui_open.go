package measure

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// openPage is a page in a browser: it asks for itself again as app.js does.
type openPage struct {
	kind  string // overview or saga
	path  string
	every time.Duration
}

// openPages are overviews, and saga pages of which half show sagas that go on.
func openPages(cfg UIConfig, k known) (all []openPage) {
	for range cfg.Overviews {
		all = append(all, openPage{"overview", "/ui/", 10 * time.Second})
	}
	for i := range cfg.SagaPages {
		every := 5 * time.Second
		if i%2 == 0 {
			every = time.Second
		}
		all = append(all, openPage{"saga", "/ui/sagas/" + k.at(i).id, every})
	}
	return all
}

// watch measures the CPU time of server and database while pages are open and nothing changes, compared with what
// they use on their own before and after it: a server that has just started still has things to do. CPU time is
// comparable even if other programs keep the machine busy.
func (r *reader) watch(ctx context.Context, cfg UIConfig, k known) error {
	pages := openPages(cfg, k)
	if len(pages) == 0 || cfg.Watch <= 0 {
		return nil
	}
	idle, err := r.used(ctx, cfg.Watch/2)
	if err != nil {
		return err
	}
	open, stop := context.WithCancel(ctx)
	var got answers
	var browsers sync.WaitGroup
	for i, p := range pages {
		browsers.Go(func() {
			pause(open, p.every*time.Duration(i)/time.Duration(len(pages)))
			for has, every := (shown{}), p.every; open.Err() == nil; pause(open, every) {
				status, next, again, err := r.again(open, p.path, has)
				if open.Err() != nil {
					return
				}
				got.add(p, status, err)
				if has = next; again > 0 {
					every = again
				}
			}
		})
	}
	pause(ctx, min(opening, cfg.Watch))
	busy, err := r.used(ctx, cfg.Watch)
	stop()
	browsers.Wait()
	if err != nil {
		return err
	}
	after, err := r.used(ctx, cfg.Watch/2)
	if err != nil {
		return err
	}
	idle = min(idle, after)
	share := max(0, busy-idle)
	fmt.Fprintf(r.Out, "\n%d overviews and %d saga pages open for %s: %s; %.2f %% of a core (%.2f %% without open pages)\n",
		cfg.Overviews, cfg.SagaPages, cfg.Watch, &got, 100*share, 100*idle)
	return got.failure
}

// answers counts how the requests of open pages were answered.
type answers struct {
	mu       sync.Mutex
	asked    int            // guarded by mu
	byStatus map[string]int // guarded by mu, by kind of page and status; 0: no answer
	failure  error          // guarded by mu; the first one
}

func (a *answers) add(p openPage, status int, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byStatus == nil {
		a.byStatus = map[string]int{}
	}
	a.asked++
	a.byStatus[fmt.Sprintf("%s %d", p.kind, status)]++
	if err == nil && status != http.StatusOK && status != http.StatusNotModified {
		err = fmt.Errorf("status %d", status)
	}
	if err != nil && a.failure == nil {
		a.failure = fmt.Errorf("read the open page %s: %w", p.path, err)
	}
}

// String says how many requests got which status, by kind of page.
func (a *answers) String() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	text := fmt.Sprintf("%d requests", a.asked)
	for _, status := range slices.Sorted(maps.Keys(a.byStatus)) {
		text += fmt.Sprintf(", %s × %d", status, a.byStatus[status])
	}
	return text
}

// used is the CPU time of server and database in a period, as a share of one core.
func (r *reader) used(ctx context.Context, period time.Duration) (float64, error) {
	cpu := func() (time.Duration, error) {
		server, err := hostProc.familyCPU(r.server)
		if err != nil || r.postmaster == 0 {
			return server, err
		}
		database, err := hostProc.familyCPU(r.postmaster)
		return server + database, err
	}
	before, err := cpu()
	if err != nil {
		return 0, err
	}
	begun := r.now()
	pause(ctx, period)
	after, err := cpu()
	return (after - before).Seconds() / r.now().Sub(begun).Seconds(), err
}

// opening is how long it takes until every page has been opened. What that costs is not measured.
const opening = 11 * time.Second

// shown is what a browser has of a page: its ETag, and the regions that it has got.
type shown struct{ tag, regions string }

// again asks for a page of which the browser has some, empty: for the first time. every is after how long the server
// wants to be asked again; 0: the page itself says it.
func (r *reader) again(ctx context.Context, path string, has shown) (
	status int, now shown, every time.Duration, err error,
) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+path, nil)
	if err != nil {
		return 0, has, 0, err
	}
	if has.tag != "" {
		request.Header.Set("If-None-Match", has.tag)
		request.Header.Set("Skald-Live", has.regions)
	}
	response, err := r.client.Do(request)
	if err != nil {
		return 0, has, 0, err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	seconds, _ := strconv.Atoi(response.Header.Get("Skald-Refresh")) // absent: 0
	now = shown{response.Header.Get("ETag"), has.regions}
	if response.StatusCode == http.StatusOK {
		now.regions = cmp.Or(response.Header.Get("Skald-Live"), "-")
	}
	return response.StatusCode, now, time.Duration(seconds) * time.Second, err
}
