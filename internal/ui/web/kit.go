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

// Config configures the pages. Fields are required unless a comment says otherwise.
type Config struct {
	API  http.Handler // the API of this process
	Base string       // path that a proxy in front strips, such as "/skald"; may be empty
	// PublicURL is the URL at which people reach this server, including its base. If it is empty,
	// it is taken from each request.
	PublicURL string
	// ReadOnly omits all actions.
	ReadOnly bool
	// ManualOnly omits all pages except the manual.
	ManualOnly bool
	// Title and Colour identify this installation in a bar on every page; both may be empty. Colour
	// is one of red, amber, green and blue.
	Title, Colour string
	// Links contains templates for links to other tools, with {trace_id} and {correlation_id}.
	Links []Link
	// SingleSignOn lets visitors sign in with an identity provider. If it is nil, they need a
	// credential to sign in.
	SingleSignOn *SingleSignOn
	// Within limits the time for a page, including all its requests to the API; 0 means no limit.
	Within time.Duration
	Now    func() time.Time
	NewID  func() string // creates an Idempotency-Key
	Log    *slog.Logger
}

// SingleSignOn describes how visitors sign in with an identity provider. The texts of errors of
// type *Refusal are meant for people.
type SingleSignOn struct {
	Name string // name of the provider, as people know it
	// PublicURL is the URL of this server including its base. If it is empty, it is taken from the
	// request.
	PublicURL string
	// Begin returns the URL of the provider, which leads back to redirect, and the data that the
	// browser must keep.
	Begin func(ctx context.Context, redirect, next string) (to, kept string, err error)
	// Finish takes the data that the browser has kept, and the query with which the provider sent
	// the browser back. It returns a credential that can open a session once, and the argument next
	// of Begin.
	Finish func(ctx context.Context, kept string, answer url.Values) (credential, next string, err error)
}

// Kit is the handler for the pages registered with it.
type Kit struct {
	Config
	Client *client.ClientWithResponses
	// SignIn returns the page that asks a visitor to sign in, for a request without a session.
	SignIn func(*Visit) *Page
	// Patterns contains the patterns of all pages, and of the handlers that are not pages.
	Patterns []string
	assets   assets
	pages    map[string]*parsed
	common   *template.Template // the layout and the parts of all pages
	mux      *http.ServeMux
	started  string // differs between processes
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

// Serves reports whether there is a page with exactly this path, so that pages do not link to
// missing ones.
func (k *Kit) Serves(path string) bool {
	_, pattern := k.mux.Handler(&http.Request{Method: http.MethodGet, URL: &url.URL{Path: path}})
	return strings.HasSuffix(pattern, path)
}

// Page is the result of a page's handler.
type Page struct {
	Template string // file name in the folder templates, without ".html"
	Title    string
	Nav      string // current entry of the navigation
	Status   int    // 0 means 200
	// Refresh is the number of seconds after which the page reloads; 0 means never. It is 1 while
	// the content is changing, 5 while it is not, and 10 for a list.
	Refresh int
	// State is what Visit.Had returns when the browser requests the page again. If it is empty, the
	// ETag is derived from the rendered page.
	State string
	// Sees identifies everything that the regions of the page depend on besides State and URL, such
	// as the visitor's permissions. Visitors for whom it is the same share the regions. If it is
	// empty, the regions are rendered for each visitor.
	Sees string
	// Times contains times that advance while nothing else changes, by the id of their element.
	// Browsers receive them with each response, including a 304.
	Times map[string]time.Time
	// Header is added to the response, for cookies.
	Header http.Header
	// Attention is a number shown before the title, as in "(3) Skald"; 0 shows nothing.
	Attention int64
	// OwnCommand means that the page shows a curl command of its own, so that its requests to the
	// API are not shown.
	OwnCommand bool
	// Scripts lists files in the folder assets that only this page needs, in addition to those that
	// every page has.
	Scripts []string
	Data    any
}

// region is an element that is updated automatically. It has an id and the attribute data-live.
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
	// Tenant is the tenant that the URL selects; empty means the visitor's own.
	Tenant string
	// calls contains the requests made to the API for this visit.
	calls *calls
	// canonical is the path, with the query, to which the visitor is redirected; empty means no
	// redirect.
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
