package workflowpages

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// graph is the drawing of the steps. Each step is one layer below the last step that it depends on.
// A step without dependencies waits for the previous step, because steps run one at a time.
type graph struct {
	W, H  int
	Nodes []node
	Edges []edge
}

type node struct {
	*step
	X, Y, W, H int
	// Lines of text, shortened to the width of the node. The title has the full text.
	Label, Action, Back, Policy string
	Title                       string
}

type edge struct {
	Path string
	// Order means that the step runs after the other because of its position, and not because it
	// depends on it.
	Order bool
	Title string
}

const (
	nodeW, nodeH = 310, 92
	gapX, gapY   = 26, 34
	margin       = 14
	// mostDrawn is the maximum number of steps in a drawing. The table contains all of them.
	mostDrawn = 120
	// Number of characters that fit into a node, for the fonts of the name and of the calls.
	nameFits, callFits = 34, 40
)

// newGraph lays out the steps, or returns nil if there are too many.
func newGraph(steps []step) *graph {
	if len(steps) > mostDrawn {
		return nil
	}
	index := map[string]int{}
	layer := make([]int, len(steps))
	var layers [][]int
	type link struct {
		from, to int
		order    bool
	}
	var links []link
	for i := range steps {
		index[steps[i].Name] = i
		before := len(links)
		for _, name := range steps[i].DependsOn {
			if from, known := index[name]; known {
				links = append(links, link{from, i, false})
			}
		}
		if len(links) == before && i > 0 {
			links = append(links, link{i - 1, i, true})
		}
		for _, l := range links[before:] {
			layer[i] = max(layer[i], layer[l.from]+1)
		}
		for len(layers) <= layer[i] {
			layers = append(layers, nil)
		}
		layers[layer[i]] = append(layers[layer[i]], i)
	}
	widest, long := 1, 0
	for _, l := range layers {
		widest = max(widest, len(l))
	}
	for _, l := range links {
		if layer[l.to]-layer[l.from] > 1 {
			long++
		}
	}
	g := &graph{
		W: widest*(nodeW+gapX) - gapX + 2*margin, H: len(layers)*(nodeH+gapY) - gapY + 2*margin,
		Nodes: make([]node, len(steps)),
	}
	for at, of := range layers {
		left := (g.W - (len(of)*(nodeW+gapX) - gapX)) / 2
		for k, i := range of {
			g.Nodes[i] = newNode(&steps[i], left+k*(nodeW+gapX), margin+at*(nodeH+gapY))
		}
	}
	around := 0
	for _, l := range links {
		a, b := &g.Nodes[l.from], &g.Nodes[l.to]
		e := edge{Order: l.order, Title: b.Name + " depends on " + a.Name}
		if l.order {
			e.Title = b.Name + " runs after " + a.Name
		}
		if layer[l.to]-layer[l.from] > 1 { // route it around the layers in between
			around++
			x := max(a.X, b.X) + nodeW
			out := x + gapX/2 + 10*around
			e.Path = fmt.Sprintf("M%d %d H%d V%d H%d", a.X+nodeW, a.Y+nodeH/2, out, b.Y+nodeH/2, b.X+nodeW+4)
			g.W = max(g.W, out+margin)
		} else {
			x1, y1, x2, y2 := a.X+nodeW/2, a.Y+nodeH, b.X+nodeW/2, b.Y-4
			e.Path = fmt.Sprintf("M%d %d C%d %d %d %d %d %d", x1, y1, x1, y1+gapY/2, x2, y2-gapY/2, x2, y2)
		}
		g.Edges = append(g.Edges, e)
	}
	return g
}

func newNode(s *step, x, y int) node {
	n := node{
		step: s, X: x, Y: y, W: nodeW, H: nodeH, Label: cut(fmt.Sprintf("%d  %s", s.Number, s.Name), nameFits),
		Action: cut(s.Call, callFits), Back: cut("undo: "+s.Undo, callFits), Title: s.Name + ": " + s.Call,
	}
	if s.Undo == "" {
		n.Back = "undo: none"
	}
	var later, notes []string
	if s.Later != "" {
		later = append(later, "report within "+s.Later)
		n.Title += ", whose report may take up to " + s.Later
	}
	if s.UndoLater != "" {
		words := "undo " + s.UndoLater
		if later == nil {
			words = "report of undo within " + s.UndoLater
		}
		later = append(later, words)
		n.Title += "; the report of its undo may take up to " + s.UndoLater
	}
	if later != nil {
		notes = append(notes, strings.Join(later, ", "))
	}
	if s.Retry != "" {
		notes = append(notes, s.Retry)
	}
	if s.Timeout != "" {
		notes = append(notes, "timeout "+s.Timeout)
	}
	n.Policy = cut(strings.Join(notes, " · "), callFits)
	return n
}

// cut shortens s to n characters.
func cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}
