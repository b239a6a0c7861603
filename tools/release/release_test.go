package main

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience is how long something may take that has to happen.
const patience = 5 * time.Minute

// TestRelease builds a release and installs its packages for real. It needs root, for chroots, and Debian's mirror.
func TestRelease(t *testing.T) {
	if os.Getuid() != 0 {
		t.Fatal("packages are installed in a chroot, which needs root")
	}
	dist := built(t)
	t.Run("equal bytes in another folder", func(t *testing.T) {
		again := built(t)
		one, two := read(t, dist+"/SHA256SUMS"), read(t, again+"/SHA256SUMS")
		if one != two {
			t.Errorf("the checksums differ:\n%s\n%s", one, two)
		}
		if out, err := command(t, dist, "sha256sum", "--check", "--quiet", "SHA256SUMS"); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	root := debian(t)
	t.Run("the Debian package", func(t *testing.T) { installDeb(t, root, dist) })
	t.Run("the image", func(t *testing.T) { runImage(t, root, dist) })
	t.Run("the unit", func(t *testing.T) { checkUnit(t, root) })
	t.Run("the image in an engine", func(t *testing.T) { runDocker(t, root, dist) })
	t.Run("the image in a registry", func(t *testing.T) { copyToRegistry(t, dist) })
	t.Run("the commands for Kubernetes", func(t *testing.T) { inKubernetes(t, dist) })
}

// built clones the working copy into a folder of its own and releases the commit from there.
func built(t *testing.T) (dist string) {
	t.Helper()
	clone := filepath.Join(t.TempDir(), "clone-"+rand.Text()[:6])
	if out, err := command(t, "../..", "git", "clone", "-q", ".", clone); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	dist = filepath.Join(clone, "dist")
	if err := build(t.Context(), clone, dist); err != nil {
		t.Fatal(err)
	}
	return dist
}

// debian makes a small Debian with PostgreSQL, whose cluster runs until the test ends.
func debian(t *testing.T) (root string) {
	t.Helper()
	root = filepath.Join(t.TempDir(), "root")
	out, err := command(t, ".", "debootstrap", "--variant=minbase", "--include=adduser,ca-certificates,postgresql,procps,systemd", "bookworm", root)
	if err != nil {
		t.Fatalf("debootstrap: %v: %s", err, tail(out))
	}
	for _, at := range []string{"/proc", "/dev"} {
		if err := syscall.Mount(at, root+at, "", syscall.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = syscall.Unmount(root+at, syscall.MNT_DETACH) })
	}
	inside(t, root, "pg_conftool", "15", "main", "set", "port", freePort(t))
	inside(t, root, "pg_ctlcluster", "15", "main", "start")
	t.Cleanup(func() {
		cmd := exec.Command("chroot", root, "pg_ctlcluster", "15", "main", "stop", "-m", "immediate")
		_ = cmd.Run()
	})
	return root
}

// installDeb installs the package, starts what it brings, installs it again over a changed configuration, and removes
// and purges it.
func installDeb(t *testing.T, root, dist string) {
	name := only(t, dist+"/skald_*_amd64.deb")
	copyFile(t, name, root+"/tmp/skald.deb")
	inside(t, root, "dpkg", "-i", "/tmp/skald.deb")
	port := strings.TrimSpace(inside(t, root, "pg_conftool", "-s", "15", "main", "show", "port"))
	asPostgres := func(args ...string) { inside(t, root, append([]string{"runuser", "-u", "postgres", "--"}, args...)...) }
	asPostgres("createuser", "-p", port, "--createrole", "skald")
	asPostgres("createdb", "-p", port, "--owner", "skald", "skald")
	config := read(t, root+"/etc/skald/skald.yaml")
	config = strings.Replace(config, "database:\n", "database:\n  port: "+port+"\n", 1)
	listen := "127.0.0.1:" + freePort(t)
	config = strings.Replace(config, "127.0.0.1:8080", listen, 1)
	write(t, root+"/etc/skald/skald.yaml", config)

	serves := func() {
		t.Helper()
		stop := start(t, root, "runuser", "-u", "skald", "--", "/usr/bin/skald", "serve", "--config", "/etc/skald/skald.yaml")
		ready(t, listen)
		inside(t, root, "runuser", "-u", "skald", "--", "skald", "health", "--config", "/etc/skald/skald.yaml")
		key := inside(t, root, "runuser", "-u", "skald", "--", "skald", "key", "create", "--config", "/etc/skald/skald.yaml",
			"--name", "me", "--role", "admin", "--any-tenant")
		if !strings.Contains(key, "sk") {
			t.Errorf("skald key create: %s", key)
		}
		stop()
	}
	serves()
	// As systemd does, which makes the directory when the service starts.
	inside(t, root, "install", "-d", "-o", "skald", "-g", "skald", "-m", "700", "/var/lib/skald")
	write(t, root+"/var/lib/skald/kept", "data")
	inside(t, root, "dpkg", "-i", "--force-confold", "/tmp/skald.deb")
	if got := read(t, root+"/etc/skald/skald.yaml"); got != config {
		t.Errorf("the upgrade changed the configuration:\n%s", got)
	}
	serves()
	inside(t, root, "dpkg", "--remove", "skald")
	if _, err := os.Stat(root + "/usr/bin/skald"); !os.IsNotExist(err) {
		t.Error("the program is there after the removal")
	}
	if got := read(t, root+"/etc/skald/skald.yaml"); got != config {
		t.Error("the removal took the configuration")
	}
	inside(t, root, "dpkg", "--purge", "skald")
	if _, err := os.Stat(root + "/etc/skald/skald.yaml"); !os.IsNotExist(err) {
		t.Error("the configuration is there after purging")
	}
	if got := read(t, root+"/var/lib/skald/kept"); got != "data" {
		t.Error("purging took data")
	}
	inside(t, root, "dpkg", "-i", "/tmp/skald.deb") // for the other tests
	write(t, root+"/etc/skald/skald.yaml", config)
}

// maxImage is how many bytes the unpacked image must stay below.
const maxImage = 70_000_000

func sizeOf(t *testing.T, dir string) (size int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			size += info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return size
}

// runImage unpacks the image and runs it as its user says, on a file system that it cannot write.
func runImage(t *testing.T, root, dist string) {
	file, err := os.Open(only(t, dist+"/skald_*_image_amd64.tar"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	at := filepath.Join(t.TempDir(), "image")
	config := unpack(t, file, at)
	if size := sizeOf(t, at); size >= maxImage {
		t.Errorf("the image has %d bytes unpacked, want less than %d", size, maxImage)
	} else {
		t.Logf("the image has %d bytes unpacked", size)
	}
	if config.Config.User != nonroot || strings.Join(config.Config.Entrypoint, " ") != "/skald" {
		t.Errorf("the image says %+v", config.Config)
	}
	if err := errors.Join(syscall.Mount(at, at, "", syscall.MS_BIND, ""),
		syscall.Mount(at, at, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, "")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(at, syscall.MNT_DETACH) })
	port := strings.TrimSpace(inside(t, root, "pg_conftool", "-s", "15", "main", "show", "port"))
	inside(t, root, "runuser", "-u", "postgres", "--", "psql", "-p", port, "-c",
		"CREATE ROLE image LOGIN CREATEROLE PASSWORD 'image'", "-c", "CREATE DATABASE image OWNER image")
	listen := "127.0.0.1:" + freePort(t)
	env := []string{
		"SKALD_DATABASE_URL=postgres://image:image@127.0.0.1:" + port + "/image?sslmode=disable",
		"SKALD_LISTEN_ADDR=" + listen, "SKALD_AUTH_MODE=required",
	}
	in := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), "/skald", args...)
		cmd.Env, cmd.Dir = env, "/"
		cmd.Path, cmd.Err = "/skald", nil
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: at, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
		return cmd
	}
	serve := in("serve")
	var log bytes.Buffer
	serve.Stdout, serve.Stderr = &log, &log
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = serve.Process.Signal(syscall.SIGTERM)
		if err := serve.Wait(); err != nil {
			t.Errorf("%v: %s", err, tail(log.String()))
		}
	}()
	ready(t, listen)
	if out, err := in("health").CombinedOutput(); err != nil {
		t.Errorf("the health check: %v: %s", err, out)
	}
	if out, err := in("version").CombinedOutput(); err != nil || !strings.Contains(string(out), config.Config.Labels["org.opencontainers.image.version"]+" ") {
		t.Errorf("version: %v: %s", err, out)
	}
}

