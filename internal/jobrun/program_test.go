package jobrun_test

import (
	"encoding/json"
	"testing"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
)

// TestArgumentsOfARunAreOnlyWhereTheyAreKnownToBeData checks that a program is accepted because it
// is known to treat its arguments as data, and not because of its name.
func TestArgumentsOfARunAreOnlyWhereTheyAreKnownToBeData(t *testing.T) {
	listed := []string{"/opt/report"}
	for program, pointer := range map[string]string{
		`{"argv":["/opt/report","-v","{args}"]}`:                             "",
		`{"argv":["/opt/report","{args}","{args}"]}`:                         "",
		`{"argv":["/bin/echo","-n","{args}"]}`:                               "",
		`{"argv":["/usr/bin/printf","%s","{args}"]}`:                         "",
		`{"argv":["/bin/sh","-c","report \"$1\"","report","{args}"]}`:        "",
		`{"argv":["/usr/bin/bash","-c","report \"$1\"","r","x","{args}"]}`:   "",
		`{"argv":["/bin/sh","-c","for args in a b; do echo ${args}; done"]}`: "",
		`{"argv":["/usr/bin/find",".","-exec","echo","{}",";"]}`:             "",
		`{"argv":["/usr/bin/awk","{print}"]}`:                                "",
		`{"script":"echo ${args}; cat"}`:                                     "",
		`{"script":"cat"}`:                                                   "",
		`{}`:                                                                 "",
		`[1]`:                                                                "",
		`{"argv":[7,"{args}"]}`:                                              "", // it cannot run

		`{"argv":["/bin/sh","-c","--","{args}"]}`:                          "/default_args/argv/3",
		`{"argv":["/bin/sh","-c","--","{args}","x","{args}"]}`:             "/default_args/argv/3",
		`{"argv":["/bin/sh","-c","-e","true","{args}"]}`:                   "/default_args/argv/4",
		`{"argv":["/bin/sh","-c","+e","{args}","x","y"]}`:                  "/default_args/argv/3",
		`{"argv":["/bin/sh","-c","{args}"]}`:                               "/default_args/argv/2",
		`{"argv":["/bin/sh","-c","{args}","x","{args}"]}`:                  "/default_args/argv/2",
		`{"argv":["/bin/sh","-c","true","{args}"]}`:                        "/default_args/argv/3",
		`{"argv":["/bin/sh","-ec","{args}"]}`:                              "/default_args/argv/2",
		`{"argv":["/bin/sh","-e","-c","{args}","x"]}`:                      "/default_args/argv/3",
		`{"argv":["/bin/sh","-o","errexit","-c","{args}"]}`:                "/default_args/argv/4",
		`{"argv":["/bin/sh","{args}"]}`:                                    "/default_args/argv/1",
		`{"argv":["/bin/bash","-xc","{args}","a","b"]}`:                    "/default_args/argv/2",
		`{"argv":["/bin/bash","--rcfile","{args}","-i"]}`:                  "/default_args/argv/2",
		`{"argv":["/usr/bin/env","-S","{args}"]}`:                          "/default_args/argv/2",
		`{"argv":["/usr/bin/env","sh","-c","{args}"]}`:                     "/default_args/argv/3",
		`{"argv":["/usr/bin/env","{args}"]}`:                               "/default_args/argv/1",
		`{"argv":["/usr/bin/xargs","sh","-c","{args}"]}`:                   "/default_args/argv/3",
		`{"argv":["/usr/bin/sudo","-u","x","sh","-c","{args}"]}`:           "/default_args/argv/5",
		`{"argv":["/usr/bin/nohup","/bin/sh","-c","--","{args}"]}`:         "/default_args/argv/4",
		`{"argv":["/usr/bin/timeout","5","sh","-c","true","sh","{args}"]}`: "/default_args/argv/6",
		`{"argv":["/usr/bin/nice","-n","5","sh","-c","{args}"]}`:           "/default_args/argv/5",
		`{"argv":["/bin/busybox","sh","-c","{args}"]}`:                     "/default_args/argv/3",
		`{"argv":["/usr/bin/python3","-c","{args}"]}`:                      "/default_args/argv/2",
		`{"argv":["/usr/bin/perl","-ne","{args}"]}`:                        "/default_args/argv/2",
		`{"argv":["/usr/bin/node","--eval","{args}"]}`:                     "/default_args/argv/2",
		`{"argv":["/usr/bin/awk","{args}","file"]}`:                        "/default_args/argv/1",
		`{"argv":["/bin/sed","{args}"]}`:                                   "/default_args/argv/1",
		`{"argv":["/usr/bin/find","/","-exec","{args}",";"]}`:              "/default_args/argv/3",
		`{"argv":["/usr/bin/ssh","host","{args}"]}`:                        "/default_args/argv/2",
		`{"argv":["/opt/own","{args}"]}`:                                   "/default_args/argv/1",
		`{"argv":["/opt/../opt/report","{args}"]}`:                         "/default_args/argv/1",
		`{"argv":["./sh","-c","true","sh","{args}"]}`:                      "/default_args/argv/4",
		`{"argv":["sh","-c","{args}"]}`:                                    "/default_args/argv/2",
		`{"argv":["bin/echo","{args}"]}`:                                   "/default_args/argv/1",
		`{"argv":["{args}"]}`:                                              "/default_args/argv/0",
		`{"argv":["{args}","/opt/report"]}`:                                "/default_args/argv/0",
		`{"argv":["/opt/{args}"]}`:                                         "/default_args/argv/0",
		`{"argv":["/opt/report","--data={args}"]}`:                         "/default_args/argv/1",
		`{"argv":["/opt/report","{args}x"]}`:                               "/default_args/argv/1",
		`{"argv":["/bin/sh","-c","report {args}"]}`:                        "/default_args/argv/2",
		`{"argv":["/bin/sh","-c","echo ${args} {args}","sh","{args}"]}`:    "/default_args/argv/2",
		`{"ARGV":["/bin/sh","-c","--","{args}"]}`:                          "/default_args/argv/3",
		`{"script":"{args}"}`:                                              "/default_args/script",
		`{"script":" {args}\n"}`:                                           "/default_args/script",
		`{"argv":["/opt/report"],"dir":"/tmp/{args}"}`:                     "/default_args/dir",
		`{"argv":["/opt/report"],"env":{"X":"{args}"}}`:                    "/default_args/env",
	} {
		s := jobrun.Spec{CommandName: jobrun.ShellCommand, DefaultArgs: json.RawMessage(program)}
		f := fault.As(s.CheckProgram(listed))
		switch {
		case pointer == "" && f != nil:
			t.Errorf("%s is refused: %v", program, f)
		case pointer != "" && (f == nil || f.Kind != fault.Invalid || f.Code != jobrun.CodeInvalid ||
			len(f.Fields) == 0 || f.Fields[0].Pointer != pointer):
			t.Errorf("%s: %+v, want it refused at %s", program, f, pointer)
		}
		if s.CommandName = "own"; s.CheckProgram(nil) != nil {
			t.Errorf("%s is refused for a command of other workers", program)
		}
	}
}
