package config

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/lib/pq"
)

func TestDSNIsWhatTheDriverUnderstands(t *testing.T) {
	dev := Default(Dev).Database
	with := func(change func(*Database)) Database {
		d := dev
		change(&d)
		return d
	}
	url := func(s string) Database { return with(func(d *Database) { d.URL = Secret(s) }) }
	const rest = " application_name='skald' connect_timeout='10' statement_timeout='30000'"
	const restOfMany = " application_name='skald' connect_timeout='2' statement_timeout='30000'"

	for _, tt := range []struct {
		name string
		from Database
		want string
	}{
		{"nothing given is the private PostgreSQL", dev, ""},
		{"separate keys", with(func(d *Database) {
			d.Host, d.Port, d.Name, d.User, d.Password, d.SSLMode = "db", 6432, "saga db", "app",
				`it's \ a "pass" word`, "require"
		}), `host='db' port='6432' dbname='saga db' user='app' password='it\'s \\ a "pass" word' sslmode='require'` + rest},
		{"no password leaves it to the driver's other sources", with(func(d *Database) { d.Host = "db" }),
			`host='db' port='5432' dbname='skald' user='skald' sslmode='disable'` + rest},
		{"a socket directory and a CA", with(func(d *Database) { d.Host, d.SSLRootCert = "/var/run/postgresql", "/ca.pem" }),
			`host='/var/run/postgresql' port='5432' dbname='skald' user='skald' sslmode='disable' application_name='skald' connect_timeout='10' sslrootcert='/ca.pem' statement_timeout='30000'`},
		{"several hosts share a port and look for the primary", with(func(d *Database) { d.Host = "a,b" }),
			`host='a,b' port='5432,5432' dbname='skald' user='skald' sslmode='disable'` + restOfMany + ` target_session_attrs='read-write'`},
		{"no statement timeout for PgBouncer", with(func(d *Database) { d.Host, d.StatementTimeout = "db", 0 }),
			`host='db' port='5432' dbname='skald' user='skald' sslmode='disable' application_name='skald' connect_timeout='10'`},
		{"a URL wins over the keys", with(func(d *Database) {
			d.URL, d.Password = "postgres://u:p%40ss%2Fw%20d@h:1/n?sslmode=require&statement_timeout=5s&application_name=x&connect_timeout=3", "other"
		}), `host='h' port='1' dbname='n' user='u' password='p@ss/w d' sslmode='require' application_name='x' connect_timeout='3' statement_timeout='5s'`},
		{"the keys complete a URL", with(func(d *Database) { d.URL, d.Password = "postgresql://h", "from file" }),
			`host='h' port='5432' dbname='skald' user='skald' password='from file' sslmode='disable'` + rest},
		{"a URL with several hosts and ports", url("postgres://u@a:5433,[::1]:5434,c/n"),
			`host='a,::1,c' port='5433,5434,5432' dbname='n' user='u' sslmode='disable'` + restOfMany + ` target_session_attrs='read-write'`},
		{"a URL that may use a standby", url("postgres://a,b/n?target_session_attrs=any&port=1,2"),
			`host='a,b' port='1,2' dbname='n' user='skald' sslmode='disable'` + restOfMany + ` target_session_attrs='any'`},
		{"a URL with an at sign in the password", url("postgres://u:p@ss@h/n"),
			`host='h' port='5432' dbname='n' user='u' password='p@ss' sslmode='disable'` + rest},
		{"a URL with a socket directory", url("postgres://u@%2Frun%2Fpg/n"),
			`host='/run/pg' port='5432' dbname='n' user='u' sslmode='disable'` + rest},
		{"a URL without a host", url("postgres:///n"),
			`host='localhost' port='5432' dbname='n' user='skald' sslmode='disable'` + rest},
		{"keywords with quotes, spaces and several hosts", url("  host = a,b port=1 dbname='my db' user=u password='it\\'s' sslmode=verify-full\n"),
			`host='a,b' port='1,1' dbname='my db' user='u' password='it\'s' sslmode='verify-full'` + restOfMany + ` target_session_attrs='read-write'`},
		{"keywords with an address instead of a host", url("hostaddr=127.0.0.1 password=a\\ b"),
			`port='5432' dbname='skald' user='skald' password='a b' sslmode='disable' application_name='skald' connect_timeout='10' hostaddr='127.0.0.1' statement_timeout='30000'`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.from.DSN()
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if tt.from.Embedded() != (got == "") {
				t.Errorf("Embedded = %v with DSN %q", tt.from.Embedded(), got)
			}
			if _, err := pq.NewConfig(got); err != nil {
				t.Errorf("the driver refuses it: %v", err)
			}
		})
	}
}

