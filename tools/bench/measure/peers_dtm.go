package measure

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
)

// dtm is DTM on a database of its own in the PostgreSQL that Skald uses.
type dtm struct {
	// sync: UpdateBranchSync is set, so that the result of each step is stored before the next call is made,
	// as Skald does. By default results are stored later, and lost in a crash.
	sync         bool
	program, dir string
	database     string // URL of any database on the server
	participant  string

	pool   *sql.DB
	env    []string
	url    string
	server *child
}

// dtmConnections is how many connections DTM keeps open: the default, 500, is more than
// PostgreSQL's default allows, and requests would fail.
const dtmConnections = "90"

// freeConnections reports whether PostgreSQL has that many connections for DTM, besides those that it reserves.
const freeConnections = `
SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int - count(*)
       >= ` + dtmConnections + `
  FROM pg_stat_activity WHERE backend_type = 'client backend'`

func (d *dtm) name() string {
	if d.sync {
		return "DTM"
	}
	return "DTM, its default"
}

// key is the name of its database and directory.
func (d *dtm) key() string {
	if d.sync {
		return "dtm"
	}
	return "dtm_default"
}

func (d *dtm) servers() []*child { return []*child{d.server} }

// prepare makes the database and its tables, from the script that DTM ships.
func (d *dtm) prepare(ctx context.Context) error {
	tables, err := os.ReadFile(d.program + ".sql")
	if err != nil {
		return fmt.Errorf("read the tables of DTM: %w", err)
	}
	own, err := makeDatabase(ctx, d.database, d.key())
	if err != nil {
		return err
	}
	if d.pool, err = sql.Open("postgres", own.String()); err != nil {
		return fmt.Errorf("open the database of DTM: %w", err)
	}
	if _, err := d.pool.ExecContext(ctx, string(tables)); err != nil {
		return fmt.Errorf("create the tables of DTM: %w", err)
	}
	password, _ := own.User.Password()
	d.env = environment(
		"STORE_DRIVER=postgres", "STORE_HOST="+own.Hostname(), "STORE_PORT="+own.Port(),
		"STORE_USER="+own.User.Username(), "STORE_PASSWORD="+password, "STORE_DB="+d.key(), "STORE_SCHEMA=public",
		"STORE_MAX_OPEN_CONNS="+dtmConnections, "STORE_MAX_IDLE_CONNS="+dtmConnections,
		"LOG_LEVEL=warn",
	)
	if d.sync {
		d.env = append(d.env, "UPDATE_BRANCH_SYNC=1")
	}
	return nil
}

func (d *dtm) start(ctx context.Context) error {
	if err := d.awaitConnections(ctx); err != nil {
		return err
	}
	var ports [3]string
	for i := range ports {
		addr, err := freeAddr()
		if err != nil {
			return err
		}
		if _, ports[i], err = net.SplitHostPort(addr); err != nil {
			return fmt.Errorf("find a free port: %w", err)
		}
	}
	cmd := exec.Command(d.program)
	cmd.Env = append(d.env, "HTTP_PORT="+ports[0], "GRPC_PORT="+ports[1], "JSON_RPC_PORT="+ports[2])
	var err error
	if d.server, err = startLogged(d.key(), d.dir, cmd); err != nil {
		return err
	}
	d.url = "http://127.0.0.1:" + ports[0] + "/api/dtmsvr"
	// The first request that needs the database must be alone: each of those that come together opens
	// connections of its own, more than PostgreSQL has.
	return awaitReady(ctx, d.server, d.url+"/all?limit=1")
}

// awaitConnections waits until PostgreSQL has ended the sessions of what ran before, which takes a moment on a
// busy machine. DTM accepts orders that it could not store, and would lose them.
func (d *dtm) awaitConnections(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		var free bool
		if err := d.pool.QueryRowContext(ctx, freeConnections).Scan(&free); err != nil {
			return fmt.Errorf("wait for %s free connections: %w", dtmConnections, err)
		}
		if free {
			return nil
		}
		pause(ctx, endPoll)
	}
}

func (d *dtm) request(l peerLevel) OrderRequest {
	var steps []map[string]string
	var payloads []string
	for _, step := range l.orderSteps() {
		urls := map[string]string{"action": "http://" + d.participant + step.action, "compensate": ""}
		if step.undo != "" {
			urls["compensate"] = "http://" + d.participant + step.undo
		}
		steps = append(steps, urls)
		payloads = append(payloads, payload(orderPlace, l.payload))
	}
	body, err := json.Marshal(map[string]any{
		"gid": orderPlace, "trans_type": "saga", "protocol": "http", "wait_result": l.mode == Wait,
		"steps": steps, "payloads": payloads,
	})
	if err != nil {
		panic(err) // strings and booleans only
	}
	r := OrderRequest{URL: d.url + "/submit", Body: string(body), Want: []OrderAnswer{{http.StatusOK, "SUCCESS"}}}
	if l.mode == Wait {
		r.Want = l.answers(r.Want[0], OrderAnswer{http.StatusConflict, "FAILURE"})
	}
	return r
}

func (d *dtm) running(ctx context.Context) (int, error) {
	return countSagas(ctx, d.pool, `SELECT count(*) FROM trans_global WHERE status IN ('prepared', 'submitted', 'aborting')`)
}

func (d *dtm) ended(ctx context.Context) (ended, error) {
	return countEnded(ctx, d.pool,
		`SELECT count(*) FILTER (WHERE status = 'succeed'), count(*) FILTER (WHERE status = 'failed') FROM trans_global`)
}

func (d *dtm) stop() error {
	if d.server == nil {
		return nil
	}
	return d.server.stop()
}

// makeDatabase makes an empty database on the server of base, and returns its URL.
func makeDatabase(ctx context.Context, base, name string) (own *url.URL, err error) {
	if own, err = url.Parse(base); err != nil {
		return nil, fmt.Errorf("read the URL of the database: %w", err)
	}
	pool, err := sql.Open("postgres", base)
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	defer func() { err = errors.Join(err, pool.Close()) }()
	if _, err := pool.ExecContext(ctx, "CREATE DATABASE "+name); err != nil {
		return nil, fmt.Errorf("create the database %s: %w", name, err)
	}
	own.Path = "/" + name
	return own, nil
}

// startLogged starts a peer in its directory below dir, with a log beside it.
func startLogged(name, dir string, cmd *exec.Cmd) (*child, error) {
	cmd.Dir = filepath.Join(dir, name)
	if err := os.MkdirAll(cmd.Dir, 0o711); err != nil {
		return nil, fmt.Errorf("create the directory of %s: %w", name, err)
	}
	log, err := os.OpenFile(filepath.Join(dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", name, err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	return startChild(name, cmd)
}
