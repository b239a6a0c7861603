package app_test

// tellsItself lists the operations that change something, or seem to, but record no action, with
// the reason.
var tellsItself = map[string]string{
	"validateWorkflow": "stores nothing",
	"previewSchedule":  "stores nothing",
	"simulateWorkflow": "stores nothing",
	"createSaga":       "the saga's own events begin with saga.started, in the transaction of the saga; this is the hot path",
	"publishJobEvent":  "what a service reports: the event is the record, with who published it",
	"checkFence":       "other systems ask it before each write of a run: it raises the highest token seen of a key, and the row has the token and when, not who asked",

	"reportStep": "what a participant reports, with no other credential than the token: the events of the saga are the record",

	"registerWorker":      "the worker protocol: the worker is the record of its registration",
	"workerHeartbeat":     "the worker protocol: the run and its attempts are the record",
	"claimRuns":           "the worker protocol",
	"startRuns":           "the worker protocol",
	"completeRuns":        "the worker protocol",
	"exchangeRuns":        "the worker protocol",
	"startRun":            "the worker protocol",
	"reportProgress":      "the worker protocol",
	"completeRun":         "the worker protocol",
	"failRun":             "the worker protocol",
	"releaseRun":          "the worker protocol",
	"acknowledgeCancel":   "the worker protocol",
	"confirmContinuation": "the worker protocol",
	"appendRunLog":        "the worker protocol",
}

// ofSagas lists operations that are recorded by the events of the saga, which name the requester.
var ofSagas = map[string]bool{
	"cancelSaga":         true,
	"compensateSaga":     true,
	"resumeCompensation": true,
	"retrySaga":          true,
	"suspendSaga":        true,
	"resumeSaga":         true,
	"extendDeadline":     true,
	"forceComplete":      true,
	"forceFail":          true,
	"acknowledgeSaga":    true,
	"skipStep":           true,
	"completeStep":       true,
	"failStep":           true, "restoreSaga": true, "updateSaga": true,
}
