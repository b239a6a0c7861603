package config

import (
	"strconv"
	"strings"
)

// Embedded reports whether neither a URL nor a host is given, so that Skald
// starts its private PostgreSQL.
func (d Database) Embedded() bool { return d.URL == "" && d.Host == "" }

// How long an attempt to connect to a host may take, in seconds; a URL may set its own timeout.
// With several hosts, a silent one must not delay the attempt at the next one for long; with a
// single host that is busy, it is better to wait.
const (
	connectTimeout      = "2"
	connectTimeoutAlone = "10"
)

// DSN returns the lib/pq connection string: always in keyword form, every value quoted, the
// password in clear text. The URL's parameters take precedence; missing parameters come from the
// other settings: host, port, name, user, password, TLS, statement_timeout (unless 0), an
// application name, a connect timeout, and, with several hosts, target_session_attrs=read-write, so
// that standbys are skipped.
//
// It is empty if Embedded; set URL to that of the private server to get the same parameters for it.
// A URL that Load would reject is returned unchanged, so that the driver rejects it.
func (d Database) DSN() string { return d.DSNAs("", "") }

// DSNAs is DSN with another user and password, which override the URL's; empty values have no
// effect.
func (d Database) DSNAs(user string, password Secret) string {
	if d.Embedded() {
		return ""
	}
	p, err := d.parameters()
	if err != nil {
		return string(d.URL)
	}
	setIf(p, "user", user)
	setIf(p, "password", string(password))
	var b strings.Builder
	first := []string{"host", "port", "dbname", "user", "password", "sslmode"}
	for _, key := range first {
		appendParameter(&b, p, key)
		delete(p, key)
	}
	for _, key := range sortedKeys(p) {
		appendParameter(&b, p, key)
	}
	return b.String()
}

// Login returns the user of DSN.
func (d Database) Login() string {
	if p, err := d.parameters(); err == nil {
		return p["user"]
	}
	return d.User
}

// parameters returns the URL's parameters, completed by the other settings.
func (d Database) parameters() (map[string]string, error) {
	p, err := parseConnInfo(string(d.URL))
	if err != nil {
		return nil, err
	}
	fill := func(key, value string) {
		if p[key] == "" && value != "" {
			p[key] = value
		}
	}
	if p["hostaddr"] == "" {
		fill("host", d.Host)
		fill("host", "localhost")
	}
	fill("port", strconv.Itoa(d.Port))
	fill("dbname", d.Name)
	fill("user", d.User)
	fill("password", string(d.Password))
	fill("sslmode", d.SSLMode)
	fill("sslrootcert", d.SSLRootCert)
	fill("application_name", "skald")
	if d.StatementTimeout > 0 {
		fill("statement_timeout", strconv.FormatInt(d.StatementTimeout.Milliseconds(), 10))
	}
	hosts := hostCount(p)
	p["port"] = spread(p["port"], strconv.Itoa(d.Port), hosts)
	if hosts > 1 {
		fill("target_session_attrs", "read-write")
		fill("connect_timeout", connectTimeout)
	}
	fill("connect_timeout", connectTimeoutAlone)
	return p, nil
}

func (d Database) urlHasPassword() bool {
	p, err := parseConnInfo(string(d.URL))
	return err == nil && p["password"] != ""
}

// spread returns a list of n ports for n hosts, in the form that the driver needs: a single port
// applies to all hosts, and an empty one is the default port.
func spread(ports, fallback string, n int) string {
	list := strings.Split(ports, ",")
	for len(list) < n && !strings.Contains(ports, ",") {
		list = append(list, ports)
	}
	for i := range list {
		if list[i] == "" {
			list[i] = fallback
		}
	}
	return strings.Join(list, ",")
}

func appendParameter(b *strings.Builder, p map[string]string, key string) {
	value, ok := p[key]
	if !ok {
		return
	}
	if b.Len() > 0 {
		b.WriteByte(' ')
	}
	b.WriteString(key + "='" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(value) + "'")
}
