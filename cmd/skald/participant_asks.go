package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga/certification"
)

// person is the user whom a command asks.
type person struct {
	in     *bufio.Reader // shared by all questions, because it reads ahead
	out    io.Writer
	absent bool // the input does not come from a terminal
}

func atTerminal() *person {
	info, err := os.Stdin.Stat()
	return &person{bufio.NewReader(os.Stdin), os.Stderr, err != nil || info.Mode()&os.ModeCharDevice == 0}
}

// mayCall asks for consent before any machine other than this one is called.
func (p participantCertify) mayCall(who *person) error {
	for _, at := range []string{p.URL, p.Compensation, p.Effects} {
		if !p.Yes && !loopback(at) && !who.agrees(at) {
			return fmt.Errorf("%s is not on this machine: pass --yes to call it", at)
		}
	}
	return nil
}

// loopback reports whether a URL leads to this machine.
func loopback(text string) bool {
	u, err := url.Parse(strings.ReplaceAll(text, "{step}", "step"))
	if text == "" || err != nil {
		return true // no address
	}
	host := cmp.Or(u.Hostname(), "localhost")
	at, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && at.Unmap().IsLoopback()
}

// agrees asks whether calls may be made to another machine.
func (w *person) agrees(at string) bool {
	if w.absent {
		return false
	}
	fmt.Fprintf(w.out, "This executes and compensates steps at %s, using new saga ids. Continue? [y/N] ", at)
	line, _ := w.in.ReadString('\n')
	return strings.HasPrefix(strings.ToLower(strings.TrimSpace(line)), "y")
}

// restarts asks for the restart and returns after it is confirmed.
func (w *person) restarts(ctx context.Context) error {
	fmt.Fprint(w.out, "Restart the participant now, then press Enter: ")
	confirmed := make(chan error, 1)
	go func() {
		_, err := w.in.ReadString('\n')
		if errors.Is(err, io.EOF) {
			err = errors.New("the restart was not confirmed")
		}
		confirmed <- err
	}()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-confirmed:
		return err
	}
}

// pushed stores a report on a server.
func pushed(ctx context.Context, server, key string, report certification.Report) error {
	body, err := json.Marshal(map[string]any{"report": report})
	if err != nil {
		return err
	}
	to := strings.TrimSuffix(server, "/") + "/api/v1/participants/certifications"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", uuid.NewString())
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusCreated {
		return nil
	}
	var problem struct{ Detail string }
	_ = json.NewDecoder(io.LimitReader(res.Body, 64<<10)).Decode(&problem)
	return errors.New(strings.TrimSpace(res.Status + " " + problem.Detail))
}
