package web

import (
	"context"
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
	Base string       // the path that a proxy in front strips, such as "/skald"; may be empty
	// PublicURL is the URL at which people reach this server, with its base; empty: what their request says.
	PublicURL string
	// ReadOnly omits every action.
	ReadOnly bool
	// ManualOnly: there are no pages but the manual.
	ManualOnly bool
	// Title and Colour name this installation in a bar on every page; both may be empty. Colour is one of red,
	// amber, green and blue.
	Title, Colour string
	// Links are templates of links to other tools, with {trace_id} and {correlation_id}; none: no links.
	Links []Link
	// SingleSignOn lets visitors sign in at an identity provider; nil: only with a credential that they have.
	SingleSignOn *SingleSignOn
	// Within limits the time for a page, however many requests to the API it makes; 0: no limit.
	Within time.Duration
	Now    func() time.Time
	NewID  func() string // of an Idempotency-Key
	Log    *slog.Logger
}

// SingleSignOn is how visitors sign in at an identity provider. Errors of type *Refusal are meant for people.
type SingleSignOn struct {
	Name string // of the provider, as people know it
	// PublicURL is the URL of this server with its base, empty: what the request says.
	PublicURL string
	// Begin returns the provider's URL to go to, which leads back to redirect, and what the browser must keep.
	Begin func(ctx context.Context, redirect, next string) (to, kept string, err error)
	// Finish takes what the browser has kept, and the query that the provider sent it back with. It returns a
	// credential with which a session can be opened, once, and the argument next of Begin.
	Finish func(ctx context.Context, kept string, answer url.Values) (credential, next string, err error)
}

// Kit is the handler of the pages registered with it.
type Kit struct {
	Config
	Client *client.ClientWithResponses
	// SignIn returns the page that asks a visitor to sign in, for a request without a session.
	SignIn func(*Visit) *Page
	// Patterns are those of all pages, and of what is not a page.
	Patterns []string
	assets   assets
	pages    map[string]*parsed
	common   *template.Template // the layout and the parts of all pages
	mux      *http.ServeMux
	started  string // is another in each process
	drawn    Shared[[]region]
}

// parsed is the template of a page, together with the layout and the parts that pages share.
type parsed struct {
	ready func() (*template.Template, error)
}

func (p *parsed) execute(w io.Writer, name string, data any) error {
	if p == nil {
		return fmt.Errorf("there is no template for this page")
	}
	t, err := p.ready()
	if err != nil {
		return err
	}
	return t.ExecuteTemplate(w, name, data)
}

// Serves reports whether there is a page with exactly this path, so that pages do not link to missing ones.
func (k *Kit) Serves(path string) bool {
	_, pattern := k.mux.Handler(&http.Request{Method: http.MethodGet, URL: &url.URL{Path: path}})
	return strings.HasSuffix(pattern, path)
}

// Page is what a handler of a page returns.
type Page struct {
	Template string // its file in the folder templates, without ".html"
	Title    string
	Nav      string // the entry of the navigation that is current
	Status   int    // 0: 200
	// Refresh is after how many seconds the page reloads; 0: never. 1 while its content is changing, 5
	// while it is not, 10 for a list.
	Refresh int
	// State is what Visit.Had returns when the browser requests the page again; empty: the ETag is derived from
	// the rendered page.
	State string
	// Sees names all that the regions of the page depend on besides State and URL, such as the visitor's permissions:
	// visitors for whom it is the same share them. Empty: they are drawn for each.
	Sees string
	// Times are the times that advance while nothing else changes, by the id of their element: browsers get them
	// with each answer, including a 304.
	Times map[string]time.Time
	// Header is added to the response: cookies.
	Header http.Header
	// Attention is shown before the title, as in "(3) Skald"; 0: nothing.
	Attention int64
	// OwnCommand: the page shows what it does as curl itself, so that its requests are not shown as well.
	OwnCommand bool
	// Scripts are files of the folder assets that only this page needs, beside those that every page has.
	Scripts []string
	Data    any
}

// region is an element that follows what it shows: one with an id and the attribute data-live.
type region struct {
	id, hash string
	html     []byte
}

// Visit is a request for a page.
type Visit struct {
	*http.Request
	Kit *Kit
	Who *client.CallerIdentity // nil without a session
	Now time.Time
	// Tenant is the one that the visitor looks at, as the URL names it; empty: their own.
	Tenant string
	// calls are the requests to the API that were made for this visit.
	calls *calls
	// canonical is the path with the query that the visitor is sent to instead; empty: none.
	canonical string
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
