package web

import "strings"

// DiffLine is a line in a comparison of two texts.
type DiffLine struct {
	Sign     string // "-": only in the old text; "+": only in the new one; " ": in both; "…": omitted lines
	Old, New int    // line numbers, from 1; 0: not in that text
	Text     string // for "…": the number of omitted lines
}

// Tone returns the class of the line in the style sheet.
func (l DiffLine) Tone() string {
	switch l.Sign {
	case "-":
		return "gone"
	case "+":
		return "new"
	}
	return ""
}

const (
	diffContext = 3       // number of equal lines shown around a change
	diffCells   = 4 << 20 // maximum size of the table for a comparison; larger texts are compared as a whole
)

// Diff compares two texts line by line. Equal lines far from a change are omitted. The result is
// empty if the texts are equal.
func Diff(before, after string) []DiffLine {
	a, b := linesOf(before), linesOf(after)
	var head int
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	if head == len(a) && head == len(b) {
		return nil
	}
	all := make([]DiffLine, 0, len(a)+len(b))
	same := func(i, j int) { all = append(all, DiffLine{" ", i + 1, j + 1, a[i]}) }
	for i := range head {
		same(i, i)
	}
	i, j := head, head
	for _, both := range longestCommon(a[head:len(a)-tail], b[head:len(b)-tail]) {
		for ; i < head+both[0]; i++ {
			all = append(all, DiffLine{"-", i + 1, 0, a[i]})
		}
		for ; j < head+both[1]; j++ {
			all = append(all, DiffLine{"+", 0, j + 1, b[j]})
		}
		if i < len(a)-tail && j < len(b)-tail {
			same(i, j)
			i, j = i+1, j+1
		}
	}
	for k := range tail {
		same(len(a)-tail+k, len(b)-tail+k)
	}
	return nearChanges(all)
}

func linesOf(s string) []string {
	if s = strings.TrimSuffix(s, "\n"); s == "" {
		return nil
	}
	return strings.Split(s, "\n")
}

// longestCommon returns the positions of a longest common subsequence in a and b, followed by the
// lengths of a and b.
func longestCommon(a, b []string) (pairs [][2]int) {
	if (len(a)+1)*(len(b)+1) <= diffCells {
		length := make([][]int32, len(a)+1) // length of the longest one in a[i:] and b[j:]
		for i := range length {
			length[i] = make([]int32, len(b)+1)
		}
		for i := len(a) - 1; i >= 0; i-- {
			for j := len(b) - 1; j >= 0; j-- {
				if length[i][j] = max(length[i+1][j], length[i][j+1]); a[i] == b[j] {
					length[i][j] = length[i+1][j+1] + 1
				}
			}
		}
		for i, j := 0, 0; i < len(a) && j < len(b); {
			switch {
			case a[i] == b[j]:
				pairs = append(pairs, [2]int{i, j})
				i, j = i+1, j+1
			case length[i+1][j] >= length[i][j+1]:
				i++
			default:
				j++
			}
		}
	}
	return append(pairs, [2]int{len(a), len(b)})
}

// nearChanges omits the equal lines that are far from every change.
func nearChanges(all []DiffLine) (out []DiffLine) {
	near := make([]bool, len(all))
	for i, l := range all {
		if l.Sign == " " {
			continue
		}
		for k := max(0, i-diffContext); k <= min(len(all)-1, i+diffContext); k++ {
			near[k] = true
		}
	}
	for i := 0; i < len(all); i++ {
		if near[i] {
			out = append(out, all[i])
			continue
		}
		from := i
		for i+1 < len(all) && !near[i+1] {
			i++
		}
		n := i - from + 1
		if n == 1 {
			out = append(out, all[i])
			continue
		}
		out = append(out, DiffLine{Sign: "…", Text: Count(n) + " equal lines"})
	}
	return out
}
