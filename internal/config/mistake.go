package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
)

// Error lists everything that is wrong with a configuration.
type Error struct {
	Mistakes []Mistake // never empty
}

// Mistake is one thing to correct. It never contains a value.
type Mistake struct {
	Key    string // path of the setting, or an unknown key or variable; "" for the file as a whole
	Origin string // the variable or file that set the value, "default", or "" if Key is enough
	Detail string // what is allowed instead
}

// Error lists all mistakes, one per line.
func (e *Error) Error() string {
	lines := []string{"configuration: 1 error"}
	if len(e.Mistakes) > 1 {
		lines[0] = fmt.Sprintf("configuration: %d errors", len(e.Mistakes))
	}
	for _, m := range e.Mistakes {
		lines = append(lines, "  "+m.String())
	}
	return strings.Join(lines, "\n")
}

// String returns the mistake on one line: the key, where its value came from, the
// variable that can set it, and what is allowed.
func (m Mistake) String() string {
	f, known := byKey[m.Key]
	switch {
	case m.Key == "":
		return m.Origin + ": " + m.Detail
	case m.Origin == "":
		return m.Key + ": " + m.Detail
	case known && !slices.Contains(f.names, m.Origin):
		return fmt.Sprintf("%s (%s; env %s): %s", m.Key, m.Origin, f.names[0], m.Detail)
	}
	return fmt.Sprintf("%s (%s): %s", m.Key, m.Origin, m.Detail)
}

// quoted matches content of the file in the YAML parser's errors.
var quoted = regexp.MustCompile("`[^`]*`|'[^']*'")

// describeFileError describes an error in a file without quoting its values.
func describeFileError(err error) string {
	var types *yamlv3.TypeError
	switch {
	case errors.As(err, new(*fs.PathError)):
		return "cannot be read: " + reason(err)
	case errors.Is(err, errManyDocuments):
		return err.Error()
	case errors.As(err, &types):
		var twice []string
		for _, text := range types.Errors {
			if strings.Contains(text, "already defined") {
				twice = append(twice, text)
			}
		}
		if len(twice) > 0 {
			return strings.Join(twice, "; ")
		}
		return "must be sections with keys under them"
	}
	return "is not valid YAML: " + quoted.ReplaceAllString(strings.TrimPrefix(err.Error(), "yaml: "), "…")
}

// reason drops the operation and the path from an error of the file system.
func reason(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}

// unknownKey returns the message for a key of the file that does not exist, with the
// key that was probably meant.
func unknownKey(key string) string {
	if _, ok := byKey[key]; ok { // the key exists, but must be nested instead of dotted
		name, rest, _ := strings.Cut(key, ".")
		return fmt.Sprintf("must be written as %s under %s", rest, name)
	}
	var candidates, elsewhere []string
	for _, s := range sections {
		if s.name != "" && !strings.Contains(key, ".") {
			candidates = append(candidates, s.name)
		}
		for _, f := range s.fields {
			candidates = append(candidates, f.key)
			if lastPart(f.key) == lastPart(key) {
				elsewhere = append(elsewhere, f.key)
			}
		}
	}
	best := nearest(key, candidates)
	if best == "" && len(elsewhere) == 1 {
		best = elsewhere[0]
	}
	return "unknown key" + didYouMean(best)
}

// unknownVariable is unknownKey for a variable.
func unknownVariable(name string) string {
	var candidates []string
	for _, f := range fields {
		for _, n := range f.names {
			candidates = append(candidates, strings.TrimPrefix(n, envPrefix))
		}
	}
	best := nearest(strings.TrimPrefix(name, envPrefix), candidates)
	if best != "" {
		best = envPrefix + best
	}
	return "unknown variable" + didYouMean(best)
}

func didYouMean(name string) string {
	if name == "" {
		return ""
	}
	return "; did you mean " + name + "?"
}

func lastPart(key string) string { return key[strings.LastIndex(key, ".")+1:] }

// nearest returns the candidate that is the fewest edits away from word, or "" if it exceeds the
// limit: one edit, plus one for every eight letters of word. Case and separators do not count, so
// maxOpenConns is near max_open_conns. Ties go to the first candidate.
func nearest(word string, candidates []string) string {
	plain := func(s string) string {
		return strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(s))
	}
	word = plain(word)
	best, least := "", 2+len(word)/8
	for _, c := range candidates {
		if d := edits(word, plain(c)); d < least {
			best, least = c, d
		}
	}
	return best
}

// edits returns the Levenshtein distance, in bytes.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

var errManyDocuments = errors.New("must contain a single YAML document")
