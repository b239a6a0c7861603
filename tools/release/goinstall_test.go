package main

import (
	"fmt"
	"os"
	"path"
	"strings"
	"testing"
)

// TestGoInstallGivesTheReleasedVersion: `go install` of the tag, as the README says, builds from the module alone and
// knows which version it is. A folder of files stands for the proxy that would have fetched the tag.
func TestGoInstallGivesTheReleasedVersion(t *testing.T) {
	const module = "github.com/skald-saga/skald"
	number := strings.TrimSpace(read(t, "../../cmd/skald/VERSION"))
	version := "v" + number
	proxy := t.TempDir()
	at := path.Join(proxy, module, "@v")
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, at+"/list", version+"\n")
	write(t, at+"/"+version+".info", fmt.Sprintf(`{"Version": %q, "Time": "2026-01-02T03:04:05Z"}`, version))
	write(t, at+"/"+version+".mod", read(t, "../../go.mod"))
	modules := printed(t, "../..", nil, "git", "ls-files", "*/go.mod")
	archive := []string{"archive", "--format=zip", "--prefix=" + module + "@" + version + "/",
		"-o", at + "/" + version + ".zip", "HEAD", "--", "."}
	for name := range strings.FieldsSeq(modules) { // the files of a module end where another one begins
		archive = append(archive, ":(exclude)"+path.Dir(name))
	}
	printed(t, "../..", nil, "git", archive...)

	bin := t.TempDir()
	cache := strings.TrimSpace(printed(t, ".", nil, "go", "env", "GOMODCACHE"))
	printed(t, bin, []string{
		"GOBIN=" + bin, "GOMODCACHE=" + t.TempDir(), "GOFLAGS=-modcacherw", "GOSUMDB=off",
		"GOPROXY=file://" + proxy + ",file://" + cache + "/cache/download",
	}, "go", "install", module+"/cmd/skald@latest")
	want := "skald " + number + " " + strings.TrimSpace(printed(t, ".", nil, "go", "env", "GOVERSION"))
	if got := strings.TrimSpace(printed(t, bin, nil, "./skald", "version")); got != want {
		t.Errorf("skald version: %q, want %q", got, want)
	}
}

// printed runs a command, which must succeed, and returns what it prints.
func printed(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	out, err := command(t, dir, "env", append(append(env, name), args...)...)
	if err != nil {
		t.Fatalf("%s %v: %v: %s", name, args, err, tail(out))
	}
	return out
}
