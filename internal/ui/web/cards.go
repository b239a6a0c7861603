package web

import (
	"bytes"
	"fmt"
	"strings"

	"golang.org/x/net/html"
)

// cards prepares the tables of a page for narrow screens, where the style sheet draws each row as a
// card. Every cell gets the heading of its column as data-label. data-cell states the cell's role
// in the card: "title"; "pick" for a checkbox; "act" for a cell without a label; or "none" if it
// contains no value of the row. The role attributes keep the table a table for screen readers,
// which would otherwise treat elements displayed as blocks as text; a table with a role has no
// links in its caption. Lanes get only the roles, because their rows are also blocks, each with its
// axis below. Tables in other frames, or with fewer than three columns, are not changed.
func cards(page []byte) []byte {
	var out bytes.Buffer
	from := 0
	for {
		begin := indexFrom(page, []byte("<table"), from)
		end := endOfTable(page, begin)
		if begin == len(page) {
			out.Write(page[from:])
			return out.Bytes()
		}
		out.Write(page[from:begin])
		switch frame := page[max(0, bytes.LastIndexByte(page[:begin], '<')):begin]; {
		case framed(frame, `class="table"`):
			out.Write(asCards(page[begin:end], false))
		case framed(frame, `class="table lanes"`):
			out.Write(asCards(page[begin:end], true))
		default:
			out.Write(page[begin:end])
		}
		from = end
	}
}

// framed reports whether the tag before a table is the frame of a list with that class.
func framed(frame []byte, class string) bool {
	return bytes.HasPrefix(frame, []byte("<div")) && bytes.Contains(frame, []byte(class)) &&
		!bytes.Contains(frame, []byte("role="))
}

// endOfTable returns the end of the table that begins at a position, including the tables in its
// cells.
func endOfTable(page []byte, begin int) int {
	for at, depth := begin, 0; ; {
		opens, closes := indexFrom(page, []byte("<table"), at), indexFrom(page, []byte("</table>"), at)
		if closes == len(page) {
			return closes
		}
		if opens < closes {
			depth, at = depth+1, opens+len("<table")
			continue
		}
		if depth, at = depth-1, closes+len("</table>"); depth <= 0 {
			return at
		}
	}
}

// column is a column of a table, as described by its heading.
type column struct {
	label        string
	title, named bool // named: a title that is preceded by its label
	plain        bool // contains no numbers or times, and has a label
	links        bool // its cell in the first row with a link contains one
}

// cell is a cell of a table's body. at is the position where its tag ends.
type cell struct {
	at, column             int
	link, pick, full, wide bool
}

// grid is the state of a table being read.
type grid struct {
	columns []column
	cells   []cell
	roles   []mark
	nested  int // number of tables that are open inside a cell
	inHead  bool
	in      *cell
	next    int  // column of the next cell
	linked  bool // a row with a link has been seen
	hidden  bool // inside text that is only for screen readers

	onlyRoles bool
}

// mark is text to insert at a position.
type mark struct {
	at   int
	text string
}

// asCards adds the attributes to a table, or only the roles.
func asCards(table []byte, roles bool) []byte {
	g := &grid{onlyRoles: roles}
	z := html.NewTokenizer(bytes.NewReader(table))
	for at := 0; ; {
		kind := z.Next()
		begin := at
		at += len(z.Raw())
		switch kind {
		case html.ErrorToken:
			if len(g.columns) < 3 || bytes.Contains(table, []byte("rowspan=")) {
				return table
			}
			return g.marked(table)
		case html.TextToken:
			g.text(string(z.Raw()))
		case html.StartTagToken, html.SelfClosingTagToken:
			name, _ := z.TagName()
			g.start(string(name), string(table[begin:at]), at-1)
		case html.EndTagToken:
			name, _ := z.TagName()
			g.end(string(name))
		}
	}
}

func (g *grid) text(text string) {
	switch text = strings.TrimSpace(text); {
	case text == "" || g.hidden && g.inHead:
	case g.inHead && len(g.columns) > 0:
		label := &g.columns[len(g.columns)-1].label
		*label = strings.TrimSpace(*label + " " + text)
	case g.in != nil:
		g.in.full = true
	}
}

