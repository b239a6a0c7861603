package manual

import (
	"bytes"
	"errors"
	"html/template"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/skald-saga/skald/docs"
	"github.com/skald-saga/skald/internal/ui/web"
)

// reference shows the contract of this server: an index, a page for each group of operations, and a
// page for each schema. It needs no scripts.
type reference struct {
	base  string
	known atomic.Pointer[contract] // it does not change while the process runs
}

// titles returns the titles of the manual's pages by file name.
var titles = sync.OnceValue(func() map[string]string {
	all := map[string]string{}
	names, _ := fs.Glob(docs.Files, "*.md") // the pattern is valid
	for _, n := range names {
		text, _ := fs.ReadFile(docs.Files, n) // it is embedded in the program
		if title := firstHeading.FindSubmatch(text); title != nil {
			all[n] = string(title[1])
		}
	}
	return all
})

// referenceView is the data for its pages.
type referenceView struct {
	*contract
	Topic  *topic  // nil for other pages
	Schema *schema // nil for other pages
	About  template.HTML
	at     string // address of this server
	base   string
}

var errNoContract = errors.New("the API did not return its contract")

// contract reads the contract from the API itself, once.
func (f *reference) contract(v *web.Visit) (*contract, error) {
	if c := f.known.Load(); c != nil {
		return c, nil
	}
	res, err := v.Kit.Client.GetContractWithResponse(v.Context(), nil)
	if err != nil {
		return nil, err
	}
	if res.JSON200 == nil {
		return nil, errNoContract
	}
	c, err := readContract(res.Body)
	if err == nil {
		f.known.Store(c)
	}
	return c, err
}

func (f *reference) view(v *web.Visit) (*referenceView, error) {
	c, err := f.contract(v)
	return &referenceView{contract: c, at: v.Address(), base: f.base}, err
}

func (f *reference) index(v *web.Visit) (*web.Page, error) {
	d, err := f.view(v)
	if err != nil {
		return nil, err
	}
	d.About = d.Text(d.Info.Description)
	return &web.Page{Template: "reference", Title: "API reference", Nav: "Manual", Data: d}, nil
}

func (f *reference) topic(v *web.Visit) (*web.Page, error) {
	d, err := f.view(v)
	if err != nil {
		return nil, err
	}
	if d.Topic = d.byTag[v.PathValue("topic")]; d.Topic == nil {
		return nil, web.ErrNoPage
	}
	d.About = d.Text(d.Topic.Description)
	return &web.Page{Template: "reference", Title: "API: " + d.Topic.Name, Nav: "Manual", Data: d}, nil
}

func (f *reference) schema(v *web.Visit) (*web.Page, error) {
	d, err := f.view(v)
	if err != nil {
		return nil, err
	}
	name := v.PathValue("name")
	if d.Schema = d.Components.Schemas[name]; d.Schema == nil {
		return nil, web.ErrNoPage
	}
	d.About = d.Text(d.Schema.Description)
	return &web.Page{Template: "reference", Title: name, Nav: "Manual", Data: d}, nil
}

// Text renders a description.
func (d *referenceView) Text(s string) template.HTML {
	var out bytes.Buffer
	if err := markdown.Convert([]byte(s), &out); err != nil {
		return template.HTML(template.HTMLEscapeString(s)) //nolint:gosec // it is escaped
	}
	text := strings.ReplaceAll(out.String(), "<pre>", `<pre tabindex="0">`)
	return template.HTML(within(linked(text, d.base, titles()))) //nolint:gosec // the program's own contract
}

// Curl returns the command that sends a request for an operation, with the example in the contract
// or a sample as its body.
func (d *referenceView) Curl(op *operation) string {
	command := "curl -sS"
	if op.Method != "GET" {
		command += " -X " + op.Method
	}
	query := ""
	for _, p := range op.Parameters {
		if p.In == "query" && p.Required {
			query += "&" + p.Name + "=" + p.Name
		}
	}
	if query != "" {
		query = "?" + query[1:]
	}
	command += " '" + d.at + op.Path + query + "'"
	if op.Permission != "" {
		command += ` \` + "\n" + `  -H "Authorization: Bearer $SKALD_API_KEY"`
	}
	if op.IfMatch == "required" {
		command += ` \` + "\n" + `  -H 'If-Match: "1"'`
	}
	if op.RequestBody != nil {
		if m := op.RequestBody.Content["application/json"]; m != nil {
			command += ` \` + "\n  -H 'Content-Type: application/json' \\\n  -d '" +
				strings.ReplaceAll(d.example(m), "'", `'\''`) + "'"
		} else if media := op.RequestBody.Media(); len(media) > 0 {
			command += ` \` + "\n  -H 'Content-Type: " + media[0] + "' --data-binary @file"
		}
	}
	return command
}

// Shown formats the example of a response.
func (d *referenceView) Shown(r *response) string { return d.example(of(r.Content)) }
