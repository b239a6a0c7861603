package manual

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/test/testnet"
)

// page is one session from the top of a page to its bottom: a user who copies its commands in order
// gets the output shown. Each session has its own server on 127.0.0.1:8080 and runs in the
// directory examples.
type page struct {
	name    string
	stub    bool     // `skald participant stub` on 127.0.0.1:9001
	bank    bool     // examples/payments on 127.0.0.1:9002
	private bool     // the server has its own PostgreSQL, in .skald
	env     []string // environment of the server
	given   []string // variables that the page asks the reader to set
	masks   []Mask
}

// epochs masks leader epochs, which vary: on a slow machine there may have been several leaders.
var epochs = []Mask{{`"leader_epoch": ?\d+`, `"leader_epoch":1`}, {`"fencing_token": ?"\d+\.`, `"fencing_token":"1.`}}

// byHand turns automatic retries off: the first one comes at a random time within a minute, perhaps
// before the page's own retry.
var byHand = []string{"SKALD_DLQ_AUTO_RETRY=false"}

var pages = []page{
	{name: "bulk.md", stub: true},
	{name: "dlq-sagas.md", stub: true, env: byHand},
	{name: "dlq.md", stub: true, env: byHand},
	{name: "events.md", stub: true, private: true, masks: []Mask{
		{`[0-9a-f]{64}`, "<hash>"},
		{`"prefix": ?"[a-z0-9]{8}"`, `"prefix": "<prefix>"`},
		{`"cursor": ?"[A-Za-z0-9_-]*"`, `"cursor": "<cursor>"`},
		{`"id": "\d+"`, `"id": "<number>"`},
	}},
	{name: "jobs.md", masks: epochs},
	{name: "lifecycle.md", stub: true},
	{name: "payment-api.md", bank: true},
	{
		name:  "redrives.md",
		stub:  true,
		env:   byHand,
		given: []string{"N=1600"},
		masks: []Mask{ // the page shows 10,000 and the failures of the run it was copied from
			{`\b1600\b`, "10000"}, {`\b1520\b`, "9500"}, {`"received":80\b`, `"received":500`},
			{`("[0-9a-f]{32}":)80\b`, "${1}500"},
			{`"(done|failed|tried|left|retried_count)": ?[1-9]\d*`, `"$1":"some"`}, {`\d+ of \d+ letters`, "all letters"},
			{`"eta":(null|"[^"]*")`, `"eta":null`}, {`Etag: "\d+"`, "Etag: <etag>"},
		},
	},
	{name: "saga-jobs.md", stub: true},
	{name: "simulation.md", private: true},
	{name: "start.md", stub: true},
	{name: "webhooks.md", stub: true},
	{name: "workflows.md", stub: true, env: []string{
		"SKALD_PARTICIPANT_SECRETS={bank: {base_url: 'http://127.0.0.1:9001/bank', secrets: {token: {file: $PWD/bank-token}}}}",
	}},
	{name: "workers.md", private: true, masks: epochs},
}

// elsewhere lists pages whose commands are run by other tests or can't be run.
var elsewhere = map[string]string{
	"operations.md": "its recipes are run by their headings; the rest needs systemd, Vault and administrators of a cluster",
	"tenants.md":    "its commands are those of operations.md, First production start, for other clusters",
	"install.md":    "make test-release installs the packages of a release",
	"kafka.md":      "TestThePageOfKafka runs it, with a broker",
}

func TestThePagesOfTheManual(t *testing.T) {
	t.Parallel()
	for _, p := range pages {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			p.run(t)
		})
	}
}

func (p page) run(t *testing.T) {
	t.Helper()
	dir, env, replace := t.TempDir(), p.env, map[string]string{}
	if err := os.Symlink(filepath.Join(root(t), "examples"), filepath.Join(dir, "examples")); err != nil {
		t.Fatal(err)
	}
	if p.private {
		env = append(
			slices.Clone(env),
			"SKALD_DATABASE_URL=",
			"SKALD_DATABASE_EMBEDDED_DIR="+filepath.Join(dir, ".skald", "postgres"),
		)
	}
	if p.stub {
		addr := testnet.FreeAddress(t)
		Background(t, Skald(t), []string{"participant", "stub", "--listen", addr})
		replace["127.0.0.1:9001"] = addr
		env = slices.Clone(env)
		for i := range env {
			env[i] = strings.NewReplacer("127.0.0.1:9001", addr, "$PWD", dir).Replace(env[i])
		}
	}
	if p.bank {
		addr := testnet.FreeAddress(t)
		Background(t, Program(t, "./examples/payments"), []string{"-listen", addr})
		replace["127.0.0.1:9002"] = addr
	}
	addr := Serve(t, env...)
	replace["127.0.0.1:8080"] = addr
	Session{
		Page: "docs/" + p.name, Dir: dir, Env: append(p.given, "SKALD_URL=http://"+addr), Replace: replace, Masks: p.masks,
	}.Run(t)
}

// TestEveryPageWithCommandsIsRun: a page with commands that is in neither list would never be run.
func TestEveryPageWithCommandsIsRun(t *testing.T) {
	commands := regexp.MustCompile("(?m)^```(sh|bash|shell|console)$")
	known := map[string]bool{}
	for _, p := range pages {
		known[p.name] = true
	}
	for name := range elsewhere {
		if known[name] {
			t.Errorf("%s is run, and said not to be", name)
		}
		known[name] = true
	}
	paths, err := filepath.Glob(filepath.Join(root(t), "docs", "*.md"))
	if err != nil || len(paths) < 10 {
		t.Fatalf("%v: %d pages", err, len(paths))
	}
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(path)
		if elsewhere[name] == "" && strings.Contains(string(content), "```console\n") {
			t.Errorf("%s: nobody runs a block of prompts: print ```sh, and below it what it says", name)
		}
		if has := commands.Match(content); has != known[name] {
			t.Errorf("%s: prints commands: %v, is in a list of pages: %v", name, has, known[name])
		}
		delete(known, name)
	}
	for name := range known {
		t.Errorf("%s: no such page", name)
	}
}
