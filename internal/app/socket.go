package app

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/skald-saga/skald/db"
	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/httpapi"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/httpkit/listen"
	"github.com/skald-saga/skald/internal/loop"
	"github.com/skald-saga/skald/internal/postgres"
)

// socket accepts requests from the beginning. Until the node has its database, it responds that the
// node is starting (httpapi.Starting); after that, the node's handler responds.
type socket struct {
	addr    net.Addr
	tls     *tls.Config // nil: plain HTTP
	read    []reread
	server  *http.Server
	failed  chan error
	abandon context.CancelFunc // ends the requests in flight

	handler  atomic.Pointer[http.Handler]
	refused  atomic.Pointer[func()] // called for each connection over the per-address limit
	obstacle atomic.Pointer[string] // why the node has not started yet
}

// unusableAddress returns the error for an address on which this process cannot listen. It names
// the setting and, if the port is taken, says what to do.
func unusableAddress(setting, variable, addr string, err error) error {
	if !errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%s (%s): %w", setting, variable, err)
	}
	return fmt.Errorf("%s (%s): another process uses %s: end it, or choose another port (port 0 takes a free one)",
		setting, variable, addr)
}

// openSocket begins to serve on l. Requests get the values of ctx, but not its cancellation.
func openSocket(ctx context.Context, cfg *config.Config, opt *Options, l net.Listener) (*socket, error) {
	s := &socket{addr: l.Addr(), failed: make(chan error, 1)}
	s.wait("the server is starting")
	c := cfg.Server
	if c.TLSCertFile != "" {
		from := listen.Files{Cert: c.TLSCertFile, Key: c.TLSKeyFile, ClientCA: c.TLSClientCAFile}
		const setting = "server.tls_*_file"
		t, w, err := listen.TLS(from, unreadable(opt.Log, setting))
		if err != nil {
			return nil, err
		}
		s.tls = t
		readAgain(&s.read, setting, w)
	}
	s.use(belowBase(c.BasePath, httpapi.Starting(httpapi.Config{
		Docs:   cmp.Or(c.PublicURL, c.BasePath),
		Base:   baseOf(c),
		Limits: httpkit.Limits{ReadTimeout: c.ReadTimeout, BodyGrace: c.HeaderTimeout, MinBodyRate: c.MinBodyRate},
		NewID:  newID, Log: opt.Log,
		Ready: func(context.Context) (httpapi.Readiness, error) {
			return httpapi.Readiness{}, errors.New(*s.obstacle.Load())
		},
	})))
	requests, abandon := context.WithCancel(context.WithoutCancel(ctx))
	s.abandon = abandon
	s.server = &http.Server{
		Handler:           http.HandlerFunc(s.serveHTTP),
		ReadHeaderTimeout: c.HeaderTimeout, ReadTimeout: c.ReadTimeout, ConnContext: listen.WithConn,
		WriteTimeout: c.WriteTimeout, IdleTimeout: c.IdleTimeout, TLSConfig: s.tls,
		MaxHeaderBytes: 64 << 10, BaseContext: func(net.Listener) context.Context { return requests },
		ErrorLog: slog.NewLogLogger(opt.Log.Handler(), slog.LevelDebug),
	}
	limited := listen.Limit(l, c.MaxConnsPerAddr, func() {
		if refused := s.refused.Load(); refused != nil {
			(*refused)()
		}
	})
	go func() {
		if s.tls == nil {
			s.failed <- s.server.Serve(limited)
		} else {
			s.failed <- s.server.ServeTLS(limited, "", "")
		}
	}()
	return s, nil
}

func (s *socket) serveHTTP(w http.ResponseWriter, r *http.Request) {
	(*s.handler.Load()).ServeHTTP(w, r)
}

// use makes h the handler for all further requests.
func (s *socket) use(h http.Handler) { s.handler.Store(&h) }

// wait sets the reason why the node has not started yet, which responses contain.
func (s *socket) wait(obstacle string) { s.obstacle.Store(&obstacle) }

// close stops serving. Requests in flight may continue until ctx ends; after a quarter of limit
// they are asked to end.
func (s *socket) close(ctx context.Context, limit time.Duration) {
	defer s.abandon()
	time.AfterFunc(limit/4, s.abandon)
	if err := s.server.Shutdown(ctx); err != nil {
		s.server.Close()
	}
}

// How long a node waits between attempts to open its database, and how often it logs that.
const (
	firstPause   = 100 * time.Millisecond
	longestPause = 5 * time.Second
	sayEvery     = time.Minute
)

// openWaiting calls open until the database is available, accepts writes and has the right schema,
// so that a node may be started before its database. It returns early if ctx ends or on any other
// error.
func (s *socket) openWaiting(ctx context.Context, log *slog.Logger, open func() error) error {
	began, pause := time.Now(), firstPause
	var said time.Time
	for {
		err := open()
		if err == nil && !said.IsZero() {
			log.Info("the database is usable", slog.Duration("waited", time.Since(began)))
		}
		var pending *db.Pending
		unmigrated := errors.As(err, &pending)
		if err == nil || !unmigrated && !postgres.Passing(err) {
			return err
		}
		obstacle := cmp.Or(postgres.Trouble(err), "the database cannot be used")
		if unmigrated {
			obstacle = pending.Error()
		}
		s.wait(obstacle)
		notifyWaiting(obstacle)
		if now := time.Now(); now.Sub(said) >= sayEvery {
			said = now
			log.Warn("waiting for the database", slog.Any("error", err))
		}
		if !loop.Sleep(ctx, loop.Jittered(pause)) {
			return ctx.Err()
		}
		pause = min(2*pause, longestPause)
	}
}
