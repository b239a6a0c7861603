package db_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Skald runs on PostgreSQL 15 and later. The tests may run on any of these, so features introduced
// after 15 are also searched for by name.
var afterFifteen = regexp.MustCompile(`(?i)\b(` + strings.Join([]string{
	`IS JSON`, `(JSON_ARRAY|JSON_ARRAYAGG|JSON_OBJECTAGG|ANY_VALUE|array_shuffle|array_sample|random_normal) ?\(`, `STORAGE DEFAULT`, // 16
	`(JSON_TABLE|JSON_EXISTS|JSON_QUERY|JSON_VALUE|to_bin|to_oct|uuid_extract_\w+) ?\(`, `transaction_timeout`, `COLUMN \w+ SET EXPRESSION`, // 17
	`(uuidv4|uuidv7|array_sort|array_reverse|casefold) ?\(`, `VIRTUAL`, `WITHOUT OVERLAPS`, `NOT ENFORCED`, `RETURNING (OLD|NEW|WITH)\b`, // 18
}, "|") + `)`)

func TestSQLNeedsNothingNewerThanPostgreSQL15(t *testing.T) {
	for _, pattern := range []string{"migrations/*.sql", "../internal/postgres/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for i, line := range strings.Split(string(text), "\n") {
				if found := afterFifteen.FindString(line); found != "" {
					t.Errorf("%s:%d: %s came after PostgreSQL 15", file, i+1, found)
				}
			}
		}
	}
}

func TestMigrationsNameEveryColumn(t *testing.T) {
	files, err := filepath.Glob("migrations/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	star := regexp.MustCompile(`(?i)(SELECT|,|\.)\s*\*`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if found := star.FindString(string(text)); found != "" {
			t.Errorf("%s: %q takes whatever columns there are, in whatever order (failure F42)", file, found)
		}
		if up, down := strings.Count(string(text), "-- +migrate Up"),
			strings.Count(string(text), "-- +migrate Down"); up != 1 || down != 1 {
			t.Errorf("%s has %d ways up and %d down, want one each", file, up, down)
		}
	}
}
