package jobworker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// runData is what the arguments of a run are to a program: its standard input, and,
// as far as they are small, variables and one argument.
type runData struct {
	doc       json.RawMessage // canonical enough: one line
	variables []string        // NAME=value, sorted
}

const (
	// argPrefix begins the names of variables that runs give. Nothing that means
	// something to a loader, a shell or an interpreter begins like this.
	argPrefix = "SKALD_ARG_"
	// argsSlot is the element of argv that the arguments stand in for.
	argsSlot = "{args}"
	// maxInline is how long arguments may be that are passed on as variables and as
	// an element of argv, for which systems have limits. Standard input has none.
	maxInline = 64 << 10
)

// dataOf returns what a run was given: its arguments, unless they are what its
// definition has for runs without any. Runs are stored with either, by nodes of
// earlier versions too.
func dataOf(args, defaults json.RawMessage) (*runData, error) {
	bad := func(format string, of ...any) (*runData, error) {
		return nil, &Failure{Code: "BAD_ARGS", Message: "the arguments of the run " + fmt.Sprintf(format, of...),
			Permanent: true}
	}
	given, err := decoded(args)
	if err != nil {
		return bad("are no JSON: %v", err)
	}
	if own, err := decoded(defaults); given == nil || err == nil && reflect.DeepEqual(given, own) {
		return &runData{doc: json.RawMessage(`{}`)}, nil
	}
	d := &runData{}
	var line bytes.Buffer
	if err := json.Compact(&line, args); err != nil {
		return bad("are no JSON: %v", err)
	}
	d.doc = line.Bytes()
	members, isObject := given.(map[string]any)
	if !isObject || len(d.doc) > maxInline {
		return d, nil
	}
	from := map[string]string{} // by the variable
	for _, name := range slices.Sorted(maps.Keys(members)) {
		value, ok := scalar(members[name])
		if !ok {
			continue
		}
		variable := argPrefix + notInNames.ReplaceAllString(strings.ToUpper(name), "_")
		if other, taken := from[variable]; taken {
			return bad("%q and %q would be the same variable, %s", other, name, variable)
		}
		if strings.ContainsRune(value, 0) {
			return bad("hold a NUL character in %q, which no variable can", name)
		}
		from[variable] = name
		d.variables = append(d.variables, variable+"="+value)
	}
	return d, nil
}

var notInNames = regexp.MustCompile(`[^A-Z0-9_]`)

// decoded is nil of nothing and of null; numbers keep their digits.
func decoded(doc json.RawMessage) (v any, err error) {
	if len(doc) == 0 {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

// scalar writes a value as a variable has it.
func scalar(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		return fmt.Sprint(v), true
	}
	return "", false
}

// fill puts the arguments in the place that argv has for them. That is never the
// program, nor what a program reads as a program or may take for an option.
func (d *runData) fill(argv []string) ([]string, error) {
	out := slices.Clone(argv)
	for i, element := range argv {
		switch {
		case i == 0 || element != argsSlot:
			continue
		case strings.HasPrefix(argv[i-1], "-") && codeFlag.MatchString(argv[i-1]):
			return nil, &Failure{Code: "BAD_DEFINITION", Message: argsSlot + " after " + argv[i-1] + " would run the arguments as a program", Permanent: true}
		case len(d.doc) > maxInline:
			return nil, &Failure{Code: "BAD_ARGS", Message: fmt.Sprintf("the arguments of the run are too long for %s (%d bytes at most): have the program read standard input",
				argsSlot, maxInline), Permanent: true}
		case d.doc[0] != '{' && d.doc[0] != '[':
			return nil, &Failure{Code: "BAD_ARGS", Message: "the arguments of the run must be an object or a list to stand for " + argsSlot, Permanent: true}
		}
		out[i] = string(d.doc)
	}
	return out, nil
}

// codeFlag is how shells and interpreters are given a program to run.
var codeFlag = regexp.MustCompile(`^-[A-Za-z]{0,2}[ceErR]$|^--(command|eval|execute|exec|print)$`)

func (d *runData) reader() io.Reader { return strings.NewReader(string(d.doc) + "\n") }

// interpreters run what they read when they are not told what else to run.
var interpreters = regexp.MustCompile(`^(a|ba|da|k|mk|z|fi|c|tc|r)?sh$|^(python|perl|ruby|node|nodejs|php|lua|tclsh)[0-9.]*$`)

// readsProgram tells whether argv starts an interpreter that takes its program from
// standard input, by itself or by way of another program (env, ssh). It gets an
// empty one, or a run would say what runs.
func readsProgram(argv []string) bool {
	for i := range argv {
		if interpreters.MatchString(filepath.Base(argv[i])) && takesProgram(argv[i+1:]) {
			return true
		}
	}
	return false
}

// takesProgram tells it of the arguments of an interpreter: in doubt, yes.
func takesProgram(args []string) bool {
	for i, a := range args {
		switch {
		case codeFlag.MatchString(a):
			return false
		case a == "-" || a == "-s":
			return true
		case !strings.HasPrefix(a, "-"): // the file of a program, or what belongs to an option
			return i > 0 || strings.HasPrefix(a, "/dev/") || strings.HasPrefix(a, "/proc/")
		}
	}
	return true
}
