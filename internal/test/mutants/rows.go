package mutants

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Row is a row of the pages of requirements.
type Row struct {
	// No is its number. Numbers of one-product.md have "one-product " before them, rows of requirements.md
	// that have none of their own are "beyond 1" and so on, and a threat there is "threat T6".
	No   string
	Text string
	Test string // package.Name, or *planned*
}

var rowLine = regexp.MustCompile("(?m)^\\| ([^|]+) \\| (.*) \\| `?([*\\w.]+?)`? \\|$")

// Rows reads docs/requirements.md and the pages beside it.
func Rows(root string) (all []Row, err error) {
	pages, err := filepath.Glob(filepath.Join(root, "docs/requirements/*.md"))
	if err != nil || len(pages) < 3 {
		return nil, fmt.Errorf("%d pages of requirements, %w", len(pages), err)
	}
	beyond := 0
	for _, page := range append(pages, filepath.Join(root, "docs/requirements.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			return nil, err
		}
		index := filepath.Base(page) == "requirements.md"
		for _, m := range rowLine.FindAllStringSubmatch(string(text), -1) {
			no := m[1]
			switch {
			case m[3] == "Test", m[3] == "proof": // the head of a table
				continue
			case filepath.Base(page) == "one-product.md":
				no = "one-product " + no
			case index && strings.HasPrefix(no, "T"):
				no = "threat " + no
			case index && !numbered.MatchString(no):
				beyond++
				no = fmt.Sprintf("beyond %d", beyond)
			}
			all = append(all, Row{no, m[2], m[3]})
		}
	}
	return all, nil
}

var numbered = regexp.MustCompile(`^([A-Z]\d*-\d+|gap \d+)$`)

// Unbroken are rows that no change of the code could break alone, with the reason. Rows whose test is *planned*
// need no entry.
var Unbroken = map[string]string{}
