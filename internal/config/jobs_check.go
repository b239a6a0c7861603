package config

import (
	"errors"
	"net"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
)

// offloadURL reports whether s has the form of a log store's URL. Package logstore is stricter.
func offloadURL(s string) bool {
	u, err := url.Parse(s)
	if err != nil || u.User != nil || u.Fragment != "" {
		return false
	}
	switch u.Scheme {
	case "file":
		return (u.Host == "" || u.Host == "localhost") && path.IsAbs(u.Path) && u.RawQuery == ""
	case "s3":
		return u.Host != ""
	}
	return false
}

// redisHosts splits a Redis URL into one URL for each of its hosts; nil if it does not have the
// form of a Redis URL. Package redislease is stricter.
func redisHosts(s string) []*url.URL {
	scheme, rest, _ := strings.Cut(s, "://")
	if !slices.Contains(
		[]string{"redis", "rediss", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster"},
		scheme,
	) {
		return nil
	}
	end := len(rest)
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		end = i
	}
	user := rest[:strings.LastIndex(rest[:end], "@")+1]
	var hosts []*url.URL
	for _, host := range strings.Split(rest[len(user):end], ",") {
		u, err := url.Parse(scheme + "://" + user + host + rest[end:])
		if err != nil || u.Hostname() == "" {
			return nil
		}
		hosts = append(hosts, u)
	}
	return hosts
}

func redisURL(s string) bool { return len(redisHosts(s)) > 0 }

// plainPassword reports whether a password would cross a network unencrypted. A Sentinel or
// Cluster node on this machine redirects to other machines, so it counts as well.
func plainPassword(s Secret) bool {
	return slices.ContainsFunc(redisHosts(string(s)), func(u *url.URL) bool {
		here := u.Scheme == "redis" && loopbackAddr(net.JoinHostPort(u.Hostname(), "80"))
		return !strings.HasPrefix(u.Scheme, "rediss") && (u.User != nil || u.RawQuery != "") && !here
	})
}

// plainEndpoint reports whether logs would cross a network unencrypted.
func plainEndpoint(s string) bool {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "s3" {
		return false
	}
	endpoint, err := url.Parse(u.Query().Get("endpoint"))
	return err == nil && endpoint.Scheme == "http" && !loopbackAddr(net.JoinHostPort(endpoint.Hostname(), "80"))
}

var (
	envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	ownEnv  = regexp.MustCompile(`^(PATH|HOME|LANG|TZ|SKALD_.*)$`)
)

// CheckUser returns an error if a process with this effective user ID must not run with these
// settings.
func (c Config) CheckUser(euid int) error {
	if euid == 0 && c.Jobs.WorkerShell {
		return errors.New("jobs.worker_shell is on and Skald runs as root, so every program of a job would also run as root: " +
			"start Skald as its own user (User= in systemd, runAsUser in Kubernetes), or turn jobs.worker_shell off")
	}
	return nil
}

var jobsRules = []rule{
	{"jobs.worker_shell_allow", []string{"jobs.worker_shell"}, func(c Config) string {
		return unless(
			!c.Jobs.WorkerShell || len(c.Jobs.WorkerShellAllow) > 0,
			"must list what may run when jobs.worker_shell is on",
		)
	}},
	{"jobs.worker_shell_allow", nil, func(c Config) string {
		return unless(
			!slices.ContainsFunc(c.Jobs.WorkerShellAllow, func(p string) bool { return !path.IsAbs(p) || path.Clean(p) != p }),
			"must list absolute paths without . or ..",
		)
	}},
	{"jobs.worker_shell_args_allow", nil, func(c Config) string {
		return unless(
			!slices.ContainsFunc(
				c.Jobs.WorkerShellArgsAllow,
				func(p string) bool { return !path.IsAbs(p) || path.Clean(p) != p },
			),
			"must list absolute paths without . or ..",
		)
	}},
	{"jobs.worker_shell_env_allow", nil, func(c Config) string {
		return unless(
			!slices.ContainsFunc(
				c.Jobs.WorkerShellEnvAllow,
				func(name string) bool { return !envName.MatchString(name) || ownEnv.MatchString(name) },
			),
			"must list names of variables other than PATH, HOME, LANG, TZ and SKALD_…, which Skald sets itself",
		)
	}},
	{"jobs.worker_queues", []string{"jobs.worker"}, func(c Config) string {
		return unless(!c.Jobs.Worker || len(c.Jobs.WorkerQueues) > 0, "must name at least one queue when jobs.worker is on")
	}},
	{"jobs.log_offload_url", []string{"app.environment"}, func(c Config) string {
		return unless(c.App.Environment != Prod || !plainEndpoint(c.Jobs.LogOffloadURL),
			"must not have an http endpoint in prod: logs would be sent unencrypted")
	}},
	{"jobs.redis_url", []string{"app.environment"}, func(c Config) string {
		return unless(c.App.Environment != Prod || !plainPassword(c.Jobs.RedisURL),
			"must be rediss:// in prod: the password would be sent unencrypted")
	}},
	{"jobs.log_s3_access_key", []string{"jobs.log_offload_url"}, func(c Config) string {
		return unless(c.Jobs.LogS3AccessKey == "" || strings.HasPrefix(c.Jobs.LogOffloadURL, "s3:"),
			"requires jobs.log_offload_url to be s3://")
	}},
	{"jobs.log_s3_secret_key", []string{"jobs.log_s3_access_key", "jobs.log_s3_secret_key_file"}, func(c Config) string {
		return unless((c.Jobs.LogS3AccessKey == "") == (c.Jobs.LogS3SecretKey == ""),
			"and jobs.log_s3_access_key must be set together")
	}},
}
