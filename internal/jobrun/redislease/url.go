package redislease

import (
	"cmp"
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// place is the location of Redis that a URL specifies.
type place struct {
	addrs          []string // of Sentinels, if master is not ""; else of servers
	master         string   // its name among the Sentinels; "": there are none
	cluster        bool
	db             int
	user, password string // of the servers; "": none
	// sentinelUser and sentinelPassword are the credentials for the Sentinels.
	sentinelUser, sentinelPassword string
	tls                            *tls.Config // nil: no TLS
}

// CheckURL returns an error that describes what is wrong with a URL without quoting it. A URL has
// one of these forms:
//
//	redis://user:password@host:6379/0
//	redis+sentinel://user:password@host:26379,host:26379/master/0
//	redis+cluster://user:password@host:6379,host:6379
//
// with rediss for TLS. The scheme determines the kind of deployment, and the number of hosts does
// not, because a Cluster may have one name for all its nodes. User, password, port and database may
// be omitted, as may the user alone. A password for the Sentinels is given as ?sentinel_password=,
// with ?sentinel_username= if they require one.
func CheckURL(rawURL string) error {
	_, err := parseURL(rawURL)
	return err
}

var (
	// paths lists the patterns for the part after the hosts, by kind of deployment: a database,
	// which for Sentinel follows the name of the master.
	paths = map[string]*regexp.Regexp{
		"":         regexp.MustCompile(`^()(?:/([0-9]{0,4}))?$`),
		"sentinel": regexp.MustCompile(`^/([A-Za-z0-9._-]+)(?:/([0-9]{0,4}))?$`),
		"cluster":  regexp.MustCompile(`^()(?:/(0?))?$`),
	}
	errURL = errors.New("redislease: the URL must be redis:// or rediss:// with a host and, optionally, :password@ or user:password@, a port and /database; " +
		"or redis+sentinel:// with comma-separated hosts and /master; or redis+cluster:// with comma-separated hosts")
)

// parseURL returns the location that the URL specifies. Its errors do not quote the URL, which may
// contain passwords.
func parseURL(rawURL string) (*place, error) {
	scheme, rest, _ := strings.Cut(rawURL, "://")
	scheme, kind, suffixed := strings.Cut(scheme, "+")
	form, known := paths[kind]
	if scheme != "redis" && scheme != "rediss" || !known || suffixed != (kind != "") {
		return nil, errURL
	}
	p := &place{cluster: kind == "cluster"}
	if scheme == "rediss" {
		p.tls = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	port := "6379"
	if kind == "sentinel" {
		port = "26379"
	}
	// url.Parse does not accept several hosts, so each is parsed separately.
	end := len(rest)
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		end = i
	}
	user := rest[:strings.LastIndex(rest[:end], "@")+1]
	if kind != "" && strings.Count(user, "@") > 1 {
		return nil, errURL // a user with each host would be read as one long password
	}
	for _, host := range strings.Split(rest[len(user):end], ",") {
		u, err := url.Parse("redis://" + user + host + rest[end:])
		if err != nil || u.Hostname() == "" || u.Fragment != "" || len(p.addrs) > 0 && kind == "" {
			return nil, errURL
		}
		p.addrs = append(p.addrs, net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), port)))
		if len(p.addrs) == 1 && !common(p, u, form, kind) {
			return nil, errURL
		}
	}
	return p, nil
}

// common reads the parts that all hosts share, and reports whether they are valid.
func common(p *place, u *url.URL, form *regexp.Regexp, kind string) bool {
	path := form.FindStringSubmatch(u.Path)
	if path == nil {
		return false
	}
	p.master = path[1]
	p.db, _ = strconv.Atoi(path[2]) // "" means 0
	password, ok := u.User.Password()
	if u.User != nil && !ok {
		return false // for a single word, some implementations mean the password and others the user
	}
	p.user, p.password = u.User.Username(), password
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil || u.ForceQuery {
		return false
	}
	for name, values := range query {
		switch {
		case kind != "sentinel" || len(values) != 1:
			return false
		case name == "sentinel_password":
			p.sentinelPassword = values[0]
		case name == "sentinel_username":
			p.sentinelUser = values[0]
		default:
			return false
		}
	}
	return p.sentinelUser == "" || p.sentinelPassword != ""
}
