package logstore_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun/logstore"
)

// kept is a store and the directory that contains its objects as files.
type kept struct {
	*logstore.Store
	dir string
}

func (k kept) path(ref string) string { return filepath.Join(k.dir, filepath.FromSlash(ref)) }

// onBoth runs a test on a directory and on a real S3 server.
func onBoth(t *testing.T, test func(t *testing.T, s kept)) {
	t.Parallel()
	t.Run("file", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		test(t, kept{open(t, "file://"+dir, logstore.Options{}), dir})
	})
	t.Run("s3", func(t *testing.T) {
		t.Parallel()
		server := sharedS3(t)
		test(t, kept{open(t, server.url(server.addr), keys), filepath.Join(server.dir, bucket, filepath.FromSlash(prefix))})
	})
}

func open(t *testing.T, url string, o logstore.Options) *logstore.Store {
	t.Helper()
	s, err := logstore.Open(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// newName returns a name for a run that no other test uses.
func newName() logstore.Name {
	return logstore.Name{Tenant: uuid.New(), Run: uuid.New(), Attempt: 2,
		Created: time.Date(2026, 11, 30, 23, 0, 0, 0, time.FixedZone("", -2*3600))}
}

func put(t *testing.T, s kept, name logstore.Name, content string) logstore.Object {
	t.Helper()
	o, err := s.Put(t.Context(), name, strings.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func get(t *testing.T, s kept, ref string, offset int64) (string, error) {
	t.Helper()
	r, err := s.Get(t.Context(), ref, offset)
	if err != nil {
		return "", err
	}
	defer r.Close()
	content, err := io.ReadAll(r)
	return string(content), err
}

// noise returns data that does not compress.
func noise(size int) string {
	b := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{7}).Read(b)
	return string(b)
}

func TestAStoredLogCanBeReadFromAnyOffset(t *testing.T) {
	onBoth(t, func(t *testing.T, s kept) {
		for name, content := range map[string]string{
			"an empty log": "", "a line": "{\"seq\":1}\n", "many lines": strings.Repeat("{\"seq\":1,\"text\":\"hello\"}\n", 9000),
			"more than memory is used for": noise(9 << 20),
		} {
			t.Run(name, func(t *testing.T) {
				o := put(t, s, newName(), content)
				stored, err := os.ReadFile(s.path(o.Ref))
				if err != nil {
					t.Fatal(err)
				}
				if int64(len(stored)) != o.Size || sha256.Sum256(stored) != o.SHA256 {
					t.Errorf("%d bytes are stored; Put says %d, or another checksum", len(stored), o.Size)
				}
				n := int64(len(content))
				for _, offset := range []int64{0, 1, n / 2, n - 1, n, n + 1, n + 1<<40} {
					want := ""
					if offset = max(offset, 0); offset < n {
						want = content[offset:]
					}
					if got, err := get(t, s, o.Ref, offset); err != nil || got != want {
						t.Errorf("from %d: %d bytes, %v; want %d", offset, len(got), err, len(want))
					}
				}
				if err := s.Verify(t.Context(), o.Ref, o.SHA256, o.Size); err != nil {
					t.Errorf("Verify: %v", err)
				}
			})
		}
	})
}

func TestTheSameLogAgainIsTheSameObject(t *testing.T) {
	onBoth(t, func(t *testing.T, s kept) {
		name, content := newName(), strings.Repeat(noise(1000), 200)
		first := put(t, s, name, content)
		again, err := s.Put(t.Context(), name, iotest.HalfReader(iotest.DataErrReader(strings.NewReader(content))))
		if err != nil || again != first {
			t.Errorf("again: %+v, %v; want %+v", again, err, first)
		}
		later := put(t, s, name, content+"more")
		if later.Ref == first.Ref {
			t.Error("another log has the same name")
		}
		for ref, want := range map[string]string{first.Ref: content, later.Ref: content + "more"} {
			if got, err := get(t, s, ref, 0); err != nil || got != want {
				t.Errorf("%s: %d bytes, %v; want %d", ref, len(got), err, len(want))
			}
		}
	})
}

func TestManyAtOnceStoreTheSameLog(t *testing.T) {
	onBoth(t, func(t *testing.T, s kept) {
		name, content := newName(), noise(100_000)
		want := put(t, s, name, content)
		var at sync.WaitGroup
		for range 8 {
			at.Go(func() {
				if o, err := s.Put(t.Context(), name, strings.NewReader(content)); err != nil || o != want {
					t.Errorf("Put: %+v, %v", o, err)
				}
				if got, err := get(t, s, want.Ref, 0); err != nil || got != content {
					t.Errorf("Get meanwhile: %d bytes, %v", len(got), err)
				}
			})
		}
		at.Wait()
	})
}

func TestADeletedLogIsGone(t *testing.T) {
	onBoth(t, func(t *testing.T, s kept) {
		name := newName()
		o := put(t, s, name, "bye")
		for range 2 {
			if err := s.Delete(t.Context(), o.Ref); err != nil {
				t.Errorf("Delete: %v", err)
			}
		}
		_, got := get(t, s, o.Ref, 0)
		verified := s.Verify(t.Context(), o.Ref, o.SHA256, o.Size)
		for what, err := range map[string]error{"Get": got, "Verify": verified} {
			if fault.KindOf(err) != fault.NotFound || !fault.IsCode(err, logstore.CodeGone) {
				t.Errorf("%s: %v; want the fault NotFound", what, err)
			}
		}
		if again := put(t, s, name, "bye"); again != o {
			t.Errorf("put again: %+v; want %+v", again, o)
		}
	})
}

func TestNothingIsStoredOfALogThatCannotBeRead(t *testing.T) {
	onBoth(t, func(t *testing.T, s kept) {
		lost := errors.New("the database is away")
		for name, size := range map[string]int{"a short one": 10, "a long one": 6 << 20} {
			run := newName()
			_, err := s.Put(t.Context(), run, io.MultiReader(strings.NewReader(noise(size)), iotest.ErrReader(lost)))
			if !errors.Is(err, lost) {
				t.Errorf("%s: %v", name, err)
			}
			if _, err := os.Stat(filepath.Join(s.dir, run.Tenant.String())); !os.IsNotExist(err) {
				t.Errorf("%s: something is stored (%v)", name, err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.Put(ctx, newName(), strings.NewReader("x")); !errors.Is(err, context.Canceled) {
			t.Errorf("with a context that has ended: %v", err)
		}
		for what, name := range map[string]logstore.Name{"no tenant": {Run: uuid.New(), Attempt: 1, Created: time.Now()},
			"nothing": {}} {
			if o, err := s.Put(t.Context(), name, strings.NewReader("x")); err == nil {
				t.Errorf("%s: stored as %s", what, o.Ref)
			}
		}
	})
}

func TestDamageIsFound(t *testing.T) {
	onBoth(t, func(t *testing.T, s kept) {
		content := noise(300_000)
		other := put(t, s, newName(), content[1:])
		exchanged, err := os.ReadFile(s.path(other.Ref))
		if err != nil {
			t.Fatal(err)
		}
		for name, damage := range map[string]func([]byte) []byte{
			"a bit":             func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
			"a bit in the head": func(b []byte) []byte { b[5] ^= 1; return b }, // decompression does not notice this
			"cut":               func(b []byte) []byte { return b[:len(b)/2] },
			"cut by a byte":     func(b []byte) []byte { return b[:len(b)-1] },
			"longer":            func(b []byte) []byte { return append(b, "more"...) },
			"twice":             func(b []byte) []byte { return append(b, b...) },
			"another log":       func([]byte) []byte { return exchanged },
			"emptied":           func([]byte) []byte { return nil },
			"no gzip":           bytes.ToUpper,
		} {
			t.Run(name, func(t *testing.T) {
				run := newName()
				o := put(t, s, run, content)
				stored, err := os.ReadFile(s.path(o.Ref))
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(s.path(o.Ref), damage(stored), 0o600); err != nil {
					t.Fatal(err)
				}
				if err := s.Verify(t.Context(), o.Ref, o.SHA256, o.Size); !errors.Is(err, logstore.ErrCorrupt) {
					t.Errorf("Verify: %v", err)
				}
				for _, offset := range []int64{0, 299_999, 1 << 30} {
					if _, err := get(t, s, o.Ref, offset); !errors.Is(err, logstore.ErrCorrupt) {
						t.Errorf("Get from %d: %v", offset, err)
					}
				}
				if again := put(t, s, run, content); again != o {
					t.Errorf("put again: %+v; want %+v", again, o)
				}
				if got, err := get(t, s, o.Ref, 0); err != nil || got != content {
					t.Errorf("after it was put again: %d bytes, %v", len(got), err)
				}
			})
		}
		o := put(t, s, newName(), content)
		if err := s.Verify(t.Context(), o.Ref, o.SHA256, o.Size+1); !errors.Is(err, logstore.ErrCorrupt) {
			t.Errorf("another size: %v", err)
		}
		if err := s.Verify(t.Context(), o.Ref, other.SHA256, o.Size); !errors.Is(err, logstore.ErrCorrupt) {
			t.Errorf("another checksum: %v", err)
		}
	})
}

func TestInvalidReferencesAreRefused(t *testing.T) {
	onBoth(t, func(t *testing.T, s kept) {
		ref := put(t, s, newName(), "x").Ref
		if name, err := logstore.NameOf(ref); err != nil || name.Attempt != 2 || name.Created.Format("2006-01") != "2026-12" {
			t.Errorf("NameOf = %+v, %v", name, err)
		}
		if _, err := get(t, s, ref, -1); fault.KindOf(err) != fault.Invalid {
			t.Errorf("a negative offset: %v", err)
		}
		file := filepath.Base(filepath.FromSlash(ref))
		for _, ref := range []string{
			"", ".", "..", "/", "/etc/passwd", "../" + ref, "x/../" + ref, "./" + ref, "/" + ref, ref + "/", ref + "\n", ref +
				"\x00", " " + ref,
			strings.ToUpper(ref), strings.Replace(ref, "/", "//", 1), strings.ReplaceAll(ref, "/", `\`),
			strings.Replace(ref, "/", "%2f", 1),
			strings.Replace(ref, "2026/12", "2026/13", 1), strings.Replace(ref, "2026/12", "0001/12", 1),
			strings.Replace(ref, "2026/12", "2026/../2026/12", 1),
			strings.Replace(ref, "-2-", "-0-", 1), strings.Replace(ref, "-2-", "-02-", 1), strings.Replace(ref, "-2-", "--2-",
				1), strings.Replace(ref, "-2-", "-9999999999-", 1),
			strings.TrimSuffix(ref, ".gz"), file, uuid.Nil.String() + ref[36:], strings.Replace(ref, "-", "0", 1),
		} {
			_, got := get(t, s, ref, 0)
			_, named := logstore.NameOf(ref)
			for what, err := range map[string]error{"Get": got, "NameOf": named,
				"Verify": s.Verify(t.Context(), ref, [32]byte{}, 0), "Delete": s.Delete(t.Context(), ref)} {
				if !errors.Is(err, logstore.ErrRef) {
					t.Errorf("%s of %q: %v", what, ref, err)
				}
			}
		}
		if _, err := get(t, s, ref, 0); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}
