package manual

import (
	"encoding/json"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
	"github.com/skald-saga/skald/internal/test/testnet"
)

// compose contains the parts of the Compose file format that Skald's docker-compose.yml uses. Unknown
// keys fail the test, because it wouldn't know their effect.
type compose struct {
	Services map[string]composed
	Volumes  map[string]any
}

type composed struct {
	Image string
	Build *struct {
		Context string
		Args    map[string]string
	}
	Profiles    []string
	DependsOn   map[string]struct{ Condition string } `yaml:"depends_on"`
	Environment map[string]string
	Volumes     []string
	Ports       []string
	ExtraHosts  []string `yaml:"extra_hosts"`
	Healthcheck *struct {
		Test              []string
		Interval, Timeout string
		StartPeriod       string `yaml:"start_period"`
		Retries           int
	}
}

var variable = regexp.MustCompile(`\$\{(\w+)(?::-([^}]*))?\}`)

// filled replaces the variables in a value with their defaults, as compose does for variables that
// are not set.
func filled(value string) string { return variable.ReplaceAllString(value, "$2") }

// docker returns the command that a container built from the Dockerfile runs, and the Dockerfile
// itself.
func docker(t *testing.T) (command []string, file string) {
	t.Helper()
	file = content(t, root(t), "Dockerfile")
	for _, word := range []string{"ENTRYPOINT", "CMD"} {
		m := regexp.MustCompile(`(?m)^` + word + ` (\[.*\])$`).FindStringSubmatch(file)
		var part []string
		if m == nil || json.Unmarshal([]byte(m[1]), &part) != nil {
			t.Fatalf("the Dockerfile has no %s in the exec form", word)
		}
		command = append(command, part...)
	}
	return command, file
}

// TestComposeFileRunsSkald checks docker-compose.yml and the Dockerfile: the commands of Skald's
// container run here, with the container's environment, on a local PostgreSQL, and the other parts
// are checked for consistency.
func TestComposeFileRunsSkald(t *testing.T) {
	t.Parallel()
	text := content(t, root(t), "docker-compose.yml")
	var c compose
	strict := yaml.NewDecoder(strings.NewReader(text))
	strict.KnownFields(true)
	if err := strict.Decode(&c); err != nil {
		t.Fatal(err)
	}
	for name := range c.Services {
		fits(t, &c, name)
	}
	skald, postgres := c.Services["skald"], c.Services["postgres"]
	command, file := docker(t)
	for _, part := range []string{"CGO_ENABLED=0", "-o " + command[0] + " ./cmd/skald",
		"COPY --from=build " + command[0] + " " + command[0]} {
		if !strings.Contains(file, part) {
			t.Errorf("the image does not have a static %s: the Dockerfile has no %s", command[0], part)
		}
	}
	goes := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(content(t, root(t), "go.mod"))
	if goes == nil || !strings.Contains(file, "FROM golang:"+goes[1]+"-") {
		t.Errorf("the image is not built with Go %v of go.mod", goes)
	}
	for name := range skald.Build.Args {
		if !strings.Contains(file, "\nARG "+name) {
			t.Errorf("the Dockerfile has no argument %s", name)
		}
	}
	_, port, err := net.SplitHostPort(skald.Environment["SKALD_LISTEN_ADDR"])
	if err != nil || skald.Ports[0] != "127.0.0.1:"+port+":"+port || !strings.Contains(file, "EXPOSE "+port+"\n") {
		t.Errorf("Skald listens on port %q, and publishes %v", port, skald.Ports)
	}
	login, err := url.Parse(skald.Environment["SKALD_DATABASE_URL"])
	if err != nil {
		t.Fatal(err)
	}
	password, _ := login.User.Password()
	here := map[string]string{"POSTGRES_USER": login.User.Username(), "POSTGRES_PASSWORD": password,
		"POSTGRES_DB": strings.TrimPrefix(login.Path, "/")}
	if login.Host != "postgres:5432" || !maps.Equal(here, postgres.Environment) {
		t.Errorf("Skald signs in at %s as %v, and the database has %v", login.Host, here, postgres.Environment)
	}
	if postgres.Image == "postgres:17" && !slices.Contains(postgres.Volumes, "postgres-data:/var/lib/postgresql/data") {
		t.Errorf("the data of %s is not in its volume: %v", postgres.Image, postgres.Volumes)
	}
	alive(t, postgres.Healthcheck.Test, login.User.Username())
	served(t, text, &skald, command)
	withKafka(t, text, &c)
}

// fits checks everything that a service refers to.
func fits(t *testing.T, c *compose, name string) {
	t.Helper()
	s := c.Services[name]
	if (s.Image == "" || strings.HasSuffix(s.Image, ":latest") || !strings.Contains(s.Image, ":")) && s.Build == nil {
		t.Errorf("%s: the image %q has no version", name, s.Image)
	}
	for other, on := range s.DependsOn {
		of, has := c.Services[other]
		if !has || on.Condition == "service_healthy" && of.Healthcheck == nil || of.Profiles != nil {
			t.Errorf("%s waits for %s, which is never %s", name, other, on.Condition)
		}
	}
	for _, v := range s.Volumes {
		if volume, path, _ := strings.Cut(v, ":"); !strings.HasPrefix(path, "/") {
			t.Errorf("%s: the volume %s has no place", name, v)
		} else if _, declared := c.Volumes[volume]; !declared {
			t.Errorf("%s: there is no volume %s", name, volume)
		}
	}
	for _, p := range s.Ports {
		if !strings.HasPrefix(p, "127.0.0.1:") {
			t.Errorf("%s publishes %s to other machines", name, p)
		}
	}
}

