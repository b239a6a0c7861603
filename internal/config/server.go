package config

import "time"

// Server configures the HTTP API. Byte counts refer to the body as sent.
type Server struct {
	ListenAddr      string        `key:"listen_addr" env:"SKALD_LISTEN_ADDR" validate:"listen_addr" doc:"Address of the API. Port 0 picks a free one; an empty host means all interfaces."`
	BasePath        string        `key:"base_path" validate:"omitempty,base_path" doc:"Path under which a proxy publishes this server, such as /skald: the pages link below it, and requests are accepted with and without it. Empty means the root."`
	PublicURL       string        `key:"public_url" validate:"omitempty,public_url" doc:"URL at which clients reach this server, with the path that a proxy adds, such as https://skald.example/skald. Problem documents then link to the manual there; if empty, they link by a path, which a client resolves against the URL it called."`
	TLSCertFile     string        `key:"tls_cert_file" doc:"File of the API's certificate with its chain (PEM). If set, the API uses TLS with HTTP/2; if empty, plain HTTP. It is read again when it changes. Requires tls_key_file."`
	TLSKeyFile      string        `key:"tls_key_file" doc:"File of that certificate's private key (PEM)."`
	TLSClientCAFile string        `key:"tls_client_ca_file" doc:"File of CA certificates (PEM). If set, every connection needs a client certificate issued by one of them, including connections for /healthz and /metrics; requests still need a credential. Requires tls_cert_file."`
	DebugAddr       string        `key:"debug_addr" validate:"omitempty,loopback_addr" doc:"Address of profiling (pprof), on loopback only; empty means off."`
	MaxBodyBytes    int64         `key:"max_body_bytes" validate:"min=1024,max=67108864" doc:"Maximum size of a request body, and therefore of a payload."`
	ReadTimeout     time.Duration `key:"read_timeout" validate:"min=1s,max=10m" doc:"Maximum time to receive a request, headers and body."`
	HeaderTimeout   time.Duration `key:"header_timeout" validate:"min=100ms,max=1m" doc:"Maximum time to receive the headers of a request."`
	MinBodyRate     int           `key:"min_body_rate" validate:"min=0,max=1000000000" doc:"Minimum rate at which a client must send a body, on average, in bytes per second, after a grace period of header_timeout (for imports, of request_timeout). The response to a slower request is 408. 0 means no minimum."`
	MaxConnsPerAddr int           `key:"max_connections_per_address" validate:"min=0,max=1000000" doc:"Maximum number of connections that one client address may hold on this node; further ones are closed immediately. The addresses of an IPv6 /64 count as one. Behind a proxy, all clients have the proxy's address: set it above the number of connections that the proxy opens, or to 0, which means no limit."`
	WriteTimeout    time.Duration `key:"write_timeout" validate:"min=2s,max=1h" doc:"Maximum time from a request's headers to the end of its response; must exceed the sum of max_wait and request_timeout."`
	IdleTimeout     time.Duration `key:"idle_timeout" validate:"min=1s,max=1h" doc:"An idle keep-alive connection is closed after this long; keep it above the idle timeout of the load balancer."`
	RequestTimeout  time.Duration `key:"request_timeout" validate:"min=100ms,max=10m" doc:"Maximum time to process a request, not counting the wait that it requested."`
	MaxWait         time.Duration `key:"max_wait" validate:"min=0s,max=10m" doc:"Maximum of ?wait= and Prefer: wait; longer waits are shortened to this maximum. Keep it below the timeout of proxies, often 30 or 60 s."`
	RequireIfMatch  bool          `key:"require_if_match" doc:"Whether every operation that accepts If-Match requires it: without it, the response is 428. Operations marked x-if-match: required in openapi.yaml always do."`
	MaxWaiting      int           `key:"max_waiting" validate:"min=1,max=1000000" doc:"Maximum number of requests with ?wait= or Prefer: wait that wait on this node at the same time; further ones get their response without waiting."`
	MaxStreams      int           `key:"max_streams" validate:"min=1,max=10000" doc:"Maximum number of live streams of audit events that this node serves at once."`
	ShutdownTimeout time.Duration `key:"shutdown_timeout" validate:"min=1s,max=10m" doc:"Maximum time from the end of drain_delay to the end of the process; must exceed engine.drain_timeout."`
	DrainDelay      time.Duration `key:"drain_delay" validate:"min=0s,max=5m" doc:"How long the node still accepts requests after the stop signal, while /readyz already responds with 503; set it long enough for a load balancer to notice."`
}

func defaultServer() Server {
	return Server{
		ListenAddr:      "127.0.0.1:8080",
		MaxBodyBytes:    1 << 20,
		ReadTimeout:     30 * time.Second,
		HeaderTimeout:   5 * time.Second,
		MinBodyRate:     1024,
		MaxConnsPerAddr: 1000,
		WriteTimeout:    2 * time.Minute,
		IdleTimeout:     2 * time.Minute,
		RequestTimeout:  30 * time.Second,
		MaxWait:         25 * time.Second, // below the 30 s after which many proxies give up
		MaxWaiting:      10_000,
		MaxStreams:      100,
		ShutdownTimeout: 25 * time.Second,
	}
}

// Limits sets the limits for what clients register and send.
type Limits struct {
	MaxSteps         int   `key:"max_steps" validate:"min=1,max=10000" doc:"Maximum number of steps of a workflow."`
	MaxWorkflowBytes int64 `key:"max_workflow_bytes" validate:"min=1024,max=16777216" doc:"Maximum size of a workflow definition, in bytes."`
	MaxJSONDepth     int   `key:"max_json_depth" validate:"min=4,max=1000" doc:"Maximum nesting depth of JSON that Skald accepts."`
	KeyRequests      int   `key:"key_requests_per_second" validate:"min=0,max=1000000" doc:"Maximum rate of requests of one credential on this node, with bursts of up to two seconds' worth; the response to further ones is 429. Reports of workers about their runs are not limited. 0 means no limit."`
	TenantRequests   int   `key:"tenant_requests_per_second" validate:"min=0,max=1000000" doc:"Like key_requests_per_second, but for all credentials of a tenant together."`
	TenantCreates    int   `key:"tenant_creates_per_second" validate:"min=0,max=1000000" doc:"Like tenant_requests_per_second, but only for requests that create sagas, dead letters, runs or events; a batch counts once."`
	TenantStreams    int   `key:"tenant_streams" validate:"min=0,max=10000" doc:"Maximum number of live streams that one tenant may have open on this node; 0 means server.max_streams."`
	MaxSagaBytes     int64 `key:"max_saga_bytes" validate:"min=1024,max=1073741824" doc:"Maximum size of one saga in bytes: its payload and the outputs of its steps. A step whose output exceeds it fails and is compensated."`
	MaxRequestBytes  int64 `key:"max_request_bytes" validate:"min=1024,max=1073741824" doc:"Maximum size of the body of a call to a participant, in bytes. A step that needs a larger one fails before anything is sent."`
}

func defaultLimits() Limits {
	return Limits{
		MaxSteps: 100, MaxWorkflowBytes: 256 << 10, MaxJSONDepth: 64, MaxSagaBytes: 8 << 20, MaxRequestBytes: 16 << 20,
	}
}
