package web

import (
	"fmt"
	"html/template"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/skald-saga/skald/api/client"
)

// Config of the pages. Fields are required unless a comment says otherwise.
type Config struct {
	API  http.Handler // of this process
	Base string       // the path that a proxy in front takes away, such as "/skald"; may be empty
	// ReadOnly leaves out every action.
	ReadOnly bool
	// ManualOnly: there are no pages but the manual.
	ManualOnly bool
	// Title and Colour name this installation in a bar on every page; both may be empty. Colour is one of red,
	// amber, green and blue.
	Title, Colour string
	// Links are templates of links to other tools, with {trace_id} and {correlation_id}; none: no links.
	Links []Link
	Now   func() time.Time
	NewID func() string // of an Idempotency-Key
	Log   *slog.Logger
}

// Kit is the handler of the pages registered with it.
type Kit struct {
	Config
	Client *client.ClientWithResponses
	// Patterns are those of all pages.
	Patterns []string
	assets   assets
	pages    map[string]*parsed
	mux      *http.ServeMux
}

// parsed is the template of a page, together with the layout and the parts that pages share.
type parsed struct{ *template.Template }

func (p *parsed) execute(w io.Writer, name string, data any) error {
	if p == nil {
		return fmt.Errorf("there is no template for this page")
	}
	return p.ExecuteTemplate(w, name, data)
}

// Serves reports whether there is a page with exactly this path, so that no page links to one that is not there.
func (k *Kit) Serves(path string) bool {
	_, pattern := k.mux.Handler(&http.Request{Method: http.MethodGet, URL: &url.URL{Path: path}})
	return strings.HasSuffix(pattern, path)
}

// ServeHTTP implements http.Handler.
func (k *Kit) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	if err := k.refuse(r); err != nil {
		v := k.visit(r)
		k.render(w, v, k.problem(v, err))
		return
	}
	k.mux.ServeHTTP(w, r)
}

// refuse returns why a request that may change something is not served, whatever its path.
func (k *Kit) refuse(r *http.Request) error {
	switch {
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		return nil
	case !SameOrigin(r):
		return crossSite
	case k.ReadOnly && !strings.HasPrefix(r.URL.Path, "/ui/sign-"):
		return readOnly
	}
	return nil
}

var crossOrigin = http.NewCrossOriginProtection()

// SameOrigin reports whether a request proves that a page of this server has sent it. Browsers do so with every
// form; a request without the headers is no proof.
func SameOrigin(r *http.Request) bool {
	proof := r.Header.Get("Sec-Fetch-Site") != "" || r.Header.Get("Origin") != ""
	return proof && crossOrigin.Check(r) == nil
}

// Elsewhere returns the links to other tools for a trace and a correlation; either may be empty.
func (k *Kit) Elsewhere(trace, correlation string) (all []Link) {
	for _, l := range k.Links {
		if strings.Contains(l.URL, "{trace_id}") && trace == "" ||
			strings.Contains(l.URL, "{correlation_id}") && correlation == "" {
			continue
		}
		l.URL = strings.NewReplacer("{trace_id}", url.QueryEscape(trace), "{correlation_id}", url.QueryEscape(correlation)).
			Replace(l.URL)
		all = append(all, l)
	}
	return all
}

// policy allows what this server itself sends, and nothing inline.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
	"connect-src 'self'; form-action 'self'; base-uri 'self'; frame-ancestors 'none'"
