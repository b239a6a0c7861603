package measure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
)

// restate is the Restate server with its store in a directory of its own, and a service on its Go
// SDK that makes the calls.
type restate struct {
	program, handlerProgram string
	dir, participant        string
	client                  *http.Client

	ingress, admin, node, service string // addresses, the same in each start
	registered                    bool
	server, handler               *child
}

// restateName is the one contestant that does not store anything in PostgreSQL.
const restateName = "Restate"

func (r *restate) name() string { return restateName }

// servers leaves out the service, which is the user's own process.
func (r *restate) servers() []*child { return []*child{r.server} }

func (r *restate) prepare(context.Context) (err error) {
	for _, addr := range []*string{&r.ingress, &r.admin, &r.node, &r.service} {
		if *addr, err = freeAddr(); err != nil {
			return err
		}
	}
	return nil
}

func (r *restate) start(ctx context.Context) (err error) {
	service := exec.Command(r.handlerProgram, "-listen", r.service, "-participant", r.participant)
	service.Env = environment()
	if r.handler, err = startLogged("restate-service", r.dir, service); err != nil {
		return err
	}
	server := exec.Command(r.program, "--no-logo", "--base-dir", filepath.Join(r.dir, "restate", "data"),
		"--node-name", "bench", "--listen-mode", "tcp", "--bind-address", r.node)
	server.Env = environment(
		"RESTATE_INGRESS__BIND_ADDRESS="+r.ingress, "RESTATE_ADMIN__BIND_ADDRESS="+r.admin,
		"RESTATE_LOG_FILTER=warn", "RESTATE_DISABLE_TELEMETRY=true", "DO_NOT_TRACK=1",
	)
	if r.server, err = startLogged("restate", r.dir, server); err != nil {
		return err
	}
	for _, url := range []string{"http://" + r.admin + "/health", "http://" + r.ingress + "/restate/health"} {
		if err := awaitReady(ctx, r.server, url); err != nil {
			return err
		}
	}
	if err := r.awaitStore(ctx); err != nil {
		return err
	}
	if r.registered {
		return nil
	}
	if err := awaitListening(ctx, r.handler, r.service); err != nil {
		return err
	}
	_, err = request(ctx, r.client, http.MethodPost, "http://"+r.admin+"/deployments",
		map[string]any{"uri": "http://" + r.service})
	r.registered = err == nil
	return err
}

// awaitStore returns when Restate's tables can be read, which is later than it says that it is healthy.
func (r *restate) awaitStore(ctx context.Context) error {
	return await(ctx, r.server, "Restate's store", func(ctx context.Context) error {
		_, err := r.running(ctx)
		return err
	})
}

// awaitListening returns when a connection to addr can be made.
func awaitListening(ctx context.Context, c *child, addr string) error {
	return await(ctx, c, addr, func(ctx context.Context) error {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

func (r *restate) request(l peerLevel) OrderRequest {
	handler := map[string]string{refusePath: "Refuse", thirdPath: "RefuseThird", createPath: "Place"}[l.last]
	if l.steps > 3 {
		handler += fmt.Sprint(l.steps)
	}
	o := OrderRequest{
		URL: "http://" + r.ingress + "/Orders/" + handler, Body: payload(orderPlace, l.payload),
		Want: l.answers(OrderAnswer{http.StatusOK, "COMPLETED"}, OrderAnswer{http.StatusConflict, "refused"}),
	}
	if l.mode == Submit {
		o.URL, o.Want = o.URL+"/send", []OrderAnswer{{http.StatusAccepted, "invocationId"}}
	}
	return o
}

func (r *restate) running(ctx context.Context) (int, error) {
	return r.count(ctx, "status <> 'completed'")
}

func (r *restate) ended(ctx context.Context) (e ended, err error) {
	if e.completed, err = r.count(ctx, "status = 'completed' AND completion_result = 'success'"); err != nil {
		return ended{}, err
	}
	e.compensated, err = r.count(ctx, "status = 'completed' AND completion_result = 'failure'")
	return e, err
}

// count asks Restate's own tables.
func (r *restate) count(ctx context.Context, where string) (int, error) {
	raw, err := request(ctx, r.client, http.MethodPost, "http://"+r.admin+"/query",
		map[string]any{"query": "SELECT count(*) AS n FROM sys_invocation WHERE " + where})
	if err != nil {
		return 0, err
	}
	var answer struct {
		Rows []struct{ N int }
	}
	if err := json.Unmarshal(raw, &answer); err != nil || len(answer.Rows) != 1 {
		return 0, fmt.Errorf("count the invocations of Restate: %w in %.300s", err, raw)
	}
	return answer.Rows[0].N, nil
}

func (r *restate) stop() error {
	var errs []error
	for _, c := range []*child{r.server, r.handler} {
		if c != nil {
			errs = append(errs, c.stop())
		}
	}
	return errors.Join(errs...)
}
