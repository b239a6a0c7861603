package config

import "time"

// Jobs configures whether this node may lead the scheduler, where the logs of job runs are moved,
// and which Redis holds lease hints. LogS3SecretKey holds the content of LogS3SecretKeyFile if a
// file is given.
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
	RedisPrefix          string        `key:"redis_prefix" validate:"max=100" doc:"Prefix of the Redis keys, which are PREFIX:jobrun:lease:RUN; if empty, the colon is omitted as well."`
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
