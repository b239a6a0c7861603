package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/skald-saga/skald/internal/saga/certification"
	"github.com/skald-saga/skald/internal/saga/certification/player"
)

type participantCmd struct {
	Certify participantCertify `cmd:"" help:"Test whether a participant keeps the rules. Exit with status 1 if it breaks one, and with 2 if it could not be tested."`
	Stub    participantStub    `cmd:"" help:"Serve a participant that keeps the rules, has no effects, and misbehaves on request."`
}

type participantCertify struct {
	URL            string        `arg:"" help:"URL of the action; {step} in it stands for the step's name."`
	Compensation   string        `placeholder:"URL" help:"URL of the compensation. Default: the URL of the action."`
	Effects        string        `placeholder:"URL" help:"URL that answers GET ?key=KEY with {\"effects\": n}: how many effects a key has."`
	Step           string        `default:"charge" help:"Name of the step in the calls."`
	Payload        string        `placeholder:"JSON" help:"Payload that the participant accepts; @FILE reads it from a file. Default: {\"amount\":5}."`
	Secret         string        `env:"SKALD_CERTIFY_SECRET" help:"Secret that signs the calls, whsec_…"`
	RestartCommand string        `placeholder:"COMMAND" xor:"restart" help:"Shell command that restarts the participant. It must return once the old process has ended."`
	AskRestart     bool          `xor:"restart" help:"Ask you to restart the participant, and wait for Enter."`
	Race           bool          `xor:"what" help:"Repeat races under load."`
	RaceFor        time.Duration `default:"1m" help:"How long --race lasts."`
	Later          bool          `xor:"what" help:"Test only how the participant answers later."`
	LaterFor       time.Duration `default:"30s" help:"How long a report may take with --later."`
	CallbackListen string        `default:"127.0.0.1:0" placeholder:"ADDRESS" help:"Address on which to receive reports with --later."`
	CallbackURL    string        `placeholder:"URL" help:"URL at which the participant reaches that address, if it is a different one."`
	Timeout        time.Duration `default:"10s" help:"How long one call may take."`
	Deadline       time.Duration `default:"10m" help:"How long the whole test may take."`
	Yes            bool          `short:"y" help:"Do not ask before calling a machine other than this one."`
	Format         string        `enum:"text,json,junit" default:"text" help:"text, json or junit."`
	Output         string        `short:"o" placeholder:"FILE" help:"Write the report to a file instead of standard output."`
	ReportTo       string        `placeholder:"SERVER" help:"Also store the report on the Skald server at this address, such as https://skald.example, using the API key in SKALD_API_KEY."`
}

// failed is an error with its own exit status.
type failed struct {
	error
	code int
}

func untried(err error) error { return failed{err, 2} }

func (p participantCertify) Run(ctx context.Context) error {
	payload, err := p.payload()
	if err != nil {
		return untried(err)
	}
	who := atTerminal()
	if err := p.mayCall(who); err != nil {
		return untried(err)
	}
	ctx, cancel := context.WithTimeout(ctx, p.Deadline)
	defer cancel()
	cfg := player.Config{
		URL: p.URL, Compensation: p.Compensation, Effects: p.Effects, Step: p.Step, Payload: payload, Secret: p.Secret,
		Restart: p.restart(who), Robust: true, Timeout: p.Timeout, Version: buildInfo().Version,
	}
	cfg.Later, cfg.LaterFor, cfg.CallbackListen, cfg.CallbackURL = p.Later, p.LaterFor, p.CallbackListen, p.CallbackURL
	if p.Race {
		cfg.RaceFor = p.RaceFor
	}
	report, err := player.Run(ctx, cfg)
	if err != nil && len(report.Findings) == 0 {
		return untried(err)
	}
	if err := p.write(report); err != nil {
		return untried(err)
	}
	if p.ReportTo != "" {
		if err := pushed(ctx, p.ReportTo, os.Getenv("SKALD_API_KEY"), report); err != nil {
			err = fmt.Errorf("the report was not stored at %s: %w", p.ReportTo, err)
			if len(report.Findings) == 0 {
				return untried(err)
			}
			fmt.Fprintln(os.Stderr, "skald:", err)
		}
	}
	if n := len(report.Findings); n > 0 {
		return failed{fmt.Errorf("the participant breaks rules of docs/participants.md: see the findings (%d)", n), 1}
	}
	return nil
}

func (p participantCertify) payload() (json.RawMessage, error) {
	text := []byte(p.Payload)
	if name, file := strings.CutPrefix(p.Payload, "@"); file {
		var err error
		if text, err = os.ReadFile(name); err != nil {
			return nil, err
		}
	}
	if len(text) == 0 {
		return nil, nil
	}
	if !json.Valid(text) {
		return nil, errors.New("the payload must be JSON")
	}
	return text, nil
}

func (p participantCertify) write(report certification.Report) error {
	text, err := report.In(certification.Format(p.Format))
	if err != nil {
		return err
	}
	if p.Output != "" {
		return os.WriteFile(p.Output, text, 0o600)
	}
	_, err = os.Stdout.Write(text)
	return err
}

func (p participantCertify) restart(who *person) func(context.Context) error {
	switch {
	case p.RestartCommand != "":
		return func(ctx context.Context) error {
			cmd := exec.CommandContext(ctx, "sh", "-c", p.RestartCommand)
			cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
			return cmd.Run()
		}
	case p.AskRestart:
		return who.restarts
	}
	return nil
}
