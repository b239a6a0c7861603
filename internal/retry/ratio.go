package retry

// Ratio is when too many of the calls to something have failed to go on calling it. One rule
// judges redrives (package dlq) and participants (package registry).
type Ratio struct {
	Max  float64 // above this share; 0: never
	From int64   // with fewer calls nothing is concluded
}

// Broken reports whether more than the share of the calls that ended have failed.
func (r Ratio) Broken(ended, failed int64) bool {
	return r.Max > 0 && ended >= r.From && float64(failed) > r.Max*float64(ended)
}
