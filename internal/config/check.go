package config

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-playground/validator/v10"

	"github.com/skald-saga/skald/api/webhooks"
	"github.com/skald-saga/skald/internal/secret/envelope"
)

func pattern(s string) bool {
	_, err := regexp.Compile(s)
	return err == nil
}

var nodeID = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,128}$`)

var checker = newChecker()

func newChecker() *validator.Validate {
	v := validator.New(validator.WithRequiredStructEnabled())
	v.RegisterTagNameFunc(func(f reflect.StructField) string { return f.Tag.Get("key") })
	for tag, ok := range map[string]func(string) bool{
		"listen_addr":   listenAddr,
		"loopback_addr": loopbackAddr,
		"db_hosts":      dbHosts,
		"node_id":       nodeID.MatchString,
		"vault_address": vaultAddress,
		"egress_entry":  egressEntry,
		"offload_url":   offloadURL,
		"redis_url":     redisURL,
		"broker":        broker,
		"source_topic":  sourceTopic,
		"pattern":       pattern,
		"api_key":       apiKey,
		"issuer_url":    issuerURL,
		"base_path":     basePath.MatchString,
		"public_url":    publicURL,
		"ui_link":       uiLink,
		"role_name":     roleName,
	} {
		if err := v.RegisterValidation(tag,
			func(fl validator.FieldLevel) bool { return ok(fl.Field().String()) }); err != nil {
			panic(err) // only for an empty or reserved tag name
		}
	}
	return v
}

// check reports values out of range, and then every violated rule between settings that are valid
// on their own.
func (l *loader) check(cfg Config) {
	var invalid validator.ValidationErrors
	if err := checker.Struct(cfg); err != nil && !errors.As(err, &invalid) {
		l.add("configuration", "", "cannot be checked, which is a bug in Skald")
	}
	for _, e := range invalid {
		key, entry, isEntry := strings.Cut(strings.TrimPrefix(e.Namespace(), "Config."), "[")
		detail := "must be " + byKey[key].allowed
		if n, err := strconv.Atoi(strings.TrimSuffix(entry, "]")); isEntry && err == nil {
			detail += fmt.Sprintf("; entry %d is not", n+1)
		}
		l.add(key, l.origin(key), detail)
	}
	for _, r := range slices.Concat(rules, vaultRules, jobsRules) {
		if l.has(r.key) || l.has(r.with...) {
			continue
		}
		if detail := r.broken(cfg); detail != "" {
			l.add(r.key, l.origin(r.key), detail)
		}
	}
}

var rules = []rule{
	{"database.url", []string{"app.environment"}, brokenURL},
	{"database.ssl_mode", []string{"app.environment", "database.url"}, func(c Config) string {
		return unless(c.App.Environment != Prod || c.Database.SSLMode != "disable",
			"must not be disable in prod")
	}},
	{"database.host", []string{"app.environment", "database.url"}, func(c Config) string {
		return unless(c.App.Environment != Prod || !c.Database.Embedded(),
			"must be set in prod (or database.url): the private PostgreSQL is for dev, test and trials")
	}},
	{"database.max_idle_conns", []string{"database.max_open_conns"}, func(c Config) string {
		return unless(c.Database.MaxIdleConns <= c.Database.MaxOpenConns,
			"must not exceed database.max_open_conns")
	}},
	// A shorter timeout would cut off statements before their own timeout and leave their outcome
	// unknown.
	{"database.io_timeout", []string{"database.statement_timeout"}, func(c Config) string {
		return unless(c.Database.IOTimeout > c.Database.StatementTimeout,
			"must exceed database.statement_timeout")
	}},
	{"server.tls_cert_file", []string{"server.tls_key_file"}, func(c Config) string {
		return unless((c.Server.TLSCertFile == "") == (c.Server.TLSKeyFile == ""), "must be set together with server.tls_key_file")
	}},
	{"server.tls_client_ca_file", []string{"server.tls_cert_file"}, func(c Config) string {
		return unless(c.Server.TLSClientCAFile == "" || c.Server.TLSCertFile != "", "requires server.tls_cert_file")
	}},
	{"participants.tls_cert_file", []string{"participants.tls_key_file"}, func(c Config) string {
		return unless((c.Participants.TLSCertFile == "") == (c.Participants.TLSKeyFile == ""),
			"must be set together with participants.tls_key_file")
	}},
	{"webhooks.tls_cert_file", []string{"webhooks.tls_key_file"}, func(c Config) string {
		return unless((c.Webhooks.TLSCertFile == "") == (c.Webhooks.TLSKeyFile == ""),
			"must be set together with webhooks.tls_key_file")
	}},
	{"server.header_timeout", []string{"server.read_timeout"}, func(c Config) string {
		return unless(c.Server.HeaderTimeout <= c.Server.ReadTimeout, "must not exceed server.read_timeout")
	}},
	{"server.write_timeout", []string{"server.max_wait", "server.request_timeout"}, func(c Config) string {
		return unless(c.Server.WriteTimeout > c.Server.MaxWait+c.Server.RequestTimeout,
			"must exceed the sum of server.max_wait and server.request_timeout, or responses would be cut off")
	}},
	{"server.shutdown_timeout", []string{"engine.drain_timeout"}, func(c Config) string {
		return unless(c.Server.ShutdownTimeout > c.Engine.DrainTimeout,
			"must exceed engine.drain_timeout, or the last outcomes would be lost")
	}},
	{"engine.reaper_interval", []string{"engine.lease_ttl"}, func(c Config) string {
		return unless(c.Engine.ReaperInterval <= c.Engine.LeaseTTL,
			"must not exceed engine.lease_ttl, or dead nodes would go unnoticed")
	}},
	{"kafka.sasl", []string{"app.environment", "kafka.tls"}, func(c Config) string {
		return unless(c.App.Environment != Prod || c.Kafka.SASL != "plain" || c.Kafka.TLS,
			"must not be plain without kafka.tls in prod: the password would be sent unencrypted")
	}},
	{"dlq.max_interval", []string{"dlq.initial_interval"}, func(c Config) string {
		return unless(c.DLQ.MaxInterval >= c.DLQ.InitialInterval, "must not be less than dlq.initial_interval")
	}},
	{"dlq.redrive_rate", []string{"dlq.max_redrive_rate"}, func(c Config) string {
		return unless(c.DLQ.RedriveRate <= c.DLQ.MaxRedriveRate, "must not exceed dlq.max_redrive_rate")
	}},
	{"ingest.topics", []string{"kafka.brokers", "store"}, func(c Config) string {
		return unless(
			c.Ingest.Topics == "" || len(c.Kafka.Brokers) > 0 && c.Store == PostgreSQL,
			"requires kafka.brokers and the store postgres",
		)
	}},
	{"kafka.event_topic", []string{"kafka.brokers"}, func(c Config) string {
		return unless(c.Kafka.EventTopic == "" || len(c.Kafka.Brokers) > 0, "requires kafka.brokers")
	}},
	{"kafka.event_tenants", []string{"kafka.event_topic"}, func(c Config) string {
		return unless(len(c.Kafka.EventTenants) == 0 || c.Kafka.EventTopic != "", "requires kafka.event_topic")
	}},
	{"kafka.event_topic", []string{"ingest.topics", "ingest.exclude"}, func(c Config) string {
		return unless(
			c.Ingest.Topics == "" || c.Kafka.EventTopic == "" ||
				!regexp.MustCompile(c.Ingest.Topics).MatchString(c.Kafka.EventTopic) ||
				c.Ingest.Exclude != "" && regexp.MustCompile(c.Ingest.Exclude).MatchString(c.Kafka.EventTopic),
			"must not match ingest.topics: every event would become a dead letter",
		)
	}},
	{"kafka.source_topics", []string{"kafka.brokers", "store"}, func(c Config) string {
		return unless(len(c.Kafka.SourceTopics) == 0 || len(c.Kafka.Brokers) > 0 && c.Store == PostgreSQL,
			"requires kafka.brokers and the store postgres")
	}},
	{"kafka.source_topics", []string{"kafka.event_topic", "ingest.topics", "ingest.exclude"}, brokenSources},
	{"kafka.source_group", []string{"kafka.source_topics", "ingest.group"}, func(c Config) string {
		return unless(len(c.Kafka.SourceTopics) == 0 || c.Kafka.SourceGroup != c.Ingest.Group,
			"must not be ingest.group: its members read other topics")
	}},
	{"auth.mode", []string{"app.environment", "server.listen_addr"}, func(c Config) string {
		return unless(c.Auth.Mode != AuthOff || c.App.Environment != Prod && loopbackAddr(c.Server.ListenAddr),
			"must not be off in prod, or if server.listen_addr is not on loopback")
	}},
	{"auth.jwks_url", []string{"auth.jwt_issuer"}, func(c Config) string {
		return unless(c.Auth.JWTIssuer != "" || c.Auth.JWKSURL == "", "requires auth.jwt_issuer")
	}},
	{"auth.oidc_client_id", []string{"auth.jwt_issuer"}, func(c Config) string {
		return unless(c.Auth.OIDCClientID == "" || c.Auth.JWTIssuer != "", "requires auth.jwt_issuer")
	}},
	{"auth.oidc_client_id", []string{"auth.oidc_client_secret", "auth.oidc_client_secret_file"}, func(c Config) string {
		return unless(c.Auth.OIDCClientID == "" || c.Auth.OIDCClientSecret != "", "requires auth.oidc_client_secret")
	}},
	{
		"encryption.keys",
		[]string{"encryption.key_file"},
		func(c Config) string { return brokenKeys(c, c.Encryption.KeyFile == "") },
	},
	{"encryption.key_file", nil, func(c Config) string { return brokenKeys(c, c.Encryption.KeyFile != "") }},
	{
		"participants.signing_secrets",
		[]string{"participants.signing_secrets_file"},
		func(c Config) string { return brokenSigning(c, c.Participants.SigningSecretsFile == "") },
	},
	{"participants.signing_secrets_file", nil, func(c Config) string {
		return brokenSigning(c, c.Participants.SigningSecretsFile != "")
	}},
	{"test.clock_offset", []string{"app.environment"}, func(c Config) string {
		return unless(c.App.Environment == Test || c.Test.ClockOffset == 0,
			"is refused unless app.environment (SKALD_ENV) is test")
	}},
	{"store", []string{"app.environment"}, func(c Config) string {
		return unless(
			c.App.Environment != Prod || c.Store != Memory,
			"must not be memory in prod: the data would be lost with the process",
		)
	}},
	{"failpoints", []string{"app.environment"}, func(c Config) string {
		return unless(c.App.Environment != Prod || c.Failpoints == "", "is refused in prod")
	}},
}

// brokenSigning is like brokenKeys, but for the signing secrets.
func brokenSigning(c Config, here bool) string {
	if _, err := SigningKeys(string(c.Participants.SigningSecrets)); err != nil && here {
		return err.Error()
	}
	return ""
}

// SigningKeys returns the keys in participants.signing_secrets or in its file.
func SigningKeys(secrets string) ([][]byte, error) {
	keys, err := webhooks.ParseSecrets(secrets)
	if err != nil || len(keys) > 2 || len(keys) == 0 && secrets != "" {
		return nil, errors.New("must be one or two secrets, each whsec_ and the base64 of 24 to 64 bytes")
	}
	return keys, nil
}

// brokenKeys returns what is wrong with the master keys; "" if they are valid, or if they do not
// come from the settings (here is false).
func brokenKeys(c Config, here bool) string {
	if _, err := envelope.Parse(string(c.Encryption.Keys)); err != nil && here {
		return err.Error()
	}
	return ""
}

// brokenURL returns what is wrong with database.url, if anything.
func brokenURL(c Config) string {
	p, err := parseConnInfo(string(c.Database.URL))
	if err != nil {
		return err.Error()
	}
	if c.App.Environment == Prod && slices.Contains([]string{"disable", "allow", "prefer"}, p["sslmode"]) {
		return "must not have an sslmode below require in prod"
	}
	return ""
}
