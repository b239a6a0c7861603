package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/lib/pq"
)

// headStart is the delay between the attempt at one server and the attempt at the next.
const headStart = 250 * time.Millisecond

// hosts returns one configuration for each host of an address.
func hosts(of pq.Config) []pq.Config {
	first := of.Clone()
	first.Multi = nil
	all := []pq.Config{first}
	for _, m := range of.Multi {
		c := first.Clone()
		c.Host, c.Hostaddr, c.Port = m.Host, m.Hostaddr, m.Port
		all = append(all, c)
	}
	return all
}

// reach returns a session with the first host that accepts one. It tries the host that was last
// connected to first. It then tries the others one after the other, each after headStart or as soon
// as an attempt has failed, so that a silent host does not use up the caller's time.
func reach[S io.Closer](
	ctx context.Context,
	ls *lines,
	all []pq.Config,
	attempt func(context.Context, pq.Config) (S, error),
) (made S, err error) {
	if len(all) == 1 {
		return attempt(ctx, all[0])
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type outcome struct {
		host int
		made S
		err  error
	}
	ended := make(chan outcome, len(all))
	waiting, running := ls.order(len(all)), 0
	next := func() {
		host := waiting[0]
		waiting, running = waiting[1:], running+1
		go func() {
			s, err := attempt(ctx, all[host])
			ended <- outcome{host, s, err}
		}()
	}
	next()
	ahead := time.NewTicker(headStart)
	defer ahead.Stop()
	errs := []error{errors.New("could not connect to any of the hosts")}
	for running > 0 {
		select {
		case <-ahead.C:
			if len(waiting) > 0 {
				next()
			}
		case o := <-ended:
			running--
			if o.err == nil {
				ls.good.Store(int64(o.host))
				go func() { // the attempts end with ctx
					for range running {
						if late := <-ended; late.err == nil {
							_ = late.made.Close()
						}
					}
				}()
				return o.made, nil
			}
			errs = append(errs, fmt.Errorf("%s:%d: %w", all[o.host].Host, all[o.host].Port, o.err))
			if len(waiting) > 0 {
				next()
			}
		}
	}
	return made, errors.Join(errs...)
}

// order returns n hosts in the order in which they are tried.
func (ls *lines) order(n int) []int {
	first := int(ls.good.Load())
	order := []int{first}
	for i := range n {
		if i != first {
			order = append(order, i)
		}
	}
	return order
}
