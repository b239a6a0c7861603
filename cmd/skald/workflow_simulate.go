package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/callback"
	"github.com/skald-saga/skald/internal/saga/callback/reported"
	"github.com/skald-saga/skald/internal/saga/participant"
	"github.com/skald-saga/skald/internal/saga/registry"
	"github.com/skald-saga/skald/internal/saga/simulate"
	"github.com/skald-saga/skald/internal/strictjson"
)

type workflowSimulate struct {
	File        string   `arg:"" help:"YAML or JSON file; - means standard input."`
	Payload     string   `help:"Payload of the saga: JSON, or @ and the name of a file." placeholder:"JSON"`
	Answer      []string `help:"Answer to a call: STEP=STATUS, STEP=STATUS:BODY or STEP=FAULT (timeout, connection_lost, invalid_response, dial_failed); for a job, STEP=SUCCEEDED:RESULT or STEP=FAILED. STEP/compensate stands for the step's compensation. Several answers for one step are used in order, and the last one is repeated. If the participant answers later, add its report: STEP=report RESULT, STEP=report RESULT:OUTPUT (for a failure, the error) or STEP=report RESULT after 90s. Default: 200 without a body." sep:"none" placeholder:"STEP=ANSWER"`
	Participant []string `help:"Base URL of a participant that steps refer to by name. Without it, requests go to participant://NAME." sep:"none" placeholder:"NAME=URL"`
	CancelAt    string   `help:"Request cancellation during the first call of this step." placeholder:"STEP"`
	Requests    bool     `help:"Print each request as it would be sent."`
	Expect      string   `help:"Exit with status 1 unless the saga ends in this state, such as compensated." placeholder:"STATE"`
}

func (v workflowSimulate) Run(c *cli) error {
	cfg, _, err := c.load()
	if err != nil {
		return err
	}
	s := simulate.Scenario{CancelAt: v.CancelAt, Start: time.Now().UTC().Truncate(time.Millisecond)}
	s.Limits = simulate.Limits{
		StepTimeout: cfg.Engine.DefaultStepTimeout, Timeout: cfg.Engine.DefaultSagaTimeout,
		CompensationTimeout: cfg.Engine.DefaultCompensationTimeout,
		Budget:              saga.Budget{Saga: cfg.Limits.MaxSagaBytes, Request: cfg.Limits.MaxRequestBytes},
	}
	if s.Definition, err = definitionIn(v.File, cfg.Limits.MaxSteps); err != nil {
		return err
	}
	s.Spec = saga.Spec{ID: simulate.SagaID}
	s.Spec.Tenant.ID = cfg.Tenant.DefaultID
	if s.Spec.Payload, err = payloadOf(v.Payload); err != nil {
		return err
	}
	if s.Answers, err = answersOf(v.Answer); err != nil {
		return err
	}
	if s.Address, err = addressesOf(v.Participant); err != nil {
		return err
	}
	by := written(&cfg)
	if wrong := s.Check(by); wrong != nil {
		return fmt.Errorf("%s: %s", wrong[0].Pointer, wrong[0].Message)
	}
	if _, known := saga.ParseState(v.Expect); v.Expect != "" && !known {
		return fmt.Errorf("--expect: there is no state %s", v.Expect)
	}
	r := simulate.Play(&s, by)
	printSimulation(os.Stdout, s.Start, &r, v.Requests)
	if v.Expect != "" && r.Saga.State.String() != v.Expect {
		return errors.New("expected " + v.Expect)
	}
	return nil
}

// addressesOf returns simulate.Scenario.Address for the given base URLs.
func addressesOf(list []string) (func(*saga.Call) bool, error) {
	known := map[string]registry.Settings{}
	for _, text := range list {
		name, base, ok := strings.Cut(text, "=")
		if !ok {
			return nil, fmt.Errorf("--participant %s: must be NAME=URL", text)
		}
		s, err := registry.Settings{BaseURL: base}.Checked(name)
		if err != nil {
			return nil, fmt.Errorf("--participant %s: %w", text, err)
		}
		known[name] = s
	}
	return func(c *saga.Call) bool {
		if s, ok := known[c.By.Names()]; ok {
			s.Address(c)
		}
		return true
	}, nil
}

