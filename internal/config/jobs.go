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

// Jobs configures whether this node may lead the scheduler, where the logs of job runs are
// moved, and which Redis holds lease hints. LogS3SecretKey holds the content of
// LogS3SecretKeyFile when that is given.
type Jobs struct {
	Scheduler            bool          `key:"scheduler" doc:"Whether this node may become leader of the job scheduler. One node at a time is the leader; without a leader, running jobs continue but no new ones start."`
	Worker               bool          `key:"worker" doc:"Whether this node executes job runs: Skald's own commands, and programs if worker_shell is on."`
	WorkerQueues         []string      `key:"worker_queues" validate:"dive,min=1,max=100" doc:"Queues from which the node's worker claims runs."`
	WorkerConcurrency    int           `key:"worker_concurrency" validate:"min=1,max=1000" doc:"Maximum number of runs that the node's worker executes at once."`
	WorkerShell          bool          `key:"worker_shell" doc:"Whether the command shell runs programs on this machine, as the user that Skald runs as. Refused for root. The job definition determines which program runs, so administrators of jobs (jobs:admin) can run everything that worker_shell_allow lists; the arguments of a run are only data."`
	WorkerShellAllow     []string      `key:"worker_shell_allow" validate:"dive,min=1,max=1000" doc:"Programs that the command shell may run, by their absolute paths. /bin/sh allows any script, and therefore any program."`
	WorkerShellArgsAllow []string      `key:"worker_shell_args_allow" validate:"dive,min=1,max=1000" doc:"Programs that treat all their arguments as data, by their absolute paths: for these, argv of a job definition may contain {args}, which the arguments of a run replace. Use the same list on all nodes, including nodes that run no programs: definitions are checked when they are stored and when they run. List no shell, interpreter or program that starts others, such as env or xargs. echo, printf and logger need not be listed, and shells allow {args} after -c, code and name."`
	WorkerShellEnvAllow  []string      `key:"worker_shell_env_allow" validate:"dive,min=1,max=255" doc:"Environment variables that job definitions may set for their programs, by name. Some change what a program executes, such as LD_PRELOAD, BASH_ENV or PYTHONPATH: list only those you know to be harmless. PATH, HOME, LANG, TZ and names that begin with SKALD_ cannot be listed."`
	UpkeepInterval       time.Duration `key:"upkeep_interval" validate:"min=1s,max=24h" doc:"How often this node moves old logs to log_offload_url and deletes expired runs; the job settings log_retention_days_db and run_retention_days set the age."`
	LogOffloadURL        string        `key:"log_offload_url" env:"SKALD_LOG_OFFLOAD_URL" validate:"omitempty,offload_url" doc:"Where logs are moved after log_retention_days_db: file:///var/lib/skald/logs, or s3://bucket/prefix?endpoint=https://s3.internal&region=eu-1&path_style=true, where region is required without endpoint. Empty means that logs stay in the database. All nodes must use the same location."`
	LogS3AccessKey       string        `key:"log_s3_access_key" validate:"max=255" doc:"Access key for S3; empty means the role of the machine or pod (AWS)."`
	LogS3SecretKey       Secret        `key:"log_s3_secret_key" doc:"Secret key of log_s3_access_key. Excludes log_s3_secret_key_file."`
	LogS3SecretKeyFile   string        `key:"log_s3_secret_key_file" doc:"File that contains the secret key; trailing line breaks are ignored. Excludes log_s3_secret_key."`
	RedisURL             Secret        `key:"redis_url" env:"SKALD_REDIS_URL" validate:"omitempty,redis_url" doc:"Redis that records which worker has which run, as a hint that can save database work: redis://user:password@host:6379/0, redis+sentinel://user:password@host:26379,host:26379/master/0 (a password of the Sentinels themselves goes into ?sentinel_password=), or redis+cluster://user:password@host:6379,host:6379; each with rediss instead of redis for TLS. PostgreSQL always has the final say. Empty means no Redis."`
	RedisPrefix          string        `key:"redis_prefix" validate:"max=100" doc:"Prefix of the Redis keys, which are PREFIX:jobrun:lease:RUN; if empty, the colon is omitted, too."`
}

func defaultJobs() Jobs {
	return Jobs{
		Scheduler:         true,
		Worker:            true,
		WorkerQueues:      []string{"system"},
		WorkerConcurrency: 4,
		RedisPrefix:       "scheduler",
		UpkeepInterval:    30 * time.Second,
	}
}

// offloadURL reports whether s has the form of a log store's URL; package logstore is
// stricter.
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

// redisHosts returns a Redis URL as one URL for each of its hosts, nil when it does not
// have that form; package redislease is stricter.
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

// CheckUser returns an error when a process of this effective user id must not run with
// these settings.
func (c Config) CheckUser(euid int) error {
	if euid == 0 && c.Jobs.WorkerShell {
		return errors.New("jobs.worker_shell is on and Skald runs as root, so every program of a job would as well: " +
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
