package retry

// Ratio is the failure rate at which a target is no longer called. The same rule applies to
// redrives (package dlq) and participants (package registry).
type Ratio struct {
	Max  float64 // maximum share of failed calls; 0: no limit
	From int64   // minimum number of calls for a judgment
}

// Broken reports whether more than the maximum share of the calls that ended have failed.
func (r Ratio) Broken(ended, failed int64) bool {
	return r.Max > 0 && ended >= r.From && float64(failed) > r.Max*float64(ended)
}