func written(cfg *config.Config) simulate.Transport {
	return participant.New(participant.Config{
		Version: buildInfo().Version, MaxResponseBytes: cfg.Engine.MaxResponseBytes, MaxJSONDepth: cfg.Limits.MaxJSONDepth,
	}).Written()
}

// payloadOf reads JSON, or the JSON file named after @.
func payloadOf(text string) (json.RawMessage, error) {
	if text == "" {
		return nil, nil
	}
	raw := []byte(text)
	if name, isFile := strings.CutPrefix(text, "@"); isFile {
		var err error
		if raw, err = read(name); err != nil {
			return nil, err
		}
	}
	out, err := strictjson.Canonical(nil, raw, strictjson.Limits{})
	if err != nil {
		return nil, fmt.Errorf("--payload: %w", err)
	}
	return out, nil
}

func printSimulation(out io.Writer, start time.Time, r *simulate.Result, requests bool) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for i := range r.Path {
		e := &r.Path[i]
		fmt.Fprintf(table, "%s\t%s\n", e.At.Sub(start).Round(time.Millisecond), told(e))
		if requests && e.Request != nil {
			table.Flush()
			fmt.Fprintf(out, "%s%s\n\n", strings.ReplaceAll(e.Request.Head, "\r\n", "\n"), e.Request.Body)
		}
	}
	table.Flush()
	switch {
	case r.Stopped != "":
		fmt.Fprintf(out, "stopped while %s: %s\n", r.Saga.State, r.Stopped)
	case r.Saga.Error != nil:
		fmt.Fprintf(out, "ended as %s after %s: %s\n", r.Saga.State, counted(r.Calls, "call", "calls"), r.Saga.Error.Message)
	default:
		fmt.Fprintf(out, "ended as %s after %s\n", r.Saga.State, counted(r.Calls, "call", "calls"))
	}
	if r.Saga.Result != nil {
		fmt.Fprintf(out, "result: %s\n", r.Saga.Result)
	}
	for _, key := range r.Unused {
		fmt.Fprintf(out, "not all answers for %s were used\n", key)
	}
}

// told describes an entry in cells of a table.
func told(e *simulate.Entry) string {
	step := e.Step
	if e.Action == saga.Compensate {
		step = "undo " + step
	}
	switch e.Kind {
	case simulate.Waited:
		return "\twait for " + e.For.Round(time.Millisecond).String()
	case simulate.AwaitsReport:
		return "\twait " + e.For.Round(time.Millisecond).String() + " for the report"
	case simulate.Reported:
		how := outcomes[e.Verdict]
		switch {
		case e.Code == callback.CodeLate:
			how = "too late"
		case e.Report.Result == reported.Heartbeat:
			how = "the wait begins again"
		}
		return step + "\treport " + string(e.Report.Result) + "\t" + string(e.Output) + "\t" + how
	case simulate.Unreported:
		return step + "\tno report\t" + e.Code + "\t" + outcomes[e.Verdict]
	case simulate.TurnedBack:
		return "\tcompensation begins"
	case simulate.Cancelled:
		return "\ta cancel is requested"
	case simulate.DeadlinePassed:
		return "\tthe deadline passes"
	case simulate.Skipped:
		return step + "\tskipped"
	case simulate.NotSent:
		return step + "\tnot sent\t" + e.Code + "\t" + outcomes[e.Verdict]
	case simulate.Ran:
		return step + "\tjob " + e.Request.Job + "\t" + e.Answer.RunState + "\t" + outcomes[e.Verdict]
	}
	answer := e.Answer.Fault
	if answer == "" {
		answer = strconv.Itoa(e.Answer.Status)
	}
	return step + "\t" + e.Request.Method + " " + e.Request.URL + "\t" + answer + "\t" + outcomes[e.Verdict]
}
