package main

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// linesOf returns the commands in a section of docs/install.md, with words replaced. A word that is not there is an
// error: the test would run something else.
func linesOf(t *testing.T, section string, replace ...string) string {
	t.Helper()
	_, text, found := strings.Cut(read(t, "../../docs/install.md"), "\n## "+section+"\n")
	text, _, _ = strings.Cut(text, "\n## ")
	_, text, begins := strings.Cut(text, "\n```sh\n")
	text, _, ends := strings.Cut(text, "\n```\n")
	if !found || !begins || !ends {
		t.Fatalf("docs/install.md has no commands in %s", section)
	}
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(text, replace[i]) {
			t.Fatalf("the commands in %s have no %s:\n%s", section, replace[i], text)
		}
		text = strings.ReplaceAll(text, replace[i], replace[i+1])
	}
	return text
}

// engine makes podman the command docker, with storage of its own: it has the same commands and needs no daemon. Its
// containers share the network of this machine, because a test may not be allowed to make another.
func engine(t *testing.T) (env []string) {
	t.Helper()
	dir := t.TempDir()
	write(t, dir+"/storage.conf", "[storage]\ndriver = \"vfs\"\ngraphroot = \""+dir+"/graph\"\nrunroot = \""+dir+"/run\"\n")
	write(t, dir+"/containers.conf", "[containers]\nnetns = \"host\"\ndefault_ulimits = [\"nofile=1024:1024\", \"nproc=4096:4096\"]\n"+
		"[engine]\nruntime = \"runc\"\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"none\"\n")
	write(t, dir+"/policy.json", `{"default":[{"type":"insecureAcceptAnything"}]}`)
	podman, err := exec.LookPath("podman")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Mkdir(dir+"/bin", 0o755), os.Symlink(podman, dir+"/bin/docker")); err != nil {
		t.Fatal(err)
	}
	return append(os.Environ(), "CONTAINERS_CONF="+dir+"/containers.conf", "CONTAINERS_STORAGE_CONF="+dir+"/storage.conf",
		"PATH="+dir+"/bin:"+os.Getenv("PATH"), "LC_ALL=C.UTF-8")
}

// runDocker executes the lines of the manual for the image, and asks the container for its health.
func runDocker(t *testing.T, root, dist string) {
	env := engine(t)
	port := strings.TrimSpace(inside(t, root, "pg_conftool", "-s", "15", "main", "show", "port"))
	inside(t, root, "runuser", "-u", "postgres", "--", "psql", "-p", port, "-c",
		"CREATE ROLE docker LOGIN CREATEROLE PASSWORD 'docker'", "-c", "CREATE DATABASE docker OWNER docker")
	listen := "127.0.0.1:" + freePort(t)
	docker := func(args ...string) (string, error) {
		// Also when the test ends, which ends its context first.
		cmd := exec.Command("sh", append([]string{"-c", `exec docker "$@"`, "docker"}, args...)...)
		cmd.Env = env
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	lines := linesOf(t, "Image",
		"docker run ", "exec docker run --name manual ",
		"-p 127.0.0.1:8080:8080", "-e SKALD_LISTEN_ADDR="+listen,
		"postgres://skald:…@db.example.com/skald?sslmode=verify-full", "postgres://docker:docker@127.0.0.1:"+port+"/docker?sslmode=disable")
	cmd := exec.Command("sh", "-ec", lines)
	cmd.Dir, cmd.Env = dist, env
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		out, err := docker("rm", "--force", "--time", "30", "manual")
		if err != nil {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		}
		_ = cmd.Wait() // it ends with its container
		if err != nil || t.Failed() {
			t.Errorf("%v: %s\n%s", err, out, tail(log.String()))
		}
	})
	ready(t, listen)
	for what, args := range map[string][]string{
		"healthy":      {"healthcheck", "run", "manual"},
		"its version":  {"exec", "manual", "/skald", "version"},
		"its labels":   {"inspect", "manual"},
		"the only one": {"image", "exists", "skald:" + strings.TrimSpace(read(t, "../../cmd/skald/VERSION"))},
	} {
		if out, err := docker(args...); err != nil {
			t.Errorf("%s: %v: %s", what, err, out)
		}
	}
	if out, err := docker("exec", "manual", "/skald", "completion", "bash"); err != nil || !strings.Contains(out, "skald") {
		t.Errorf("%v: %s", err, out)
	}
}

// copyToRegistry copies the layout to a registry, as the manual says.
func copyToRegistry(t *testing.T, dist string) {
	dir := t.TempDir()
	at := "127.0.0.1:" + freePort(t)
	write(t, dir+"/config.yml", "version: 0.1\nstorage: {filesystem: {rootdirectory: "+dir+"/registry}}\nhttp: {addr: \""+at+"\"}\n")
	serve := exec.Command("docker-registry", "serve", dir+"/config.yml")
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = serve.Process.Kill(); _ = serve.Wait() })
	waitFor(t, "the registry", func() bool {
		conn, err := net.Dial("tcp", at)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	text := strings.Join(strings.Fields(read(t, "../../docs/install.md")), " ")
	_, line, found := strings.Cut(text, "`skopeo copy ")
	line, _, ends := strings.Cut(line, "`")
	if !found || !ends || !strings.Contains(line, "registry.example.com") {
		t.Fatalf("docs/install.md does not copy the layout: %q", line)
	}
	line = "skopeo --insecure-policy copy --dest-tls-verify=false " + strings.Replace(line, "registry.example.com", at, 1)
	if out, err := command(t, dist, "sh", "-ec", line); err != nil {
		t.Fatalf("%s: %v: %s", line, err, out)
	}
	version := strings.TrimSpace(read(t, "../../cmd/skald/VERSION"))
	out, err := command(t, dist, "skopeo", "inspect", "--raw", "--tls-verify=false", "docker://"+at+"/skald:"+version)
	if err != nil || !strings.Contains(out, "arm64") || !strings.Contains(out, "amd64") {
		t.Errorf("the registry has %v: %s", err, out)
	}
}

// inKubernetes executes the lines of the manual for a cluster as far as they go without one: the secret is made as the
// command makes it, and Helm makes what it would install, in which that secret is used.
func inKubernetes(t *testing.T, dist string) {
	helm, err := filepath.Abs("../helm")
	if err != nil {
		t.Fatal(err)
	}
	lines := linesOf(t, "Kubernetes", "kubectl create secret", "kubectl create --dry-run=client -o json secret",
		"helm install skald ./skald-", "echo ---; go -C "+helm+" tool helm install --dry-run=client skald "+dist+"/skald-")
	out, err := command(t, dist, "sh", "-ec", lines)
	if err != nil {
		t.Fatalf("%v: %s\n%s", err, out, lines)
	}
	secret, rest, _ := strings.Cut(out, "\n---\n")
	var made struct {
		Kind     string
		Metadata struct{ Name string }
		Data     map[string]string
	}
	if parse(t, secret, &made); made.Kind != "Secret" {
		t.Fatal(secret)
	}
	for key := range made.Data {
		if want := "secretKeyRef: {name: \"" + made.Metadata.Name + "\", key: \"" + key + "\"}"; !strings.Contains(rest, want) {
			t.Errorf("nothing that is installed has %s:\n%s", want, rest)
		}
	}
	for _, want := range []string{"kind: Job", "replicas: 2", "registry.example.com/skald:"} {
		if !strings.Contains(rest, want) {
			t.Errorf("nothing that is installed has %s", want)
		}
	}
}
