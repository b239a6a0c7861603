package web

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
)

// Redirect is the Data for a redirect to a path below the base, such as "/ui/sagas".
type Redirect string

// Provider is the Data for a redirect to the identity provider, as a complete URL.
type Provider string

// File is the Data for a page that is a file to download.
type File struct {
	Name    string
	Content []byte
}

func (f File) send(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": f.Name}))
	h.Set("Cache-Control", "private, no-store")
	_, _ = w.Write(f.Content) // an error means that the browser has disconnected
}

// Context returns the context for calls to the API. It carries the visitor's credentials.
func (v *Visit) Context() context.Context { return v.Request.Context() }

// May reports whether the visitor has a permission.
func (v *Visit) May(permission string) bool {
	return v.Who != nil && slices.Contains(v.Who.Permissions, permission)
}

// Query returns a parameter of the page's URL, or nil if it is absent or empty.
func (v *Visit) Query(name string) *string {
	if s := v.URL.Query().Get(name); s != "" {
		return &s
	}
	return nil
}

// ID returns the id in the page's path, or ErrNoPage if it is not an id.
func (v *Visit) ID(name string) (uuid.UUID, error) {
	id, err := uuid.Parse(v.PathValue(name))
	if err != nil {
		return id, ErrNoPage
	}
	return id, nil
}

// Page registers the page for a pattern of http.ServeMux below /ui/, for visitors who are signed
// in.
func (k *Kit) Page(pattern string, f func(*Visit) (*Page, error)) {
	k.page(pattern, func(v *Visit) (*Page, error) { return k.found(v, f) })
}

// OpenPage registers a page that does not require signing in, because nothing on it comes from the
// API.
func (k *Kit) OpenPage(pattern string, f func(*Visit) (*Page, error)) { k.page(pattern, f) }

// Handle registers a handler for anything that is not a page.
func (k *Kit) Handle(pattern string, h http.Handler) {
	k.Patterns = append(k.Patterns, pattern)
	k.mux.Handle(pattern, h)
}

func (k *Kit) page(pattern string, f func(*Visit) (*Page, error)) {
	k.Patterns = append(k.Patterns, pattern)
	k.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		if k.Within > 0 {
			ctx, cancel := context.WithTimeout(r.Context(), k.Within)
			defer cancel()
			r = r.WithContext(ctx)
		}
		v := k.visit(r)
		p, err := f(v)
		if v.canonical != "" {
			http.Redirect(w, r, v.within(k.Base+v.canonical), http.StatusFound)
			return
		}
		if err != nil {
			p = k.problem(v, err)
		}
		for name, values := range p.Header {
			w.Header()[name] = values
		}
		if to, ok := p.Data.(Redirect); ok {
			http.Redirect(w, r, v.within(k.Base+string(to)), http.StatusSeeOther)
			return
		}
		if to, ok := p.Data.(Provider); ok {
			w.Header().Set("Cache-Control", "no-store")
			http.Redirect(w, r, string(to), http.StatusSeeOther)
			return
		}
		if f, ok := p.Data.(File); ok {
			f.send(w)
			return
		}
		if _, ok := p.Data.(Unchanged); ok {
			p.follow(w.Header())
			keep(w.Header(), v.Header.Get("If-None-Match"))
			w.WriteHeader(http.StatusNotModified)
			return
		}
		k.render(w, v, p)
	})
}

// withoutEmpty returns the URL without the parameters that a form has sent for empty fields, if
// there are any, so that shared URLs contain only what is needed.
func withoutEmpty(r *http.Request) string {
	q := r.URL.Query()
	if r.Method != http.MethodGet || !slices.ContainsFunc(slices.Collect(maps.Values(q)),
		func(values []string) bool { return slices.Contains(values, "") }) {
		return ""
	}
	for name, values := range q {
		if q[name] = slices.DeleteFunc(values, func(s string) bool { return s == "" }); len(q[name]) == 0 {
			delete(q, name)
		}
	}
	to := r.URL.EscapedPath()
	if len(q) > 0 {
		to += "?" + q.Encode()
	}
	return to
}

