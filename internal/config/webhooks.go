package config

import "time"

// Webhooks configures deliveries. Egress must allow the endpoints as well.
type Webhooks struct {
	AllowHTTP       bool          `key:"allow_http" doc:"Whether endpoints may use plain http. Others on the network can then read and replay deliveries."`
	TLSCertFile     string        `key:"tls_cert_file" doc:"File of the client certificate with its chain (PEM), which Skald shows to https endpoints that ask for one. The user who registers a webhook chooses the endpoint, so this is not the certificate used for participants. It is read again when it changes. Requires tls_key_file."`
	TLSKeyFile      string        `key:"tls_key_file" doc:"File of that certificate's private key (PEM)."`
	TLSCAFile       string        `key:"tls_ca_file" doc:"File of CA certificates (PEM) to verify endpoints with; empty means the system's. It is read again when it changes."`
	Timeout         time.Duration `key:"timeout" validate:"min=100ms,max=50s" doc:"Timeout of one attempt."`
	Concurrency     int           `key:"concurrency" validate:"min=1,max=100" doc:"Maximum number of concurrent attempts for one webhook on each node. A failing webhook is limited to 1."`
	MaxAttempts     int           `key:"max_attempts" validate:"min=1,max=100" doc:"Maximum number of attempts of a delivery."`
	InitialInterval time.Duration `key:"initial_interval" validate:"min=10ms,max=1h" doc:"Wait before the second attempt; it triples with each attempt."`
	MaxInterval     time.Duration `key:"max_interval" validate:"min=10ms,max=24h" doc:"Longest wait between two attempts."`
	DisableAfter    int           `key:"disable_after" validate:"min=1,max=1000000" doc:"A webhook is disabled after this many consecutive deliveries have run out of attempts."`
	Keep            time.Duration `key:"keep" validate:"min=1h,max=87600h" doc:"How long finished deliveries are kept."`
}

func defaultWebhooks() Webhooks {
	return Webhooks{
		AllowHTTP:       true,
		Timeout:         10 * time.Second,
		Concurrency:     8,
		MaxAttempts:     16,
		InitialInterval: 5 * time.Second,
		MaxInterval:     time.Hour,
		DisableAfter:    10,
		Keep:            720 * time.Hour,
	}
}