// roleOf contains the roles of the parts of a table.
var roleOf = map[string]string{
	"table": "table", "thead": "rowgroup", "tbody": "rowgroup", "tr": "row", "td": "cell", "th": "rowheader",
}

func (g *grid) start(name, tag string, at int) {
	if name == "table" && len(g.roles) > 0 {
		g.nested++
	}
	if g.nested > 0 {
		return
	}
	role := roleOf[name]
	switch name {
	case "table":
		if !g.onlyRoles {
			g.roles = append(g.roles, mark{at, " data-cards"})
		}
	case "thead":
		g.inHead = true
	case "tr":
		g.next = 0
	case "th", "td":
		if g.inHead {
			role = "columnheader"
			g.columns = append(g.columns, column{
				title: strings.Contains(tag, "data-title"), named: strings.Contains(tag, `data-title="named"`),
				plain: !strings.Contains(tag, `class="num"`) && !strings.Contains(tag, `class="time"`),
			})
			break
		}
		g.cells = append(g.cells, cell{at: at, column: g.next, wide: strings.Contains(tag, "colspan="),
			full: strings.Contains(tag, "data-of=")})
		g.in = &g.cells[len(g.cells)-1]
		g.next++
	case "span":
		g.hidden = strings.Contains(tag, `class="hidden"`)
	}
	if role != "" {
		g.roles = append(g.roles, mark{at, ` role="` + role + `"`})
		return
	}
	if g.in == nil || name == "span" || name == "br" {
		return
	}
	g.in.full = true
	g.in.pick = g.in.pick || strings.Contains(tag, `type="checkbox"`)
	g.in.link = g.in.link || name == "a" && !strings.Contains(tag, `class="peek"`) &&
		!strings.Contains(tag, `class="button`)
}

func (g *grid) end(name string) {
	switch {
	case name == "table" && g.nested > 0:
		g.nested--
	case g.nested > 0:
	case name == "thead":
		g.inHead = false
	case name == "span":
		g.hidden = false
	case name == "td" || name == "th":
		if g.in != nil && !g.linked && g.in.link && g.in.column < len(g.columns) {
			g.columns[g.in.column].links = true
		}
		g.in = nil
	case name == "tr":
		for _, c := range g.columns {
			g.linked = g.linked || c.links
		}
	}
}

// title returns the column whose cells are the titles of the cards: the one marked as such, or else
// the first one with a link.
func (g *grid) title() int {
	first, linked := -1, -1
	for i, c := range g.columns {
		plain := c.plain && c.label != ""
		if c.title {
			return i
		}
		if plain && first < 0 {
			first = i
		}
		if plain && c.links && linked < 0 {
			linked = i
		}
	}
	if linked >= 0 {
		return linked
	}
	return first
}

func (g *grid) marked(table []byte) []byte {
	title, kinds := g.title(), map[int]string{}
	for _, c := range g.cells {
		if g.onlyRoles {
			break
		}
		var of column
		if c.column < len(g.columns) {
			of = g.columns[c.column]
		}
		kind := ""
		switch {
		case c.wide:
		case !c.full:
			kind = "none"
		case c.pick:
			kind = "pick"
		case c.column == title:
			kind = "title"
		case of.label == "":
			kind = "act"
		}
		if kind != "" {
			kinds[c.at] = fmt.Sprintf(` data-cell="%s"`, kind)
		}
		if !c.wide && of.label != "" && (kind == "" || of.named) {
			kinds[c.at] += fmt.Sprintf(` data-label="%s"`, html.EscapeString(html.UnescapeString(of.label)))
		}
	}
	var out bytes.Buffer
	from := 0
	for _, m := range g.roles {
		out.Write(table[from:m.at])
		out.WriteString(m.text + kinds[m.at])
		from = m.at
	}
	out.Write(table[from:])
	return out.Bytes()
}