func TestTheDriverSeesEveryHostWithItsPort(t *testing.T) {
	for _, url := range []string{
		"postgres://u:p@a:5433,b:5434/n",
		"postgresql://u:p@a,b/n?port=5433,5434",
		"host=a,b port=5433,5434 user=u password=p dbname=n",
	} {
		c, err := Load("", []string{"SKALD_DATABASE_URL=" + url})
		if err != nil {
			t.Fatal(err)
		}
		got, err := pq.NewConfig(c.Database.DSN())
		if err != nil {
			t.Fatal(err)
		}
		hosts := []string{fmt.Sprint(got.Host, ":", got.Port)}
		for _, m := range got.Multi {
			hosts = append(hosts, fmt.Sprint(m.Host, ":", m.Port))
		}
		if diff := cmp.Diff([]string{"a:5433", "b:5434"}, hosts); diff != "" {
			t.Errorf("%s: the driver sees (-want +got):\n%s", url, diff)
		}
		want := got
		want.User, want.Password, want.Database, want.SSLMode = "u", "p", "n", "disable"
		want.TargetSessionAttrs, want.ConnectTimeout = "read-write", 2*time.Second
		if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(pq.Config{}),
			cmpopts.EquateComparable(netip.Addr{})); diff != "" ||
			got.Runtime["statement_timeout"] != "30000" {
			t.Errorf(
				"%s: the driver sees a statement timeout of %s, and (-want +got):\n%s",
				url,
				got.Runtime["statement_timeout"],
				diff,
			)
		}
	}
}

func TestConnectionStringsThatAreRefused(t *testing.T) {
	for _, tt := range []struct {
		url  string
		want error
	}{
		{"skald", errNotDSN},
		{"http://db/x", errNotDSN},
		{"host=db password='open", errNotDSN},
		{"host=db password=a\\", errNotDSN},
		{"host=db a b=c", errNotDSN},
		{"=db", errNotDSN},
		{"postgres://u:100%@db/x", errNotURL},
		{"postgres://u:a#b@db/x", errNotURL},
		{"postgres://u:a/b@db/x", errHostList}, // the host would be u
		{"postgres://u@db/x#y", errNotURL},
		{"postgres://[::1/x", errNotURL},
		{"postgres://[::1]5432/x", errNotURL},
		{"postgres://a:1:2/x", errNotURL},
		{"postgres://db/x?sslmode=%zz", errNotURL},
		{"postgres://db:0/x", errHostList},
		{"postgres://db:65536/x", errHostList},
		{"host=a,b,c port=1,2", errHostList},
		{"host=a sslmode=off", errSSLMode},
		{"postgres://db/x?a%20b=c", errName},
		{"sslmöde=disable", errName},
		{"service=mine", errService},
		{"host=a passfile=/x", errService},
		{"host=a binary_parameters=yes", errBinary},
	} {
		want := "database.url (SKALD_DATABASE_URL): " + tt.want.Error()
		if got := mistakes(t, "", "SKALD_DATABASE_URL="+tt.url); len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q, want %q", tt.url, got, want)
		}
	}
}

// As long as these hold, conninfo.go is needed.
func TestTheDriverCannotReadConnectionStringsForUs(t *testing.T) {
	if c, err := pq.NewConfig("postgres://u@a:5433,b:5434/n"); err == nil && c.Host == "a" && c.Port == 5433 {
		t.Error("the driver reads URLs with several hosts and ports")
	}
	for _, broken := range []string{"postgres://u:canary%@db/n", "host=db password=my canary"} {
		if _, err := pq.NewConfig(broken); err == nil || !strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: the driver's error does not quote the password: %v", broken, err)
		}
	}
	t.Setenv("PGHOST", "elsewhere")
	if c, err := pq.NewConfig("dbname=n"); err != nil || c.Host != "elsewhere" {
		t.Errorf("the driver does not mix in the environment: %+v, %v", c, err)
	}
}

func TestAURLThatCannotBeReadIsLeftToTheDriver(t *testing.T) {
	d := Default(Dev).Database
	d.URL = "host='open"
	if got := d.DSN(); got != "host='open" {
		t.Errorf("DSN = %q, want the URL as it is", got)
	}
}

// FuzzKeysReachTheDriver puts any text into name, user and password and checks that the driver
// reads the same.
func FuzzKeysReachTheDriver(f *testing.F) {
	for _, s := range []string{"a", "it's", `back\slash\`, "a b\tc\n", "=", "päss wörd", `''\'`, " lead",
		"sslmode=disable", "%41+&?#@:/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if s == "" || strings.ToValidUTF8(s, "") != s {
			return // empty means not set; the protocol is UTF-8
		}
		d := Default(Dev).Database
		d.Host, d.Name, d.User, d.Password = "db", s, s, Secret(s)
		got, err := pq.NewConfig(d.DSN())
		if err != nil {
			t.Fatal(err)
		}
		read := []string{got.Database, got.User, got.Password, string(got.SSLMode)}
		if diff := cmp.Diff([]string{s, s, s, "disable"}, read); diff != "" {
			t.Errorf("%q: name, user, password and mode that the driver reads (-want +got):\n%s", s, diff)
		}
		// Once more through our own reader: it reads what we write.
		again := Default(Dev).Database
		again.URL = Secret(d.DSN())
		if again.DSN() != d.DSN() {
			t.Errorf("%q: read back as %s, written as %s", s, again.DSN(), d.DSN())
		}
	})
}
