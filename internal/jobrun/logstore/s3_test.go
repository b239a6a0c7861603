package logstore_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun/logstore"
	"github.com/skald-saga/skald/internal/test/patience"
)

func TestURLsAreReadStrictly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, tt := range []struct {
		url string
		ok  bool
	}{
		{"file://" + dir, true},
		{"file://localhost" + dir, true},
		{"file://" + dir + "/with%20space", true},
		{"s3://logs?region=eu-central-1", true},
		{"s3://logs/a/b/?endpoint=http://127.0.0.1:9000", true},
		{"s3://logs?endpoint=https://[::1]:9000/&region=x&path_style=false", true},
		{"", false},
		{dir, false},
		{"http://127.0.0.1:9000/logs", false},
		{"file:relative", false},
		{"file://elsewhere/dir", false},
		{"file:///", false},
		{"file:///..", false},
		{"file://" + dir + "?x=1", false},
		{"s3://", false},
		{"s3:///prefix?region=x", false},
		{"s3://Logs?region=x", false},
		{"s3://logs", false},
		{"s3://logs/../other?region=x", false},
		{"s3://logs/a//b?region=x", false},
		{"s3://key:hush@logs?region=x", false},
		{"s3://logs?region=x&region=y", false},
		{"s3://logs?region=x&acl=public", false},
		{"s3://logs?region=x&path_style=yes", false},
		{"s3://logs?endpoint=127.0.0.1:9000", false},
		{"s3://logs?endpoint=http://key:hush@127.0.0.1", false},
		{"s3://logs?endpoint=http://127.0.0.1/sub", false},
		{"s3://logs?endpoint=ftp://127.0.0.1", false},
		{"s3://logs:hush\x7f", false},
	} {
		s, err := logstore.Open(t.Context(), tt.url, logstore.Options{})
		if (err == nil) != tt.ok {
			t.Errorf("%q: %v", tt.url, err)
		}
		if err == nil {
			_ = s.Close()
		} else if strings.Contains(err.Error(), "hush") {
			t.Errorf("%q: the error cites it: %v", tt.url, err)
		}
	}
}

func TestASilentServerTimesOut(t *testing.T) {
	t.Parallel()
	server := newS3(t)
	impatient := keys
	impatient.IOTimeout = 300 * time.Millisecond
	patient, s := kept{open(t, server.url(server.addr), keys), ""}, kept{open(t, server.url(server.addr), impatient), ""}
	name := newName()
	stored := put(t, patient, name, "before")
	server.stop(t)
	_, putting := s.Put(t.Context(), name, strings.NewReader("meanwhile"))
	_, getting := get(t, s, stored.Ref, 0)
	for what, err := range map[string]error{"Put": putting, "Get": getting, "Delete": s.Delete(t.Context(), stored.Ref)} {
		if err == nil || fault.KindOf(err) != 0 || errors.Is(err, logstore.ErrCorrupt) {
			t.Errorf("%s of a server that is silent: %v; want an outage", what, err)
		}
	}
	server.signal(syscall.SIGCONT)
	put(t, patient, name, "meanwhile")
}

func TestACrashedServerHasLostNoStoredLog(t *testing.T) {
	t.Parallel()
	server := newS3(t)
	s := kept{open(t, server.url(server.addr), keys), ""}
	name, content := newName(), noise(1<<20)
	before := put(t, s, name, content)
	server.kill()
	if o, err := s.Put(t.Context(), name, strings.NewReader("x")); err == nil {
		t.Errorf("stored as %s by nobody", o.Ref)
	}
	if _, err := get(t, s, before.Ref, 0); err == nil || fault.KindOf(err) != 0 {
		t.Errorf("Get of nobody: %v; want an outage", err)
	}
	again := &s3{addr: server.addr, dir: server.dir, proc: nil}
	again.start(t)
	t.Cleanup(again.kill)
	s.Store = open(t, again.url(again.addr), keys)
	if got, err := get(t, s, before.Ref, 0); err != nil || got != content {
		t.Errorf("what was put before: %d bytes, %v", len(got), err)
	}
	put(t, s, name, "x")
}

// TestACutConnectionIsNotReportedAsDamage cuts the connection during a download: the log is
// intact, and reporting damage would be a false alarm.
func TestACutConnectionIsNotReportedAsDamage(t *testing.T) {
	t.Parallel()
	server := sharedS3(t)
	var cut atomic.Bool
	target := &url.URL{Scheme: "http", Host: server.addr}
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target); r.Out.Host = r.In.Host },
		ModifyResponse: func(r *http.Response) error {
			if cut.Load() {
				r.Body = io.NopCloser(io.MultiReader(io.LimitReader(r.Body, 100_000), errReader{}))
			}
			return nil
		},
	})
	t.Cleanup(proxy.Close)
	s := kept{open(t, server.url(proxy.Listener.Addr().String()), keys), filepath.Join(server.dir, bucket, prefix)}
	o := put(t, s, newName(), noise(1<<20))
	cut.Store(true)
	_, getting := get(t, s, o.Ref, 0)
	for what, err := range map[string]error{"Get": getting, "Verify": s.Verify(t.Context(), o.Ref, o.SHA256, o.Size)} {
		if err == nil || errors.Is(err, logstore.ErrCorrupt) || fault.KindOf(err) != 0 {
			t.Errorf("%s: %v; want an outage", what, err)
		}
	}
	if o, err := s.Put(t.Context(), newName(), strings.NewReader(noise(1<<20))); err == nil {
		t.Errorf("put as %s, and never read back", o.Ref)
	}
	cut.Store(false)
	if err := s.Verify(t.Context(), o.Ref, o.SHA256, o.Size); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, errors.New("cut") }

func TestWrongKeysAndMissingBucketsAreOutages(t *testing.T) {
	t.Parallel()
	server := sharedS3(t)
	good := kept{open(t, server.url(server.addr), keys), ""}
	o := put(t, good, newName(), "x")
	wrong := keys
	wrong.SecretKey = "guessed"
	for name, s := range map[string]*logstore.Store{
		"a wrong key":      open(t, server.url(server.addr), wrong),
		"a missing bucket": open(t, strings.Replace(server.url(server.addr), bucket, "nowhere", 1), keys),
	} {
		ctx := patience.Context(t)
		_, putting := s.Put(ctx, newName(), strings.NewReader("x"))
		_, getting := s.Get(ctx, o.Ref, 0)
		for what, err := range map[string]error{"Put": putting, "Get": getting} {
			if err == nil || fault.KindOf(err) != 0 || errors.Is(err, logstore.ErrCorrupt) {
				t.Errorf("%s: %s: %v; want an outage", name, what, err)
			}
		}
	}
}
