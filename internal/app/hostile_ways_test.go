package app_test

import (
	"bytes"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// otherWays sends hostile text by other means than JSON documents: YAML, lines of an import, and
// URLs.
func (p *hostilePages) otherWays() {
	a := p.a
	a.t.Helper()
	said := encoded(a.hostile.text("yaml", canary)) // JSON text is YAML text
	yaml := "# " + strings.TrimRight(breaks, "\u202e\u2028") + "\nname: " + canary + "-hostile-yaml\ndescription: " +
		said + "\nsteps: [{name: s, metadata: {x: " + said + "}, action: {http: {url: " + encoded(a.participants.URL) +
		"}}, compensation: none}]\n"
	status, text := a.send(a.owner, "POST", "/api/v1/workflows", yaml, "Content-Type", "application/yaml")
	if status != 201 {
		a.t.Errorf("YAML: %d %s", status, text)
	}
	a.hostile.planted["yaml"] = true
	wrong := strings.Replace(yaml, "compensation", encoded(breaks), 1)
	for _, definition := range []string{yaml, wrong, breaks, "{" + breaks} {
		form := url.Values{"definition": {definition}, "do": {"check"}}
		_, _, text := p.request("POST", "/ui/register-workflow", a.owner, form)
		p.check("the registration of "+definition, text)
		if !strings.Contains(text, "&lt;img zq") {
			a.t.Errorf("the registration does not show %s", definition)
		}
	}
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	file, err := w.CreateFormFile("file", strings.TrimRight(breaks, "\u202e\u2028"))
	if err != nil {
		a.t.Fatal(err)
	}
	for _, line := range []string{breaks, `{"` + strings.ReplaceAll(breaks, `"`, `\"`) + `":1}`,
		`{"original_topic":` + said + `,"state":` + said + `}`} {
		_, _ = file.Write([]byte(line + "\n")) // to memory
	}
	_ = w.Close() // to memory
	req, err := http.NewRequestWithContext(a.t.Context(), "POST", a.url+"/ui/dlq/import", &form)
	if err != nil {
		a.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+a.owner)
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	req.Header.Set("Content-Type", w.FormDataContentType())
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		a.t.Fatal(err)
	}
	defer res.Body.Close()
	doc, err := html.Parse(res.Body)
	if err != nil || res.StatusCode >= 500 {
		a.t.Fatalf("an import: %d %v", res.StatusCode, err)
	}
	p.checkNodes("the import", doc)
	for _, to := range []string{
		"javascript:alert(1)", "JavaScript://h/%0aalert(1)", "data:text/html,<script>alert(1)</script>", "vbscript:x",
		"//evil.example/", "/x", "file:///etc/passwd",
	} {
		for path, body := range map[string]string{
			"/api/v1/webhooks": `{"url":` + encoded(to) + `,"reason":"x"}`,
			"/api/v1/dlq/messages": `{"original_topic":"x","error_message":"x","payload":{},"target":{"kind":"http","url":` +
				encoded(to) + `}}`,
			"/api/v1/workflows": `{"name":"x","steps":[{"name":"s","action":{"http":{"url":` + encoded(to) +
				`}},"compensation":"none"}]}`,
		} {
			if status, text := a.send(a.owner, "POST", path, body); status != 400 && status != 422 && status != 403 {
				a.t.Errorf("%s to %s: %d %s", to, path, status, text)
			}
		}
	}
}

