//go:build !failpoints

package failpoint

// Enabled reports whether this binary was built with failpoints.
const Enabled = false

// Configure accepts only the empty specification: this binary has no failpoints.
func Configure(spec string) error {
	if spec != "" {
		return errNotBuilt
	}
	return nil
}

// Hit does nothing in a binary without failpoints; the compiler removes it.
func Hit(Name) error { return nil }