func (k *Kit) visit(r *http.Request) *Visit {
	v := &Visit{Kit: k, Now: k.Now(), calls: &calls{}}
	r, v.Tenant = chosen(r)
	v.Request = r.WithContext(onBehalfOf(r, v.calls))
	return v
}

func (k *Kit) found(v *Visit, f func(*Visit) (*Page, error)) (*Page, error) {
	who, err := k.Client.WhoAmIWithResponse(v.Context())
	if err != nil {
		return nil, err
	}
	if v.canonical = withoutEmpty(v.Request); v.canonical != "" {
		return &Page{}, nil
	}
	if v.Who, err = Got(who.JSON200, who.ApplicationProblemJSONDefault); err != nil {
		return nil, err
	}
	v.calls.reset() // the request for the visitor's identity is not part of the page
	return f(v)
}

// problem returns the page that shows err.
func (k *Kit) problem(v *Visit, err error) *Page {
	var r *Refusal
	if !errors.As(err, &r) {
		k.Log.ErrorContext(v.Context(), "a page failed", slog.String("path", v.URL.Path), slog.Any("error", err))
		r = internal
	}
	if r.Status == http.StatusUnauthorized && k.SignIn != nil {
		return k.SignIn(v)
	}
	p := &Page{Template: "problem", Title: r.Title, Status: r.Status, Data: r.Problem}
	if r.Code == "SYS_UNAVAILABLE" { // it is temporary, so the page retries automatically
		p.Refresh = 5
	}
	return p
}

// chrome is the frame around the content of a page.
type chrome struct {
	*Page
	kit   *Kit
	visit *Visit
}

// Heading returns the title of the page shown by the browser.
func (c chrome) Heading() string {
	if c.Attention > 0 {
		return fmt.Sprintf("(%d) %s · Skald", c.Attention, c.Title)
	}
	return c.Title + " · Skald"
}

// Asset returns the URL of a file in the folder assets.
func (k *Kit) Asset(name string) string { return k.Base + "/ui/assets/" + k.assets.bySource[name].name }

// Asset returns the URL of a file in the folder assets.
func (c chrome) Asset(name string) string { return c.kit.Asset(name) }

// Base returns the path before /ui/.
func (c chrome) Base() string { return c.kit.Base }

// API returns the part before /api/v1 in the API's URLs for this page.
func (c chrome) API() string { return c.visit.api() }

// Switchable reports whether the visitor may view other tenants.
func (c chrome) Switchable() bool { w := c.visit.Who; return w != nil && w.AnyTenant }

// Tenant returns the tenant that the visitor has selected, or "" if none.
func (c chrome) Tenant() string { return c.visit.Tenant }

// Installation returns the text of the bar.
func (c chrome) Installation() string { return c.kit.Title }

// Colour returns the color of the bar.
func (c chrome) Colour() string { return c.kit.Colour }

// Who returns the visitor, or nil without a session.
func (c chrome) Who() *client.CallerIdentity { return c.visit.Who }

// ReadOnly reports whether this installation offers no actions.
func (c chrome) ReadOnly() bool { return c.kit.ReadOnly }

// URL returns the URL of the page.
func (c chrome) URL() *url.URL { return c.visit.URL }

// Now returns the time when the page was rendered.
func (c chrome) Now() time.Time { return c.visit.Now }

// Calls returns the requests to the API behind this page as curl commands.
func (c chrome) Calls() []string {
	if c.OwnCommand {
		return nil
	}
	return c.visit.calls.asCurl(c.visit.Request, c.kit.Base)
}

// Entries returns the entries of the navigation.
func (c chrome) Entries() []Entry {
	if c.kit.ManualOnly {
		return nil
	}
	return navigation
}

// Navigation returns the entries that every page has.
func Navigation() []Entry { return navigation }

// InMore reports whether the current entry of the navigation is one of the folded ones.
func (c chrome) InMore() bool {
	return slices.ContainsFunc(c.Entries(), func(e Entry) bool { return e.More && e.Name == c.Nav })
}

