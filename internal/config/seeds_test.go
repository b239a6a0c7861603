package config

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The configuration files that the seeds give for their servers are accepted unchanged, and
// every line has an effect (S1-61, S1-62, D-50, D-51).
func TestTheSeedsFilesAreSettings(t *testing.T) {
	const form = `
app:
  name: "NAME"
  version: "VERSION"
  tier: "system"
  environment: "dev"

database:
  host: "postgres.k1s0-system.svc.cluster.local"
  port: 5433
  name: "DATABASE"
  user: "app"
  password: "secret"
  ssl_mode: "disable"
  max_open_conns: OPEN
  max_idle_conns: IDLE
  conn_max_lifetime: "5m"
`
	for name, with := range map[string][]string{
		"saga-server": {"NAME", "saga-server", "VERSION", "0.1.0", "DATABASE", "k1s0_system", "OPEN", "25", "IDLE", "5"},
		"dlq-manager": {"NAME", "dlq-manager", "VERSION", "1.0.0", "DATABASE", "dlq_db", "OPEN", "10", "IDLE", "3"},
	} {
		c := load(t, strings.NewReplacer(with...).Replace(form))
		d := c.Database
		got := []any{
			c.App.Name, c.App.Version, c.App.Tier, c.App.Environment, d.Host, d.Port, d.Name, d.User, string(d.Password),
			d.SSLMode, strconv.Itoa(d.MaxOpenConns), strconv.Itoa(d.MaxIdleConns), d.ConnMaxLifetime,
		}
		want := []any{
			name, with[3], "system", Dev, "postgres.k1s0-system.svc.cluster.local", 5433, with[5], "app", "secret",
			"disable", with[7], with[9], 5 * time.Minute,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-file +settings):\n%s", name, diff)
		}
	}
}
