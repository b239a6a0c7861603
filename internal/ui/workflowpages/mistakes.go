package workflowpages

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/skald-saga/skald/api/client"
)

// finding is a mistake with its place in the text.
type finding struct {
	Line   int // from 1; 0: unknown
	Column int // where its words begin in the line, in characters, from 1; 0: unknown
	Length int // length of its words, in characters
	client.ProblemField
}

// listed is a line of the text in three parts. The second part contains the words of a mistake, or
// is empty.
type listed struct {
	Number                int
	Before, Marked, After string
	Findings              []string
}

// placed returns the API's findings with their places in a text.
func placed(text string, errors []client.ProblemField) (all []finding) {
	at, rows := linesOf(text), strings.Split(text, "\n")
	var known []int // the lines at which values begin
	for _, line := range at {
		known = append(known, line)
	}
	slices.Sort(known)
	for _, e := range errors {
		f := finding{Line: at.of(e.Pointer), ProblemField: e}
		if f.Line > 0 && f.Line <= len(rows) {
			end := len(rows) // end of the value, which may span several lines
			if i, _ := slices.BinarySearch(known, f.Line+1); i < len(known) {
				end = known[i] - 1
			}
			f.find(rows[:max(end, f.Line)])
		}
		all = append(all, f)
	}
	return all
}

// find searches the lines of a value, which are the last ones of rows, for the text that the
// message of its mistake quotes.
func (f *finding) find(rows []string) {
	var words []string
	for _, quoted := range inQuotes.FindAllString(f.Message, -1) {
		if word, err := strconv.Unquote(quoted); err == nil && word != "" {
			words = append(words, word)
		}
	}
	slices.SortStableFunc(words, func(a, b string) int { return len(b) - len(a) })
	for _, word := range words {
		for i := f.Line - 1; i < len(rows); i++ {
			if from := strings.Index(rows[i], word); from >= 0 {
				f.Line = i + 1
				f.mark(rows[i], from, word)
				return
			}
		}
	}
}

// mark sets the place of a word in its line. The message about an invalid expression names the
// position of a character.
func (f *finding) mark(line string, from int, word string) {
	if at := atCharacter.FindStringSubmatch(f.Message); at != nil {
		n, _ := strconv.Atoi(at[1]) // they are digits
		if rest := []rune(word); n >= 1 && n <= len(rest) {
			from += len(string(rest[:n-1]))
			word = string(rest[n-1:])
		}
	}
	f.Column, f.Length = utf8.RuneCountInString(line[:from])+1, utf8.RuneCountInString(word)
}

var (
	// inQuotes matches the quoted text in a message.
	inQuotes = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	// atCharacter extracts the position of the character from the API's message about an invalid
	// expression.
	atCharacter = regexp.MustCompile(`\bat character (\d{1,6})\b`)
	// inLine extracts the line number from the API's message about invalid YAML.
	inLine = regexp.MustCompile(`\bline (\d{1,6})\b`)
)

// listing returns the lines of a text with the findings in them; of contains the findings for lines
// without a pointer.
func listing(text string, all []finding, of map[int][]string) (out []listed) {
	marked := map[int]finding{}
	for _, f := range all {
		if f.Line > 0 {
			of[f.Line] = append(of[f.Line], f.Message)
		}
		if _, known := marked[f.Line]; !known && f.Column > 0 {
			marked[f.Line] = f
		}
	}
	if len(of) == 0 {
		return nil
	}
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		row := listed{Number: i + 1, Before: line, Findings: of[i+1]}
		if f, is := marked[i+1]; is {
			r := []rune(line)
			row.Before, row.Marked = string(r[:f.Column-1]), string(r[f.Column-1:f.Column-1+f.Length])
			row.After = string(r[f.Column-1+f.Length:])
		}
		out = append(out, row)
	}
	return out
}
