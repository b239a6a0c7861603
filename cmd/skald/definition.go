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

// definitionIn reads a definition and prints its mistakes.
func definitionIn(file string, maxSteps int) (*workflow.Definition, error) {
	text, err := read(file)
	if err != nil {
		return nil, err
	}
	parse := workflow.ParseYAML // JSON is YAML too, but errors from a JSON parser are clearer
	if strings.HasPrefix(strings.TrimSpace(string(text)), "{") {
		parse = workflow.ParseJSON
	}
	d, err := parse(text, workflow.Limits{MaxSteps: maxSteps})
	if f := fault.As(err); f != nil {
		for _, field := range f.Fields {
			fmt.Printf("%s: %s (%s)\n", field.Pointer, field.Message, field.Code)
		}
		return nil, errors.New(f.Detail)
	}
	return d, err
}

func read(path string) ([]byte, error) {
	if path == "-" {
		return io.ReadAll(os.Stdin)
	}
	return os.ReadFile(path)
}
