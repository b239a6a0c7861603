package manual

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// block contains the commands of one block of a page and the output shown for them.
type block struct {
	line   int // line of its first command on the page
	script string
	output string // the output shown below it
	kind   outputKind
	at     int // line of that output
}

type outputKind int

const (
	noOutput outputKind = iota
	textOutput
	jsonOutput
)

var (
	headings = regexp.MustCompile(`^(#{1,6}) +(.*?) *#*$`)
	fences   = regexp.MustCompile("^(```+) *([a-z]*)")
	notRun   = regexp.MustCompile(`^<!-- not run: \S.*-->$`)
)

// section reads the blocks below a heading of the page and below its subheadings. If heading is "",
// it reads all blocks of the page.
func section(path, heading string) ([]block, error) {
	page, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var (
		blocks  []block
		depth   int    // level of the heading; 0 before it
		fence   string // the fence that ends the current block; "" outside of blocks
		lang    string
		body    []string
		started int
		near    bool   // only blank lines since the last block of commands
		before  string // the last line that is not blank
		whole   = heading == ""
		seen    = whole
	)
	for n, line := range strings.Split(string(page), "\n") {
		if fence != "" {
			if strings.TrimRight(line, " ") != fence {
				body = append(body, line)
				continue
			}
			text := strings.Join(body, "\n") + "\n"
			switch {
			case depth == 0 && !whole || notRun.MatchString(before):
				near = false
			case lang == "sh" || lang == "bash":
				blocks, near = append(blocks, block{line: started, script: text}), true
			case near && (lang == "" || lang == "json"):
				last := &blocks[len(blocks)-1]
				last.output, last.at, last.kind = text, started, textOutput
				if lang == "json" {
					last.kind = jsonOutput
				}
				near = false
			default:
				near = false
			}
			fence, before = "", line
			continue
		}
		if m := fences.FindStringSubmatch(line); m != nil {
			fence, lang, body, started = m[1], m[2], nil, n+2
			continue
		}
		if m := headings.FindStringSubmatch(line); m != nil && !whole {
			switch {
			case depth > 0 && len(m[1]) <= depth:
				depth = 0
			case depth == 0 && m[2] == heading:
				if seen {
					return nil, fmt.Errorf("%s has the heading %q twice", path, heading)
				}
				depth, seen = len(m[1]), true
			}
		}
		if strings.TrimSpace(line) != "" {
			near, before = false, line
		}
	}
	switch {
	case fence != "":
		return nil, fmt.Errorf("%s: the block that starts on line %d has no end", path, started)
	case !seen:
		return nil, fmt.Errorf("%s has no heading %q", path, heading)
	case len(blocks) == 0:
		return nil, fmt.Errorf("%s: there is nothing to run below %q", path, heading)
	}
	return blocks, nil
}
