package player

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/skald-saga/skald/internal/loop"
)

// starting reports whether an error means that the process does not listen yet.
func starting(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

func anyError(error) bool { return true }

// reachable waits until the participant gives any answer that does not come from a proxy in front
// of it. again reports whether to retry after an error.
func (c *player) reachable(ctx context.Context, tries int, again func(error) bool) error {
	for n := 0; ; n++ {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.ReplaceAll(c.URL, "{step}", c.Step), nil)
		if err != nil {
			return err
		}
		req.Header.Set(marked, "1")
		res, err := c.client.Do(req)
		if err == nil {
			res.Body.Close()
			if res.StatusCode < 502 || res.StatusCode > 504 {
				return nil
			}
			err = errors.New(res.Status)
		}
		if n >= tries || !again(err) || !loop.Sleep(ctx, min(time.Second, pause<<min(n, 5))) {
			return err
		}
	}
}

// restarted restarts the participant. ended is called when the old process has ended.
func (c *player) restarted(ctx context.Context, ended func()) error {
	if err := c.Restart(ctx); err != nil {
		return fmt.Errorf("restart the participant: %w", err)
	}
	ended()
	if err := c.reachable(ctx, later, anyError); err != nil {
		return fmt.Errorf("the participant did not come back after the restart: %w", err)
	}
	return nil
}
