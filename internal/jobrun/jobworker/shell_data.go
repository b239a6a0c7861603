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

	"github.com/skald-saga/skald/internal/jobrun"
)

// runData contains the arguments of a run in the forms in which a program receives them: on
// standard input and, if they are small, as variables and as one argument.
type runData struct {
	doc       json.RawMessage // JSON on one line
	variables []string        // NAME=value, sorted
}

const (
	// argPrefix is the prefix of the variables that contain a run's arguments. No variable that has
	// a meaning for a loader, a shell or an interpreter begins with it.
	argPrefix = "SKALD_ARG_"
	// maxInline is the maximum length in bytes of arguments that are passed as variables and in
	// argv, because operating systems limit these. Standard input has no limit.
	maxInline = 64 << 10
)

// dataOf returns the arguments of a run, unless they equal the definition's default_args. Some
// nodes, for example those of earlier versions, store these for runs without arguments.
func dataOf(args, defaults json.RawMessage) (*runData, error) {
	bad := func(format string, of ...any) (*runData, error) {
		return nil, &Failure{Code: "BAD_ARGS", Message: "the arguments of the run " + fmt.Sprintf(format, of...),
			Permanent: true}
	}
	given, err := decoded(args)
	if err != nil {
		return bad("are not valid JSON: %v", err)
	}
	if own, err := decoded(defaults); given == nil || err == nil && reflect.DeepEqual(given, own) {
		return &runData{doc: json.RawMessage(`{}`)}, nil
	}
	d := &runData{}
	var line bytes.Buffer
	if err := json.Compact(&line, args); err != nil {
		return bad("are not valid JSON: %v", err)
	}
	d.doc = line.Bytes()
	members, isObject := given.(map[string]any)
	if !isObject || len(d.doc) > maxInline {
		return d, nil
	}
	from := map[string]string{} // values by variable
	for _, name := range slices.Sorted(maps.Keys(members)) {
		value, ok := scalar(members[name])
		if !ok {
			continue
		}
		variable := argPrefix + notInNames.ReplaceAllString(strings.ToUpper(name), "_")
		if other, taken := from[variable]; taken {
			return bad("contain %q and %q, which would be the same variable, %s", other, name, variable)
		}
		if strings.ContainsRune(value, 0) {
			return bad("contain a NUL character in %q, which a variable cannot hold", name)
		}
		from[variable] = name
		d.variables = append(d.variables, variable+"="+value)
	}
	return d, nil
}

var notInNames = regexp.MustCompile(`[^A-Z0-9_]`)

// decoded returns nil for an empty document and for null. Numbers keep their digits.
func decoded(doc json.RawMessage) (v any, err error) {
	if len(doc) == 0 {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

// scalar formats a value for a variable.
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

// fill replaces the slot in argv by the arguments, in positions that the program treats as data
// (Program.CheckSlots). The arguments begin with a brace, so they are never parsed as an option.
func (d *runData) fill(argv []string) ([]string, error) {
	out := slices.Clone(argv)
	for i, element := range argv {
		switch {
		case element != jobrun.ArgsSlot:
			continue
		case len(d.doc) > maxInline:
			return nil, &Failure{Code: "BAD_ARGS", Message: fmt.Sprintf("the arguments of the run are too long for %s (at most %d bytes): let the program read them from standard input",
				jobrun.ArgsSlot, maxInline), Permanent: true}
		case d.doc[0] != '{' && d.doc[0] != '[':
			return nil, &Failure{Code: "BAD_ARGS", Message: "the arguments of the run must be an object or an array to be substituted for " + jobrun.ArgsSlot, Permanent: true}
		}
		out[i] = string(d.doc)
	}
	return out, nil
}

// codeFlag matches the options that pass code to shells and interpreters.
var codeFlag = regexp.MustCompile(`^-[A-Za-z]{0,2}[ceErR]$|^--(command|eval|execute|exec|print)$`)

func (d *runData) reader() io.Reader { return strings.NewReader(string(d.doc) + "\n") }

// interpreters matches programs that by default execute their standard input.
var interpreters = regexp.MustCompile(`^(a|ba|da|k|mk|z|fi|c|tc|r)?sh$|^(python|perl|ruby|node|nodejs|php|lua|tclsh)[0-9.]*$`)

// starters matches programs that turn their standard input into commands.
var starters = []string{"xargs", "parallel", "at", "batch"}

// readsProgram reports whether argv starts an interpreter that reads its program from standard
// input, directly or through another program (env, ssh), or a program that turns standard input
// into commands. Such a program gets empty input, because it could otherwise execute a run's
// arguments.
func readsProgram(argv []string) bool {
	for i := range argv {
		if slices.Contains(starters, filepath.Base(argv[i])) {
			return true
		}
		if interpreters.MatchString(filepath.Base(argv[i])) && takesProgram(argv[i+1:]) {
			return true
		}
	}
	return false
}

// takesProgram decides by the arguments of an interpreter whether it reads its program from
// standard input. In case of doubt it returns true.
func takesProgram(args []string) bool {
	for i, a := range args {
		switch {
		case codeFlag.MatchString(a):
			return false
		case a == "-" || a == "-s":
			return true
		case !strings.HasPrefix(a, "-"): // a program file, or the value of an option
			return i > 0 || strings.HasPrefix(a, "/dev/") || strings.HasPrefix(a, "/proc/")
		}
	}
	return true
}
