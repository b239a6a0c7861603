package worker_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/api/worker"
)

// log joins the chunks of a stream in the order of their numbers, which must have no gaps.
func (s *skald) log(stream string) string {
	var text strings.Builder
	for i, l := range said[api.LogInput](s, "logs") {
		if int(l.Seq) != i {
			s.t.Errorf("chunk %d has the number %d", i, l.Seq)
		}
		if *l.Stream != stream {
			continue
		}
		if l.Chunk != nil {
			text.WriteString(*l.Chunk)
			continue
		}
		bytes, err := base64.StdEncoding.DecodeString(*l.ChunkBase64)
		if err != nil {
			s.t.Error(err)
		}
		text.Write(bytes)
	}
	return text.String()
}

func TestTheLogIsSentBeforeTheResult(t *testing.T) {
	onFakeClock(t, func(t *testing.T, s *skald) {
		s.on("complete", func(*call) *reply {
			if got := s.log("stdout"); got != "one\nthree\n" {
				t.Errorf("the log before the result: %q", got)
			}
			return nil
		})
		outcome(t, s, func(_ context.Context, r *worker.Run) (any, error) {
			fmt.Fprintln(r.Stdout(), "one")
			fmt.Fprintln(r.Stderr(), "two")
			fmt.Fprintln(r.Stdout(), "three")
			return nil, nil
		})
		var streams []string
		for _, l := range said[api.LogInput](s, "logs") {
			streams = append(streams, *l.Stream)
		}
		if s.log("stderr") != "two\n" || fmt.Sprint(streams) != "[stdout stderr stdout]" {
			t.Errorf("%q in %v", s.log("stderr"), streams)
		}
	})
}

func TestOutputIsSentEverySecondAndSoonerWhenThereIsMuch(t *testing.T) {
	onFakeClock(t, func(t *testing.T, s *skald) {
		s.add()
		s.work(lasts(time.Minute, func(r *worker.Run) {
			fmt.Fprint(r.Stdout(), "a")
			time.Sleep(500 * time.Millisecond)
			fmt.Fprint(r.Stdout(), "b")
			time.Sleep(time.Second)
			fmt.Fprint(r.Stdout(), strings.Repeat("c", 64<<10))
		}))
		time.Sleep(999 * time.Millisecond)
		if s.log("stdout") != "" {
			t.Error("little output is sent at once")
		}
		time.Sleep(10 * time.Millisecond)
		if s.log("stdout") != "ab" || len(s.made("logs")) != 1 {
			t.Errorf("after a second: %q", s.log("stdout"))
		}
		time.Sleep(500 * time.Millisecond) // before the end of the second second
		if s.log("stdout") != "ab"+strings.Repeat("c", 64<<10) {
			t.Error("much output is not sent at once")
		}
	})
}

func TestBytesAreSentAsTheyAre(t *testing.T) {
	for name, text := range map[string]string{"a NUL": "a\x00b", "not UTF-8": "a\xff", "a cut character": "é"[:1]} {
		t.Run(name, func(t *testing.T) {
			onFakeClock(t, func(t *testing.T, s *skald) {
				outcome(t, s, func(_ context.Context, r *worker.Run) (any, error) { return r.Stdout().Write([]byte(text)) })
				if l := said[api.LogInput](s, "logs"); len(l) != 1 || l[0].Chunk != nil || s.log("stdout") != text {
					t.Errorf("%+v", l)
				}
			})
		})
	}
}

// TestOutputWaitsForTheServer: writes block when the buffer is full, and nothing is lost or repeated
// under another number.
func TestOutputWaitsForTheServer(t *testing.T) {
	onFakeClock(t, func(t *testing.T, s *skald) {
		s.on("logs", failing(1000, 503, "REQ_UNAVAILABLE"))
		var written int
		line := []byte(strings.Repeat("x", 64<<10))
		s.add()
		s.work(func(_ context.Context, r *worker.Run) (any, error) {
			for range 40 {
				if _, err := r.Stdout().Write(line); err != nil {
					t.Error(err)
				}
				written++
			}
			return nil, nil
		})
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if written < 16 || written > 18 { // the 1 MiB buffer and what is being sent
			t.Errorf("%d writes of 64 KiB returned", written)
		}
		for _, l := range said[api.LogInput](s, "logs") {
			if l.Seq != 0 {
				t.Fatalf("chunk %d was sent before chunk 0 was stored", l.Seq)
			}
		}
		repeats := len(s.made("logs"))
		s.on("logs", nil)
		time.Sleep(20 * time.Second)
		var stored int
		for i, l := range said[api.LogInput](s, "logs")[repeats:] {
			if int(l.Seq) != i {
				t.Errorf("chunk %d has the number %d", i, l.Seq)
			}
			stored += len(*l.Chunk)
		}
		if stored != 40*len(line) || len(s.completed()) != 1 {
			t.Errorf("%d bytes were stored, %d results", stored, len(s.completed()))
		}
	})
}

// TestALogThatIsRefusedDoesNotFailItsRun and does not block it.
func TestALogThatIsRefusedDoesNotFailItsRun(t *testing.T) {
	onFakeClock(t, func(t *testing.T, s *skald) {
		s.on("logs", failing(1000, 409, "JOB_LOG_CONFLICT"))
		got := outcome(t, s, func(_ context.Context, r *worker.Run) (any, error) {
			for range 40 {
				if _, err := r.Stdout().Write(make([]byte, 64<<10)); err != nil {
					return nil, err
				}
			}
			time.Sleep(2 * time.Second)
			_, err := fmt.Fprint(r.Stderr(), "more")
			return nil, err
		})
		if got.Error != nil || len(s.made("logs")) != 1 {
			t.Errorf("%d chunks were sent; %+v", len(s.made("logs")), got.Error)
		}
	})
}

// TestTheLogOfALostRunIsDropped: another attempt writes the log now.
func TestTheLogOfALostRunIsDropped(t *testing.T) {
	onFakeClock(t, func(t *testing.T, s *skald) {
		id := s.add()
		ended := make(chan error, 1)
		s.work(func(ctx context.Context, r *worker.Run) (any, error) {
			<-ctx.Done()
			fmt.Fprint(r.Stdout(), "late")
			ended <- context.Cause(ctx)
			return nil, nil
		})
		synctest.Wait()
		s.mu.Lock()
		s.given[id] = assignment{}
		s.mu.Unlock()
		if err := <-ended; !errors.Is(err, worker.ErrLost) {
			t.Errorf("ended by %v", err)
		}
		time.Sleep(5 * time.Second)
		if len(s.made("logs")) != 0 {
			t.Errorf("it was sent: %+v", said[api.LogInput](s, "logs"))
		}
	})
}