// checkUnit lets systemd judge the unit of the installed package.
func checkUnit(t *testing.T, root string) {
	const unit = "/usr/lib/systemd/system/skald.service"
	if out, err := command(t, ".", "systemd-analyze", "verify", "--man=no", "--root="+root, unit); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	out, err := command(t, ".", "systemd-analyze", "security", "--offline=true", "--threshold=25", root+unit)
	if err != nil {
		t.Errorf("more exposed than 2.5: %v: %s", err, tail(out))
	}
}

type imageConfig struct {
	Config struct {
		User       string
		Entrypoint []string
		Labels     map[string]string
	} `json:"config"`
}

// unpack extracts the only layer of an image as docker save writes it.
func unpack(t *testing.T, file io.Reader, at string) (config imageConfig) {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "tar", "-x", "-C", dir)
	cmd.Stdin = file
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var manifest []struct {
		Config string
		Layers []string
	}
	parse(t, read(t, dir+"/manifest.json"), &manifest)
	if len(manifest) != 1 || len(manifest[0].Layers) != 1 {
		t.Fatalf("the manifest is %+v", manifest)
	}
	parse(t, read(t, filepath.Join(dir, manifest[0].Config)), &config)
	if err := os.Mkdir(at, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := command(t, ".", "tar", "-xz", "-C", at, "-f", filepath.Join(dir, manifest[0].Layers[0])); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return config
}

