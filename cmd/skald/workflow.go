package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

type workflowCmd struct {
	Validate workflowValidate `cmd:"" help:"Validate a definition without a server. If it is invalid, list all errors and exit with status 1."`
}

type workflowValidate struct {
	File string `arg:"" help:"YAML or JSON file; - means standard input."`
}

func (v workflowValidate) Run(c *cli) error {
	cfg, _, err := c.load()
	if err != nil {
		return err
	}
	text, err := read(v.File)
	if err != nil {
		return err
	}
	limits := workflow.Limits{MaxSteps: cfg.Limits.MaxSteps}
	parse := workflow.ParseYAML // JSON is YAML too, but errors from a JSON parser are clearer
	if strings.HasPrefix(strings.TrimSpace(string(text)), "{") {
		parse = workflow.ParseJSON
	}
	d, err := parse(text, limits)
	if f := fault.As(err); f != nil {
		for _, field := range f.Fields {
			fmt.Printf("%s: %s (%s)\n", field.Pointer, field.Message, field.Code)
		}
		return errors.New(f.Detail)
	}
	if err != nil {
		return err
	}
	fmt.Printf("%s is valid: %d steps: %s\n", d.Name, len(d.Steps), strings.Join(d.StepNames(), ", "))
	return nil
}

func read(path string) ([]byte, error) {
	if path == "-" {
		return io.ReadAll(os.Stdin)
	}
	return os.ReadFile(path)
}
