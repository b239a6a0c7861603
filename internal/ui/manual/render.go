package manual

import (
	"bytes"
	"fmt"
	"html/template"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
)

// repository is the only link to another server.
const repository = "https://github.com/skald-saga/skald"

// outside is the prefix of the destinations of links to files that are not pages of the manual.
const outside = "source:"

// written is the address of this server as written in the files of the repository.
const written = "http://127.0.0.1:8080"

// chapter is a page of the manual.
type chapter struct {
	Name     string // as in its URL
	Title    string
	Body     template.HTML
	Sections []section
}

// section is what a search finds: a heading, or a table row that has an anchor, with the text below
// it.
type section struct {
	Anchor, Title string
	Deep          bool // omitted from the page's table of contents
	text          strings.Builder
}

// Text is the text of the section on one line.
func (s *section) Text() string { return strings.Join(strings.Fields(s.text.String()), " ") }

// read renders all pages of files. base is the path that precedes /docs/.
func read(files fs.FS, base string) (map[string]*chapter, error) {
	names, err := fs.Glob(files, "*.md")
	if err != nil {
		return nil, err
	}
	sources, titles := map[string][]byte{}, map[string]string{}
	for _, n := range names {
		if sources[n], err = fs.ReadFile(files, n); err != nil {
			return nil, err
		}
		if title := firstHeading.FindSubmatch(sources[n]); title != nil {
			titles[n] = string(title[1])
		}
	}
	all := map[string]*chapter{}
	for n, source := range sources {
		c, err := render(strings.TrimSuffix(n, ".md"), source, base, titles)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", n, err)
		}
		all[c.Name] = c
	}
	return all, nil
}

var firstHeading = regexp.MustCompile(`(?m)^# (.+)$`)

// markdown renders in the same way as the repository's host. Raw HTML is allowed, because the pages
// are part of this program.
var markdown = goldmark.New(
	goldmark.WithExtensions(extension.Strikethrough, extension.Linkify, extension.NewTable(
		extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute))), // the CSP forbids inline styles
	goldmark.WithParserOptions(parser.WithAutoHeadingID()),
	goldmark.WithRendererOptions(html.WithUnsafe()),
)

func render(name string, source []byte, base string, titles map[string]string) (*chapter, error) {
	c := &chapter{Name: name, Title: name}
	doc := markdown.Parser().Parse(text.NewReader(source), parser.WithContext(
		parser.NewContext(parser.WithIDs(anchors{}))))
	if err := ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			c.visit(n, source, base, titles)
		}
		return ast.WalkContinue, nil
	}); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := markdown.Renderer().Render(&out, source, doc); err != nil {
		return nil, err
	}
	// Wide tables scroll separately, and can be scrolled with the keyboard.
	body := strings.NewReplacer(
		"<table>", `<div class="table" tabindex="0" role="region" aria-label="Table"><table>`, "</table>", "</table></div>",
		"<pre>", `<pre tabindex="0">`).Replace(out.String())
	c.Body = template.HTML(linked(within(body), base, titles)) //nolint:gosec // they are the program's own pages
	return c, nil
}

var outward = regexp.MustCompile(`(?s)<a href="([a-z]+:[^"]*)"[^>]*>(.*?)</a>`)

// within removes links that lead away from the server. Their text is kept; a browser shows the
// target as a tooltip.
func within(body string) string {
	return outward.ReplaceAllStringFunc(body, func(link string) string {
		part := outward.FindStringSubmatch(link)
		if strings.HasPrefix(part[1], written) {
			return link
		}
		return `<span title="` + strings.TrimPrefix(part[1], outside) + `">` + part[2] + `</span>`
	})
}

var mentions = regexp.MustCompile(`(?s)<pre.*?</pre>|<code.*?</code>|<a .*?</a>|<[^>]*>|docs/[a-z-]+\.md`)

