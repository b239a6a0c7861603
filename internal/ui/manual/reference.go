package manual

import (
	"bytes"
	"compress/gzip"
	"embed"
	"html/template"
	"io"
	"net/http"
	"path"
	"strings"

	"github.com/swaggest/swgui/v5/static"
)

//go:embed templates
var templates embed.FS

// referencePolicy allows Swagger UI its inline styles, on its own page alone. Scripts are this server's.
const referencePolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; " +
	"img-src 'self' data:; connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"

// reference is the page of the API with requests to try out.
type reference struct {
	page []byte
	base string
}

func newReference(base, script string) (*reference, error) {
	t, err := template.ParseFS(templates, "templates/swagger.html.tmpl")
	if err != nil {
		return nil, err
	}
	var page bytes.Buffer
	err = t.Execute(&page, map[string]string{"Base": base, "Script": script})
	return &reference{page.Bytes(), base}, err
}

// ServeHTTP implements http.Handler.
func (f *reference) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", referencePolicy)
	if r.URL.Path == "/docs/api" {
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Cache-Control", "no-cache")
		_, _ = w.Write(f.page) // an error means that the browser has disconnected
		return
	}
	name := path.Base(r.URL.Path)
	content, err := static.FS.ReadFile(name + ".gz")
	if err != nil || name != "swagger-ui.css" && name != "swagger-ui-bundle.js" {
		http.NotFound(w, r)
		return
	}
	body := io.Reader(bytes.NewReader(content))
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
	} else if body, err = gzip.NewReader(body); err != nil {
		http.NotFound(w, r)
		return
	}
	h.Set("Vary", "Accept-Encoding")
	h.Set("Cache-Control", "public, max-age=86400")
	h.Set("Content-Type", "text/javascript; charset=utf-8")
	if path.Ext(name) == ".css" {
		h.Set("Content-Type", "text/css; charset=utf-8")
	}
	_, _ = io.Copy(w, body) // an error means that the browser has disconnected
}
