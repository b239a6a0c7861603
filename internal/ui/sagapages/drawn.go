package sagapages

import (
	"html"
	"html/template"

	"github.com/skald-saga/skald/internal/ui/web"
)

// shapes are the nodes of the tracks, drawn around their centers. Each ends where its classes
// follow, which give the fill and the tone.
var shapes = map[string]struct{ begin, class, end string }{
	"full":    {`<circle`, `node `, ` r="6"/>`},
	"ring":    {`<circle`, `node open `, ` r="5.5"/>`},
	"dashed":  {`<circle`, `node open dashed `, ` r="5.5"/>`},
	"diamond": {`<path`, `node `, ` d="M0-8L7 0 0 8-7 0Z"/>`},
	"hollow":  {`<path`, `node open `, ` d="M0-8L7 0 0 8-7 0Z"/>`},
}

// pen draws a row.
type pen struct{ web.Drawing }

// Tracks draws the node of the step in each of the two tracks, and the lines to the adjacent nodes.
func (r *railRow) Tracks() template.HTML {
	var s pen
	s.Write(`<svg aria-hidden="true">`)
	s.lane(r.Track.Forward, "forth", "16")
	s.lane(r.Track.Back, "back", "40")
	s.Write(`<svg x="0" y="50%" overflow="visible">`)
	if r.Track.Turn {
		s.Write(`<path class="way back gone" d="M16 0C16 24 40 24 40 0"/>`)
	}
	s.node(r.Forward, "16")
	s.node(r.Back, "40")
	s.Write(`</svg></svg>`)
	return s.HTML()
}

func (s *pen) lane(l lane, way, x string) {
	for _, line := range []struct{ class, from, to string }{{l.Above, "0", "50%"}, {l.Below, "50%", "100%"}} {
		if line.class != "" {
			s.Write(`<line class="way `, way, ` `, line.class, `" x1="`, x, `" x2="`, x,
				`" y1="`, line.from, `" y2="`, line.to, `"/>`)
		}
	}
}

func (s *pen) node(n node, x string) {
	if shape, ok := shapes[n.Shape]; ok {
		s.Write(`<g transform="translate(`, x, ` 0)">`, shape.begin, ` class="`, shape.class, n.Tone, `"`, shape.end, `</g>`)
	}
}

// SVG draws the attempts and the waits between them. Each attempt links to its details.
func (d *drawing) SVG() template.HTML {
	var s pen
	for i := range d.Waits {
		s.Write(`<rect class="waiting"`)
		s.place(&d.Waits[i])
		s.Write(` fill="url(#hatch)"/>`)
	}
	for i := range d.Bars {
		b := &d.Bars[i]
		title := html.EscapeString(b.Title)
		s.Write(`<a href="`, html.EscapeString(b.URL), `" aria-label="`, title, `"><rect class="bar `, b.Tone, `"`)
		s.place(b)
		s.Write(` rx="1.5"><title>`, title, `</title></rect></a>`)
	}
	return s.HTML()
}

func (s *pen) place(b *bar) {
	y := "10"
	if b.Back {
		y = "32"
	}
	s.Write(` x="`, b.X.String(), `" y="`, y, `" width="`, b.W.String(), `" height="10"`)
}
