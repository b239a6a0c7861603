package devpg

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// As root this shows that PostgreSQL, which refuses root, runs anyway: as another user if that
// user can access the directory, otherwise in a user namespace. For any other user both
// directories are the same.
func TestServerRunsAsAUserWithAccessToItsDirectory(t *testing.T) {
	t.Parallel()
	first := accounts()[0].uid
	for _, tt := range []struct {
		name string
		dir  string
		want int // the uid of files
	}{
		{"open to all: as the first choice", openDir(t), first},
		{"below a directory closed to others: as ourselves", filepath.Join(t.TempDir(), "db"), os.Getuid()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for run := range 2 { // the first creates the data, the second finds it
				s, err := Start(t.Context(), Config{Dir: tt.dir, Settings: volatile})
				if err != nil {
					t.Fatal(err)
				}
				if got := ownerOf(t, filepath.Join(tt.dir, "pgdata", "base")); got != tt.want {
					t.Errorf("run %d: the data belongs to uid %d, want %d", run, got, tt.want)
				}
				stop(t, s)
			}
		})
	}
}

func TestDataRunsAsItsOwner(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	list, err := accountsOf(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range list {
		if a.uid != os.Getuid() || os.Getuid() == 0 && !a.namespace {
			t.Errorf("our own data would run as %+v", a)
		}
	}
	if _, err := accountsOf("/proc/self/no such thing"); err == nil {
		t.Error("missing data has an owner")
	}
	// Data of a user that is neither us nor postgres: root becomes that user; other users
	// cannot, and report it.
	if os.Getuid() == 0 {
		if err := os.Chown(dir, 54321, 54322); err != nil {
			t.Fatal(err)
		}
		if list, err := accountsOf(dir); err != nil || len(list) != 1 || list[0].uid != 54321 || list[0].gid != 54322 {
			t.Errorf("accountsOf = %+v, %v; want uid 54321 and gid 54322", list, err)
		}
	} else if _, err := accountsOf("/"); err == nil || !strings.Contains(err.Error(), "belongs to uid 0") {
		t.Errorf("accountsOf(/) = %v, want a refusal", err)
	}
}

func TestClosedDirectoryIsNamed(t *testing.T) {
	t.Parallel()
	closed := openDir(t)
	inner := filepath.Join(closed, "inner")
	for dir, mode := range map[string]os.FileMode{closed: 0o700, inner: 0o755} {
		if err := os.MkdirAll(dir, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	bin, err := FindBinaries(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	stranger := account{name: "a stranger", uid: os.Getuid() + 1, gid: os.Getgid() + 1}
	err = stranger.probe(t.Context(), inner, bin)
	if err == nil || !strings.Contains(err.Error(), closed+" ") || !strings.Contains(err.Error(), "a stranger") {
		t.Errorf("probe = %v, want an error that names the user and %s", err, closed)
	}
	if err := stranger.closedDir(filepath.Dir(closed)); err != nil {
		t.Errorf("closedDir of an open directory = %v", err)
	}
}

func ownerOf(t *testing.T, path string) int {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return int(info.Sys().(*syscall.Stat_t).Uid)
}
