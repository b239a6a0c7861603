package logstore_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/failpoint"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun/logstore"
)

// putter is the program testdata/put, with failpoints.
var putter = sync.OnceValues(func() (string, error) {
	path := filepath.Join(scratch, "put")
	if out, err := exec.Command("go", "build", "-tags", "failpoints", "-o", path,
		"./testdata/put").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build testdata/put: %w\n%s", err, out)
	}
	return path, nil
})

// putApart stores a log in a separate process, which may crash.
func putApart(t *testing.T, url string, name logstore.Name, content string, failpoints string,
	flags ...string) (ref, stderr string, err error) {
	t.Helper()
	program, err := putter()
	if err != nil {
		t.Fatal(err)
	}
	var out, complaint strings.Builder
	cmd := exec.Command(program, append(flags, url, name.Run.String())...)
	cmd.Env = append(os.Environ(), "SKALD_FAILPOINTS="+failpoints)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(content), &out, &complaint
	err = cmd.Run()
	return strings.TrimSpace(out.String()), complaint.String(), err
}

// lying lists the files under dir, grouped by whether they have their final name.
func lying(t *testing.T, dir string) (named, unfinished []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if strings.HasPrefix(rel, ".unfinished") {
			unfinished = append(unfinished, rel)
		} else {
			named = append(named, filepath.ToSlash(rel))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return named, unfinished
}

// apart is the name that testdata/put uses.
func apart() logstore.Name {
	n := newName()
	n.Tenant, n.Attempt, n.Created = n.Run, 1, time.Unix(0, 0)
	return n
}

// TestACrashLeavesALogWholeOrAbsent checks F54 without the database.
func TestACrashLeavesALogWholeOrAbsent(t *testing.T) {
	t.Parallel()
	content := noise(5 << 20)
	for _, tt := range []struct {
		at          failpoint.Name
		mode        string
		named, left int
	}{
		{failpoint.LogAfterWrite, "kill", 0, 1},
		{failpoint.LogAfterRename, "kill", 1, 0},
		{failpoint.LogAfterWrite, "err", 0, 0},
		{failpoint.LogAfterRename, "err", 1, 0},
	} {
		t.Run(string(tt.at)+" "+tt.mode, func(t *testing.T) {
			t.Parallel()
			dir, name := t.TempDir(), apart()
			ref, stderr, err := putApart(t, "file://"+dir, name, content, string(tt.at)+"="+tt.mode)
			if err == nil || ref != "" || !strings.Contains(stderr, "failpoint reached: "+string(tt.at)) {
				t.Fatalf("it did not fail there: %v, %q, %s", err, ref, stderr)
			}
			var exit *exec.ExitError
			if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signaled() != (tt.mode == "kill") {
				t.Errorf("it ended with %v", err)
			}
			named, left := lying(t, dir)
			if len(named) != tt.named || len(left) != tt.left {
				t.Errorf("there lie %v and %v", named, left)
			}
			s := kept{open(t, "file://"+dir, logstore.Options{}), dir}
			for _, ref := range named { // a file with a final name is complete
				if got, err := get(t, s, ref, 0); err != nil || got != content {
					t.Errorf("what it left: %d bytes, %v", len(got), err)
				}
			}
			o := put(t, s, name, content)
			if len(named) == 1 && named[0] != o.Ref {
				t.Errorf("put again as %s, before as %s", o.Ref, named[0])
			}
			if got, err := get(t, s, o.Ref, 0); err != nil || got != content {
				t.Errorf("put again: %d bytes, %v", len(got), err)
			}
		})
	}
}

func TestAFullDiskLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{"while it is written": noise(1 << 20), "while it waits": noise(6 << 20)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, run := t.TempDir(), apart()
			ref, stderr, err := putApart(t, "file://"+dir, run, content, "", "-limit=100000")
			if err == nil || !strings.Contains(stderr, syscall.EFBIG.Error()) {
				t.Fatalf("it did not run out of room: %v, %q, %s", err, ref, stderr)
			}
			if named, left := lying(t, dir); len(named)+len(left) > 0 {
				t.Errorf("there lie %v and %v", named, left)
			}
			if ref, stderr, err := putApart(t, "file://"+dir, run, content, ""); err != nil || ref == "" {
				t.Errorf("with room: %v, %s", err, stderr)
			}
		})
	}
}

