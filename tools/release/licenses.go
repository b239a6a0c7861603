package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// module is a module that a program of the release is linked with.
type module struct{ path, version, dir string }

// texts are the files of a module that its licence requires to be passed on.
var texts = regexp.MustCompile(`(?i)^(licen[sc]e|copying|notice|patents)([.-].*)?$`)

// code has the same names at times, and is none of them.
var code = regexp.MustCompile(`\.go$`)

// writeLicenses writes the licences of all modules that Skald is linked with, on any platform, into the file that
// `skald licenses` prints.
func writeLicenses(ctx context.Context, root string) error {
	modules, err := linked(ctx, root)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	fmt.Fprintf(&text, "Skald contains the Go standard library and %d modules, under these licences.\n", len(modules))
	goroot, err := output(ctx, root, "go", "env", "GOROOT")
	if err != nil {
		return err
	}
	all := append([]module{{path: "Go standard library", dir: strings.TrimSpace(goroot)}}, modules...)
	for _, m := range all {
		fmt.Fprintf(&text, "\n%s\n%s %s\n%[1]s\n", strings.Repeat("=", 80), m.path, m.version)
		files, err := os.ReadDir(m.dir)
		if err != nil {
			return err
		}
		found := false
		for _, f := range files {
			if f.IsDir() || !texts.MatchString(f.Name()) || code.MatchString(f.Name()) {
				continue
			}
			data, err := os.ReadFile(filepath.Join(m.dir, f.Name()))
			if err != nil {
				return err
			}
			found = true
			fmt.Fprintf(&text, "\n--- %s\n\n%s\n", f.Name(), bytes.TrimSpace(bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))))
		}
		if !found {
			return fmt.Errorf("%s %s has no licence in %s", m.path, m.version, m.dir)
		}
	}
	return os.WriteFile(filepath.Join(root, "cmd", "skald", "third_party.txt"), text.Bytes(), 0o644)
}

// linked returns the modules of the programs of all platforms, by path.
func linked(ctx context.Context, root string) ([]module, error) {
	var all []module
	for _, p := range platforms {
		cmd := exec.CommandContext(ctx, "go", "list", "-deps", "-f",
			"{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}", "./cmd/skald")
		cmd.Dir, cmd.Stderr = root, os.Stderr
		cmd.Env = p.env()
		out, err := cmd.Output()
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(out)) {
			if f := strings.Fields(line); len(f) == 3 {
				all = append(all, module{f[0], f[1], f[2]})
			}
		}
	}
	slices.SortFunc(all, func(a, b module) int { return strings.Compare(a.path, b.path) })
	return slices.Compact(all), nil
}
