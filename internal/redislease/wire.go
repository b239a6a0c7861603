package redislease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// wire is the connection, and the memory of how it fared. One goroutine's.
type wire struct {
	cfg    Config
	conn   redis.Conn // nil: there is none
	raw    *bounded   // under conn
	pause  time.Duration
	resume time.Time // until then Redis is left alone
}

// send makes one round trip, or none while Redis is left alone.
func (w *wire) send(ctx context.Context, commands []command) {
	begin := time.Now()
	answered := 0
	var err error
	if begin.After(w.resume) {
		if answered, err = w.roundTrip(ctx, commands); err != nil {
			w.failed(ctx, err)
		} else if w.pause > 0 {
			w.cfg.Log.InfoContext(ctx, "redis answers again")
			w.pause = 0
		}
	}
	took := time.Since(begin)
	if answered > 0 {
		w.cfg.Done(answered, false, took)
	}
	if lost := commands[answered:]; len(lost) > 0 {
		if answered > 0 {
			took = 0 // it is counted already
		}
		w.cfg.Done(len(lost), true, took)
		for _, c := range lost {
			if c.reply != nil {
				c.reply <- nil
			}
		}
	}
}

// failed leaves Redis alone for a while. It is logged once, not at every try.
func (w *wire) failed(ctx context.Context, err error) {
	w.drop()
	if w.pause == 0 {
		w.cfg.Log.WarnContext(ctx, "redis does not answer, job runs go on without its hints", slog.Any("error", err))
	}
	w.pause = min(max(2*w.pause, minPause), maxPause)
	w.resume = time.Now().Add(w.pause)
}

func (w *wire) drop() {
	if w.conn != nil {
		_ = w.conn.Close()
		w.conn = nil
	}
}

// roundTrip sends the commands and reads their answers, all within the timeout.
// It returns how many were answered. A refusal, of a replica or of a server that
// is loading, is an error like any other: another connection may help.
func (w *wire) roundTrip(ctx context.Context, commands []command) (answered int, err error) {
	if w.conn == nil {
		if err := w.dial(ctx); err != nil {
			return 0, err
		}
	}
	if err := w.raw.limit(w.cfg.Timeout); err != nil {
		return 0, err
	}
	for _, c := range commands {
		if err := w.conn.Send(c.name, c.args...); err != nil {
			return 0, fmt.Errorf("send to redis: %w", err)
		}
	}
	if err := w.conn.Flush(); err != nil {
		return 0, fmt.Errorf("send to redis: %w", err)
	}
	for i, c := range commands {
		answer, err := w.conn.Receive()
		if err != nil {
			return i, fmt.Errorf("receive from redis: %w", err)
		}
		if c.reply != nil {
			c.reply <- compare(answer, c.want)
		}
	}
	return len(commands), nil
}

// compare tells which values are what they must be; nil when the answer is none.
func compare(answer any, want []string) []bool {
	values, ok := answer.([]any)
	if !ok || len(values) != len(want) {
		return nil
	}
	alive := make([]bool, len(want))
	for i, v := range values {
		text, ok := v.([]byte)
		alive[i] = ok && string(text) == want[i]
	}
	return alive
}

func (w *wire) dial(ctx context.Context) error {
	u, err := parseURL(w.cfg.URL)
	if err != nil {
		return err
	}
	var raw *bounded
	options := []redis.DialOption{
		redis.DialContextFunc(func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			raw = &bounded{conn}
			return raw, raw.limit(dialTimeout) // for the handshakes too
		}),
		redis.DialUseTLS(u.Scheme == "rediss"),
	}
	if password, ok := u.User.Password(); ok {
		options = append(options, redis.DialUsername(u.User.Username()), redis.DialPassword(password))
	}
	db, _ := strconv.Atoi(strings.TrimPrefix(u.Path, "/")) // parseURL has looked at it
	options = append(options, redis.DialDatabase(db))
	host, port := u.Hostname(), u.Port()
	if port == "" {
		port = "6379"
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := redis.DialContext(ctx, "tcp", net.JoinHostPort(host, port), options...)
	if err != nil {
		return fmt.Errorf("connect to redis: %w", err)
	}
	w.conn, w.raw = conn, raw
	return nil
}

// parseURL returns errors that do not cite the URL, which holds a password.
func parseURL(rawURL string) (*url.URL, error) {
	u, err := url.Parse(rawURL)
	if err != nil || u.Hostname() == "" || u.Scheme != "redis" && u.Scheme != "rediss" || u.RawQuery != "" || u.Fragment != "" || !database.MatchString(u.Path) {
		return nil, errURL
	}
	if _, hasPassword := u.User.Password(); u.User != nil && !hasPassword {
		return nil, errURL // some take a lone word for the password, others for the user
	}
	return u, nil
}

var (
	database = regexp.MustCompile(`^(/[0-9]{0,4})?$`)
	errURL   = errors.New("redislease: the URL must be redis:// or rediss:// and a host, maybe with :password@ or user:password@, port and /database")
)

// bounded is a connection whose deadline is of a whole round trip: the client
// above would set one for each read anew.
type bounded struct{ net.Conn }

func (b *bounded) limit(d time.Duration) error { return b.Conn.SetDeadline(time.Now().Add(d)) }

// SetDeadline does nothing: see limit.
func (b *bounded) SetDeadline(time.Time) error { return nil }

// SetReadDeadline does nothing: see limit.
func (b *bounded) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing: see limit.
func (b *bounded) SetWriteDeadline(time.Time) error { return nil }
