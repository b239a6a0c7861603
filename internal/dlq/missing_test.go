package dlq

import "testing"

func TestATargetThatIsNotThereCountsOnlyWhenItIsTheLettersOwn(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		to     Target
		result Result
		forced bool
		count  int
		status Status
	}{
		"its own":                     {Target{Kind: ToKafka, Topic: "orders"}, Result{Outcome: FailedDrive, Missing: true}, false, 1, Pending},
		"a misspelt one":              {Target{Kind: ToKafka, Topic: "ordres"}, Result{Outcome: FailedDrive, Missing: true}, false, 0, Pending},
		"a partition":                 {Target{Kind: ToKafka, Topic: "orders", Partition: new(int32)}, Result{Outcome: FailedDrive, Missing: true}, false, 0, Pending},
		"forced":                      {Target{Kind: ToKafka, Topic: "ordres"}, Result{Outcome: FailedDrive, Missing: true}, true, 0, Dead},
		"one that refuses the letter": {Target{Kind: ToKafka, Topic: "ordres"}, Result{Outcome: FailedDrive}, false, 1, Pending},
	} {
		policy := DefaultPolicy
		d := Drive{Letter: Letter{OriginalTopic: "orders", Target: Target{Kind: ToKafka}, MaxRetries: 3}, To: tt.to,
			Forced: tt.forced}
		f := finish(&d, tt.result, &policy, testMoment())
		if f.RetryCount != tt.count || f.Status != tt.status || f.Attempt.Outcome != FailedDrive {
			t.Errorf("%s: %s with %d retries, outcome %s; want %s with %d", name, f.Status, f.RetryCount, f.Attempt.Outcome, tt.status, tt.count)
		}
	}
}
