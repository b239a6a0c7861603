package expression_test

import (
	"flag"
	"os"
	"testing"
)

// TestMain has the properties tried often: a try is some microseconds.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("rapid.checks", "10000"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
