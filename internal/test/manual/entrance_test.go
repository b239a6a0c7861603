package manual

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testnet"
)

// published is the address under which the proxies publish Skald in these tests. Its port is not
// the default port, so URLs have to include it.
const published = "https://skald.example:8443"

// proxy is a program that deploy/proxies has a configuration for.
type proxy struct {
	program, file string
	// timeout is the line that limits the time of a response, with %s for the time.
	timeout string
	// start completes the configuration and returns the program's arguments.
	start func(dir, port, conf string) []string
}

var proxies = []proxy{
	{"nginx", "nginx.conf", "proxy_read_timeout %s;", func(dir, port, conf string) []string {
		conf = strings.ReplaceAll(conf, "listen 443", "listen 127.0.0.1:"+port)
		// Debian's nginx.conf turns compression on as well.
		head := "daemon off;\nmaster_process off;\npid " + dir + "/pid;\nerror_log stderr;\nevents {}\nhttp {\n" +
			"access_log off;\ngzip on;\ngzip_proxied any;\ngzip_types application/json;\n"
		for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
			head += kind + "_temp_path " + dir + "/" + kind + ";\n"
		}
		return []string{"-e", "stderr", "-c", written(dir, head+conf+"\n}\n")}
	}},
	{"haproxy", "haproxy.cfg", "timeout server %s", func(dir, port, conf string) []string {
		return []string{"-db", "-f", written(dir, strings.ReplaceAll(conf, "bind :443", "bind 127.0.0.1:"+port))}
	}},
	{"caddy", "Caddyfile", "", func(dir, port, conf string) []string {
		conf = strings.ReplaceAll(conf, "skald.example {", "skald.example {\n\tbind 127.0.0.1")
		head := "{\n\tadmin off\n\tauto_https disable_redirects\n\thttps_port " + port + "\n}\n"
		return []string{"run", "--adapter", "caddyfile", "--config", written(dir, head+conf)}
	}},
}

func written(dir, conf string) (path string) {
	path = filepath.Join(dir, "conf")
	if err := os.WriteFile(path, []byte(conf), 0o600); err != nil {
		panic(err)
	}
	return path
}

// ways are the alternatives in each file, in order.
var ways = []struct{ name, base string }{{"a host", ""}, {"a path", "/skald"}, {"a path that is removed", "/skald"}}

// chosen uncomments one of the alternatives and removes the others. Each alternative has a heading
// and ends at an empty line or at the end of its block.
func chosen(t *testing.T, conf string, way int) string {
	t.Helper()
	heading := regexp.MustCompile(`^\s*# (One of the three\. All of the host|Or below a path|Or below a path that is removed):$`)
	var kept []string
	at, inside := -1, false
	for line := range strings.Lines(conf) {
		switch {
		case heading.MatchString(strings.TrimSuffix(line, "\n")):
			at, inside = at+1, true
			continue
		case strings.Trim(line, "}\n") == "":
			inside = false
		}
		if inside && at == way {
			kept = append(kept, strings.Replace(line, "#", "", 1))
		} else if !inside {
			kept = append(kept, line)
		}
	}
	if at != len(ways)-1 {
		t.Fatalf("the file has %d ways:\n%s", at+1, conf)
	}
	return strings.Join(kept, "")
}

// entrance is a running proxy.
type entrance struct {
	t      *testing.T
	base   string // URL
	key    string
	client *http.Client

	participant string
}

// enter starts a proxy with its configuration from deploy/proxies. It changes only what a test has
// to change: addresses, and the time limit if one is given.
func (p *proxy) enter(t *testing.T, skald, certificates string, way int, limit string) *entrance {
	t.Helper()
	conf := content(t, root(t), "deploy/proxies", p.file)
	swap := map[string]string{"10.0.0.11:8080": skald, "10.0.0.12:8080": skald, "/etc/ssl/": certificates + "/"}
	if limit != "" {
		swap[fmt.Sprintf(p.timeout, "60s")] = fmt.Sprintf(p.timeout, limit)
	}
	for old, value := range swap {
		if !strings.Contains(conf, old) {
			t.Fatalf("%s has no %q", p.file, old)
		}
		conf = strings.ReplaceAll(conf, old, value)
	}
	program, err := exec.LookPath(p.program)
	if err != nil {
		if program, err = exec.LookPath("/usr/sbin/" + p.program); err != nil {
			t.Fatalf("%v: make programs installs it", err)
		}
	}
	addr, dir := testnet.FreeAddress(t), t.TempDir()
	_, port, _ := net.SplitHostPort(addr)
	ended := Background(t, program, p.start(dir, port, chosen(t, conf, way)), "HOME="+dir)
	pem, err := os.ReadFile(filepath.Join(certificates, "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(pem)
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: trusted}, ForceAttemptHTTP2: true, DisableCompression: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, addr)
		},
	}
	t.Cleanup(transport.CloseIdleConnections)
	e := &entrance{t: t, base: published + ways[way].base, client: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	patience.Until(t, p.program+" is there", func() bool {
		select {
		case <-ended:
			t.Fatalf("%s has ended", p.program)
		default:
		}
		return ready(t.Context(), e.client, e.base+"/readyz")
	})
	return e
}

// send makes one request; header contains names and values in turn.
func (e *entrance) send(method, path, body string, header ...string) (*http.Response, string) {
	e.t.Helper()
	res := e.open(method, path, body, header...)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		e.t.Fatal(err)
	}
	return res, string(text)
}

func (e *entrance) open(method, path, body string, header ...string) *http.Response {
	e.t.Helper()
	req, err := http.NewRequestWithContext(e.t.Context(), method, e.base+path, strings.NewReader(body))
	if err != nil {
		e.t.Fatal(err)
	}
	if strings.HasPrefix(path, "/api/") {
		req.Header.Set("Authorization", "Bearer "+e.key)
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Del(header[i])
		if header[i+1] != "" {
			req.Header.Set(header[i], header[i+1])
		}
	}
	res, err := e.client.Do(req)
	if err != nil {
		e.t.Fatalf("%s %s: %v", method, path, err)
	}
	return res
}

func (e *entrance) want(what string, ok bool, res *http.Response, text string) {
	e.t.Helper()
	if !ok {
		if len(text) > 800 {
			text = text[:800]
		}
		e.t.Fatalf("%s: %s %v\n%s", what, res.Status, res.Header, text)
	}
}

// exampleCertificates returns a directory with the files ca.pem, skald.pem and skald.key that the
// configurations refer to.
func exampleCertificates(t *testing.T) (dir string) {
	t.Helper()
	dir, ca := t.TempDir(), testnet.NewIssuer(t)
	ca.Write(t, filepath.Join(dir, "ca.pem"))
	cert, key := filepath.Join(dir, "skald.pem"), filepath.Join(dir, "skald.key")
	ca.Issue(t, 1, cert, key, func(c *x509.Certificate) { c.DNSNames = []string{"skald.example"} })
	both := append([]byte(content(t, cert)), content(t, key)...) // HAProxy needs both in one file
	if err := os.WriteFile(cert, both, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}
