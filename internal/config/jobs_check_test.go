package config

import (
	"strings"
	"testing"
)

func TestProgramsOfJobsNeverRunAsRoot(t *testing.T) {
	for _, tt := range []struct {
		environ []string
		euid    int
		refused bool
	}{
		{[]string{"SKALD_JOBS_WORKER_SHELL=true", "SKALD_JOBS_WORKER_SHELL_ALLOW=/bin/sh"}, 0, true},
		{[]string{"SKALD_JOBS_WORKER_SHELL=true", "SKALD_JOBS_WORKER_SHELL_ALLOW=/bin/sh", "SKALD_JOBS_WORKER=false"}, 0, true},
		{[]string{"SKALD_JOBS_WORKER_SHELL=true", "SKALD_JOBS_WORKER_SHELL_ALLOW=/bin/sh"}, 1000, false},
		{[]string{"SKALD_JOBS_WORKER_SHELL=true", "SKALD_JOBS_WORKER_SHELL_ALLOW=/bin/sh"}, -1, false}, // Windows
		{[]string{"SKALD_JOBS_WORKER_SHELL_ALLOW=/bin/sh"}, 0, false},
	} {
		cfg, err := Load("", tt.environ)
		if err != nil {
			t.Fatal(err)
		}
		err = cfg.CheckUser(tt.euid)
		if (err != nil) != tt.refused || err != nil && !strings.Contains(err.Error(), "start Skald as its own user") {
			t.Errorf("%v as %d: %v", tt.environ, tt.euid, err)
		}
	}
}

func TestVariablesOfProgramsAreNamesThatSkaldDoesNotGive(t *testing.T) {
	for names, ok := range map[string]bool{
		"REPORT_DIR": true, "_x1": true, "PATHS": true, "LD_PRELOAD": true, "path": true,
		"PATH":          false,
		"HOME":          false,
		"LANG":          false,
		"TZ":            false,
		"SKALD_X":       false,
		"SKALD_ARG_DAY": false,
		"A=B":           false,
		"1A":            false,
		"A B":           false,
		"A,PATH":        false,
	} {
		if _, err := Load("", []string{"SKALD_JOBS_WORKER_SHELL_ENV_ALLOW=" + names}); (err == nil) != ok {
			t.Errorf("%q: %v", names, err)
		}
	}
}
