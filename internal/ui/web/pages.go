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

// Redirect is the Data of a redirect to a path below the base, such as "/ui/sagas".
type Redirect string

// Provider is the Data of a redirect to the identity provider: a complete URL.
type Provider string

// File is the Data of a page that is a file to be kept.
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

// Context returns the context for calls of the API: it carries the visitor's credentials.
func (v *Visit) Context() context.Context { return v.Request.Context() }

// May reports whether the visitor has a permission.
func (v *Visit) May(permission string) bool {
	return v.Who != nil && slices.Contains(v.Who.Permissions, permission)
}

// Query returns a parameter of the page's URL, nil when it is absent or empty.
func (v *Visit) Query(name string) *string {
	if s := v.URL.Query().Get(name); s != "" {
		return &s
	}
	return nil
}

// ID returns the id that the page's path names; ErrNoPage if it is none.
func (v *Visit) ID(name string) (uuid.UUID, error) {
	id, err := uuid.Parse(v.PathValue(name))
	if err != nil {
		return id, ErrNoPage
	}
	return id, nil
}

// Page registers the page of a pattern of http.ServeMux below /ui/, for visitors who are signed in.
func (k *Kit) Page(pattern string, f func(*Visit) (*Page, error)) {
	k.page(pattern, func(v *Visit) (*Page, error) { return k.found(v, f) })
}

// OpenPage registers a page that requires no sign-in, because nothing on it comes from the API.
func (k *Kit) OpenPage(pattern string, f func(*Visit) (*Page, error)) { k.page(pattern, f) }

// Handle registers a handler for anything but a page.
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

// withoutEmpty is the URL without the parameters that a form has sent for fields that were left empty, if there are
// any: URLs that are shared say only what they mean.
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
	v.calls.reset() // the visitor's identity is not part of the page
	return f(v)
}

// problem is the page that shows err.
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
	if r.Code == "SYS_UNAVAILABLE" { // it passes: the page retries automatically
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

// Heading is what the browser shows as the name of the page.
func (c chrome) Heading() string {
	if c.Attention > 0 {
		return fmt.Sprintf("(%d) %s · Skald", c.Attention, c.Title)
	}
	return c.Title + " · Skald"
}

// Asset returns the URL of a file of the folder assets.
func (k *Kit) Asset(name string) string { return k.Base + "/ui/assets/" + k.assets.bySource[name].name }

// Asset returns the URL of a file of the folder assets.
func (c chrome) Asset(name string) string { return c.kit.Asset(name) }

// Base is the path before /ui/.
func (c chrome) Base() string { return c.kit.Base }

// API is what comes before /api/v1 in the URLs of the API that belong to this page.
func (c chrome) API() string { return c.visit.api() }

// Switchable reports whether the visitor may look at other tenants.
func (c chrome) Switchable() bool { w := c.visit.Who; return w != nil && w.AnyTenant }

// Tenant is the one that the visitor has chosen; empty: none.
func (c chrome) Tenant() string { return c.visit.Tenant }

// Installation is the bar's text.
func (c chrome) Installation() string { return c.kit.Title }

// Colour of the bar.
func (c chrome) Colour() string { return c.kit.Colour }

// Who is the visitor; nil without a session.
func (c chrome) Who() *client.CallerIdentity { return c.visit.Who }

// ReadOnly reports whether this installation offers no actions.
func (c chrome) ReadOnly() bool { return c.kit.ReadOnly }

// URL of the page.
func (c chrome) URL() *url.URL { return c.visit.URL }

// Now is when the page was made.
func (c chrome) Now() time.Time { return c.visit.Now }

// Calls are the requests to the API that this page is made of, as curl would send them.
func (c chrome) Calls() []string {
	if c.OwnCommand {
		return nil
	}
	return c.visit.calls.asCurl(c.visit.Request, c.kit.Base)
}

// Entries of the navigation.
func (c chrome) Entries() []Entry {
	if c.kit.ManualOnly {
		return nil
	}
	return navigation
}

// Navigation returns the entries that every page has.
func Navigation() []Entry { return navigation }

// InMore reports whether the current entry of the navigation is one of those that are folded.
func (c chrome) InMore() bool {
	return slices.ContainsFunc(c.Entries(), func(e Entry) bool { return e.More && e.Name == c.Nav })
}

// Entry of the navigation. Key is pressed after "g" to go there. Those with More are folded.
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

// Tag is the page's ETag, if it is known before the page is rendered.
func (c chrome) Tag() string {
	if c.State == "" {
		return ""
	}
	return c.visit.tag(c.State)
}

// keep sets the Cache-Control and the ETag of an answer.
func keep(h http.Header, tag string) {
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "private, no-cache")
	}
	h.Set("ETag", tag)
	h.Add("Vary", "Cookie, "+liveHeader)
}

// draw returns a page as HTML.
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

// drawnFor is for how long the regions of a page in one State are shared. Only the words for times in them are as old
// as that, and the browser renews those.
const drawnFor = 10 * time.Second

// render sends a page. Its ETag, where the page has no State, changes when the page does, apart from the words for
// times, which the browser keeps current.
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
