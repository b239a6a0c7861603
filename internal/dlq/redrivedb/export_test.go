package redrivedb

// The statements, exported for the tests of plans.
var (
	LockRunning  = lockRunning
	ClaimChosen  = claimChosen
	RedriveTable = redriveTable
	ItemTable    = itemTable
	FinishItems  = finishItems.Text
)

// HotRedriveStatements are the statements that redrives execute for every letter, by
// the names of their files in testdata.
var HotRedriveStatements = map[string]string{"letter_claim_chosen": claimChosen}
