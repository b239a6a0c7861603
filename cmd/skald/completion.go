package main

import (
	"embed"
	"fmt"
)

//go:embed completions
var completions embed.FS

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

func (c completionCmd) Run() error {
	text, err := completions.ReadFile("completions/skald." + c.Shell)
	if err == nil {
		_, err = fmt.Print(string(text))
	}
	return err
}
