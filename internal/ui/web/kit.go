package web

import (
	"fmt"
	"html/template"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/skald-saga/skald/api/client"
)

// Config of the pages. Fields are required unless a comment says otherwise.
type Config struct {
	API  http.Handler // of this process
	Base string       // the path that a proxy in front takes away, such as "/skald"; may be empty
	// ReadOnly leaves out every action.
	ReadOnly bool
	// Title and Colour name this installation in a bar on every page; both may be empty. Colour is one of red,
	// amber, green and blue.
	Title, Colour string
	Now           func() time.Time
	NewID         func() string // of an Idempotency-Key
	Log           *slog.Logger
}

// Kit is the handler of the pages registered with it.
type Kit struct {
	Config
	Client *client.ClientWithResponses
	assets assets
	pages  map[string]*parsed
	mux    *http.ServeMux
}

// parsed is the template of a page, together with the layout and the parts that pages share.
type parsed struct{ *template.Template }

func (p *parsed) execute(w io.Writer, name string, data any) error {
	if p == nil {
		return fmt.Errorf("there is no template for this page")
	}
	return p.ExecuteTemplate(w, name, data)
}

// ServeHTTP implements http.Handler.
func (k *Kit) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	k.mux.ServeHTTP(w, r)
}

// policy allows what this server itself sends, and nothing inline.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
	"connect-src 'self'; form-action 'self'; base-uri 'self'; frame-ancestors 'none'"
