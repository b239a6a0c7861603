package main

import (
	_ "embed"
	"io"
	"os"
)

// thirdParty contains the licences of the modules linked into Skald. `make licenses` writes it.
//
//go:embed third_party.txt
var thirdParty string

type licensesCmd struct{}

func (licensesCmd) Run() error {
	_, err := io.WriteString(os.Stdout, "Skald is published under the Apache License 2.0, see LICENSE and NOTICE of its sources.\n"+thirdParty)
	return err
}
