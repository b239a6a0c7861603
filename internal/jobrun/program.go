package jobrun

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Program is the default_args of a definition with ShellCommand: either Script or Argv.
type Program struct {
	Script string            `json:"script"` // for /bin/sh -c
	Argv   []string          `json:"argv"`   // a program by its absolute path, and its arguments
	Env    map[string]string `json:"env"`
	Dir    string            `json:"dir"`
}

// ProgramOf decodes the program of a definition.
func ProgramOf(defaultArgs json.RawMessage) (p Program, err error) {
	if defaultArgs != nil {
		err = json.Unmarshal(defaultArgs, &p)
	}
	return p, err
}

// ArgsSlot is the element of Argv that is replaced by the arguments of a run.
const ArgsSlot = "{args}"

// Whether a program executes an argument or treats it as data depends on the program. A list of
// programs that execute arguments (shells, interpreters, programs that start others such as env,
// sudo, xargs and find, programs with a language of their own such as awk, sed and ssh) would never
// be complete. Therefore the slot is refused in every position that is not known to be data
// (decision 0100).
var (
	// dataPrograms execute none of their arguments.
	dataPrograms = pathsOf("echo", "printf", "logger")
	// shells execute the element after -c as code, and pass the elements after it to that code as
	// parameters.
	shells = pathsOf("sh", "ash", "bash", "dash", "ksh", "mksh", "zsh")
)

func pathsOf(names ...string) (paths []string) {
	for _, name := range names {
		paths = append(paths, "/bin/"+name, "/usr/bin/"+name)
	}
	return paths
}

// CheckSlots checks the positions of ArgsSlot. It returns a fault of kind Invalid with a field for
// each mistake. listed contains the programs that the operator has declared to treat their
// arguments as data; their paths are compared literally.
func (p *Program) CheckSlots(listed []string) error {
	var w mistakes
	const at = "/default_args"
	if strings.TrimSpace(p.Script) == ArgsSlot {
		w.Add(at+"/script", "placeholder", "a script cannot be just %s, because the arguments of a run would then be executed as a program", ArgsSlot)
	}
	if misused(p.Dir) {
		w.Add(at+"/dir", "placeholder", "%s is replaced only in argv", ArgsSlot)
	}
	for name, value := range p.Env {
		if misused(name) || misused(value) {
			w.Add(at+"/env", "placeholder", "%s is replaced only in argv; a program can read the arguments of a run from $SKALD_ARG_<NAME>", ArgsSlot)
		}
	}
	data := p.dataFrom(listed)
	for i, element := range p.Argv {
		switch {
		case element == ArgsSlot && i < data:
			w.Add(fmt.Sprintf("%s/argv/%d", at, i), "placeholder", "%s", p.notData(i))
		case element != ArgsSlot && misused(element):
			w.Add(fmt.Sprintf("%s/argv/%d", at, i), "placeholder", "%s must be a separate element", ArgsSlot)
		}
	}
	return w.fault()
}

// dataFrom returns the index in Argv from which on all elements are data.
func (p *Program) dataFrom(listed []string) int {
	none := len(p.Argv)
	switch { // the shell would parse code that begins with - or + as options, and a later element as the code
	case none == 0:
		return none
	case slices.Contains(dataPrograms, p.Argv[0]) || slices.Contains(listed, p.Argv[0]):
		return 1
	case none > 3 && slices.Contains(shells, p.Argv[0]) && p.Argv[1] == "-c" && p.Argv[2] != ArgsSlot &&
		!strings.HasPrefix(p.Argv[2], "-") && !strings.HasPrefix(p.Argv[2], "+"):
		return 4 // after the code and the name, which becomes $0
	}
	return none
}

func (p *Program) notData(i int) string {
	if i == 0 {
		return "the program cannot be " + ArgsSlot
	}
	return p.Argv[0] + " might execute " + ArgsSlot + " here. It is allowed for programs that jobs.worker_shell_args_allow lists, " +
		`and for a shell after the code and the name: ["/bin/sh", "-c", "code", "name", "` + ArgsSlot + `"]. ` +
		"Any program can read the arguments of a run from standard input and from $SKALD_ARG_<NAME>"
}

// misused reports whether a text contains the slot other than as the shell variable args. Such a
// slot would not be replaced.
func misused(text string) bool {
	for rest := text; ; {
		i := strings.Index(rest, ArgsSlot)
		if i < 0 {
			return false
		}
		if i == 0 || rest[i-1] != '$' {
			return true
		}
		rest = rest[i+len(ArgsSlot):]
	}
}

// CheckProgram applies CheckSlots to a definition's program. It returns nil if there is no program.
func (s *Spec) CheckProgram(listed []string) error {
	if s.CommandName != ShellCommand {
		return nil
	}
	p, err := ProgramOf(s.DefaultArgs)
	if err != nil {
		return nil //nolint:nilerr // it cannot run
	}
	return p.CheckSlots(listed)
}