func parse(t *testing.T, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatal(err)
	}
}

// ready waits until a server says that it is ready.
func ready(t *testing.T, listen string) {
	t.Helper()
	waitFor(t, "the server", func() bool {
		res, err := http.Get("http://" + listen + "/readyz")
		if err != nil {
			return false
		}
		res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
}

// waitFor waits until something is ready.
func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if is() {
			return
		}
	}
	t.Fatalf("%s did not become ready", what)
}

// start starts a command in a root and returns what stops it.
func start(t *testing.T, root string, args ...string) (stop func()) {
	t.Helper()
	var log bytes.Buffer
	cmd := exec.Command("chroot", append([]string{root}, args...)...)
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	stop = func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		<-ended
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(tail(log.String()))
		}
	})
	return stop
}

func inside(t *testing.T, root string, args ...string) string {
	t.Helper()
	out, err := command(t, ".", "chroot", append([]string{root}, args...)...)
	if err != nil {
		t.Fatalf("%v: %v: %s", args, err, tail(out))
	}
	return out
}

func command(t *testing.T, dir, name string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

func only(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %v, %v", pattern, found, err)
	}
	return found[0]
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func copyFile(t *testing.T, from, to string) { t.Helper(); write(t, to, read(t, from)) }

func tail(text string) string { return text[max(0, len(text)-2000):] }

// TestPackagesAreTheSameWheneverTheyAreMade packs the same files twice, the second time later.
func TestPackagesAreTheSameWheneverTheyAreMade(t *testing.T) {
	dir, at := t.TempDir(), time.Unix(1_790_000_000, 0)
	write(t, dir+"/a", "one")
	files := []packed{{name: "etc", mode: os.ModeDir | 0o755}, {name: "a", from: dir + "/a", mode: 0o755}, {name: "b", content: []byte("two"), mode: 0o644}}
	var sums [2]string
	for i := range sums {
		if err := tarGz(dir+"/x", "top", files, at); err != nil {
			t.Fatal(err)
		}
		sums[i] = read(t, dir+"/x.tar.gz")
		later := time.Now().Add(time.Hour)
		if err := os.Chtimes(dir+"/a", later, later); err != nil {
			t.Fatal(err)
		}
	}
	if sums[0] != sums[1] {
		t.Error("the bytes depend on when a package is made")
	}
	var b bytes.Buffer
	if err := writeTar(&b, "top", files, at); err != nil {
		t.Fatal(err)
	}
	r := tar.NewReader(&b)
	for i, want := range []string{"top/etc/", "top/a", "top/b"} {
		h, err := r.Next()
		if err != nil || h.Name != want || h.Uid != 0 || !h.ModTime.Equal(at) || h.FileInfo().Mode().Perm() != files[i].mode.Perm() {
			t.Errorf("%+v, %v; want %s", h, err, want)
		}
	}
}
