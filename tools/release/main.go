// Command release builds what is published of a version of Skald, from the working copy of a commit: programs for each
// platform, a Debian package, an image that needs no Docker engine, the Helm chart, a bill of materials and checksums.
// The same commit gives the same bytes in any folder: every time in a package is that of the commit.
//
//	release -o dist         everything
//	release licenses        the licences of what Skald is linked with, into cmd/skald/third_party.txt
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("release: ")
	if err := run(context.Background(), os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	root := flags.String("root", "../..", "working copy of Skald")
	out := flags.String("o", "dist", "folder to write to, below the working copy unless absolute; it is replaced")
	what := ""
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		what, args = args[0], args[1:]
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	dir, err := filepath.Abs(*root)
	if err != nil {
		return err
	}
	switch what {
	case "licenses":
		return writeLicenses(ctx, dir)
	case "":
		if !filepath.IsAbs(*out) {
			*out = filepath.Join(dir, *out)
		}
		return build(ctx, dir, *out)
	}
	return fmt.Errorf("unknown command %q: licenses, or none", what)
}

// release describes what is built: a version of a commit.
type release struct {
	root, dist string
	version    string // 1.2.3
	commit     string
	at         time.Time // of the commit: the time of everything in a package
}

// build rebuilds everything in dist.
func build(ctx context.Context, root, dist string) error {
	r, err := describe(ctx, root)
	if err != nil {
		return err
	}
	r.dist = dist
	if err := errors.Join(os.RemoveAll(dist), os.MkdirAll(dist, 0o755)); err != nil {
		return err
	}
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"programs", r.programs},
		{"Debian packages", r.debs},
		{"image", r.image},
		{"chart", r.chart},
		{"bill of materials", r.billOfMaterials},
		{"the same commit", r.unchanged}, // building took minutes
		{"checksums", r.checksums},
	} {
		began := time.Now()
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
		log.Printf("%s: %s", step.what, time.Since(began).Round(100*time.Millisecond))
	}
	return nil
}

// describe reads the version and the commit of a working copy.
func describe(ctx context.Context, root string) (release, error) {
	r := release{root: root}
	number, err := os.ReadFile(filepath.Join(root, "cmd", "skald", "VERSION"))
	if err != nil {
		return r, err
	}
	r.version = strings.TrimSpace(string(number))
	line, err := output(ctx, root, "git", "log", "-1", "--format=%H %ct")
	if err != nil {
		return r, err
	}
	commit, seconds, _ := strings.Cut(strings.TrimSpace(line), " ")
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return r, fmt.Errorf("the time of the commit: %w", err)
	}
	r.commit, r.at = commit, time.Unix(n, 0).UTC()
	return r, r.unchanged(ctx)
}

// unchanged returns an error unless the working copy is that of the commit.
func (r release) unchanged(ctx context.Context) error {
	now, err := output(ctx, r.root, "git", "rev-parse", "HEAD")
	if err != nil {
		return err
	}
	if now = strings.TrimSpace(now); now != r.commit {
		return fmt.Errorf("the working copy was of commit %s, and is of %s now", r.commit, now)
	}
	changed, err := output(ctx, r.root, "git", "status", "--porcelain", "--untracked-files=no")
	if err == nil && changed != "" {
		err = fmt.Errorf("a release is made of a commit, and these files differ from it:\n%s", changed)
	}
	return err
}

// output runs a command in dir and returns what it prints.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return string(out), nil
}

func (r release) path(name string) string { return filepath.Join(r.dist, name) }

func (r release) source(elem ...string) string {
	return filepath.Join(append([]string{r.root}, elem...)...)
}
