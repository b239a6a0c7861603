package mutants

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Row is a row of a table in the requirements pages.
type Row struct {
	// No is the row's number. Numbers from one-product.md are prefixed with "one-product ". Rows of
	// requirements.md without a number are "beyond 1" and so on, and a threat there is "threat T6".
	No   string
	Text string
	Test string // package.Name, or *planned*
}

var rowLine = regexp.MustCompile("(?m)^\\| ([^|]+) \\| (.*) \\| `?([*\\w.]+?)`? \\|$")

// Rows reads docs/requirements.md and the pages of docs/requirements.
func Rows(root string) (all []Row, err error) {
	pages, err := filepath.Glob(filepath.Join(root, "docs/requirements/*.md"))
	if err != nil {
		return nil, err
	}
	if len(pages) < 3 {
		return nil, fmt.Errorf("found %d pages of requirements, want at least 3", len(pages))
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
			case m[3] == "Test", m[3] == "proof": // the header of a table
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

// Unbroken maps rows that no single change of the code could break to the reason. Rows whose test
// is *planned* need no entry.
var Unbroken = map[string]string{}
