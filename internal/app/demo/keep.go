package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/skald-saga/skald/internal/access"
	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/httpapi"
	"github.com/skald-saga/skald/internal/loop"
)

// KeepConfig configures a demo that keeps running.
type KeepConfig struct {
	Skald   config.Config // as `serve` would use it; without a configured database the demo gets its own
	Scale   float64       // amount of data: 1 is 3,000 letters
	Dir     string        // directory of the private database, which is deleted at the end
	Version httpapi.Version
	Out     io.Writer
	Log     *slog.Logger
	// Ready is called with the addresses once everything is available. Optional.
	Ready func(Place)
}

// Place is where to find a demo that keeps running, and how to sign in.
type Place struct {
	URL          string // of the server
	SignIn       string // URL that opens the pages, signed in as the visitor
	Participants string // URL of the services
	Key          string // API key of the visitor, who is an operator
	AdminKey     string // API key of an admin for all tenants
}

// filler fills a server with data, as an admin unless stated otherwise.
type filler struct {
	server
	kim, shop, billing, worker server // other clients that send requests
	services                   *services
	scale                      float64
}

// scaled returns n at the demo's scale, but at least enough for one letter in each group.
func (f *filler) scaled(n int) int { return max(48, int(float64(n)*f.scale)) }

// Keep runs a server with resources in every state, for people to explore and operate, until ctx
// ends. There is some ongoing activity: orders arrive, a job runs every ten seconds, and a redrive
// is in progress.
func Keep(ctx context.Context, cfg KeepConfig) (err error) {
	services, closeServices, err := openServices(cfg.Log)
	if err != nil {
		return fmt.Errorf("participants: %w", err)
	}
	defer closeServices()
	if cfg.Skald.Database.Embedded() {
		if err := os.MkdirAll(cfg.Dir, 0o755); err != nil {
			return err
		}
		dir, err := os.MkdirTemp(cfg.Dir, "kept-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }() // the rest is in the temporary directory
		cfg.Skald.Database.EmbeddedDir = filepath.Join(dir, "postgres")
	}
	cfg.Skald.Engine.DrainTimeout = time.Second // its participants stop at the same time
	admin, err := newKey()
	if err != nil {
		return err
	}
	services.people.signIn(&cfg.Skald.Auth)
	cfg.Skald.Auth.BootstrapAdminKey, cfg.Skald.Auth.BootstrapAdminKeyFile = config.Secret(admin), ""
	// The server outlives ctx, so that its worker can report when it stops.
	url, stop, err := startSkald(context.WithoutCancel(ctx), Config{Skald: cfg.Skald, Version: cfg.Version, Log: cfg.Log},
		cfg.Skald.Server.ListenAddr)
	if err != nil {
		return err
	}
	defer func() {
		closeServices() // first, because the server would wait for slow answers
		err = errors.Join(err, stop())
	}()
	services.people.at(url)
	f, key, err := newFiller(ctx, url, admin, services, cfg)
	if err != nil {
		return fmt.Errorf("the people of the demo: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	worked := make(chan error, 1)
	go func() { worked <- f.work(ctx, cfg.Log) }()
	defer func() { cancel(); err = errors.Join(err, <-worked) }()

	for _, fill := range []func(context.Context) error{f.fillSagas, f.fillParticipants, f.fillLetters, f.fillJobs} {
		if err := fill(ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("fill the server: %w", err)
		}
	}
	fmt.Fprintf(cfg.Out, welcome, url, services.url, signInPath, key)
	if cfg.Ready != nil {
		cfg.Ready(Place{URL: url, SignIn: url + signInPath, Participants: services.url, Key: key, AdminKey: admin})
	}
	return f.move(ctx)
}

// welcome is the text that the demo prints: the server, its services, the sign-in path, and the
// visitor's API key.
const welcome = `
Skald         %[1]s%[3]s
              You are signed in there as kim, an operator. To become ada, an admin, or otto, an auditor, open
              %[2]s/people/as/ada
manual        %[1]s/docs/
services      %[2]s shows the calls that have arrived; make a service misbehave with
              curl -X PUT -d down %[2]s/manners/stock/reserve
              (ok, refuse, down, flaky, slow, tidal or strict)
curl          export SKALD_API_KEY=%[4]s

Three things to try:
1. Last night's nightly-settlement did not run. Find out why, and run it.
   %[1]s/ui/jobs
2. A dead letter of the topic refunds has a wrong amount. Correct it, send it, and see it arrive.
   %[1]s/ui/dlq
3. Parcels wait for a depot that is down every other minute. Watch one continue.
   %[1]s/ui/sagas?workflow_name=parcel

Ctrl-C ends the demo and deletes its data.
`

// newKey returns an API key.
func newKey() (string, error) {
	var chance [access.EntropyBytes]byte
	_, err := rand.Read(chance[:])
	return string(access.NewToken(chance)), err
}

// newFiller creates the credentials of the clients that fill the server, and the visitor's API key.
func newFiller(
	ctx context.Context, url, admin string, services *services, cfg KeepConfig,
) (f *filler, key string, err error) {
	f = &filler{services: services, scale: cfg.Scale}
	for person, as := range map[string]*server{"ada": &f.server, visitor: &f.kim} {
		token, err := services.people.token(person, cfg.Skald.Auth.JWTAudience, "")
		if err != nil {
			return nil, "", err
		}
		*as = server{url, token}
	}
	own := server{url, admin}
	issue := func(name, role string) string {
		var made struct{ Key string }
		if err == nil {
			err = own.call(ctx, "POST", "/api-keys", object{
				"name": name, "role": role, "tenant_id": cfg.Skald.Tenant.DefaultID,
			}, &made)
		}
		return made.Key
	}
	f.shop, f.billing = server{url, issue("shop", "operator")}, server{url, issue("billing", "operator")}
	f.worker = server{url, issue("workers", "worker")}
	return f, issue(visitor, roles[visitor]), err
}

// move starts an order every three seconds. Every tenth order cannot be closed and is compensated.
// With every fifth order it sends a parcel.
func (f *filler) move(ctx context.Context) error {
	for n := 1000; loop.Sleep(ctx, 3*time.Second); n++ {
		err := f.order(ctx, n)
		if n%10 == 0 {
			err = errors.Join(err, f.shop.post(ctx, "/sagas", object{
				"workflow_name": "refund", "business_key": fmt.Sprintf("refund-%d", n), "payload": object{"charge": n},
			}))
		}
		if n%5 == 0 {
			err = errors.Join(err, f.parcel(ctx, n), f.paid(ctx, n))
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}
