package expression_test

import (
	"flag"
	"os"
	"testing"
)

// TestMain runs the property tests with many tries, since each try takes only a few microseconds.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("rapid.checks", "10000"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