// TestADirectoryThatCannotBeUsedIsReportedAtOnce uses files in place of directories, because
// permissions would not stop root.
func TestADirectoryThatCannotBeUsedIsReportedAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, blocked := range []string{"blocked", "half/.unfinished"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, blocked)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, blocked), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, url := range []string{"file://" + dir + "/blocked", "file://" + dir + "/blocked/sub",
		"file://" + dir + "/half"} {
		if s, err := logstore.Open(t.Context(), url, logstore.Options{}); err == nil {
			_ = s.Close()
			t.Errorf("%s is opened", url)
		}
	}
	s := kept{open(t, "file://"+dir+"/new/deep", logstore.Options{}), dir + "/new/deep"}
	name := newName()
	blocked := s.path(name.Tenant.String())
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if o, err := s.Put(t.Context(), name, strings.NewReader("x")); err == nil {
		t.Errorf("stored as %s", o.Ref)
	}
	if _, left := lying(t, s.dir); len(left) > 0 {
		t.Errorf("it leaves %v", left)
	}
	if err := os.Remove(blocked); err != nil {
		t.Fatal(err)
	}
	put(t, s, name, "x")
}

// TestSymbolicLinksLeadNowhere checks F55: someone who can put links into the directory still
// cannot make Skald read, write or delete outside of it.
func TestSymbolicLinksLeadNowhere(t *testing.T) {
	t.Parallel()
	outside := filepath.Join(t.TempDir(), "outside")
	dir := filepath.Join(filepath.Dir(outside), "logs")
	s := kept{open(t, "file://"+dir, logstore.Options{}), dir}
	name := newName()
	o := put(t, s, name, "inside")
	if err := os.Rename(s.path(name.Tenant.String()), outside); err != nil {
		t.Fatal(err)
	}
	for what, target := range map[string]string{"absolute": outside, "relative": "../outside"} {
		link := s.path(name.Tenant.String())
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
		if content, err := get(t, s, o.Ref, 0); err == nil || fault.KindOf(err) != 0 {
			t.Errorf("%s: Get: %q, %v", what, content, err)
		}
		if err := s.Delete(t.Context(), o.Ref); err == nil {
			t.Errorf("%s: Delete succeeds", what)
		}
		if o, err := s.Put(t.Context(), name, strings.NewReader("secret")); err == nil {
			t.Errorf("%s: Put stores %s", what, o.Ref)
		}
		if named, _ := lying(t, outside); len(named) != 1 {
			t.Errorf("%s: outside lie %v", what, named)
		}
		if err := os.Remove(link); err != nil {
			t.Fatal(err)
		}
	}
	// A link in the place of the object itself is not followed either, and is replaced.
	target := filepath.Join(outside, "target")
	if err := os.WriteFile(target, []byte("keep"), 0o600); err != nil {
		t.Fatal(err)
	}
	o = put(t, s, name, "inside")
	for what, plant := range map[string]func(path string) error{
		"a link": func(path string) error { return os.Symlink(target, path) },
		"a pipe": func(path string) error { return syscall.Mkfifo(path, 0o600) },
	} {
		if err := errors.Join(os.Remove(s.path(o.Ref)), plant(s.path(o.Ref))); err != nil {
			t.Fatal(err)
		}
		if content, err := get(t, s, o.Ref, 0); !errors.Is(err, logstore.ErrCorrupt) {
			t.Errorf("%s: Get: %q, %v", what, content, err)
		}
		put(t, s, name, "inside")
		if content, err := get(t, s, o.Ref, 0); err != nil || content != "inside" {
			t.Errorf("%s, replaced: %q, %v", what, content, err)
		}
	}
	if content, err := os.ReadFile(target); err != nil || string(content) != "keep" {
		t.Errorf("the target holds %q, %v", content, err)
	}
}

func TestFilesLeftByACrashAreRemovedAfterADay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, age := range map[string]time.Duration{"old": 25 * time.Hour, "young": 23 * time.Hour} {
		path := filepath.Join(dir, ".unfinished", name)
		at := time.Now().Add(-age)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600),
			os.Chtimes(path, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	open(t, "file://"+dir, logstore.Options{})
	if _, left := lying(t, dir); len(left) != 1 || filepath.Base(left[0]) != "young" {
		t.Errorf("there lie %v", left)
	}
}

func TestOtherUsersMayNotReadTheFiles(t *testing.T) {
	t.Parallel()
	s := kept{dir: filepath.Join(t.TempDir(), "logs")}
	s.Store = open(t, "file://"+s.dir, logstore.Options{})
	path := s.path(put(t, s, newName(), "x").Ref)
	for ; len(path) >= len(s.dir); path = filepath.Dir(path) {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
}