// Entry is an entry of the navigation. Pressing Key after "g" opens it. Entries with More are
// folded.
type Entry struct {
	Name, Path, Key string
	More            bool
}

var navigation = []Entry{
	{Name: "Overview", Path: "/ui/", Key: "o"}, {Name: "Sagas", Path: "/ui/sagas", Key: "s"},
	{Name: "Workflows", Path: "/ui/workflows", Key: "f"}, {Name: "Dead letters", Path: "/ui/dlq", Key: "d"},
	{Name: "Jobs", Path: "/ui/jobs", Key: "j"},
	{Name: "Redrives", Path: "/ui/redrives", Key: "r", More: true},
	{Name: "Workers", Path: "/ui/workers", Key: "w", More: true},
	{Name: "Timeline", Path: "/ui/timeline", Key: "t", More: true},
	{Name: "Participants", Path: "/ui/participants", Key: "p", More: true},
	{Name: "Webhooks", Path: "/ui/webhooks", Key: "h", More: true},
	{Name: "Audit", Path: "/ui/audit", Key: "a", More: true},
	{Name: "Access", Path: "/ui/access", Key: "k", More: true},
	{Name: "System", Path: "/ui/system", Key: "y", More: true},
	{Name: "Manual", Path: "/docs/", Key: "m", More: true},
}

// Tag returns the page's ETag if it is known before the page is rendered.
func (c chrome) Tag() string {
	if c.State == "" {
		return ""
	}
	return c.visit.tag(c.State)
}

// keep sets the Cache-Control and the ETag of a response.
func keep(h http.Header, tag string) {
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "private, no-cache")
	}
	h.Set("ETag", tag)
	h.Add("Vary", "Cookie, "+liveHeader)
}

// draw renders a page as HTML.
func (k *Kit) draw(c chrome) ([]byte, error) {
	var out bytes.Buffer
	if err := k.pages[c.Template].execute(&out, "layout.html", c); err != nil {
		return nil, err
	}
	page := showDirections(cards(out.Bytes()))
	if c.visit.Tenant != "" {
		page = c.visit.keepTenant(page)
	}
	return page, nil
}

// drawnFor is the time for which the regions of a page in one State are shared. Only the texts of
// relative times get that old, and the browser updates those.
const drawnFor = 10 * time.Second

// render sends a page. If the page has no State, its ETag changes whenever the page changes. The
// texts of relative times are ignored for this, because the browser keeps them current.
func (k *Kit) render(w http.ResponseWriter, v *Visit, p *Page) {
	chrome := chrome{Page: p, kit: k, visit: v}
	h, tag, had := w.Header(), chrome.Tag(), ""
	if p.Status == 0 && v.Method == http.MethodGet {
		had = v.Header.Get(liveHeader)
	}
	shared := had != "" && tag != "" && p.Sees != ""
	var page []byte
	var regions []region
	var err error
	if shared {
		of := v.Tenant + "\n" + v.URL.RequestURI() + "\n" + p.Sees + "\n" + p.State
		regions, err = k.drawn.Get(of, v.Now, func() ([]region, error) {
			page, err := k.draw(chrome)
			return regionsOf(page), err
		})
	} else {
		page, err = k.draw(chrome)
	}
	if err != nil {
		k.Log.ErrorContext(v.Context(), "rendering a page failed",
			slog.String("page", p.Template), slog.Any("error", err))
		http.Error(w, "The page cannot be shown; see the server's log for the cause.", http.StatusInternalServerError)
		return
	}
	if tag == "" {
		tag = tagOf(page)
	}
	h.Set("Content-Type", "text/html; charset=utf-8")
	p.follow(h)
	keep(h, tag)
	if p.Status == 0 && v.Method == http.MethodGet && v.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if had != "" {
		if !shared {
			regions = regionsOf(page)
		}
		page = onlyChanged(h, regions, chrome.Heading(), p.Refresh, had)
	}
	if p.Status != 0 {
		w.WriteHeader(p.Status)
	}
	_, _ = w.Write(page) // an error means that the browser has disconnected
}
