package db

import (
	"io/fs"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestTheFloorIsTheNewestMigrationThatRemovedSomething considers only the applied migrations.
func TestTheFloorIsTheNewestMigrationThatRemovedSomething(t *testing.T) {
	known, err := source.FindMigrations()
	if err != nil {
		t.Fatal(err)
	}
	var all []Applied
	for _, m := range known {
		all = append(all, Applied{ID: m.Id, At: time.Now()})
	}
	whole, err := floorOf(all)
	if err != nil || whole < unreleased {
		t.Errorf("the floor of the whole schema is %d, %v", whole, err)
	}
	all = append(all, Applied{ID: "9999_future.sql (unknown to this binary)", At: time.Now(), Unknown: true})
	if got, err := floorOf(all); got != whole || err != nil {
		t.Errorf("with a migration of a newer binary the floor is %d, %v; want %d", got, err, whole)
	}
}

// removes matches the statements after which an older program may fail. Such a program does not
// use anything else in a migration, such as a new table, column, index or function.
var removes = regexp.MustCompile(`(?i)\b(DROP (TABLE|COLUMN|VIEW|FUNCTION|TYPE|SCHEMA)|RENAME|SET NOT NULL|` +
	`ALTER COLUMN \w+ (SET DATA )?TYPE|ADD (CONSTRAINT|CHECK)|SET SCHEMA)\b`)

// TestMigrationsSayWhatTheyRemove checks that a migration that removes something has a line that
// says what: nodes of the previous version run on the schema of any other migration.
func TestMigrationsSayWhatTheyRemove(t *testing.T) {
	says := func(text string) bool { return strings.Contains(text, "\n"+contracts) }
	check := func(text string) bool { // whether it must say so but does not
		up, _, _ := strings.Cut(text, "-- +migrate Down")
		return removes.MatchString(up) && !says(text)
	}
	entries, err := fs.ReadDir(files, "migrations")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if numberOf(e.Name()) <= unreleased {
			continue
		}
		text, err := files.ReadFile("migrations/" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		if check(string(text)) {
			t.Errorf("%s removes something that older programs may use: do it in the version after the next one, "+
				"or, if a rollback must be impossible, write the line \"%swhat it removes\"", e.Name(), contracts)
		}
	}
	for text, bad := range map[string]bool{
		"-- +migrate Up\nALTER TABLE t DROP COLUMN c;":                                                    true,
		"-- +migrate Up\n-- contract: c\nALTER TABLE t DROP COLUMN c;":                                    false,
		"-- +migrate Up\nALTER TABLE t ADD COLUMN c int;\n-- +migrate Down\nALTER TABLE t DROP COLUMN c;": false,
		"-- +migrate Up\nALTER TABLE t ALTER COLUMN c TYPE bigint;":                                       true,
		"-- +migrate Up\nALTER TABLE t RENAME c TO d;":                                                    true,
		"-- +migrate Up\nALTER TABLE t ALTER c SET NOT NULL;":                                             true,
		"-- +migrate Up\nCREATE INDEX i ON t (c);":                                                        false,
	} {
		if got := check(text); got != bad {
			t.Errorf("%q: %v; want %v", text, got, bad)
		}
	}
}