// alive runs the database's health check, which must find this machine's database healthy and a
// closed port unhealthy.
func alive(t *testing.T, check []string, user string) {
	t.Helper()
	if len(check) != 2 || check[0] != "CMD-SHELL" {
		t.Fatalf("the database is checked by %v", check)
	}
	dsn, err := url.Parse(testdb.DSN(t))
	if err != nil {
		t.Fatal(err)
	}
	for port, healthy := range map[string]bool{dsn.Port(): true, "1": false} {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", check[1])
		cmd.Env = append(environment(), "PGHOST=127.0.0.1", "PGPORT="+port)
		if out, err := cmd.CombinedOutput(); (err == nil) != healthy || !strings.Contains(check[1], "-U "+user) {
			t.Errorf("%s on port %s: %v\n%s", check[1], port, err, out)
		}
	}
}

// served runs the container's command, its health check, and the command that creates the first
// key.
func served(t *testing.T, text string, s *composed, command []string) {
	t.Helper()
	addr, env := testnet.FreeAddress(t), []string{"SKALD_AUTH_MODE=required"} // as for an address that is not loopback
	for name, value := range s.Environment {
		switch name {
		case "SKALD_DATABASE_URL":
			value = testdb.DSN(t)
		case "SKALD_LISTEN_ADDR":
			value = addr
		}
		env = append(env, name+"="+filled(value))
	}
	run := func(container []string) (string, error) {
		if container[0] != command[0] {
			t.Errorf("the image has no %s", container[0])
		}
		cmd := exec.CommandContext(t.Context(), Skald(t), container[1:]...)
		cmd.Dir, cmd.Env = t.TempDir(), append(environment(), env...)
		out, err := cmd.Output()
		return strings.TrimSpace(string(out)), err
	}
	check := s.Healthcheck.Test
	if check[0] != "CMD" {
		t.Fatalf("an image without a shell is checked by %v", check)
	}
	if _, err := run(check[1:]); err == nil {
		t.Error("the container is healthy before it serves")
	}
	Background(t, Skald(t), command[1:], env...)
	patience.Until(t, "the container is healthy", func() bool { _, err := run(check[1:]); return err == nil })
	key := regexp.MustCompile(`docker compose exec skald (/skald key create .*)`).FindStringSubmatch(text)
	if key == nil {
		t.Fatal("the file does not say how to create the first key")
	}
	made, err := run(strings.Fields(key[1]))
	if err != nil {
		t.Fatalf("%s: %v", key[1], err)
	}
	for credential, want := range map[string]int{made: http.StatusOK, "": http.StatusUnauthorized} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/api/v1/api-keys", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if credential != "" {
			req.Header.Set("X-Api-Key", credential)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if _ = res.Body.Close(); res.StatusCode != want {
			t.Errorf("with the credential %q: %d, want %d", credential, res.StatusCode, want)
		}
	}
}

// withKafka checks the start with Kafka that the file describes, and the listeners of its broker.
func withKafka(t *testing.T, text string, c *compose) {
	t.Helper()
	kafka, skald := c.Services["kafka"], c.Services["skald"]
	shown := regexp.MustCompile(`#\s+((?:SKALD_\w+=\S+ )+)docker compose --profile (\w+) up`).FindStringSubmatch(text)
	if shown == nil || !slices.Contains(kafka.Profiles, shown[2]) {
		t.Fatalf("the file shows no start with Kafka: %v", shown)
	}
	for _, assignment := range strings.Fields(shown[1]) {
		name, value, _ := strings.Cut(assignment, "=")
		if m := variable.FindStringSubmatch(skald.Environment[name]); m == nil || m[1] != name {
			t.Errorf("Skald's container has no %s of the caller", name)
		}
		if name == "SKALD_KAFKA_BROKERS" && !strings.Contains(kafka.Environment["KAFKA_ADVERTISED_LISTENERS"], "://"+value) {
			t.Errorf("the broker does not call itself %s", value)
		}
		if _, err := regexp.Compile(strings.Trim(value, "'")); name == "SKALD_INGEST_TOPICS" && err != nil {
			t.Error(err)
		}
	}
	listeners := func(name string) map[string]string {
		of := map[string]string{}
		for _, l := range strings.Split(kafka.Environment[name], ",") {
			kind, at, _ := strings.Cut(l, "://")
			of[kind] = at[strings.LastIndexByte(at, ':')+1:]
		}
		return of
	}
	own, advertised := listeners("KAFKA_LISTENERS"), listeners("KAFKA_ADVERTISED_LISTENERS")
	controller := kafka.Environment["KAFKA_CONTROLLER_LISTENER_NAMES"]
	for kind, port := range advertised {
		if own[kind] != port || kind == controller {
			t.Errorf("the broker advertises %s on port %s, and listens on %q", kind, port, own[kind])
		}
	}
	for kind := range own {
		if !strings.Contains(kafka.Environment["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"], kind+":") {
			t.Errorf("the broker's listener %s has no protocol", kind)
		}
	}
	if !strings.HasSuffix(kafka.Environment["KAFKA_CONTROLLER_QUORUM_VOTERS"], "@localhost:"+own[controller]) ||
		advertised[kafka.Environment["KAFKA_INTER_BROKER_LISTENER_NAME"]] == "" ||
		!slices.Contains(kafka.Ports, "127.0.0.1:"+advertised["PLAINTEXT"]+":"+own["PLAINTEXT"]) {
		t.Errorf("the broker is not one that can be reached: %v, %v", kafka.Environment, kafka.Ports)
	}
}