// linked turns page names in the text into links with their titles.
func linked(body, base string, titles map[string]string) string {
	return mentions.ReplaceAllStringFunc(body, func(part string) string {
		name := strings.TrimPrefix(part, "docs/")
		if title := titles[name]; title != "" && name != part {
			to := base + "/docs/" + strings.TrimSuffix(name, ".md")
			return `<a href="` + to + `">` + template.HTMLEscapeString(title) + `</a>`
		}
		return part
	})
}

// visit rewrites the links of a node to the server's URLs, and collects the sections for the
// search.
func (c *chapter) visit(n ast.Node, source []byte, base string, titles map[string]string) {
	switch n := n.(type) {
	case *ast.Heading:
		if n.Level == 1 && len(c.Sections) == 0 {
			c.Title = plain(n, source)
		}
		id, _ := n.AttributeString("id")
		anchor, _ := id.([]byte)
		c.Sections = append(c.Sections, section{Anchor: string(anchor), Title: plain(n, source), Deep: n.Level != 2})
	case *ast.Link:
		to := string(n.Destination)
		n.Destination = []byte(destination(to, base))
		if title := titles[path.Base(to)]; title != "" && plain(n, source) == path.Base(to) {
			n.RemoveChildren(n)
			n.AppendChild(n, ast.NewString([]byte(title)))
		}
	case *ast.Image:
		n.Destination = []byte(base + "/docs/" + string(n.Destination))
	case *east.TableRow:
		if _, id, found := strings.Cut(raw(n, source), `<a id="`); found {
			id, _, _ = strings.Cut(id, `"`)
			c.Sections = append(c.Sections, section{Anchor: id, Title: strings.ToUpper(id), Deep: true})
		}
	case *ast.Text:
		c.add(string(n.Segment.Value(source)) + " ")
	case *ast.FencedCodeBlock:
		for i := range n.Lines().Len() {
			line := n.Lines().At(i)
			c.add(string(line.Value(source)))
		}
	}
}

func (c *chapter) add(s string) {
	if len(c.Sections) > 0 {
		c.Sections[len(c.Sections)-1].text.WriteString(s)
	}
}

// destination converts a link between files of the repository.
func destination(to, base string) string {
	if strings.Contains(to, "://") || strings.HasPrefix(to, "#") || strings.HasPrefix(to, "mailto:") {
		return to
	}
	file, anchor, _ := strings.Cut(to, "#")
	if anchor != "" {
		anchor = "#" + anchor
	}
	switch {
	case file == "../openapi.yaml":
		return base + "/docs/api"
	case path.Ext(file) == ".md" && !strings.Contains(file, "/") && file != "requirements.md":
		return base + "/docs/" + strings.TrimSuffix(file, ".md") + anchor
	}
	return outside + path.Join("docs", file) + anchor
}

// raw returns the HTML in a node.
func raw(n ast.Node, source []byte) string {
	var out strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if r, ok := n.(*ast.RawHTML); ok && entering {
			out.Write(r.Segments.Value(source))
		}
		return ast.WalkContinue, nil
	})
	return out.String()
}

// plain returns the text in a node.
func plain(n ast.Node, source []byte) string {
	var out strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if t, ok := n.(*ast.Text); ok && entering {
			out.Write(t.Segment.Value(source))
		}
		return ast.WalkContinue, nil
	})
	return out.String()
}

// anchors generates the same heading ids as the repository's host, so that links work in both
// places.
type anchors map[string]int

// Generate implements parser.IDs.
func (a anchors) Generate(value []byte, _ ast.NodeKind) []byte {
	var out strings.Builder
	for _, r := range strings.ToLower(strings.TrimSpace(string(value))) {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			out.WriteRune(r)
		case r == ' ':
			out.WriteRune('-')
		}
	}
	id := out.String()
	a[id]++
	if n := a[id]; n > 1 {
		id = fmt.Sprintf("%s-%d", id, n-1)
	}
	return []byte(id)
}

// Put implements parser.IDs.
func (a anchors) Put(value []byte) { a[string(value)]++ }
