package measure

import (
	"debug/buildinfo"
	"fmt"
	"runtime"
	"time"
)

// Report contains the results of a run in a machine-readable form.
type Report struct {
	StartedAt time.Time `json:"started_at"`
	Machine   Machine   `json:"machine"`
	Ready     Ready     `json:"ready"`
	Levels    []Level   `json:"levels"`
	Targets   []Target  `json:"targets"`
}

// Machine describes where a run took place.
type Machine struct {
	OS          string `json:"os"`
	Processor   string `json:"processor"`
	Cores       int    `json:"cores"`
	LoadAverage string `json:"load_average"` // before the run, over one minute
	// ServerGo is the Go version the server was built with.
	ServerGo         string            `json:"server_go"`
	Database         string            `json:"postgresql"`
	DatabaseSettings map[string]string `json:"postgresql_settings"`
}

// Ready holds the times from the start of the server's process to its first positive readiness
// response; 0 if it was not measured.
type Ready struct {
	EmptyDatabase    Millis `json:"empty_database_ms"` // includes the migrations
	ExistingDatabase Millis `json:"existing_database_ms"`
	AfterLoad        Millis `json:"after_load_ms"` // with the sagas of the run in it
}

// Level is one row of the table.
type Level struct {
	Workflow string `json:"workflow"`
	Mode     Mode   `json:"mode"`
	Clients  int    `json:"clients"`
	Sagas    int    `json:"sagas"`
	// PerSecond counts sagas from the first request to the end of the last.
	PerSecond float64 `json:"sagas_per_second"`
	// Submit times the requests that were answered on acceptance; nil for
	// waiting clients, whose requests are answered at the end.
	Submit *Latency `json:"submit"`
	// EndToEnd is the time that waiting clients measured. For clients that only submit, it is the
	// time between the saga's created_at and completed_at, including queueing.
	EndToEnd Latency `json:"end_to_end"`
	Cores    Cores   `json:"cores"`
	// CPUPerSaga is the CPU time of all processes of the run. On a machine that others use as well
	// it says more than the rate.
	CPUPerSaga Millis `json:"cpu_ms_per_saga"`
	RSS        int64  `json:"skald_rss_bytes"`
	PeakRSS    int64  `json:"skald_peak_rss_bytes"` // since the server's start
	WALPerSaga int64  `json:"wal_bytes_per_saga"`
	// HOTRatio is the share of updates of saga_states that touched no index.
	HOTRatio   float64 `json:"hot_ratio"`
	Errors     int     `json:"errors"`
	FirstError string  `json:"first_error,omitempty"`
}

// Cores is CPU time over elapsed time, by process.
type Cores struct {
	Skald float64 `json:"skald"`
	// Postgres is nil when the database is not on this machine.
	Postgres    *float64 `json:"postgres"`
	Participant float64  `json:"participant"`
	Load        float64  `json:"load"`
	// Other is everything else on the machine, including stolen time: the higher it is, the
	// less reliable are the rates.
	Other float64 `json:"other"`
}

// Target compares one figure with the project's target on two cores.
type Target struct {
	Name     string  `json:"name"`
	Limit    float64 `json:"limit"`
	Measured float64 `json:"measured"`
	Met      bool    `json:"met"`
}

// judge compares the report with the targets that apply to its figures.
func judge(r *Report) []Target {
	var targets []Target
	atLeast := func(name string, limit, measured float64) {
		targets = append(targets, Target{name, limit, measured, measured >= limit})
	}
	atMost := func(name string, limit, measured float64) {
		targets = append(targets, Target{name, limit, measured, measured <= limit})
	}
	if l := r.level("bench-ok", Submit, 64); l != nil {
		atLeast("sagas/s, 64 clients submitting", 3000, l.PerSecond)
	}
	if l := r.level("bench-ok", Wait, 1); l != nil {
		atMost("end-to-end p50 ms, 1 client waiting", 5, float64(l.EndToEnd.P50))
	}
	for _, mode := range []Mode{Submit, Wait} {
		if ratio, clients := r.compensatedRatio(mode); ratio > 0 {
			name := fmt.Sprintf("compensated / successful rate, %d clients, %s", clients, mode)
			atLeast(name, 0.6, ratio)
		}
	}
	for _, mode := range []Mode{Submit, Wait} {
		if l := r.level("bench-ok", mode, 256); l != nil {
			atMost(fmt.Sprintf("peak RSS MB, up to 256 clients, %s", mode), 200, float64(l.PeakRSS)/1e6)
		}
	}
	if r.Ready.ExistingDatabase > 0 {
		atMost("ready ms, existing database", 1000, float64(r.Ready.ExistingDatabase))
	}
	if r.Ready.AfterLoad > 0 {
		atMost("ready ms, after the load", 1000, float64(r.Ready.AfterLoad))
	}
	return targets
}

// compensatedRatio divides the rates of the two workflows at the same mode and
// number of clients; 0 when one of them was not measured.
func (r *Report) compensatedRatio(mode Mode) (ratio float64, clients int) {
	for _, undo := range r.Levels {
		if undo.Workflow != "bench-undo" || undo.Mode != mode {
			continue
		}
		if ok := r.level("bench-ok", mode, undo.Clients); ok != nil {
			return undo.PerSecond / ok.PerSecond, undo.Clients
		}
	}
	return 0, 0
}

func (r *Report) level(workflow string, mode Mode, clients int) *Level {
	for i, l := range r.Levels {
		if l.Workflow == workflow && l.Mode == mode && l.Clients == clients {
			return &r.Levels[i]
		}
	}
	return nil
}

// describeMachine reads the properties of the machine before the run. server is the path of the
// server binary.
func describeMachine(server string, db *database) (Machine, error) {
	build, err := buildinfo.ReadFile(server)
	if err != nil {
		return Machine{}, fmt.Errorf("read the server's build: %w", err)
	}
	return Machine{
		OS:               runtime.GOOS + "/" + runtime.GOARCH,
		Processor:        hostProc.processor(),
		Cores:            runtime.NumCPU(),
		LoadAverage:      hostProc.loadAverage(),
		ServerGo:         build.GoVersion,
		Database:         db.version,
		DatabaseSettings: db.settings,
	}, nil
}

// Mode is what a client of the load generator waits for.
type Mode string

const (
	// Submit clients send the next saga as soon as the previous one was accepted. The rate is
	// that of ended sagas, counted until the last one has ended.
	Submit Mode = "submit"
	// Wait clients wait for the end of each saga with ?wait=, so that exactly one saga per
	// client is in flight.
	Wait Mode = "wait"
)
