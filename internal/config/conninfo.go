package config

import (
	"errors"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Mistakes in a connection string. None of them quotes the string, because it contains the password.
var (
	errNotURL   = errors.New("must be a postgres:// URL; percent-encode special characters in user and password")
	errNotDSN   = errors.New("must be a postgres:// URL or keyword DSN such as host=db dbname=skald password='it\\'s'")
	errHostList = errors.New(
		"must have a port from 1 to 65535 for each host, or one for all; in a URL, percent-encode special characters in user and password",
	)
	errSSLMode = errors.New("must have an sslmode of disable, allow, prefer, require, verify-ca or verify-full")
	errName    = errors.New("must have parameter names of letters, digits, _ and . only")
	errService = errors.New("must not name a service or passfile; set database.password_file")
	errBinary  = errors.New("must not set binary_parameters: JSON cannot be sent that way")
)

// parameterName matches the name of a parameter; names are never quoted.
var parameterName = regexp.MustCompile(`^[A-Za-z0-9_.]+$`)

var sslModes = []string{"", "disable", "allow", "prefer", "require", "verify-ca", "verify-full"}

// parseConnInfo parses libpq's connection strings, URL or keywords, into parameters; none for an
// empty string. pq.NewConfig is not suitable: it turns a URL with several hosts and ports into
// hosts named a:5433, its errors quote parts of the string, and it mixes in the environment and
// defaults. We have to fill in the parameters that are missing from the string, and could no longer
// tell which they are (TestTheDriverCannotReadConnectionStringsForUs).
func parseConnInfo(s string) (map[string]string, error) {
	s = strings.TrimSpace(s)
	var p map[string]string
	var err error
	if rest, ok := cutScheme(s); ok {
		p, err = parseURL(rest)
	} else {
		p, err = parseKeywords(s)
	}
	if err != nil {
		return nil, err
	}
	for name := range p {
		if !parameterName.MatchString(name) {
			return nil, errName
		}
	}
	switch {
	case p["service"] != "" || p["passfile"] != "":
		return nil, errService
	case p["binary_parameters"] != "":
		return nil, errBinary
	case !slices.Contains(sslModes, p["sslmode"]):
		return nil, errSSLMode
	case !validPorts(p):
		return nil, errHostList
	}
	return p, nil
}

func cutScheme(s string) (string, bool) {
	for _, scheme := range []string{"postgres://", "postgresql://"} {
		if rest, ok := strings.CutPrefix(s, scheme); ok {
			return rest, true
		}
	}
	return "", false
}

// parseURL reads [user[:password]@][host[:port],…][/dbname][?key=value&…]. The hosts are cut out
// before net/url parses the rest, because net/url supports only one host.
func parseURL(rest string) (map[string]string, error) {
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	at := strings.LastIndexByte(rest[:end], '@') + 1
	u, err := url.Parse("postgres://" + rest[:at] + "host" + rest[end:])
	if err != nil || u.Fragment != "" {
		return nil, errNotURL
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errNotURL
	}
	p := map[string]string{}
	var hosts, ports []string
	for item := range strings.SplitSeq(rest[at:end], ",") {
		host, port, ok := splitHost(item)
		if !ok {
			return nil, errNotURL
		}
		hosts, ports = append(hosts, host), append(ports, port)
	}
	setIf(p, "host", strings.Join(hosts, ","))
	if strings.Join(ports, "") != "" {
		p["port"] = strings.Join(ports, ",")
	}
	setIf(p, "dbname", strings.TrimPrefix(u.Path, "/"))
	setIf(p, "user", u.User.Username())
	if password, ok := u.User.Password(); ok {
		setIf(p, "password", password)
	}
	for key, values := range query {
		setIf(p, key, values[len(values)-1])
	}
	return p, nil
}

func setIf(p map[string]string, key, value string) {
	if value != "" {
		p[key] = value
	}
}

// splitHost splits host, host:port, [ipv6] or [ipv6]:port. A host may be
// percent-encoded, which is how a URL names a socket directory.
func splitHost(item string) (host, port string, ok bool) {
	if rest, bracket := strings.CutPrefix(item, "["); bracket {
		host, port, ok = strings.Cut(rest, "]")
		if !ok || port != "" && !strings.HasPrefix(port, ":") {
			return "", "", false
		}
		return host, strings.TrimPrefix(port, ":"), true
	}
	host, port, _ = strings.Cut(item, ":")
	host, err := url.PathUnescape(host)
	return host, port, err == nil && !strings.ContainsAny(port, ":[]")
}

// parseKeywords parses key = value pairs with libpq's quoting: spaces around the equals
// sign are allowed, a value with spaces must be in single quotes, and a backslash
// escapes the next character.
func parseKeywords(s string) (map[string]string, error) {
	p := map[string]string{}
	for s = strings.TrimSpace(s); s != ""; s = strings.TrimLeftFunc(s, unicode.IsSpace) {
		key, rest, ok := strings.Cut(s, "=")
		key = strings.TrimSpace(key)
		if !ok || key == "" || strings.ContainsFunc(key, unicode.IsSpace) {
			return nil, errNotDSN
		}
		value, rest, ok := cutValue(strings.TrimLeftFunc(rest, unicode.IsSpace))
		if !ok {
			return nil, errNotDSN
		}
		p[key], s = value, rest
	}
	return p, nil
}

// cutValue takes one value off the front of s.
func cutValue(s string) (value, rest string, ok bool) {
	var b strings.Builder
	s, inQuotes := strings.CutPrefix(s, "'")
	escaped := false
	for i, r := range s {
		switch {
		case escaped:
			b.WriteRune(r)
			escaped = false
		case r == '\\':
			escaped = true
		case inQuotes && r == '\'':
			return b.String(), s[i+1:], true
		case !inQuotes && unicode.IsSpace(r):
			return b.String(), s[i:], true
		default:
			b.WriteRune(r)
		}
	}
	return b.String(), "", !inQuotes && !escaped
}

func validPorts(p map[string]string) bool {
	if p["port"] == "" {
		return true
	}
	list := strings.Split(p["port"], ",")
	if len(list) > 1 && len(list) != hostCount(p) {
		return false
	}
	return !slices.ContainsFunc(list, func(port string) bool {
		n, err := strconv.ParseUint(port, 10, 16)
		return port != "" && (err != nil || n == 0)
	})
}

// hostCount returns the number of servers that the parameters name.
func hostCount(p map[string]string) int {
	return 1 + max(strings.Count(p["host"], ","), strings.Count(p["hostaddr"], ","))
}
