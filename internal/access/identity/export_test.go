package identity

// Remembered returns the number of results that c caches.
func Remembered(c *Checker) int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.accepted) + len(c.refused)
}
