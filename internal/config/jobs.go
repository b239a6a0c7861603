package config

import (
	"errors"
	"net"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Jobs says whether this node may lead the scheduler, where the logs of job runs
// go in the end, and which Redis may help. LogS3SecretKey holds the content of
// LogS3SecretKeyFile when that is given.
type Jobs struct {
	Scheduler           bool          `koanf:"scheduler" doc:"Whether this node may lead the scheduler of job runs. One node at a time does; without any, runs go on but no new ones begin."`
	Worker              bool          `koanf:"worker" doc:"Whether this node runs job runs itself: Skald's own commands, and programs where worker_shell allows it. Without either there is nothing to run."`
	WorkerQueues        []string      `koanf:"worker_queues" validate:"dive,min=1,max=100" doc:"From which queues."`
	WorkerConcurrency   int           `koanf:"worker_concurrency" validate:"min=1,max=1000" doc:"How many runs at once."`
	WorkerShell         bool          `koanf:"worker_shell" doc:"Whether the command shell runs programs on this machine, as the user that Skald runs as. Refused for root. What runs comes from the definition of a job, so whoever may define jobs (jobs:admin) may run what worker_shell_allow lists; arguments of a run are only data for it."`
	WorkerShellAllow    []string      `koanf:"worker_shell_allow" validate:"dive,min=1,max=1000" doc:"Programs that shell may run, by their absolute paths. /bin/sh allows definitions any script, and so anything."`
	WorkerShellEnvAllow []string      `koanf:"worker_shell_env_allow" validate:"dive,min=1,max=255" doc:"Variables that definitions of jobs may set for their programs, by name. Some change what a program is, such as LD_PRELOAD, BASH_ENV or PYTHONPATH: list what you know to be harmless. PATH, HOME, LANG, TZ and names that begin with SKALD_ cannot be listed."`
	UpkeepInterval      time.Duration `koanf:"upkeep_interval" validate:"min=1s,max=24h" doc:"How often this node moves old logs to log_offload_url and deletes expired runs; the settings log_retention_days_db and run_retention_days say what is old."`
	LogOffloadURL       string        `koanf:"log_offload_url" env:"SKALD_LOG_OFFLOAD_URL" validate:"omitempty,offload_url" doc:"Where logs go after log_retention_days_db: file:///var/lib/skald/logs, or s3://bucket/prefix?endpoint=https://s3.internal&region=eu-1&path_style=true, of which region is required without endpoint. Empty means that they stay in the database. All nodes must see the same place."`
	LogS3AccessKey      string        `koanf:"log_s3_access_key" validate:"max=255" doc:"Access key for S3; empty means the role of the machine or pod (AWS)."`
	LogS3SecretKey      Secret        `koanf:"log_s3_secret_key" doc:"Secret key that belongs to it. Excludes log_s3_secret_key_file."`
	LogS3SecretKeyFile  string        `koanf:"log_s3_secret_key_file" doc:"File that holds the secret key; line ends after it are dropped. Excludes log_s3_secret_key."`
	RedisURL            Secret        `koanf:"redis_url" env:"SKALD_REDIS_URL" validate:"omitempty,redis_url" doc:"Redis that notes which worker has which run, as a hint that may save work: redis://user:password@host:6379/0, redis+sentinel://user:password@host:26379,host:26379/master/0 (a password of the Sentinels themselves goes into ?sentinel_password=), or redis+cluster://user:password@host:6379,host:6379; each with rediss for TLS. PostgreSQL decides, with it and without it. Empty means none."`
	RedisPrefix         string        `koanf:"redis_prefix" validate:"max=100" doc:"First word of its keys, which are PREFIX:jobrun:lease:RUN; empty leaves it and its colon out."`
}

// offloadURL tells whether s has the form of a place for logs; package logstore
// is stricter.
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

// redisHosts returns a Redis URL as one of each of its hosts, nil when it has not
// that form; package redislease is stricter.
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

// plainPassword tells whether a password would travel over a network in the clear.
// A Sentinel or a node of a Cluster on this machine sends on to other machines.
func plainPassword(s Secret) bool {
	return slices.ContainsFunc(redisHosts(string(s)), func(u *url.URL) bool {
		here := u.Scheme == "redis" && loopbackAddr(net.JoinHostPort(u.Hostname(), "80"))
		return !strings.HasPrefix(u.Scheme, "rediss") && (u.User != nil || u.RawQuery != "") && !here
	})
}

// plainEndpoint tells whether logs would travel over a network in the clear.
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

// CheckUser tells whether a process of this effective user id may run with these
// settings.
func (c Config) CheckUser(euid int) error {
	if euid == 0 && c.Jobs.WorkerShell {
		return errors.New("jobs.worker_shell is on and Skald runs as root, and so would every program that a job runs: " +
			"start Skald as a user of its own (User= in systemd, runAsUser in Kubernetes), or turn jobs.worker_shell off")
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
	{"jobs.worker_shell_env_allow", nil, func(c Config) string {
		return unless(
			!slices.ContainsFunc(
				c.Jobs.WorkerShellEnvAllow,
				func(name string) bool { return !envName.MatchString(name) || ownEnv.MatchString(name) },
			),
			"must list names of variables, and not PATH, HOME, LANG, TZ or what begins with SKALD_, which programs get from Skald",
		)
	}},
	{"jobs.worker_queues", []string{"jobs.worker"}, func(c Config) string {
		return unless(!c.Jobs.Worker || len(c.Jobs.WorkerQueues) > 0, "must name at least one queue when jobs.worker is on")
	}},
	{"jobs.log_offload_url", []string{"app.environment"}, func(c Config) string {
		return unless(c.App.Environment != Prod || !plainEndpoint(c.Jobs.LogOffloadURL),
			"must not have an http endpoint in prod: logs would travel in the clear")
	}},
	{"jobs.redis_url", []string{"app.environment"}, func(c Config) string {
		return unless(c.App.Environment != Prod || !plainPassword(c.Jobs.RedisURL),
			"must be rediss:// in prod: the password would travel in the clear")
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
