package browser_test

import (
	"testing"
)

// TestThePages takes people's ways through the pages of one demo.
func TestThePages(t *testing.T) {
	server, _ := startDemo(t)
	t.Run("every page can be used by everybody", func(t *testing.T) { checkEveryPage(t, server) })
}
