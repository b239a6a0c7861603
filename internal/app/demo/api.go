package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/skald-saga/skald/internal/loop"
)

// object is a JSON object.
type object = map[string]any

// server is the Skald server that a demo fills, as seen by one person or program. It sends the same
// requests that they would send with curl.
type server struct{ url, credential string }

// errGone means that the resource was changed concurrently, which a demo with ongoing activity must
// expect.
var errGone = errors.New("changed in the meantime")

// call sends a request and decodes the response into out unless that is nil.
func (s server) call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, s.url+"/api/v1"+path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+s.credential)
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if method == http.MethodPatch {
		req.Header.Set("If-Match", "*")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	switch {
	case err != nil:
		return err
	case res.StatusCode == http.StatusConflict:
		return fmt.Errorf("%s %s: %w: %s", method, path, errGone, text)
	case res.StatusCode >= 300:
		return fmt.Errorf("%s %s: %s: %s", method, path, res.Status, text)
	case out == nil:
		return nil
	}
	return json.Unmarshal(text, out)
}

func (s server) post(ctx context.Context, path string, in any) error {
	return s.call(ctx, http.MethodPost, path, in, nil)
}

// until repeats ask until it returns true.
func until(ctx context.Context, what string, ask func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		ok, err := ask()
		if ok || err != nil {
			return err
		}
		if !loop.Sleep(ctx, 100*time.Millisecond) {
			return fmt.Errorf("%s: %w", what, ctx.Err())
		}
	}
}
