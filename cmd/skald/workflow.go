package main

import (
	"fmt"
	"strings"
)

type workflowCmd struct {
	Validate workflowValidate `cmd:"" help:"Validate a definition without a server. If it is invalid, list all errors and exit with status 1."`
	Simulate workflowSimulate `cmd:"" help:"Simulate a definition with answers of your choice, without a server: show which requests are sent and how the saga ends."`
}

type workflowValidate struct {
	File string `arg:"" help:"YAML or JSON file; - means standard input."`
}

func (v workflowValidate) Run(c *cli) error {
	cfg, _, err := c.load()
	if err != nil {
		return err
	}
	d, err := definitionIn(v.File, cfg.Limits.MaxSteps)
	if err != nil {
		return err
	}
	fmt.Printf("%s is valid: %s: %s\n", d.Name, counted(len(d.Steps), "step", "steps"), strings.Join(d.StepNames(), ", "))
	return nil
}