// asAnyTenant reads a page of each kind as a caller without a tenant of its own who looks at the owner's.
func (p *hostilePages) asAnyTenant() {
	p.a.t.Helper()
	kinds, files, hostile := map[string]bool{}, map[string]bool{}, 0
	for _, path := range p.found {
		own, query, _ := strings.Cut(path, "?")
		kind := kindOf(own)
		if q, err := url.ParseQuery(query); err != nil || kinds[kind+q.Get("tab")] || q.Has("tenant") {
			continue
		} else {
			kinds[kind+q.Get("tab")] = true
			q.Set("tenant", p.a.tenant)
			path = own + "?" + q.Encode()
		}
		status, header, text := p.request(http.MethodGet, path, p.a.root, nil)
		if !strings.HasPrefix(header.Get("Content-Type"), "text/html") {
			continue
		}
		if status >= 500 && !strings.Contains(text, "UNAVAILABLE") {
			p.a.t.Errorf("%s: %d", path, status)
		}
		if strings.Contains(text, "&lt;img zq") {
			hostile++
		}
		for n := range p.check(path, text).Descendants() {
			if to := attribute(n, "href"); n.Data == "a" && strings.HasPrefix(to, "/ui/of/") {
				files[to] = true
			}
		}
	}
	if hostile < 30 {
		p.a.t.Errorf("only %d pages for another tenant have hostile text", hostile)
	}
	files["/ui/of/"+p.a.tenant+"/api/v1/dlq/export"] = true
	for to := range files {
		_, header, _ := p.request(http.MethodGet, to, p.a.root, nil)
		p.file(to, header)
	}
	for _, tenant := range []string{breaks, "javascript:alert(1)", `..%2f..%2f"'><zq>`, "x\r\nSet-Cookie: a=b"} {
		for _, path := range []string{"/ui/", "/ui/sagas", "/ui/sign-in", "/docs/", "/ui/nothing"} {
			_, header, text := p.request(http.MethodGet, path+"?tenant="+url.QueryEscape(tenant), p.a.root, nil)
			if header.Get("Set-Cookie") != "" {
				p.a.t.Errorf("%s for %q sets a cookie", path, tenant)
			}
			p.check(path+" for "+tenant, text)
		}
		_, header, _ := p.request(http.MethodGet, "/ui/of/"+url.PathEscape(tenant)+"/api/v1/dlq/export", p.a.root, nil)
		if header.Get("X-Content-Type-Options") != "nosniff" {
			p.a.t.Errorf("for the tenant %q: %v", tenant, header)
		}
	}
}

// answers of the API with the owner's texts are nothing that a browser shows as a page.
func (p *hostilePages) answers() {
	p.a.t.Helper()
	for _, op := range contractOf(p.a.t, p.a.url).operations() {
		if op.method != http.MethodGet || strings.HasSuffix(op.path, "/stream") || strings.HasSuffix(op.path, "/watch") {
			continue
		}
		path := op.path
		for name, value := range p.a.ids {
			path = strings.ReplaceAll(path, "{"+name+"}", url.PathEscape(value))
		}
		_, header, _ := p.request(http.MethodGet, path, p.a.owner, nil)
		p.file(path, header)
	}
}

var plainName = regexp.MustCompile(`^[a-z0-9-]+\.[a-z]+$`)

// file checks the headers of what is not a page.
func (p *hostilePages) file(path string, header http.Header) {
	p.a.t.Helper()
	kind, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	harmless := []string{
		"application/json", "application/problem+json", "application/x-ndjson", "application/yaml", "text/plain",
		"text/event-stream", "application/octet-stream",
	}
	if err != nil || !slices.Contains(harmless, kind) || header.Get("X-Content-Type-Options") != "nosniff" {
		p.a.t.Errorf("%s may be shown as a page: %v", path, header)
	}
	if to := header.Get("Content-Disposition"); to != "" {
		as, parameters, err := mime.ParseMediaType(to)
		if err != nil || as != "attachment" || !plainName.MatchString(parameters["filename"]) {
			p.a.t.Errorf("%s is kept as %q", path, to)
		}
	}
	if strings.HasSuffix(path, "/export") && header.Get("Content-Disposition") == "" {
		p.a.t.Errorf("%s is not an attachment", path)
	}
}

// checkNodes reports every node that is not text but should be, and links that leave this server.
func (p *hostilePages) checkNodes(path string, doc *html.Node) {
	p.a.t.Helper()
	for n := range doc.Descendants() {
		if why := amiss(n); why != "" {
			p.a.t.Errorf("%s: %s", path, why)
		}
		to := attribute(n, "href")
		switch u, err := url.Parse(to); {
		case n.Data != "a":
		case foreign(to):
			p.a.t.Errorf("%s leads away, to %q", path, to)
		case err == nil && u.Host != "" && strings.Contains(to, canary) && strings.Contains(to, "zq"):
			p.left[u.Host] = true
		}
	}
}

// linked lists the hosts of ui.links in this test.
var linked = []string{"traces.example", "logs.example"}

// source is where the manual says that the program comes from.
const source = "https://github.com/skald-saga/skald"

// foreign reports whether a link leaves this server for one that neither the operator nor the manual has named.
func foreign(to string) bool {
	u, err := url.Parse(to)
	return err != nil || u.Host != "" && to != source && !slices.Contains(linked, u.Host)
}
